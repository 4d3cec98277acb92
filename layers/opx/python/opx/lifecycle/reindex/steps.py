"""Implements the steps of reindexing, from an empty index to the active one, and compares both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from msgspec import field

from opx.domain.documents import DocumentChunk, DocumentKey, KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.record import Draft, replace
from opx.domain.scopes import scope_of_key
from opx.ingestion.corpus.catalog import BusyError, StaleEventError
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import ObjectEvent
from opx.ingestion.indexing.book import EditionState, IndexState
from opx.ingestion.indexing.editions import OpenEdition
from opx.lifecycle.reindex.job import ReindexJob, ReindexParts, ReindexPhase
from opx.ports import Item, KeyRange, SearchFilter
from opx.retrieval.hybrid import HybridQuery, HybridSearch

DOCUMENTS_A_STEP = 100
CHANGES_A_STEP = 100
FEW_CHANGES = 20
"""Number of journal entries that may be applied during the switch."""

MOST_ROUNDS = 20
"""Limit of rounds of catching up with few changes, or waiting for running ones, before the next phase."""

MOST_COMPARISONS = 5
"""Limit of comparisons while documents keep changing."""

SETTLING_ROUNDS = 60


class Steps:
    """Steps of a job; each is short and may be repeated from its beginning."""

    def __init__(self, parts: ReindexParts) -> None:
        self._parts = parts
        self._under_way: set[str] = set()

    def begin(self) -> None:
        """Forget the changes that were in progress in an earlier run."""
        self._under_way.clear()

    def take(self, job: ReindexJob) -> None:
        """Do the next step. Raises `StoreUnavailableError`; then it must be repeated."""
        steps = {
            ReindexPhase.WAITING: self._make,
            ReindexPhase.BUILDING: self._build,
            ReindexPhase.CATCHING_UP: self._catch_up,
            ReindexPhase.CHECKING: self._check,
            ReindexPhase.SWITCHING: self._switch,
            ReindexPhase.SETTLING: self._settle,
        }
        steps[job.phase](job)

    def _target(self, job: ReindexJob) -> OpenEdition:
        edition = self._parts.editions.book.read().edition(job.edition)
        assert edition is not None
        return self._parts.editions.open(edition)

    def _make(self, job: ReindexJob) -> None:
        self._parts.indexes.make(self._target(job).edition)
        job.phase = ReindexPhase.BUILDING

    def _build(self, job: ReindexJob) -> None:
        heads = list(islice(self._heads(job.scope, job.after), DOCUMENTS_A_STEP))
        if heads:
            filled = self._parts.filler.fill(self._target(job), [head for head in heads if current_id(head)])
            job.documents += filled.documents
            job.chunks += filled.chunks
            job.note_lacking(filled.lacking)
            self._parts.editions.journal.note(job.edition, filled.postponed)
            job.add_to_sample([head["documentKey"] for head in heads if current_id(head)])
            job.scope, job.after = heads[-1]["scope"], heads[-1]["documentKey"]
        if len(heads) < DOCUMENTS_A_STEP:
            job.phase = ReindexPhase.CATCHING_UP

    def _heads(self, scope: str, after: str) -> Iterator[Item]:
        """Items of document keys after this one, scope by scope. Keys of a scope that was added meanwhile are in the
        journal."""
        for key in sorted(each.key for each in self._parts.scopes()):
            if key >= scope:
                where = KeyRange(low=after + "\0") if key == scope and after else None
                yield from self._parts.keys.query(key, index="scope-index", where=where)

    def _catch_up(self, job: ReindexJob) -> None:
        """Apply some changes of the journal; next phase when none are left, or after `MOST_ROUNDS` with new ones."""
        looked_at = self._renew_some(job)
        if looked_at > FEW_CHANGES:
            return
        job.rounds += 1
        if job.rounds < MOST_ROUNDS and (looked_at or self._under_way):
            if not looked_at:
                self._under_way.clear()
                job.not_before = self._parts.clock() + self._parts.pace.pause_seconds
            return
        self._under_way.clear()
        job.rounds = 0
        job.phase = ReindexPhase.SWITCHING if job.rollback else ReindexPhase.CHECKING
        job.not_before = 0 if job.rollback else self._parts.clock() + self._parts.pace.settling_seconds

    def _renew_some(self, job: ReindexJob, most: int = CHANGES_A_STEP) -> int:
        """Apply up to `most` changes of the journal, except those in progress; returns how many were read."""
        edition, journal = self._target(job), self._parts.editions.journal
        rows = journal.read(edition.name, most, skip=self._under_way)
        for key_id, mark in rows:
            head = self._parts.keys.get({"documentKey": key_id})
            if head and head.get("writing"):
                self._under_way.add(key_id)
                continue
            filled = self._parts.filler.renew(edition, key_id, head, since=edition.edition.made_at)
            if filled.postponed:
                self._under_way.add(key_id)
                continue
            job.renewed += 1
            job.note_lacking(filled.lacking)
            journal.drop(edition.name, key_id, mark)
        return len(rows)

    def _check(self, job: ReindexJob) -> None:
        state = self._parts.editions.book.read()
        readable = self._parts.is_readable(state.active)
        report = self._compared(job, state) if readable else {"problems": []}
        if not readable:
            report["note"] = "this program can't read the old index: the new one was not compared"
        if job.lacking_count:
            report["problems"].append(
                f"{job.lacking_count:,} documents have no chunk file: `opx reconcile --repair` ingests them again"
            )
        job.report = report
        job.comparisons += 1
        if not report["problems"] or job.force:
            job.phase = ReindexPhase.SWITCHING
        elif self._parts.editions.journal.count(job.edition, 1) and job.comparisons < MOST_COMPARISONS:
            job.phase = ReindexPhase.CATCHING_UP  # later changes may explain the differences
        else:
            job.phase = ReindexPhase.REFUSED

    def _compared(self, job: ReindexJob, state: IndexState) -> dict[str, Any]:
        report = compare(
            self._parts.editions.open(state.active),
            self._target(job),
            scopes=[scope.key for scope in self._parts.scopes()],
            categories=self._parts.categories(),
            sample=list(self._sampled(job)),
            chunks=lambda document: self._parts.chunks(document.key, document.document_id),
        )
        return report.to_json()

    def _sampled(self, job: ReindexJob) -> Iterator[KnowledgeDocument]:
        for key_id in job.sample:
            head = self._parts.keys.get({"documentKey": key_id}) or {}
            if current_id(head):
                key = DocumentKey(scope_of_key(head["scope"]), head["source"])
                document = self._parts.catalog.version(key, current_id(head))
                if document:
                    yield document

    def _switch(self, job: ReindexJob) -> None:
        """Make the edition the active one. Where ingestion can be locked out, no change is left to be applied afterwards."""
        if self._parts.editions.book.read().active.name != job.edition and self._renew_some(job) > FEW_CHANGES:
            return  # more changes came during the comparison: apply those first, without the lock
        self._under_way.clear()
        with self._parts.exclusive():
            state = self._parts.editions.book.read()
            if state.active.name != job.edition:
                while self._parts.pace.alone and self._renew_some(job):
                    pass
                self._parts.editions.book.write(self._exchanged(state, job))
        self._parts.switched()
        job.phase = ReindexPhase.SETTLING
        job.rounds = 0

    def _exchanged(self, state: IndexState, job: ReindexJob) -> IndexState:
        new = state.edition(job.edition)
        assert new is not None
        readable = self._parts.is_readable(state.active)
        was = EditionState.PREVIOUS if readable else EditionState.UNREADABLE
        incarnation = self._parts.editions.open(new).incarnation
        new = replace(new, state=EditionState.ACTIVE, switched_at=self._parts.clock(), incarnation=incarnation)
        old = replace(state.active, state=was)
        others = tuple(one for one in state.others if one.name != new.name)
        return IndexState(state.revision, new, (*others, old))

    def _settle(self, job: ReindexJob) -> None:
        """Apply changes that others made during the switch, each under a claim, as the edition is active now."""
        edition, journal = self._target(job), self._parts.editions.journal
        busy = 0
        for key_id, mark in journal.read(edition.name, CHANGES_A_STEP):
            if self._renew_claimed(edition, key_id):
                job.renewed += 1
                journal.drop(edition.name, key_id, mark)
            else:
                busy += 1
        job.rounds += 1
        if not journal.count(edition.name, 1):
            job.phase = ReindexPhase.DONE
        elif job.rounds >= SETTLING_ROUNDS or (busy and self._parts.pace.alone):
            # The remaining changes were interrupted: those documents are ingested again, into the active index.
            job.phase = ReindexPhase.DONE
        elif busy:
            job.not_before = self._parts.clock() + self._parts.pace.pause_seconds

    def _renew_claimed(self, edition: OpenEdition, key_id: str) -> bool:
        head = self._parts.keys.get({"documentKey": key_id})
        if head is None:
            return not self._parts.filler.renew(edition, key_id, None, since=edition.edition.made_at).postponed
        if head.get("writing"):
            return False
        key = DocumentKey(scope_of_key(head["scope"]), head["source"])
        try:
            claim = self._parts.catalog.claim(
                key, ObjectEvent(f"{key.scope.prefix}{key.source}", deleted=False, sequencer="")
            )
        except (BusyError, StaleEventError):
            return False
        try:
            filled = self._parts.filler.renew(edition, key_id, claim.head, since=edition.edition.made_at)
        finally:
            held = self._parts.catalog.claims.release(claim, applied=True)
        return held and not filled.postponed


# -- comparison


SHORT_BY = 0.01
"""Share of a category's entries that may be missing: changes while both are counted."""

WORSE_BY = 0.1
"""Share of the queries that only the old index may answer: two models never agree on everything."""

FIRST = 10

ReadChunks = Callable[[KnowledgeDocument], Iterator[DocumentChunk]]


class ReportStep(Draft, rename=None):
    """Comparison of the old and the new index: entries by category where they differ, and how many of `questions` queries,
    each made of the title and a heading of a document, found that document among the first ten: in hybrid search, and by
    vectors alone."""

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
) -> ReportStep:
    """Compare entry counts and results of sample queries. Raises `StoreUnavailableError`."""
    report = ReportStep()
    _count(report, old, new, scopes, categories)
    for document in sample:
        _query_both(report, document, chunks(document), old, new)
    for how, (before, after) in (("", report.found), (" by meaning alone", report.found_by_meaning)):
        if after < before and before - after > WORSE_BY * report.questions:
            report.problems.append(
                f"of {report.questions} questions the old index answers {before} and the new one {after}{how}"
            )
    return report


def _count(
    report: ReportStep, old: OpenEdition, new: OpenEdition, scopes: Sequence[str], categories: Sequence[str]
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


def _query_both(
    report: ReportStep, document: KnowledgeDocument, chunks: Iterator[DocumentChunk], old: OpenEdition, new: OpenEdition
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
    query = HybridQuery(text, edition.embedder.embed_query(text), by_meaning=by_meaning)
    where = SearchFilter((document.key.scope.key,), categories=(document.category,))
    hits = HybridSearch(edition.index).search(query, where, QueryConfig()).hits
    return any(hit.document_id == document.document_id for hit in hits[:FIRST])
