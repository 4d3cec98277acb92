"""Calibrating a system on its own corpus: when it is kept, when it is refused, and what searches see of it."""

from __future__ import annotations

import json
import logging
import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.knowledge import WARNINGS_CATEGORY
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import EmbeddingError, IndexUnavailableError, InvalidInputError, StoreUnavailableError
from opx.lifecycle.reindex.job import ReindexPhase
from opx.lifecycle.reindex.reindexing import CALIBRATE, CALIBRATE_IF_DUE, calibrate_on_message
from opx.lifecycle.retention.pruning import DailyCalibration
from opx.operations.administration import Reindex, SwitchIndex, force_reindex, reindex
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.ports import Item, Leg, SearchRequest, SearchResponse, Vector
from opx.ports.tables import LIFECYCLE
from opx.retrieval.calibration import calibrating
from opx.retrieval.calibration.models import Calibration, CalibrationStore, Fit, with_changes
from opx.retrieval.calibration.questions import MOST_QUESTIONS, make_questions, too_little, usable, without
from opx.retrieval.confidence import OTHER, calibration_key, models_made, shipped
from opx.retrieval.hybrid import BOTH
from opx.retrieval.searching import CACHE_SECONDS, CalibratedModels
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.entries import a_chunk, an_entry
from opx_testing.fake_time import FakeTime
from tests.support.builders import a_document
from tests.support.calibration_support import Calibrated, ShiftedWords, a_corpus

MODE = SearchMode.BALANCED
MODEL = "shifted/64"


def a_calibration(**changes: object) -> Calibration:
    made = Calibration(MODEL, models_made(), Fit(None, 0.5, -2.0), 40, 100, 0.2, 0.3, "2026-01-01T00:00:00Z")
    return replace(made, **changes)


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the pages, for tests to copy."""
    home = tmp_path_factory.mktemp("ingested") / "home"
    with a_corpus(home).services:
        return home


@pytest.fixture
def corpus(ingested: Path, tmp_path: Path) -> Iterator[Calibrated]:
    found = a_corpus(shutil.copytree(ingested, tmp_path / "home"), documents=0)
    with found.services:
        yield found


@pytest.fixture
def store(database: Database) -> CalibrationStore:
    return CalibrationStore(SqliteTable(LIFECYCLE, database), "index")


# -- questions


def test_questions_are_the_same_for_the_same_seed_and_others_for_another(corpus: Calibrated) -> None:
    first, again, other = (texts_of(corpus, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_questions_are_made_of_titles_headings_and_symptoms(corpus: Calibrated) -> None:
    texts = " | ".join(texts_of(corpus))
    assert all(part in texts for part in ("refuses connections", "without an outage", "clients wait"))
    assert not any(role in texts for role in ("Symptoms", "Why"))  # other pages have such headings, too


def test_there_are_no_more_than_requested(corpus: Calibrated) -> None:
    assert len(texts_of(corpus, most=7)) == 7
    assert len(texts_of(corpus)) <= MOST_QUESTIONS


def test_a_title_of_several_documents_gives_no_question() -> None:
    documents = [a_document(f"documents/{name}.md", "Same title", document_id=name, chunk_count=1) for name in "ab"]
    assert make_questions(documents, lambda _: ()) == []


def test_a_heading_of_several_documents_gives_no_question() -> None:
    documents = [a_document(f"documents/{n}.md", f"Title of {n}", document_id=n, chunk_count=1) for n in "ab"]
    chunks = [a_chunk("## Look at the dashboards first\n\nAll of them.")]
    found = make_questions(documents, lambda _: chunks)
    assert len(found) == 2
    assert not any("dashboards" in one.text for one in found)


def test_warnings_copies_and_documents_without_chunks_give_no_questions() -> None:
    kept = a_document(document_id="a", chunk_count=1)
    copy = a_document("documents/copy.md", document_id="a", chunk_count=1)
    empty = a_document("documents/empty.md", document_id="b", chunk_count=0)
    warning = a_document("documents/w.md", document_id="c", chunk_count=1, category=WARNINGS_CATEGORY)
    assert usable([kept, copy, empty, warning]) == [kept]


def texts_of(corpus: Calibrated, **how: int) -> list[str]:
    system = corpus.services
    categories = sorted(system.installation.knowledge.categories)
    documents = usable(system.corpus.catalog.visible(("global",), categories=categories))
    read = corpus.calibrator.corpus.read
    return [one.text for one in make_questions(documents, read, **how)]


# -- a response without some entries


def test_removed_entry_is_in_no_leg_and_counts_in_no_frequency() -> None:
    kept, gone = an_entry("disk full", title="Kept"), an_entry("disk broken", title="Gone", document_id="gone")
    entries = (kept.indexed, gone.indexed)
    leg = Leg(tuple((one.entry_id, 0.5) for one in entries))
    chunks = {one.entry_id: one for one in entries}
    response = SearchResponse(leg, leg, chunks, {"disk": 2, "broken": 1}, 10)
    left = without(response, lambda chunk: chunk.chunk.document_id == "gone", 5)
    assert (
        [entry for entry, _ in left.lexical.hits] == [entry for entry, _ in left.vector.hits] == [kept.indexed.entry_id]
    )
    assert list(left.chunks) == [kept.indexed.entry_id]
    assert (left.term_frequencies, left.entry_count) == ({"disk": 1, "broken": 0}, 9)


# -- calibrating


def test_a_calibration_that_is_better_is_used_by_searches(corpus: Calibrated) -> None:
    outcome = corpus.calibrator.run()
    assert not outcome.reason
    assert outcome.loss is not None
    assert outcome.loss_before is not None
    assert outcome.loss < outcome.loss_before
    kept = corpus.calibrator.kept().calibration
    assert kept
    assert (kept.embedder, kept.documents) == (MODEL, outcome.documents)
    models = corpus.services.questions._confidence_models(MODEL, BOTH, MODE)
    assert models == with_changes(MODEL, kept.fit, BOTH, MODE) != shipped(MODEL, BOTH, MODE)


def test_confidences_of_answers_follow_a_calibration(corpus: Calibrated) -> None:
    system = corpus.services
    before = best_confidence(system)
    system.questions.calibrations.write(MODEL, a_calibration(), entries=1)
    del system.__dict__["questions"]  # as in another process
    assert best_confidence(system) < before


def best_confidence(system: System) -> float:
    answer = system.questions.for_reader().search("clients wait for the amber gateway", QueryConfig(min_confidence=0.0))
    return answer.results[0].confidence


def test_models_that_are_not_better_are_not_kept(corpus: Calibrated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrating, "fit", lambda *_, mapped: Fit(None, 1.0, -6.0))
    corpus.services.questions.calibrations.write(MODEL, a_calibration(fit=Fit(None, 1.1, 0.1)), entries=3)
    outcome = corpus.calibrator.run()
    assert "not be better" in outcome.reason
    assert outcome.loss is not None
    assert outcome.loss_before is not None
    assert outcome.loss >= outcome.loss_before
    kept = corpus.calibrator.kept()
    assert kept.calibration == a_calibration(fit=Fit(None, 1.1, 0.1))
    assert kept.entries == 40


def test_one_that_fails_in_the_middle_leaves_the_old_one(corpus: Calibrated, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.services.questions.calibrations.write(MODEL, a_calibration(), entries=3)
    index, searches = corpus.services.indexing.index, 0
    search = index.search

    def failing(request: SearchRequest) -> SearchResponse:
        nonlocal searches
        searches += 1
        if searches > 20:
            raise IndexUnavailableError("the index is away")
        return search(request)

    monkeypatch.setattr(index, "search", failing)
    with pytest.raises(IndexUnavailableError):
        corpus.calibrator.run()
    assert corpus.calibrator.kept().calibration == a_calibration()


def test_three_documents_are_too_few(tmp_path: Path) -> None:
    with a_corpus(tmp_path / "home", 3).services as system:
        outcome = system.lifecycle.calibrator().run()
        assert outcome.reason == "there are 3 documents that can be used; calibration needs 30"
        assert outcome.loss is None
        assert system.lifecycle.calibrator().kept().calibration is None


def test_one_category_alone_is_too_little(tmp_path: Path) -> None:
    with a_corpus(tmp_path / "home", 31, categories=("runbooks/procedures",)).services as system:
        reason = "all documents are of the category runbooks/procedures; calibration needs 2 categories"
        assert system.lifecycle.calibrator().run().reason == reason


def test_no_documents_are_too_few() -> None:
    assert "there are 0 documents" in too_little([])


def test_documents_that_hardly_any_question_can_be_made_of_are_too_little(
    corpus: Calibrated, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibrating, "make_questions", lambda *_: [])
    assert "only 0 questions" in corpus.calibrator.run().reason


class Broken(ShiftedWords):
    """Gives such a vector for questions once it is broken."""

    value: float | None = None

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(text) if self.value is None else [self.value] * self.dimension


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, 3.0])
def test_a_model_whose_vectors_mean_nothing_is_refused(tmp_path: Path, value: float) -> None:
    model = Broken()
    with a_corpus(tmp_path / "home", embedder=model).services as system:
        model.value = value
        with pytest.raises(EmbeddingError, match="gave a vector of length"):
            system.lifecycle.calibrator().run()
        assert system.lifecycle.calibrator().kept().calibration is None


def test_another_model_in_between_is_refused(corpus: Calibrated, monkeypatch: pytest.MonkeyPatch) -> None:
    models = iter([MODEL])
    monkeypatch.setattr(calibrating.Calibrator, "embedder", property(lambda _: next(models, "other/1")))
    with pytest.raises(InvalidInputError, match="replaced meanwhile"):
        corpus.calibrator.run()


def test_a_managed_knowledge_base_has_nothing_to_calibrate(corpus: Calibrated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(corpus.services.indexing), "query_embedder", None)
    with pytest.raises(InvalidInputError, match="nothing to calibrate"):
        assert corpus.calibrator


# -- when it is due


class TestDue:
    def test_never_tried_for_a_model_that_none_are_shipped_for(self, corpus: Calibrated) -> None:
        assert corpus.calibrator.is_due()

    def test_never_tried_for_a_model_that_models_are_shipped_for(
        self, corpus: Calibrated, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ShiftedWords, "model_id", "all-MiniLM-L6-v2/1")
        assert not corpus.calibrator.is_due()

    @pytest.mark.parametrize(
        ("entries", "due"), [(40, False), (21, False), (20, True), (79, False), (80, True), (0, True)]
    )
    def test_the_index_has_twice_or_half_as_many_entries(self, corpus: Calibrated, entries: int, due: bool) -> None:
        corpus.services.questions.calibrations.write(MODEL, None, entries=entries)
        assert corpus.calibrator.is_due() is due

    def test_not_again_after_one_that_was_refused(self, tmp_path: Path) -> None:
        with a_corpus(tmp_path / "home", 3).services as system:
            assert calibrating.calibrate_if_due(system.lifecycle.calibrator())
            assert calibrating.calibrate_if_due(system.lifecycle.calibrator()) == ""

    def test_discarding_does_not_make_it_due(self, corpus: Calibrated) -> None:
        corpus.calibrator.run()
        assert corpus.calibrator.discard()
        assert not corpus.calibrator.is_due()
        assert not corpus.calibrator.discard()


def test_one_process_looks_once_a_day(tmp_path: Path) -> None:
    time = FakeTime()
    with a_corpus(tmp_path / "home", 3).services as system:
        daily = DailyCalibration(system.lifecycle.calibrator, time.clock)
        (line,) = daily.poll()
        assert "3 documents" in line
        system.questions.calibrations.write(MODEL, None, entries=1)
        assert daily.poll() == ()
        time.sleep(86400)
        assert daily.poll() != ()
        time.sleep(86400)
        assert daily.poll() == ()


def test_one_process_goes_on_where_it_can_not_be_calibrated() -> None:
    def refused() -> calibrating.Calibrator:
        raise StoreUnavailableError("no table")

    assert DailyCalibration(refused, FakeTime().clock).poll() == ("not calibrated: no table",)


class Other(ShiftedWords):
    model_id = "other/64"


def test_a_switch_to_another_model_calibrates_for_it(tmp_path: Path) -> None:
    lines: list[str] = []
    with a_corpus(tmp_path / "home", new_embedder=lambda *_: Other()).services as system:
        context = Context(system, Caller(Identity()), progress=lambda line, _: lines.append(line))
        assert reindex(context, Reindex(model="other")).phase is ReindexPhase.DONE
        kept = system.questions.calibrations.read("other/64").calibration
    assert kept
    assert kept.fit.cosines
    assert lines[-1].startswith("calibrated with 120 questions about 40 documents")


def test_a_new_index_answers_also_if_its_model_can_not_be_calibrated_for(tmp_path: Path) -> None:
    lines: list[str] = []
    with a_corpus(tmp_path / "home", 31, new_embedder=lambda *_: Blind()).services as system:
        context = Context(system, Caller(Identity()), progress=lambda line, _: lines.append(line))
        reindex(context, Reindex(model="blind"))
        assert force_reindex(context, SwitchIndex()).phase is ReindexPhase.DONE
    assert lines[-1].startswith("not calibrated: the embedding model doesn't separate right documents from others")


class Blind(ShiftedWords):
    """A model to which all texts are alike."""

    model_id = "blind/64"

    @staticmethod
    def _vector(text: str) -> Vector:
        return ShiftedWords._vector("same")


class TestMessages:
    @pytest.mark.parametrize("body", ["", "[]", "no JSON", '{"do": "reindex"}', '{"do": 3}'])
    def test_others_are_left_to_others(self, body: str) -> None:
        assert not calibrate_on_message(body, lambda: pytest.fail("it was not asked for"))

    def test_one_calibrates(self, corpus: Calibrated) -> None:
        assert calibrate_on_message(CALIBRATE, lambda: corpus.calibrator)
        assert corpus.calibrator.kept().calibration

    def test_one_calibrates_if_that_is_due(self, corpus: Calibrated) -> None:
        corpus.services.questions.calibrations.write(MODEL, None, entries=40)
        assert calibrate_on_message(CALIBRATE_IF_DUE, lambda: corpus.calibrator)
        assert corpus.calibrator.kept().calibration is None

    def test_a_refused_model_is_not_retried(self, caplog: pytest.LogCaptureFixture) -> None:
        def refused() -> calibrating.Calibrator:
            raise EmbeddingError("zeros")

        with caplog.at_level(logging.INFO):
            assert calibrate_on_message(CALIBRATE, refused)
        assert "not calibrated: zeros" in caplog.text

    def test_an_unavailable_store_is_retried(self) -> None:
        def away() -> calibrating.Calibrator:
            raise StoreUnavailableError("no table")

        with pytest.raises(StoreUnavailableError):
            calibrate_on_message(CALIBRATE, away)


# -- what is kept, and what searches see of it


class TestStore:
    def test_written_calibration_is_read_back(self, store: CalibrationStore) -> None:
        store.write(MODEL, a_calibration(), entries=7)
        kept = store.read(MODEL)
        assert (kept.calibration, kept.problem, kept.entries) == (a_calibration(), "", 7)

    def test_each_model_has_its_own(self, store: CalibrationStore) -> None:
        store.write(MODEL, a_calibration(), entries=7)
        assert store.read("another/1").calibration is None

    @pytest.mark.parametrize(
        ("changes", "problem"),
        [
            ({"rules": 0}, "for other shipped models"),
            ({"models": "earlier"}, "for other shipped models"),
            ({"fit": {"slope": -1.0}}, "damaged"),
            ({"fit": {"slope": "much"}}, "can't be read"),
            ({"fit": None}, "can't be read"),
        ],
    )
    def test_an_unusable_calibration_is_ignored_and_reported(
        self, store: CalibrationStore, changes: dict[str, object], problem: str
    ) -> None:
        made = {**a_calibration().to_json(), **changes}
        store._table.put({"subject": "index", "entry": f"calibration#{MODEL}", "calibration": made, "entries": 7})
        kept = store.read(MODEL)
        assert kept.calibration is None
        assert problem in kept.problem
        assert kept.entries == 7

    @pytest.mark.parametrize("damaged", ["text", 3, [1]])
    def test_any_other_value_is_ignored(self, store: CalibrationStore, damaged: object) -> None:
        store._table.put({"subject": "index", "entry": f"calibration#{MODEL}", "calibration": damaged, "entries": "x"})
        assert store.read(MODEL).calibration is None
        assert store.read(MODEL).entries is None

    def test_json_has_all_of_it(self) -> None:
        assert Calibration.from_json(json.loads(json.dumps(a_calibration().to_json()))) == a_calibration()


def reader_of(store: CalibrationStore) -> Callable[[str], Item | None]:
    return lambda embedder: store._table.get(calibration_key("index", embedder))


class TestModels:
    def test_the_shipped_ones_where_nothing_is_kept(self, store: CalibrationStore) -> None:
        assert CalibratedModels(reader_of(store))(MODEL, BOTH, MODE) == shipped(MODEL, BOTH, MODE)

    def test_a_new_one_is_seen_after_a_while(self, store: CalibrationStore) -> None:
        time = FakeTime()
        models = CalibratedModels(reader_of(store), time.clock)
        before = models(MODEL, BOTH, MODE)
        store.write(MODEL, a_calibration(), entries=1)
        assert models(MODEL, BOTH, MODE) == before
        time.sleep(CACHE_SECONDS)
        assert models(MODEL, BOTH, MODE) == with_changes(MODEL, a_calibration().fit, BOTH, MODE)

    def test_the_last_one_is_used_while_the_table_is_away(
        self, store: CalibrationStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        time = FakeTime()
        models = CalibratedModels(reader_of(store), time.clock)
        store.write(MODEL, a_calibration(), entries=1)
        known = models(MODEL, BOTH, MODE)
        time.sleep(CACHE_SECONDS)
        monkeypatch.setattr(store._table, "get", _away)
        assert models(MODEL, BOTH, MODE) == known
        assert CalibratedModels(reader_of(store), time.clock)(MODEL, BOTH, MODE) == shipped(MODEL, BOTH, MODE)

    def test_unusable_calibration_is_logged_and_the_shipped_models_are_used(
        self, store: CalibrationStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        store.write(MODEL, a_calibration(models="earlier"), entries=1)
        assert CalibratedModels(reader_of(store))(MODEL, BOTH, MODE) == shipped(MODEL, BOTH, MODE)
        assert "for other shipped models" in caplog.text

    def test_nothing_is_read_where_the_engine_embeds(
        self, store: CalibrationStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(store._table, "get", lambda *_: pytest.fail("it was read"))
        assert CalibratedModels(reader_of(store))(OTHER, BOTH, MODE) == shipped(OTHER, BOTH, MODE)


def _away(*_: object) -> None:
    raise StoreUnavailableError("no table")


def test_questions_about_a_project_search_in_the_scopes_of_its_readers() -> None:
    seen = calibrating.visible_to_owner(Scope("acme", project_id="shop"))
    assert seen == ("global", "client:acme", "client:acme/project:shop")


def test_a_system_without_documents_has_nothing_to_calibrate_on(tmp_path: Path) -> None:
    with bootstrap(Settings(home=str(tmp_path / "home")), embedder=ShiftedWords()) as system:
        assert "0 documents" in system.lifecycle.calibrator().run().reason
