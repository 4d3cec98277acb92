"""An index's response becomes one list: fused, without near-duplicates, read only for the best documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.adapters.embedded.segments import SegmentFacts, SharedFields, indexed_chunk
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.queries import Fusion, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.ports import HeldDocument, IndexEntry, Leg, SearchFilter, SearchRequest, SearchResponse
from opx.retrieval.hybrid import (
    DEPTH,
    JUDGED,
    LEXICAL_WEIGHT,
    SPARE_DOCUMENTS,
    Candidates,
    FusedHits,
    HybridQuery,
    HybridSearch,
    accepted_by,
    every_hit,
    fused_hits,
)
from opx.text.fields import VALUE_WEIGHT
from opx_testing.entries import EVERYONE, VECTOR_DIMENSION, a_change, an_entry, any_vector


def a_response(
    lexical: Sequence[tuple[IndexEntry, float]] = (),
    vector: Sequence[tuple[IndexEntry, float]] = (),
    *,
    frequencies: Mapping[str, int] | None = None,
    entry_count: int = 10,
) -> SearchResponse:
    """The response of an index that found these entries, best first."""
    return SearchResponse(
        lexical=Leg(tuple((entry.indexed.entry_id, score) for entry, score in lexical)),
        vector=Leg(tuple((entry.indexed.entry_id, score) for entry, score in vector)),
        chunks={entry.indexed.entry_id: entry.indexed for entry, _ in (*lexical, *vector)},
        term_frequencies=frequencies or {},
        entry_count=entry_count,
    )


def sources(response: SearchResponse, per_document: int = 10, method: Fusion = Fusion.MIN_MAX) -> list[IndexedChunk]:
    return [hit.indexed for hit in fused_hits(Candidates.of(response), method, per_document).hits]


def without_source(entry: IndexEntry) -> IndexEntry:
    return replace(entry, indexed=replace(entry.indexed, source_uri=""))


class RecordingIndex:
    """Finds nothing and records the requests."""

    derives_ids = True

    def __init__(self) -> None:
        self.requests: list[SearchRequest] = []

    def search(self, request: SearchRequest) -> SearchResponse:
        self.requests.append(request)
        return SearchResponse()

    def entries_with(self, terms: object, scopes: object) -> dict[str, int]:
        return {}

    def apply(self, changes: object) -> list[list[str]]:
        return []

    def count(self, where: SearchFilter) -> int:
        return 0

    def references(self, key_id: str) -> list[str]:
        return []

    def held(self, *, after: object = None, limit: int = 1000) -> list[HeldDocument]:
        return []


DISK, POD, LOGS = (an_entry(text, source=f"{text}.md") for text in ("disk", "pod", "logs"))


class TestFusedHits:
    def test_nothing_found_is_no_hits(self) -> None:
        found = fused_hits(Candidates.of(SearchResponse()), Fusion.MIN_MAX, 2)
        assert found.hits == ()
        assert found.levels == ()

    def test_each_hit_knows_its_place_in_each_leg(self) -> None:
        found = fused_hits(
            Candidates.of(a_response([(DISK, 9.0), (POD, 1.0)], [(LOGS, 0.9), (DISK, 0.5)])), Fusion.RRF, 2
        )
        places = {hit.indexed.entry_id: (hit.lexical, hit.vector) for hit in found.hits}
        assert places == {
            DISK.indexed.entry_id: ((1, 9.0), (2, 0.5)),
            POD.indexed.entry_id: ((2, 1.0), None),
            LOGS.indexed.entry_id: (None, (1, 0.9)),
        }

    def test_hits_are_in_the_order_of_their_fused_scores(self) -> None:
        found = fused_hits(
            Candidates.of(a_response([(DISK, 9.0), (POD, 1.0)], [(LOGS, 0.9), (DISK, 0.5)])), Fusion.RRF, 2
        )
        assert [hit.fused for hit in found.hits] == [1 / 61 + 1 / 62, 1 / 61, 1 / 62]

    @pytest.mark.parametrize("method", list(Fusion))
    def test_one_leg_alone_keeps_its_order(self, method: Fusion) -> None:
        scored = [(DISK, 9.0), (POD, 2.0), (LOGS, 1.0)]
        expected = [DISK.indexed, POD.indexed, LOGS.indexed]
        assert sources(a_response(lexical=scored), method=method) == expected
        assert sources(a_response(vector=scored), method=method) == expected

    def test_failed_leg_is_reported_with_its_reason(self) -> None:
        response = replace(a_response([(DISK, 1.0)]), vector=Leg(error="timed out"))
        found = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2)
        assert found.failed_legs == {"vector": "timed out"}
        assert [hit.indexed for hit in found.hits] == [DISK.indexed]


class TestThinning:
    def test_same_text_under_two_keys_is_one_hit(self) -> None:
        one, two = (an_entry("disk full", source=f"{name}.md") for name in ("one", "two"))
        assert one.indexed.chunk.chunk_id == two.indexed.chunk.chunk_id
        assert sources(a_response([(one, 2.0), (two, 2.0), (POD, 1.0)])) == [
            min((one.indexed, two.indexed), key=lambda indexed: indexed.entry_id),
            POD.indexed,
        ]

    def test_same_text_found_by_one_leg_under_each_key_is_one_hit(self) -> None:
        one, two = (an_entry("disk full", source=f"{name}.md") for name in ("one", "two"))
        assert sources(a_response([(one, 2.0), (POD, 1.0)], [(two, 0.9)])) == [one.indexed, POD.indexed]

    @pytest.mark.parametrize("most", [1, 2, 3])
    def test_document_has_at_most_so_many_chunks(self, most: int) -> None:
        chunks = [an_entry(f"part {n}", index=n, document_id="d") for n in range(3)]
        response = a_response([(chunk, 9.0 - n) for n, chunk in enumerate(chunks)] + [(POD, 1.0)])
        assert sources(response, most) == [*(chunk.indexed for chunk in chunks[:most]), POD.indexed]

    def test_chunks_without_a_source_are_left_out_if_provenance_is_required(self) -> None:
        response = a_response([(without_source(DISK), 9.0), (POD, 1.0)])
        found = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2, accepts=accepted_by(True, every_hit))
        assert [hit.indexed for hit in found.hits] == [POD.indexed]
        assert len(fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2).hits) == 2

    def test_twin_with_a_source_takes_the_place_of_one_without(self) -> None:
        bare, sourced = without_source(an_entry("disk full", source="a.md")), an_entry("disk full", source="b.md")
        response = a_response([(bare, 9.0), (sourced, 2.0), (POD, 1.0)])
        found = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 1, accepts=accepted_by(True, every_hit))
        assert [hit.indexed for hit in found.hits] == [sourced.indexed, POD.indexed]


class TestLevels:
    def test_of_the_default_fusion_are_the_fused_scores(self) -> None:
        found = fused_hits(Candidates.of(a_response([(DISK, 9.0), (POD, 1.0)], [(LOGS, 0.9)])), Fusion.MIN_MAX, 2)
        assert found.levels == tuple(hit.fused for hit in found.hits)

    @pytest.mark.parametrize("method", [Fusion.RRF, Fusion.WEIGHTED_RRF])
    def test_of_another_fusion_are_on_the_scale_of_the_default_and_fall(self, method: Fusion) -> None:
        response = a_response([(DISK, 9.0), (POD, 8.9), (LOGS, 0.1)], [(LOGS, 0.9), (DISK, 0.1)])
        found, default = (fused_hits(Candidates.of(response), fusion, 2) for fusion in (method, Fusion.MIN_MAX))
        assert sorted(found.levels) == sorted(hit.fused for hit in default.hits)
        assert list(found.levels) == sorted(found.levels, reverse=True)
        assert found.levels[0] >= LEXICAL_WEIGHT > found.hits[0].fused


class TestTermWeights:
    def weights(self, frequencies: Mapping[str, int], entry_count: int = 10) -> dict[str, float]:
        response = a_response(frequencies=frequencies, entry_count=entry_count)
        return fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2).term_weights

    def test_weight_is_lucenes_idf(self) -> None:
        assert self.weights({"disk": 3}) == pytest.approx({"disk": math.log(1 + 7.5 / 3.5)})

    def test_rarer_terms_weigh_more_and_unseen_words_most(self) -> None:
        weights = self.weights({"disk": 9, "pod": 2, "absent": 0})
        assert 0 < weights["disk"] < weights["pod"] < weights["absent"]

    def test_value_that_occurs_nowhere_weighs_nothing(self) -> None:
        assert self.weights({"web01": 0, "ora01555": 2})["web01"] == 0
        assert self.weights({"web01": 0, "ora01555": 2})["ora01555"] > 0

    def test_values_weigh_half(self) -> None:
        response = a_response(frequencies={"disk": 3, "web": 3}, entry_count=10)
        weights = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2, values={"web"}).term_weights
        assert weights["web"] == pytest.approx(weights["disk"] * VALUE_WEIGHT)

    @pytest.mark.parametrize("entry_count", [0, 1, 3])
    def test_more_occurrences_than_entries_still_give_a_positive_weight(self, entry_count: int) -> None:
        assert self.weights({"disk": 5}, entry_count)["disk"] > 0


class TestRequest:
    def test_values_of_the_question_are_those_of_the_request(self) -> None:
        index = RecordingIndex()
        HybridSearch(index).search(HybridQuery("disk web", None, values=frozenset({"web"})), EVERYONE, QueryConfig())
        assert index.requests[0].values == {"web"}

    @pytest.mark.parametrize("mode", list(SearchMode))
    def test_index_is_searched_once_for_both_legs(self, mode: SearchMode) -> None:
        index, vector = RecordingIndex(), any_vector("q")
        where = replace(EVERYONE, tags=("linux",))
        HybridSearch(index).search(HybridQuery("disk", vector), where, QueryConfig(mode=mode))
        (request,) = index.requests
        assert request == SearchRequest(where, "disk", vector, DEPTH[mode])

    def test_missing_vector_leaves_the_vector_leg_out(self) -> None:
        index = RecordingIndex()
        HybridSearch(index).search(HybridQuery("disk", None), EVERYONE, QueryConfig())
        assert index.requests[0].vector is None


class TestWeightOfWords:
    """The weight of the lexical leg when its best hit has few of the question's words."""

    def fused_of_disk(self, frequencies: dict[str, int]) -> float:
        response = replace(
            a_response([(DISK, 2.0), (POD, 1.0)], [(LOGS, 0.9), (POD, 0.1)]),
            term_frequencies=frequencies,
            entry_count=100,
        )
        found = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2)
        return next(hit.fused for hit in found.hits if hit.indexed is DISK.indexed)

    def test_full_weight_when_the_best_hit_covers_the_question(self) -> None:
        assert self.fused_of_disk({"disk": 1}) == pytest.approx(0.6)

    def test_full_weight_without_statistics(self) -> None:
        assert self.fused_of_disk({}) == pytest.approx(0.6)

    def test_less_weight_when_the_best_hit_covers_little(self) -> None:
        rare = {f"unheard{'abcdefghijklmnopqrst'[n]}": 0 for n in range(20)}
        assert 0 < self.fused_of_disk({"disk": 1, **rare}) < 0.3

    def test_full_weight_when_the_best_hit_has_rare_words_however_long_the_question_is(self) -> None:
        unseen = {f"unheard{'abcdefghijklmnopqrst'[n]}": 0 for n in range(20)}
        response = replace(
            a_response([(DISK, 20.0), (POD, 1.0)], [(LOGS, 0.9), (POD, 0.1)]),
            term_frequencies={"disk": 1, **unseen},
            entry_count=100,
        )
        found = fused_hits(Candidates.of(response), Fusion.MIN_MAX, 2)
        assert found.hits[0].indexed is DISK.indexed
        assert found.hits[0].fused == pytest.approx(0.6)

    def test_no_weight_when_the_best_hit_covers_nothing(self) -> None:
        assert self.fused_of_disk({"unheard": 0}) == 0.0


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

    monkeypatch.setattr("opx.adapters.embedded.segments.indexed_chunk", recording)
    return found


def searched(index: EmbeddedIndex, query: HybridQuery, config: QueryConfig | None = None) -> FusedHits:
    return HybridSearch(index).search(query, EVERYONE, config or QueryConfig(), per_document=4)


QUERY, MANY = HybridQuery(QUESTION, any_vector("q")), QueryConfig(max_results=50)


def test_only_hits_that_are_shown_are_decoded(index: EmbeddedIndex, decoded: list[str]) -> None:
    found = searched(index, QUERY)
    assert decoded == []
    assert [hit.chunk.title for hit in found.hits[:3]]
    assert len(decoded) == 3


def test_hits_of_the_best_documents_are_kept(index: EmbeddedIndex) -> None:
    found, more = ([hit.entry_id for hit in searched(index, QUERY, config).hits] for config in (None, MANY))
    assert len(found) == JUDGED + SPARE_DOCUMENTS
    assert found == more[: len(found)]


def test_more_results_have_more_documents(index: EmbeddedIndex) -> None:
    assert len(searched(index, QUERY, MANY).hits) == 50 + SPARE_DOCUMENTS


def test_documents_that_may_not_be_shown_take_no_other_s_place(index: EmbeddedIndex) -> None:
    last = [hit.entry_id for hit in searched(index, QUERY, QueryConfig(max_results=60)).hits[-3:]]
    found = searched(index, replace(QUERY, accepts=lambda hit: hit.entry_id in last))
    assert [hit.entry_id for hit in found.hits] == last


def test_warnings_take_no_page_s_place(index: EmbeddedIndex) -> None:
    before = searched(index, QUERY)
    warnings = (an_entry(f"{QUESTION} {number}", title="failed", category=WARNINGS_CATEGORY) for number in range(40))
    index.apply([a_change(entry) for entry in warnings])
    found = searched(index, QUERY)
    assert len(found.hits) == len(before.hits)
    assert found.with_warnings is not None
    assert any(hit.indexed.chunk.category == WARNINGS_CATEGORY for hit in found.with_warnings.hits)
