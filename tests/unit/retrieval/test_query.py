"""Questions of a reader over a real embedded index: what is found, what is left out, and how it fails."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.knowledge import Category, KnowledgeModel, Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS, Band, Fusion, QueryConfig, SearchMode, band_of
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.errors import EmbeddingError, IndexUnavailableError, IndexWakingError, UnknownCategoryError
from opx.ports import HeldDocument, IndexEntry, Leg, SearchIndex, SearchRequest, SearchResponse, Vector
from opx.retrieval.query import NO_TIER, KnowledgeQuery
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.entries import a_change, an_entry
from tests.support.fakes import WordsEmbedder
from tests.support.query_support import a_knowledge_query

ANYTHING = QueryConfig(min_confidence=0)
NOBODY = reader_of(Identity())
ACME, OTHER = Scope("acme"), Scope("other", project_id="web")
TIERS = {
    "runbooks/procedures": (Tier.INTERNAL, 1.0),
    "runbooks/architecture": (Tier.INTERNAL, 1.0),
    "postmortems": (Tier.INTERNAL, 1.0),
    "security/cve": (Tier.SPECIALIZED, 0.9),
    "web/forums": (Tier.INTERNET, 0.5),
}
KNOWLEDGE = KnowledgeModel(
    {path: Category(path, tier, trust, "permanent") for path, (tier, trust) in TIERS.items()},
    "runbooks/procedures",
)


def a_text(content: str, category: str = "runbooks/procedures", **fields: Any) -> IndexEntry:
    """An entry with the tier and trust of its category and the vector of its text."""
    tier, trust = TIERS[category]
    usual: dict[str, Any] = {"tier": tier, "trust": trust, "category": category, "source": f"{category}/{content}.md"}
    entry = an_entry(content, **usual | fields)
    return replace(entry, vectors=[WordsEmbedder().embed_query(entry.indexed.chunk.text)])


class FailingEmbedder(WordsEmbedder):
    def embed_query(self, text: str) -> Vector:
        raise EmbeddingError("throttled")


class StubIndex:
    """Answers every search in the same way."""

    derives_ids = True

    def __init__(self, response: SearchResponse | IndexUnavailableError) -> None:
        self._response = response

    def search(self, request: SearchRequest) -> SearchResponse:
        if isinstance(self._response, IndexUnavailableError):
            raise self._response
        return self._response

    def entries_with(self, terms: object, scopes: object) -> dict[str, int]:
        return {}

    def apply(self, changes: object) -> list[list[str]]:
        return []

    def count(self, where: object) -> int:
        return 0

    def references(self, key_id: str) -> list[str]:
        return []

    def held(self, *, after: object = None, limit: int = 1000) -> list[HeldDocument]:
        return []


def a_query(index: SearchIndex, *entries: IndexEntry, reader: Reader = NOBODY, **parts: Any) -> KnowledgeQuery:
    """Questions over an index with `entries`, each as a separate document."""
    index.apply([a_change(entry) for entry in entries])
    used: dict[str, Any] = {"embedder": WordsEmbedder(), "knowledge": KNOWLEDGE} | parts
    return a_knowledge_query(index, reader=reader, **used)


def contents(results: Sequence[RetrievalResult]) -> list[str]:
    return [result.content for result in results]


def everything_in(answer: Answer) -> str:
    return repr((answer.results, answer.unconfirmed, answer.best_rejected, answer.absent, answer.notes))


class TestInterface:
    def test_result_has_the_fields_that_callers_know(self) -> None:
        known = ["content", "score", "tier", "category", "source", "timestamp", "trust_score", "metadata"]
        assert list(RetrievalResult.__struct_fields__)[: len(known)] == known

    def test_result_carries_all_of_its_chunk(self, index: EmbeddedIndex) -> None:
        entry = a_text("disk full", tags=("linux",), section=("Storage", "Steps"), title="Disk", language="de")
        (result,) = a_query(index, entry).query("disk full", ANYTHING)
        assert (result.content, result.tier, result.category) == ("disk full", "internal", "runbooks/procedures")
        assert (result.source, result.timestamp) == (entry.indexed.source_uri, "2026-03-01T12:00:00Z")
        assert result.metadata == {
            "title": "Disk",
            "section": ["Storage", "Steps"],
            "documentId": entry.indexed.chunk.document_id,
            "chunkId": entry.indexed.chunk.chunk_id,
            "chunkIndex": 0,
            "tags": ["linux"],
            "language": "de",
        }

    def test_query_gives_the_results_of_answer(self, index: EmbeddedIndex) -> None:
        service = a_query(index, a_text("disk full"), a_text("disk slow"))
        assert service.query("disk", ANYTHING) == list(service.search("disk", ANYTHING).results)
        assert len(service.query("disk", ANYTHING)) == 2


class TestScores:
    def test_every_part_is_there_and_fits_the_others(self, index: EmbeddedIndex) -> None:
        service = a_query(index, a_text("disk full"), a_text("disk slow", "security/cve"), a_text("pod down"))
        for result in service.query("disk full", ANYTHING):
            parts = result.parts
            assert parts is not None
            assert 0 <= parts.confidence <= 1
            assert parts.final == round(parts.confidence * parts.trust, 6) == result.score
            assert parts.trust == result.trust_score == TIERS[result.category][1]
            assert (parts.lexical_rank is None) == (parts.lexical_score is None)
            assert (parts.vector_rank is None) == (parts.vector_score is None)
            assert parts.lexical_rank or parts.vector_rank

    def test_ranks_count_from_one_in_each_leg(self, index: EmbeddedIndex) -> None:
        service = a_query(index, *(a_text(text) for text in ("disk full", "disk slow", "disk lost")))
        parts = [result.parts for result in service.query("disk full", ANYTHING)]
        assert sorted(part.lexical_rank or 0 for part in parts if part) == [1, 2, 3]
        assert sorted(part.vector_rank or 0 for part in parts if part) == [1, 2, 3]

    def test_results_are_in_the_order_of_confidence_times_trust(self) -> None:
        doubted, trusted, far = a_text("disk post", trust=0.6), a_text("disk guide"), a_text("pod down")
        scores = {doubted.indexed: 10.0, trusted.indexed: 9.99, far.indexed: 0.1}
        response = SearchResponse(
            Leg(tuple((indexed.entry_id, score) for indexed, score in scores.items())),
            chunks={indexed.entry_id: indexed for indexed in scores},
        )
        results = a_query(StubIndex(response)).query("disk", ANYTHING)
        assert contents(results) == ["disk guide", "disk post", "pod down"]
        assert results[0].confidence <= results[1].confidence

    def test_results_below_the_requested_confidence_are_left_out(self, index: EmbeddedIndex) -> None:
        service = a_query(index, a_text("disk full"), a_text("pod down"))
        best, worst = service.query("disk full", ANYTHING)
        middle = (best.confidence + worst.confidence) / 2
        answer = service.search("disk full", QueryConfig(min_confidence=middle))
        assert contents(answer.results) == ["disk full"]
        assert answer.best_rejected is None

    def test_confidence_that_is_just_reached_is_enough(self, index: EmbeddedIndex) -> None:
        service = a_query(index, a_text("disk full"))
        (best,) = service.query("disk full", ANYTHING)
        assert len(service.query("disk full", QueryConfig(min_confidence=best.confidence))) == 1

    @pytest.mark.parametrize("method", list(Fusion))
    def test_confidence_of_the_best_hit_does_not_depend_on_the_fusion(
        self, index: EmbeddedIndex, method: Fusion
    ) -> None:
        service = a_query(index, a_text("disk full"), a_text("pod down"))
        usual = service.query("disk full", ANYTHING)[0]
        found = service.query("disk full", QueryConfig(min_confidence=0, fusion=method))[0]
        assert (found.content, found.confidence) == (usual.content, usual.confidence)


class TestUnconfirmed:
    PAGES = ("disk full", "disk slow", "disk lost", "pod down")

    def service(self, index: EmbeddedIndex) -> KnowledgeQuery:
        return a_query(index, *map(a_text, self.PAGES))

    def test_results_reach_the_confidence_and_the_others_are_unconfirmed(self, index: EmbeddedIndex) -> None:
        service = self.service(index)
        everything = service.search("disk full", ANYTHING)
        bar = everything.results[1].confidence
        answer = service.search("disk full", QueryConfig(min_confidence=bar))
        assert answer.results == everything.results[:2]
        assert answer.unconfirmed == everything.results[2:]
        assert answer.best_rejected is None

    def test_the_first_unconfirmed_one_is_the_nearest_where_there_is_no_result(self, index: EmbeddedIndex) -> None:
        answer = self.service(index).search("disk", QueryConfig(min_confidence=1))
        assert (answer.results, answer.partial) == ((), False)
        assert answer.best_rejected == answer.unconfirmed[0]
        assert len(answer.unconfirmed) == len(self.PAGES)

    def test_unconfirmed_ones_fill_the_places_that_are_left(self, index: EmbeddedIndex) -> None:
        service = self.service(index)
        bar = service.search("disk full", ANYTHING).results[1].confidence
        for most, unconfirmed in ((1, 0), (2, 0), (3, 1), (10, 2)):
            answer = service.search("disk full", QueryConfig(min_confidence=bar, max_results=most))
            assert (len(answer.results), len(answer.unconfirmed)) == (min(most, 2), unconfirmed)

    def test_without_a_bar_everything_is_a_result(self, index: EmbeddedIndex) -> None:
        answer = self.service(index).search("disk full", ANYTHING)
        assert (len(answer.results), answer.unconfirmed, answer.best_rejected) == (len(self.PAGES), (), None)

    def test_list_of_results_has_the_unconfirmed_ones_beside_it(self, index: EmbeddedIndex) -> None:
        service = self.service(index)
        config = QueryConfig(min_confidence=service.search("disk full", ANYTHING).results[0].confidence)
        found, answer = service.query("disk full", config), service.search("disk full", config)
        assert found == list(answer.results)
        assert found.unconfirmed == answer.unconfirmed != ()
        assert service.query("?!", config).unconfirmed == ()

    def test_band_follows_from_the_confidence(self, index: EmbeddedIndex) -> None:
        results = self.service(index).query("disk full", ANYTHING)
        assert results[0].band is Band.SURE
        assert [result.band for result in results] == [band_of(result.confidence) for result in results]
        assert results[0].to_json()["band"] == "sure"

    def test_json_has_the_nearest_only_without_results(self, index: EmbeddedIndex) -> None:
        service = self.service(index)
        given, refused = (service.search("disk full", QueryConfig(min_confidence=bar)).to_json() for bar in (0.5, 1))
        assert "nearest" not in given
        assert refused["nearest"] == refused["unconfirmed"][0]
        assert "absent" not in refused


class TestBounds:
    def test_at_most_so_many_results(self, index: EmbeddedIndex) -> None:
        service = a_query(index, *(a_text(f"disk {n}") for n in range(8)))
        assert len(service.query("disk", QueryConfig(min_confidence=0, max_results=3))) == 3

    @pytest.mark.parametrize("most", [1, 2])
    def test_document_has_at_most_so_many_chunks_in_the_results(self, index: EmbeddedIndex, most: int) -> None:
        parts = [a_text(f"disk part {n}", index=n, document_id="d", source="d.md") for n in range(4)]
        index.apply([a_change(*parts)])
        service = a_query(index, a_text("disk other"))
        config = QueryConfig(min_confidence=0, max_chunks_per_document=most)
        documents = [result.document_id for result in service.query("disk part", config)]
        assert documents.count("d") == most
        assert len(documents) == most + 1

    @pytest.mark.parametrize("mode", list(SearchMode))
    def test_limit_of_chunks_per_document_changes_no_confidence(self, index: EmbeddedIndex, mode: SearchMode) -> None:
        for name in ("disk", "pod"):
            parts = [
                a_text(f"{name} part {n} is full {'x' * n}", index=n, document_id=name, source=f"{name}.md")
                for n in range(8)
            ]
            index.apply([a_change(*parts)])
        service = a_query(index, a_text("certificate expired"))
        found = []
        for most in (1, 2, 4, 8):
            config = QueryConfig(min_confidence=0, max_chunks_per_document=most, max_results=100, mode=mode)
            results = service.query("disk part full", config)
            found.append({(result.document_id, result.confidence) for result in results})
        assert len(found[0]) == 3
        assert found[0] == found[1] == found[2] == found[3]

    def test_same_text_under_two_keys_is_one_result(self, index: EmbeddedIndex) -> None:
        service = a_query(index, a_text("disk full", source="one.md"), a_text("disk full", source="two.md"))
        assert contents(service.query("disk full", ANYTHING)) == ["disk full"]

    @pytest.mark.parametrize("text", ["", "   \n\t"])
    def test_query_without_characters_finds_nothing_and_is_not_embedded(self, index: EmbeddedIndex, text: str) -> None:
        answer = a_query(index, a_text("disk full"), embedder=FailingEmbedder()).search(text, ANYTHING)
        assert (answer.results, answer.partial) == ((), False)

    @pytest.mark.parametrize("text", ["?!... ---", "the of and", "\x00", "🚒"])
    def test_query_without_words_has_no_confident_answer(self, index: EmbeddedIndex, text: str) -> None:
        answer = a_query(index, a_text("disk full")).search(text)
        assert (answer.results, answer.partial, answer.notes) == ((), False, ())

    def test_halves_of_surrogate_pairs_do_no_harm(self, index: EmbeddedIndex) -> None:
        given: list[str] = []

        class Strict(WordsEmbedder):
            def embed_query(self, text: str) -> Vector:
                given.append(text.encode().decode())
                return super().embed_query(text)

        service = a_query(index, a_text("disk full"), embedder=Strict())
        assert contents(service.query("disk \ud800 full\udfff", ANYTHING)) == ["disk full"]
        assert given == ["disk ? full?"]

    def test_long_query_is_cut_with_a_note(self, index: EmbeddedIndex) -> None:
        text = "disk full " * 10_000
        answer = a_query(index, a_text("disk full")).search(text + "pod", ANYTHING)
        assert contents(answer.results) == ["disk full"]
        assert answer.notes == (
            f"the query has 100,003 characters; only the first {MAX_QUERY_CHARACTERS:,} were searched",
        )
        assert answer.query == text + "pod"
        assert not answer.partial

    def test_query_of_the_longest_length_is_not_cut(self, index: EmbeddedIndex) -> None:
        text = "disk".ljust(MAX_QUERY_CHARACTERS, "!")
        assert a_query(index, a_text("disk full")).search(text, ANYTHING).notes == ()


class TestFilters:
    @pytest.fixture
    def service(self, index: EmbeddedIndex) -> KnowledgeQuery:
        return a_query(
            index,
            a_text("disk procedure", tags=("linux", "disk")),
            a_text("disk architecture", "runbooks/architecture", language="de"),
            a_text("disk postmortem", "postmortems"),
            a_text("disk cve", "security/cve", tags=("linux",)),
            a_text("disk forum", "web/forums"),
        )

    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            ({}, {"procedure", "architecture", "postmortem", "cve"}),
            ({"categories": ("runbooks",)}, {"procedure", "architecture"}),
            ({"categories": ("runbooks/procedures",)}, {"procedure"}),
            ({"categories": ("runbooks", "security/cve")}, {"procedure", "architecture", "cve"}),
            ({"tags": ("linux",)}, {"procedure", "cve"}),
            ({"tags": ("linux",), "categories": ("security",)}, {"cve"}),
            ({"language": "de"}, {"architecture"}),
            ({"tiers": ("specialized",)}, {"cve"}),
            ({"include_internet": True}, {"procedure", "architecture", "postmortem", "cve", "forum"}),
            ({"tiers": (), "include_internet": True}, {"forum"}),
            ({"tiers": ("internal", "internet")}, {"procedure", "architecture", "postmortem"}),
        ],
    )
    def test_only_what_passes_the_filter_is_found(
        self, service: KnowledgeQuery, config: dict[str, Any], expected: set[str]
    ) -> None:
        found = service.query("disk", QueryConfig(min_confidence=0, **config))
        assert {result.content.removeprefix("disk ") for result in found} == expected

    def test_document_filter_finds_one_document(self, service: KnowledgeQuery) -> None:
        wanted = a_text("disk postmortem", "postmortems").indexed.chunk.document_id
        config = QueryConfig(min_confidence=0, document_id=wanted)
        assert contents(service.query("disk", config)) == ["disk postmortem"]

    @pytest.mark.parametrize("tiers", [("internet",), ()])
    def test_no_tier_left_is_not_every_tier(self, service: KnowledgeQuery, tiers: tuple[str, ...]) -> None:
        answer = service.search("disk", QueryConfig(min_confidence=0, tiers=tiers))
        assert (answer.results, answer.best_rejected, answer.notes) == ((), None, (NO_TIER,))

    @pytest.mark.parametrize("name", ["recipes", "run", "runbooks/", "security/cve/x", "*"])
    def test_unknown_category_is_refused_with_the_allowed_ones(self, service: KnowledgeQuery, name: str) -> None:
        with pytest.raises(UnknownCategoryError) as caught:
            service.query("disk", QueryConfig(categories=(name,)))
        assert all(path in str(caught.value) for path in TIERS)

    @pytest.mark.parametrize("required", [True, False])
    def test_results_without_a_source_are_left_out_if_provenance_is_required(
        self, index: EmbeddedIndex, required: bool
    ) -> None:
        bare = a_text("disk anonymous")
        bare = replace(bare, indexed=replace(bare.indexed, source_uri=""))
        service = a_query(index, bare, a_text("disk signed"))
        answer = service.search("disk", QueryConfig(min_confidence=0, require_provenance=required))
        assert set(contents(answer.results)) == {"disk signed"} | (set() if required else {"disk anonymous"})


class TestReaders:
    @pytest.mark.parametrize("config", [ANYTHING, QueryConfig(min_confidence=1)])
    def test_other_clients_knowledge_is_nowhere_in_the_answer(self, index: EmbeddedIndex, config: QueryConfig) -> None:
        entries = [a_text("zanzibar password", scope=OTHER, source=f"{n}.md") for n in range(3)]
        service = a_query(index, *entries, a_text("disk full"), reader=reader_of(Identity("acme", "web")))
        answer = service.search("zanzibar password", config)
        assert "zanzibar" not in everything_in(answer)

    def test_filter_by_anothers_document_finds_nothing(self, index: EmbeddedIndex) -> None:
        theirs = a_text("zanzibar password", scope=OTHER)
        service = a_query(index, theirs, reader=reader_of(Identity("acme")))
        config = QueryConfig(min_confidence=0, document_id=theirs.indexed.chunk.document_id)
        answer = service.search("zanzibar", config)
        assert (answer.results, answer.best_rejected) == ((), None)

    def test_own_and_global_knowledge_is_found_together(self, index: EmbeddedIndex) -> None:
        service = a_query(index, a_text("disk own", scope=ACME), a_text("disk all"), reader=reader_of(Identity("acme")))
        assert set(contents(service.query("disk", ANYTHING))) == {"disk own", "disk all"}

    def test_moved_project_sees_its_new_group_with_the_next_question(self, tmp_path: Path) -> None:
        shops, office = Scope("acme", group_id="shops"), Scope("acme", group_id="office")
        web = Identity("acme", "web")
        with bootstrap(Settings(home=str(tmp_path)), embedder=WordsEmbedder()) as services:
            services.installation.knowledge = KNOWLEDGE
            services.index.apply(a_change(a_text(f"disk {scope.group_id}", scope=scope)) for scope in (shops, office))
            services.corpus.projects.assign("acme", "web", "shops")
            before = services.questions.for_reader(web).query("disk", ANYTHING)
            services.corpus.projects.assign("acme", "web", "office")
            after = services.questions.for_reader(web).query("disk", ANYTHING)
        assert (contents(before), contents(after)) == (["disk shops"], ["disk office"])


class TestDegrading:
    def test_words_are_searched_when_the_model_fails_and_the_answer_is_partial(
        self, index: EmbeddedIndex, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = a_query(index, a_text("disk full"), embedder=FailingEmbedder())
        with caplog.at_level(logging.ERROR):
            answer = service.search("disk full", ANYTHING)
        assert contents(answer.results) == ["disk full"]
        assert answer.partial
        assert answer.notes == ("partial: the vector search is missing (the embedding model is unavailable)",)
        assert answer.results[0].parts is not None
        assert answer.results[0].parts.vector_rank is None
        assert [record.message for record in caplog.records] == ["query embedding failed"]

    def test_failed_lexical_leg_is_noted_and_the_other_stands(self, index: EmbeddedIndex) -> None:
        entry = a_text("disk full")
        id_ = entry.indexed.entry_id
        response = SearchResponse(Leg(error="timed out"), Leg(((id_, 0.9),)), {id_: entry.indexed}, {}, 1)
        answer = a_query(StubIndex(response)).search("disk full", ANYTHING)
        assert contents(answer.results) == ["disk full"]
        assert answer.partial
        assert answer.notes == ("partial: the lexical search is missing (timed out)",)

    def test_both_legs_missing_are_both_noted(self) -> None:
        response = SearchResponse(Leg(error="timed out"), Leg())
        answer = a_query(StubIndex(response), embedder=FailingEmbedder()).search("disk", ANYTHING)
        assert (len(answer.notes), answer.partial, answer.results) == (2, True, ())

    @pytest.mark.parametrize("error", [IndexUnavailableError("refused"), IndexWakingError("asleep")])
    def test_index_that_is_down_raises_instead_of_answering_that_nothing_was_found(
        self, error: IndexUnavailableError
    ) -> None:
        service = a_query(StubIndex(error))
        with pytest.raises(type(error)):
            service.search("disk full")
        with pytest.raises(type(error)):
            service.query("disk full")

    def test_times_of_the_parts_are_reported(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, a_text("disk full")).search("disk")
        assert set(answer.timings_ms) == {"embed", "search", "lexical", "vector", "judge"}
        assert all(value >= 0 for value in answer.timings_ms.values())

    def test_whole_answer_has_no_notes(self, index: EmbeddedIndex) -> None:
        answer = a_query(index, a_text("disk full")).search("disk")
        assert (answer.partial, answer.notes) == (False, ())
