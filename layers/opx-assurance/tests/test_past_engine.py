"""Search as of a time keeps the contract of search engines, wherever entries are: in the index, or in memory as they were
replaced since."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.ports import IndexEntry, Leg, SearchEngine, SearchRequest, SearchResponse
from opx.text.fields import VALUE_WEIGHT, words
from opx_assurance.past.engine import NOT_RANKED, Analysed, Bm25, PastCorpus, PastEngine, PastEntry
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, an_entry, any_vector
from opx_testing.search_engine import Put, SearchEngineContract
from opx_testing.searches import an_operations_corpus, bm25

TOLERANCE = 1e-4


class Since:
    """Every version was current except the later ones."""

    def __init__(self, *later: IndexEntry) -> None:
        self._later = {entry.indexed.entry_id for entry in later}

    def current_entries(self, found: Iterable[IndexedChunk]) -> set[str]:
        return {one.entry_id for one in found} - self._later


def past(*entries: IndexEntry) -> list[PastEntry]:
    return [PastEntry(entry.indexed, entry.vectors) for entry in entries]


def no_lack(text: str) -> None:
    raise AssertionError(text)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EmbeddedIndex]:
    index = EmbeddedIndex(tmp_path, model_id="test-model", dimension=VECTOR_DIMENSION)
    yield index
    index.close()


class TestPastEngine(SearchEngineContract):
    """Every second entry was replaced since."""

    @pytest.fixture
    def replaced(self) -> list[PastEntry]:
        return []

    @pytest.fixture
    def engine(self, index: EmbeddedIndex, replaced: list[PastEntry]) -> SearchEngine:
        return PastEngine(index, Since(), replaced, no_lack)

    @pytest.fixture
    def put(self, index: EmbeddedIndex, replaced: list[PastEntry]) -> Put:
        def put(*entries: IndexEntry) -> None:
            replaced.extend(past(*entries[::2]))
            index.apply(a_change(entry) for entry in entries[1::2])

        return put


def test_scores_are_those_of_an_index_of_then(index: EmbeddedIndex) -> None:
    then, later = an_operations_corpus(), an_entry("disk disk disk, pod log and disk log", source="later.md")
    index.apply(a_change(entry) for entry in (*then[:3], later))
    engine = PastEngine(index, Since(later), past(*then[3:]), no_lack)
    text = "disk pod log certificate of the database"
    response = engine.search(SearchRequest(EVERYONE, text=text, vector=any_vector("q")))
    wanted = bm25(then, text)
    assert {entry for entry, _ in response.lexical.hits} == wanted.keys()
    assert all(math.isclose(score, wanted[entry], rel_tol=TOLERANCE) for entry, score in response.lexical.hits)
    cosines = {e.indexed.entry_id: sum(a * b for a, b in zip(any_vector("q"), e.vectors[0], strict=True)) for e in then}
    assert {entry for entry, _ in response.vector.hits} == cosines.keys()
    assert all(math.isclose(score, cosines[entry], abs_tol=2e-5) for entry, score in response.vector.hits)
    assert response.entry_count == len(then)
    assert (response.term_frequencies["disk"], response.term_frequencies["certif"]) == (4, 1)


def test_scores_of_values_count_half_as_in_an_index_of_then(index: EmbeddedIndex) -> None:
    then = an_operations_corpus()
    index.apply(a_change(entry) for entry in then[:3])
    engine = PastEngine(index, Since(), past(*then[3:]), no_lack)
    values = frozenset(words("certificate log"))
    response = engine.search(SearchRequest(EVERYONE, text="disk pod log certificate", values=values))
    full, half = bm25(then, "disk pod"), bm25(then, "certificate log")
    wanted = {key: full.get(key, 0.0) + VALUE_WEIGHT * half.get(key, 0.0) for key in {*full, *half}}
    assert {entry for entry, _ in response.lexical.hits} == wanted.keys()
    assert all(math.isclose(score, wanted[entry], rel_tol=TOLERANCE) for entry, score in response.lexical.hits)


def test_a_replaced_entry_is_as_near_as_the_nearest_of_its_vectors(index: EmbeddedIndex) -> None:
    now, gone = an_entry("pod", source="now.md"), an_entry("disk", vectors=[any_vector(n) for n in ("a", "q", "b")])
    index.apply([a_change(now)])
    engine = PastEngine(index, Since(), past(gone), no_lack)
    hits = engine.search(SearchRequest(EVERYONE, vector=any_vector("q"))).vector.hits
    assert hits[0] == (gone.indexed.entry_id, 1.0)


def test_scores_are_on_the_engines_scale_where_only_the_best_hits_are_at_hand(index: EmbeddedIndex) -> None:
    """Of 60 entries the 20 best are known, which is not enough to score as of then; the engine's scale is twice BM25's."""
    entries = [an_entry(f"disk {'full ' * (n % 7)} on host {n}", source=f"{n}.md") for n in range(60)]
    index.apply(a_change(entry) for entry in entries)

    class Doubled:
        def search(self, request: SearchRequest) -> SearchResponse:
            found = index.search(request)
            return replace(found, lexical=Leg(tuple((entry, 2 * score) for entry, score in found.lexical.hits)))

        def entries_with(self, terms: object, scopes: object) -> dict[str, int]:
            return {}

    twin = an_entry(f"disk {'full ' * 6} on host 7", source="twin.md")
    engine = PastEngine(Doubled(), Since(), past(twin), no_lack)
    response = engine.search(SearchRequest(EVERYONE, text="disk full", depth=20))
    scores = dict(response.lexical.hits)
    like = scores[entries[6].indexed.entry_id]
    assert math.isclose(scores[twin.indexed.entry_id], like, rel_tol=0.02)
    assert (len(scores), response.entry_count) == (20, 61)


def test_later_entries_are_left_out_of_a_fused_ranking_with_a_note() -> None:
    current, later, gone = (an_entry(name, source=f"{name}.md") for name in ("current", "later", "gone"))

    class Ranked:
        def search(self, request: SearchRequest) -> SearchResponse:
            hits = tuple((entry.indexed.entry_id, 0.9) for entry in (current, later))
            chunks = {entry.indexed.entry_id: entry.indexed for entry in (current, later)}
            return SearchResponse(fused=Leg(hits[: request.depth]), chunks=chunks)

        def entries_with(self, terms: object, scopes: object) -> dict[str, int]:
            return {}

    notes: list[str] = []
    response = PastEngine(Ranked(), Since(later), past(gone), notes.append).search(SearchRequest(EVERYONE, text="x"))
    assert response.fused is not None
    assert response.fused.hits == ((current.indexed.entry_id, 0.9),)
    assert notes == [NOT_RANKED]


def test_vectors_of_another_model_are_not_compared(index: EmbeddedIndex) -> None:
    gone = an_entry("disk full")
    engine = PastEngine(index, Since(), [PastEntry(gone.indexed, [(1.0, 0.0)])], no_lack)
    response = engine.search(SearchRequest(EVERYONE, text="disk", vector=any_vector("q")))
    assert ([entry for entry, _ in response.lexical.hits], response.vector.hits) == ([gone.indexed.entry_id], ())


@pytest.mark.parametrize("length", [1, 23, 24, 39, 40, 41, 42, 57, 1000])
def test_long_fields_count_as_long_as_engines_keep_them(length: int) -> None:
    """A field of 41 terms counts as one of 40, as there is no byte for it."""
    chunk = Analysed.of(an_entry(" ".join(["disk"] + ["word"] * (length - 1)), title="", section=()).indexed)
    near = Analysed.of(an_entry(" ".join(["disk"] + ["word"] * length), title="", section=()).indexed)
    corpus = PastCorpus(10, {"disk": 1}, {}, {"terms_title": 1.0, "terms_content": 10.0})
    scorer = Bm25(words("disk"), corpus)
    same = scorer.score(chunk) == scorer.score(near)
    assert same == (length in (40, 42, 57, 1000))


def test_terms_are_those_of_today(index: EmbeddedIndex) -> None:
    index.apply([a_change(an_entry("disk full"))])
    engine = PastEngine(index, Since(), past(an_entry("zebra", source="z.md")), no_lack)
    assert engine.entries_with(["disk", "zebra"], EVERYONE.scopes) == {"disk": 1}
