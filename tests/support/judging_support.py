"""Builds search responses and pages to be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from opx.domain.queries import Fusion
from opx.domain.results import IndexedChunk
from opx.ports import IndexEntry, Leg, SearchResponse
from opx.retrieval.hybrid import Candidates, FusedHit, FusedHits, fused_hits
from opx.retrieval.judging import PASSAGES, DocumentHits
from opx.retrieval.judging_records import made
from opx.text.fields import words
from opx_testing.entries import an_entry

Found = tuple[IndexEntry, float, float | None]
"""An entry with its BM25 and its cosine; 0 and None where a leg doesn't have it."""


def searched(
    text: str, *found: Found, frequencies: Mapping[str, int] | None = None, per_document: int = PASSAGES
) -> FusedHits:
    """A search among 50 entries; each word of the text is in two, unless `frequencies` overrides it."""
    lexical = [(entry.indexed.entry_id, bm25) for entry, bm25, _ in found if bm25]
    vector = [(entry.indexed.entry_id, cosine) for entry, _, cosine in found if cosine is not None]
    question_words = words(text)
    response = SearchResponse(
        Leg(tuple(sorted(lexical, key=lambda hit: (-hit[1], hit[0])))),
        Leg(tuple(sorted(vector, key=lambda hit: (-hit[1], hit[0])))),
        {entry.indexed.entry_id: entry.indexed for entry, _, _ in found},
        {**dict.fromkeys(question_words, 2), **(frequencies or {})},
        50,
    )
    return fused_hits(Candidates.of(response), Fusion.MIN_MAX, per_document, question_words=question_words)


def a_page(title: str, content: str, document: str = "", index: int = 0) -> IndexEntry:
    """A passage of the document `document`, or of one of its own."""
    name = document or title
    return an_entry(content, title=title, document_id=name, source=f"{name}.md", index=index, section=())


def a_fused_hit(indexed: IndexedChunk) -> FusedHit:
    """A hit of neither leg."""
    return FusedHit(indexed.entry_id, made(indexed), {indexed.entry_id: indexed}, 1.0)


def titles(pages: Sequence[DocumentHits]) -> list[str]:
    return [page.best.indexed.chunk.title for page in pages]


WORDS = ("disk", "full", "pod", "crash", "looping", "certificate", "expired", "the", "KubePodDown", "404")
texts = st.one_of(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), st.text(max_size=40))
entries = st.builds(a_page, texts, texts, st.sampled_from("abcd"), st.integers(0, 9))
scored = st.tuples(entries, st.floats(0, 40), st.none() | st.floats(-1, 1))
found_lists = st.lists(scored, max_size=8, unique_by=lambda one: one[0].indexed.entry_id)
"""Arbitrary found entries."""
