"""Only the hits of the best documents are read; the answer is the one that reading all hits would give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.segments import SegmentFacts, SharedFields, indexed_chunk
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.queries import Fusion, QueryConfig
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.ports import IndexEntry, SearchRequest
from opx.retrieval.fusion import Shortlist
from opx.retrieval.hybrid import DOCUMENTS_READ, FusedHits, HybridQuery, HybridSearch
from opx.text.fields import words
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, an_entry, any_vector

QUESTION = "disk full on the database"
DOCUMENTS = 70


def a_page(number: int) -> IndexEntry:
    """A page; earlier ones are shorter, so that their words count more."""
    text = f"disk full {'database ' * (number % 7)} topic{number} {'filling ' * number}"
    return an_entry(text, title=f"page {number}", vector=any_vector(str(number)))


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    found = EmbeddedIndex(tmp_path / "index", model_id="m", dimension=VECTOR_DIMENSION)
    found.apply([a_change(a_page(number)) for number in range(DOCUMENTS)])
    yield found
    found.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entries whose rows are decoded."""
    found: list[str] = []

    def recording(entry: tuple[str, str], row: SharedFields, facts: SegmentFacts) -> IndexedChunk:
        found.append(entry[0])
        return indexed_chunk(entry, row, facts)

    monkeypatch.setattr("opx.adapters.embedded.search_index.indexed_chunk", recording)
    return found


def searched(index: EmbeddedIndex, query: HybridQuery, config: QueryConfig | None = None) -> FusedHits:
    return HybridSearch(index).search(query, EVERYONE, config or QueryConfig(), per_document=4)


QUERY = HybridQuery(QUESTION, any_vector("q"))


def test_only_hits_of_the_best_documents_are_decoded(index: EmbeddedIndex, decoded: list[str]) -> None:
    found = searched(index, QUERY)
    assert found.is_cut
    assert len(found.hits) == len(set(decoded)) == DOCUMENTS_READ


def test_the_hits_are_the_first_of_all(index: EmbeddedIndex) -> None:
    some, everything = searched(index, QUERY), searched(index, replace(QUERY, whole=True))
    assert len(everything.hits) == DOCUMENTS
    assert some.hits == everything.hits[: len(some.hits)]
    assert not everything.is_cut


def test_more_results_have_more_documents_read(index: EmbeddedIndex) -> None:
    assert len(searched(index, QUERY, QueryConfig(max_results=50)).hits) > 50


def test_every_hit_is_read_if_few_of_the_best_may_be_shown(index: EmbeddedIndex) -> None:
    last = [hit.indexed.entry_id for hit in searched(index, replace(QUERY, whole=True)).hits[-3:]]
    found = searched(index, replace(QUERY, accepts=lambda indexed: indexed.entry_id in last))
    assert [hit.indexed.entry_id for hit in found.hits] == last


def test_warnings_take_no_page_s_place(index: EmbeddedIndex) -> None:
    before = searched(index, QUERY)
    warnings = (an_entry(f"{QUESTION} {number}", title="failed", category=WARNINGS_CATEGORY) for number in range(40))
    index.apply([a_change(entry) for entry in warnings])
    found = searched(index, QUERY)
    assert len(found.hits) == len(before.hits)
    assert found.with_warnings is not None
    assert any(hit.indexed.chunk.category == WARNINGS_CATEGORY for hit in found.with_warnings.hits)


def test_hits_that_are_not_chosen_keep_their_scores(index: EmbeddedIndex) -> None:
    choose = Shortlist(3, Fusion.MIN_MAX, tuple(words(QUESTION).items()), frozenset())
    whole = SearchRequest(EVERYONE, QUESTION, any_vector("q"), 50)
    response, everything = index.search(replace(whole, choose=choose)), index.search(whole)
    assert len(response.chunks) == 3
    for some, every in ((response.lexical, everything.lexical), (response.vector, everything.vector)):
        assert [score for _, score in some.hits] == [score for _, score in every.hits]
        chosen = [(name, score) for name, score in some.hits if name in response.chunks]
        assert chosen == [hit for hit in every.hits if hit[0] in response.chunks]
