"""A question that nothing is near has no answer, not even a weak one, unless it narrows the search by itself."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.search_index import EmbeddedIndex
from opx.domain.queries import Band, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import IndexUnavailableError
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetStatus, get_status
from opx.operations.system import System
from opx.ports import DocumentChange
from opx.retrieval.confidence import FAR, FAR_IN_FEW, FAR_IN_OTHER_LANGUAGES, FEW_ENTRIES, Judgement, is_far, judged
from opx.retrieval.query import KnowledgeQuery
from tests.support.fakes import WordsEmbedder
from tests.support.reindex_support import World, services_at
from tests.unit.retrieval.test_query import a_query, a_text

ANYTHING = QueryConfig(min_confidence=0)
COOKING = "how long does a chocolate cake with butter stay in the oven"
BAKING = "bake cake"
NOWHERE = FAR_IN_FEW / 2
PAGES = [
    a_text("The disk of the database is full and writes fail.", title="Database disk full", tags=("postgres",)),
    a_text("Pods restart again and again; look at their logs.", title="Pods are crash looping"),
    a_text("Certificates expire without notice; renew them.", title="Certificate expired"),
]
DISK = PAGES[0].indexed.chunk
Near = Callable[[float], None]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[KnowledgeQuery]:
    index = EmbeddedIndex(tmp_path / "index", model_id=WordsEmbedder.model_id, dimension=WordsEmbedder.dimension)
    yield a_query(index, *PAGES)
    index.close()


@pytest.fixture
def near(monkeypatch: pytest.MonkeyPatch) -> Near:
    """Sets how probable it is that something is near, whatever the question is."""

    def sets(probability: float) -> None:
        def judged_so(*args: Any, **options: Any) -> Judgement:
            return replace(judged(*args, **options), near=probability, by_meaning=True)

        monkeypatch.setattr("opx.retrieval.searching.judged", judged_so)

    return sets


@pytest.mark.parametrize("mode", SearchMode)
@pytest.mark.parametrize("question", [COOKING, "who won the football match"])
def test_question_about_something_else_has_no_results_and_nothing_unconfirmed(
    service: KnowledgeQuery, near: Near, question: str, mode: SearchMode
) -> None:
    near(NOWHERE)
    answer = service.search(question, QueryConfig(min_confidence=0, mode=mode))
    assert (answer.results, answer.unconfirmed, answer.best_rejected, answer.absent) == ((), (), None, ())
    assert not answer.partial


@pytest.mark.parametrize("question", ["the of and", "?!", "🔥"])
def test_question_without_words_has_nothing(service: KnowledgeQuery, question: str) -> None:
    answer = service.search(question, ANYTHING)
    assert (answer.results, answer.unconfirmed) == ((), ())


def test_without_cosines_what_hardly_a_word_supports_is_weak(service: KnowledgeQuery) -> None:
    assert {result.band for result in service.search(COOKING, ANYTHING).results} == {Band.WEAK}


def test_it_is_so_for_every_requested_confidence(service: KnowledgeQuery, near: Near) -> None:
    near(NOWHERE)
    answer = service.search(COOKING, QueryConfig(min_confidence=0.9))
    assert (answer.results, answer.unconfirmed) == ((), ())


@pytest.mark.parametrize("mode", SearchMode)
def test_question_about_a_page_has_results(service: KnowledgeQuery, mode: SearchMode) -> None:
    answer = service.search("the disk of the database is full", QueryConfig(min_confidence=0, mode=mode))
    assert answer.results[0].title == DISK.title


def test_bar_is_lower_for_other_languages_and_among_few_entries() -> None:
    between, low = Judgement(near=(FAR + FAR_IN_OTHER_LANGUAGES) / 2), Judgement(near=NOWHERE)
    assert is_far(between, FEW_ENTRIES, english=True)
    assert not is_far(between, FEW_ENTRIES, english=False)
    assert not is_far(between, FEW_ENTRIES - 1, english=True)
    assert all(is_far(low, entries, english=False) for entries in (FEW_ENTRIES, FEW_ENTRIES - 1))


def test_words_alone_withhold_nothing() -> None:
    assert not is_far(Judgement(near=NOWHERE, by_meaning=False), FEW_ENTRIES, english=True)


def test_paraphrase_among_three_pages_has_results(service: KnowledgeQuery, near: Near) -> None:
    near(2 * FAR_IN_FEW)
    assert service.search("the volume is full", ANYTHING).results


@pytest.mark.parametrize("probability", [FAR - 0.01, FAR_IN_FEW / 2])
@pytest.mark.parametrize(
    ("question", "config"),
    [
        (BAKING, {"document_id": DISK.document_id}),
        (f'{BAKING} "writes fail"', {}),
        (f"{BAKING} tag:postgres", {}),
        (f"{BAKING} title:database", {}),
        (f"{BAKING} category:runbooks -pods -certificates", {}),
        (f"{BAKING} before:2100 -pods -certificates", {}),
    ],
    ids=["document", "phrase", "tag", "title", "category", "day"],
)
def test_question_that_narrows_the_search_has_what_is_left(
    service: KnowledgeQuery, near: Near, question: str, config: dict[str, Any], probability: float
) -> None:
    near(probability)
    assert [result.title for result in service.search(question, replace(ANYTHING, **config)).results] == [DISK.title]


def test_phrase_that_nothing_has_is_taken_for_words_again(service: KnowledgeQuery, near: Near) -> None:
    near(NOWHERE)
    answer = service.search(f'{BAKING} "chocolate cake"', ANYTHING)
    assert answer.results == ()
    assert answer.notes == ('no passage that came near has exactly "chocolate cake": the words were searched',)


def test_category_of_the_caller_leaves_the_bar(service: KnowledgeQuery, near: Near) -> None:
    near(NOWHERE)
    assert service.search(COOKING, replace(ANYTHING, categories=("runbooks",))).results == ()


def test_identifier_that_an_entry_has_is_near(service: KnowledgeQuery, near: Near, tmp_path: Path) -> None:
    near(NOWHERE)
    index = EmbeddedIndex(tmp_path / "other", model_id=WordsEmbedder.model_id, dimension=WordsEmbedder.dimension)
    known = a_query(index, a_text("Bake it.", title="OPS-4711"))
    assert [result.title for result in known.search(f"{COOKING} OPS-4711", ANYTHING).results] == ["OPS-4711"]
    assert service.search(f"{COOKING} OPS-4711", ANYTHING).results == ()
    index.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with two documents, whose index is gone."""
    with services_at(tmp_path) as services:
        World(services).ingest(a="Alpha fails", b="Bravo fails")
    shutil.rmtree(tmp_path / "index")
    return tmp_path


def index_of(services: System) -> str:
    return get_status(Context(services, Caller(Identity())), GetStatus()).index


def test_a_question_to_a_lost_index_is_an_error_that_names_the_repair(home: Path) -> None:
    with services_at(home) as services, pytest.raises(IndexUnavailableError, match="`opx rebuild`"):
        services.questions.for_reader().search("alpha fails")


def test_no_gap_is_recorded_of_it(home: Path) -> None:
    with services_at(home) as services:
        with pytest.raises(IndexUnavailableError):
            services.questions.for_reader().search("alpha fails")
        assert services.records.gaps.scopes() == []


def test_the_status_reports_that_it_is_empty_until_it_was_rebuilt(home: Path) -> None:
    with services_at(home) as services:
        assert index_of(services).startswith("empty, although the catalog has 2 chunks: `opx rebuild`")
        World(services).ingest_again()
        assert index_of(services) == "ok"
        assert World(services).best("alpha fails") == "Alpha fails"


def test_the_status_reports_how_much_is_missing(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        world = World(services)
        world.ingest(a="Alpha fails", b="Bravo fails")
        key = next(iter(services.corpus.catalog.in_category("runbooks/procedures"))).key.id
        services.index.apply([DocumentChange(key, "", superseded=services.index.references(key))])
        assert index_of(services) == "1 of the 2 chunks of the catalog: `opx reconcile` lists what is missing"


def test_a_knowledge_base_without_documents_has_no_answer(tmp_path: Path) -> None:
    with services_at(tmp_path) as services:
        assert services.questions.for_reader().search("alpha fails").results == ()
        assert index_of(services) == "ok"
