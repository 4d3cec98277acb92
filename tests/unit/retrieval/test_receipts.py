"""Receipts of answers, and metrics of questions, for all entry points."""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.results import Answer, RetrievalResult
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError, StoreUnavailableError, UnknownCategoryError
from opx.operations.system import System
from opx.ports.search import CorpusState
from opx.retrieval.query import LEGS, STAGES
from opx.retrieval.receipts import (
    Receipt,
    RecordedQuestion,
    Replay,
    ReplayVerdict,
    TamperedReceiptError,
    answer_hash,
    config_of,
    read_receipt,
    receipt_of,
    replay,
)
from opx.retrieval.stages import ByIndex
from opx.runtime.metrics import Metric
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of
from tests.support.cli_support import ROOT
from tests.support.fakes import BrokenIndex, Measured

ANYTHING = QueryConfig(min_confidence=0)
ACME = Identity("acme")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


def given(services: System, query: str = DISK_TITLE, identity: Identity = ACME) -> dict[str, Any]:
    """A receipt of these services, as a file has it."""
    receipt = services.questions.for_reader(identity).search(query, ANYTHING).receipt
    assert receipt
    found: dict[str, Any] = json.loads(json.dumps(dict(receipt)))
    return found


def again(services: System, receipt: Receipt, identity: Identity = ACME) -> Replay:
    def ask(question: str, config: QueryConfig) -> Receipt:
        found = services.questions.for_reader(identity).search(question, config).receipt
        assert found
        return found

    return replay(receipt, ask)


def a_result(document: str = "d1", chunk: str = "c1", content: str = "text", score: float = 0.9) -> RetrievalResult:
    metadata = {"documentId": document, "chunkId": chunk, "title": f"Title of {document}"}
    return RetrievalResult(content, score, "internal", "runbooks/procedures", "file:///x", "", 1.0, metadata)


def a_receipt(
    *results: RetrievalResult, version: str = "i.1", settled: bool = True, reader: str = "r", partial: bool = False
) -> dict[str, Any]:
    question = RecordedQuestion(
        "id", "2026-01-01T00:00:00Z", "q", ANYTHING, reader, CorpusState(version, settled), {"embedding": "m"}
    )
    return receipt_of(question, Answer("q", results, partial=partial))


class TestReceipt:
    def test_it_can_be_read_back(self, services: System) -> None:
        receipt = given(services)
        assert read_receipt(json.dumps(receipt, indent=2)) == receipt
        assert config_of(receipt) == ANYTHING

    def test_it_names_what_was_returned_without_its_text(self, services: System) -> None:
        receipt = given(services)
        first = receipt["results"][0]
        assert (first["rank"], first["documentId"]) == (1, id_of(services, DISK))
        assert receipt["corpusVersion"]
        assert receipt["models"]["embedding"] == "words/64"
        assert "biggest directories" not in json.dumps(receipt)

    def test_it_names_no_scope(self, services: System) -> None:
        assert "acme" not in json.dumps(given(services, identity=Identity("acme", "shop")) | {"results": []})

    @pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"version": 1}', "[" * 100_000, '{"sha256": ""}'])
    def test_malformed_receipt_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidInputError, match="no receipt"):
            read_receipt(text)

    def test_one_of_another_version_is_refused(self) -> None:
        with pytest.raises(InvalidInputError, match="version"):
            read_receipt(json.dumps(a_receipt() | {"version": 2}))

    @pytest.mark.parametrize("name", ["question", "askedAt", "corpusVersion", "results", "config", "settled", "notes"])
    def test_changed_field_is_found(self, name: str) -> None:
        receipt = a_receipt(a_result())
        receipt[name] = "another"
        with pytest.raises(TamperedReceiptError):
            read_receipt(json.dumps(receipt))

    def test_field_that_was_added_or_removed_is_found(self) -> None:
        receipt = a_receipt(a_result())
        for changed in (receipt | {"more": 1}, {name: value for name, value in receipt.items() if name != "notes"}):
            with pytest.raises(TamperedReceiptError):
                read_receipt(json.dumps(changed))

    def test_results_that_were_not_answered_are_found_although_the_hash_was_made_anew(self) -> None:
        receipt = a_receipt(a_result())
        receipt["results"][0]["documentId"] = "another"
        with pytest.raises(TamperedReceiptError, match="results"):
            read_receipt(resealed(receipt))

    @pytest.mark.parametrize(
        "change",
        [
            {"notes": None},
            {"results": [1]},
            {"results": [{}]},
            {"question": 1},
            {"config": []},
            {"results": [{**a_receipt(a_result())["results"][0], "score": 10**400}]},
        ],
    )
    def test_malformed_one_is_refused_although_its_hash_is_right(self, change: dict[str, Any]) -> None:
        with pytest.raises(InvalidInputError):
            read_receipt(resealed(a_receipt(a_result()) | change))


def resealed(receipt: dict[str, Any]) -> str:
    """With the hash that fits what it says now."""
    content = {name: value for name, value in receipt.items() if name != "sha256"}
    canonical = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return json.dumps(content | {"sha256": hashlib.sha256(canonical.encode()).hexdigest()})


class TestAnswerHash:
    def test_same_question_on_the_same_corpus_has_the_same(self, services: System) -> None:
        first, second = given(services), given(services)
        assert first["receiptId"] != second["receiptId"]
        assert first["answerHash"] == second["answerHash"]

    def test_order_document_and_text_count(self) -> None:
        one, two = a_result("d1"), a_result("d2")
        hashes = {
            answer_hash(Answer("q", results))
            for results in (
                (one, two),
                (two, one),
                (one,),
                (a_result(content="other"), two),
                (a_result(chunk="c2"), two),
            )
        }
        assert len(hashes) == 5

    def test_live_results_scores_and_times_do_not(self) -> None:
        live = a_result(document="", content="from the web")
        plain = Answer("q", (a_result(),), timings_ms={"search": 1.0})
        other = Answer("q", (a_result(score=0.5), live), timings_ms={"search": 2.0})
        assert answer_hash(plain) == answer_hash(other)


class TestReplay:
    def test_unchanged_corpus_gives_the_same_answer(self, services: System) -> None:
        found = again(services, given(services))
        assert (found.verdict, found.causes, found.differences) == (ReplayVerdict.SAME, (), ())

    def test_receipt_is_left_as_it_was(self, services: System) -> None:
        receipt = given(services)
        before = copy.deepcopy(receipt)
        again(services, receipt)
        assert receipt == before

    def test_new_document_is_shown(self, tmp_path: Path) -> None:
        with a_system(tmp_path, {DISK: CORPUS[DISK]}) as services:
            receipt = given(services)
            services.store.put("documents/runbooks/disk2.md", f"# {DISK_TITLE}\n\nAsk the storage team.".encode())
            list(services.manager.work())
            found = again(services, receipt)
        (cause,) = found.causes
        assert (found.verdict, cause.startswith("corpus changed since: ")) == (ReplayVerdict.CHANGED, True)
        assert [each.title for each in found.differences if each.kind == "new"] == [DISK_TITLE]

    def test_of_another_client_shows_nothing_that_its_replayer_may_not_see(self, services: System) -> None:
        receipt = given(services, "Unseal the acme vault")
        assert any("vault" in result["title"] for result in receipt["results"])
        found = again(services, receipt, Identity("other"))
        assert found.verdict is ReplayVerdict.CHANGED
        assert not any("vault" in result["title"] for result in found.receipt["results"])
        assert found.causes == ("the caller may see other documents than the caller then",)

    @pytest.mark.parametrize(
        ("before", "now", "kinds"),
        [
            ((a_result("a"), a_result("b")), (a_result("b"), a_result("a")), {"moved"}),
            ((a_result("a"),), (), {"gone"}),
            ((), (a_result("a"),), {"new"}),
            ((a_result("a"),), (a_result("a", content="new text"),), {"text"}),
            ((a_result("a", score=0.9),), (a_result("a", score=0.900003),), {"score"}),
            ((a_result("a", score=0.9),), (a_result("a", score=0.900001),), set()),
            ((a_result("a"), a_result("", content="x")), (a_result("", content="y"), a_result("a")), set()),
        ],
    )
    def test_every_difference_is_named(
        self, before: tuple[RetrievalResult, ...], now: tuple[RetrievalResult, ...], kinds: set[str]
    ) -> None:
        found = replay(a_receipt(*before), lambda *_: a_receipt(*now))
        assert {difference.kind for difference in found.differences} == kinds
        assert found.verdict is (ReplayVerdict.UNEXPLAINED if kinds else ReplayVerdict.SAME)

    @pytest.mark.parametrize(
        ("now", "cause"),
        [
            ({"version": "i.2"}, "corpus changed since: 1 -> 2"),
            ({"version": "j.1"}, "corpus changed since: i.1 -> j.1"),
            ({"version": ""}, "doesn't say"),
            ({"settled": False}, "had just been changed"),
            ({"reader": "x"}, "may see other documents"),
            ({"partial": True}, "partial now"),
        ],
    )
    def test_every_reason_for_another_answer_is_named(self, now: dict[str, Any], cause: str) -> None:
        found = replay(a_receipt(a_result()), lambda *_: a_receipt(**now))
        assert found.verdict is ReplayVerdict.CHANGED
        assert cause in found.causes[0]

    def test_other_model_is_a_reason(self) -> None:
        other = a_receipt() | {"models": {"embedding": "n", "ranker": "fused", "opx": "0.1.0"}}
        assert "embedding was m, is n" in replay(a_receipt(a_result()), lambda *_: other).causes

    def test_corpus_that_changes_during_the_replay_is_noticed(self) -> None:
        answers = iter([a_receipt(a_result("b")), a_receipt(a_result("b"), version="i.2")])
        found = replay(a_receipt(a_result("a")), lambda *_: next(answers))
        assert found.verdict is ReplayVerdict.CHANGED
        assert found.causes == ("corpus changed since: 1 -> 2",)


@pytest.fixture
def measured() -> Measured:
    return Measured()


def test_answered_question_reports_count_latency_and_confidence(services: System, measured: Measured) -> None:
    answer = services.questions.for_reader(report=measured).search(DISK_TITLE)
    assert measured.values[Metric.QUERIES] == [1.0]
    assert measured.values[Metric.QUERY_LATENCY][0] >= sum(answer.timings_ms[stage] for stage in STAGES)
    assert measured.values[Metric.CONFIDENCE] == [answer.results[0].confidence]
    for metric in (Metric.ZERO_RESULTS, Metric.PARTIAL_ANSWERS, Metric.SEARCH_UNAVAILABLE):
        assert measured.values[metric] == [0.0]


@pytest.mark.parametrize("mode", SearchMode)
def test_every_leg_and_stage_is_timed_in_its_mode(services: System, measured: Measured, mode: SearchMode) -> None:
    services.questions.for_reader(report=measured).search(DISK_TITLE, QueryConfig(mode=mode))
    legs, stages = measured.labels[Metric.LEG_LATENCY], measured.labels[Metric.STAGE_LATENCY]
    assert {tuple(labels.values()) for labels in legs} == {(mode.value, leg) for leg in LEGS}
    assert {tuple(labels.values()) for labels in stages} >= {(mode.value, stage) for stage in STAGES}
    assert measured.labels[Metric.QUERIES] == [{"mode": mode.value}]


def test_the_page_lists_the_stages_of_an_answer_in_order(services: System) -> None:
    page = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page.partition("## Stages of an answer")[2], re.MULTILINE)
    (index,) = (stage for stage in services.questions.for_reader().stages if isinstance(stage, ByIndex))
    names = [stage.name for stage in services.questions.for_reader().stages]
    names[1:1] = [stage.name for stage in index.searches]
    assert [name for name in listed if name not in ("words", "rerank")] == names


def test_legs_are_within_the_search(services: System) -> None:
    timings = services.questions.for_reader().search(DISK_TITLE).timings_ms
    assert 0 < timings["lexical"] + timings["vector"] < timings["search"]


def test_leg_that_was_not_searched_has_no_time(services: System) -> None:
    assert "lexical" not in services.questions.for_reader().search("!!!").timings_ms


def test_question_without_results_reports_the_confidence_of_the_nearest(services: System, measured: Measured) -> None:
    answer = services.questions.for_reader(report=measured).search(
        "restart the worker for hours", QueryConfig(min_confidence=1)
    )
    assert answer.best_rejected is not None
    assert measured.values[Metric.CONFIDENCE] == [answer.best_rejected.confidence]
    assert measured.values[Metric.ZERO_RESULTS] == [1.0]


def test_question_to_an_empty_corpus_has_no_confidence(tmp_path: Path, measured: Measured) -> None:
    with a_system(tmp_path, {}) as system:
        system.questions.for_reader(report=measured).search("disk")
    assert measured.values[Metric.CONFIDENCE] == [0.0]
    assert measured.values[Metric.ZERO_RESULTS] == [1.0]


def test_unreachable_index_is_reported_without_a_confidence(tmp_path: Path, measured: Measured) -> None:
    with a_system(tmp_path, {}, index=BrokenIndex()) as system, pytest.raises(StoreUnavailableError):
        system.questions.for_reader(report=measured).search("disk")
    assert measured.values[Metric.SEARCH_UNAVAILABLE] == [1.0]
    assert measured.values[Metric.PARTIAL_ANSWERS] == [1.0]
    assert not {Metric.CONFIDENCE, Metric.ZERO_RESULTS} & measured.values.keys()


def test_question_for_no_tier_reports_no_confidence(services: System, measured: Measured) -> None:
    services.questions.for_reader(report=measured).search("disk", QueryConfig(tiers=("internet",)))
    assert measured.values[Metric.QUERIES] == [1.0]
    assert not {Metric.CONFIDENCE, Metric.ZERO_RESULTS} & measured.values.keys()


def test_plain_results_are_measured_too(services: System, measured: Measured) -> None:
    services.questions.for_reader(report=measured).query(DISK_TITLE)
    assert measured.values[Metric.QUERIES] == [1.0]


def test_refused_question_is_none(services: System, measured: Measured) -> None:
    with pytest.raises(UnknownCategoryError):
        services.questions.for_reader(report=measured).search("disk", QueryConfig(categories=("nonsense",)))
    assert measured.values == {}


def test_registry_that_is_away_counts_as_unavailable(
    services: System, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(identity: Identity) -> None:
        raise StoreUnavailableError("can't read table opx-knowledge-projects")

    monkeypatch.setattr(services.corpus.projects, "reader", away)
    with pytest.raises(StoreUnavailableError):
        services.questions.for_reader(report=measured)
    assert measured.values == {Metric.SEARCH_UNAVAILABLE: [1.0]}
