"""Whether a new index is as good as the one it is to replace: what it holds, and what is found in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import field

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.record import Draft
from opx.ingestion.indexing.editions import OpenEdition
from opx.ports import SearchFilter
from opx.retrieval.hybrid import Asking, HybridSearch

SHORT_BY = 0.01
"""Share of a category's entries that may be missing: what changes while both are counted."""

WORSE_BY = 0.1
"""Share of the questions that may be answered by the old index alone: two models never agree on everything."""

FIRST = 10

ReadChunks = Callable[[KnowledgeDocument], Iterator[DocumentChunk]]


class Report(Draft, rename=None):
    """Entries by category in the old and the new index where they differ, and how many of so many questions, each made of
    the title and a heading of a document, found that document among the first ten: with words, and by meaning alone."""

    entries_old: int = 0
    entries_new: int = 0
    categories: dict[str, list[int]] = field(default_factory=dict)
    questions: int = 0
    found: list[int] = field(default_factory=lambda: [0, 0])
    found_by_meaning: list[int] = field(default_factory=lambda: [0, 0])
    problems: list[str] = field(default_factory=list)


def compare(
    old: OpenEdition,
    new: OpenEdition,
    *,
    scopes: Sequence[str],
    categories: Sequence[str],
    sample: Sequence[KnowledgeDocument],
    chunks: ReadChunks,
) -> Report:
    """Count and ask both. Raises `StoreUnavailableError`."""
    report = Report()
    _count(report, old, new, scopes, categories)
    for document in sample:
        _ask(report, document, chunks(document), old, new)
    for how, (before, after) in (("", report.found), (" by meaning alone", report.found_by_meaning)):
        if after < before and before - after > WORSE_BY * report.questions:
            report.problems.append(
                f"of {report.questions} questions the old index answers {before} and the new one {after}{how}"
            )
    return report


def _count(
    report: Report, old: OpenEdition, new: OpenEdition, scopes: Sequence[str], categories: Sequence[str]
) -> None:
    for category in categories:
        where = SearchFilter(tuple(scopes), categories=(category,))
        before, after = old.index.count(where), new.index.count(where)
        report.entries_old += before
        report.entries_new += after
        if before != after:
            report.categories[category] = [before, after]
        if after < before * (1 - SHORT_BY):
            report.problems.append(f"{category} has {before:,} entries in the old index and {after:,} in the new one")


def _ask(
    report: Report, document: KnowledgeDocument, chunks: Iterator[DocumentChunk], old: OpenEdition, new: OpenEdition
) -> None:
    found = list(chunks)
    if not found:
        return
    middle = found[len(found) // 2]
    text = " ".join((document.title, *middle.section[-1:]))
    report.questions += 1
    for at, edition in enumerate((old, new)):
        report.found[at] += _is_found(edition, document, text, by_meaning=False)
        report.found_by_meaning[at] += _is_found(edition, document, text, by_meaning=True)


def _is_found(edition: OpenEdition, document: KnowledgeDocument, text: str, *, by_meaning: bool) -> bool:
    asking = Asking(text, edition.embedder.embed_query(text), by_meaning=by_meaning)
    where = SearchFilter((document.key.scope.key,), categories=(document.category,))
    hits = HybridSearch(edition.index).run(asking, where, QueryConfig()).hits
    return any(hit.indexed.chunk.document_id == document.document_id for hit in hits[:FIRST])
