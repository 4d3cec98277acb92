"""Metrics of questions, for all entry points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.scopes import Identity
from opx.errors import IndexUnavailableError, StoreUnavailableError, UnknownCategoryError
from opx.operations.system import System
from opx.ports import SearchRequest, SearchResponse
from opx.retrieval.query import LEGS, STAGES
from opx.retrieval.stages import ByIndex
from opx.runtime.metrics import Metric
from tests.support.agent_calls import DISK_TITLE, a_system
from tests.support.cli_support import ROOT
from tests.support.fakes import Measured


class BrokenIndex:
    """An index that can't be reached."""

    derives_ids = True

    def search(self, request: SearchRequest) -> SearchResponse:
        raise IndexUnavailableError("no route to host")

    def close(self) -> None:
        """There is nothing to close."""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


@pytest.fixture
def measured() -> Measured:
    return Measured()


def test_answered_question_reports_count_latency_and_confidence(services: System, measured: Measured) -> None:
    answer = services.questions.search(report=measured).answer(DISK_TITLE)
    assert measured.values[Metric.QUERIES] == [1.0]
    assert measured.values[Metric.QUERY_LATENCY][0] >= sum(answer.timings_ms[stage] for stage in STAGES)
    assert measured.values[Metric.CONFIDENCE] == [answer.results[0].confidence]
    for metric in (Metric.ZERO_RESULTS, Metric.PARTIAL_ANSWERS, Metric.SEARCH_UNAVAILABLE):
        assert measured.values[metric] == [0.0]


@pytest.mark.parametrize("mode", SearchMode)
def test_every_leg_and_stage_is_timed_in_its_mode(services: System, measured: Measured, mode: SearchMode) -> None:
    services.questions.search(report=measured).answer(DISK_TITLE, QueryConfig(mode=mode))
    legs, stages = measured.labels[Metric.LEG_LATENCY], measured.labels[Metric.STAGE_LATENCY]
    assert {tuple(labels.values()) for labels in legs} == {(mode.value, leg) for leg in LEGS}
    assert {tuple(labels.values()) for labels in stages} >= {(mode.value, stage) for stage in STAGES}
    assert measured.labels[Metric.QUERIES] == [{"mode": mode.value}]


def test_the_page_lists_the_stages_of_an_answer_in_order(services: System) -> None:
    page = (ROOT / "docs" / "searching.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `(\w+)` \|", page.partition("## Stages of an answer")[2], re.MULTILINE)
    (index,) = (stage for stage in services.questions.search().stages if isinstance(stage, ByIndex))
    names = [stage.name for stage in services.questions.search().stages]
    names[1:1] = [stage.name for stage in index.searches]
    assert [name for name in listed if name not in ("words", "rerank")] == names


def test_legs_are_within_the_search(services: System) -> None:
    timings = services.questions.search().answer(DISK_TITLE).timings_ms
    assert 0 < timings["lexical"] + timings["vector"] < timings["search"]


def test_leg_that_was_not_searched_has_no_time(services: System) -> None:
    assert "lexical" not in services.questions.search().answer("!!!").timings_ms


def test_question_without_results_reports_the_confidence_of_the_nearest(services: System, measured: Measured) -> None:
    answer = services.questions.search(report=measured).answer(
        "restart the worker for hours", QueryConfig(min_confidence=1)
    )
    assert answer.best_rejected is not None
    assert measured.values[Metric.CONFIDENCE] == [answer.best_rejected.confidence]
    assert measured.values[Metric.ZERO_RESULTS] == [1.0]


def test_question_to_an_empty_corpus_has_no_confidence(tmp_path: Path, measured: Measured) -> None:
    with a_system(tmp_path, {}) as system:
        system.questions.search(report=measured).answer("disk")
    assert measured.values[Metric.CONFIDENCE] == [0.0]
    assert measured.values[Metric.ZERO_RESULTS] == [1.0]


def test_unreachable_index_is_reported_without_a_confidence(tmp_path: Path, measured: Measured) -> None:
    with a_system(tmp_path, {}, index=BrokenIndex()) as system, pytest.raises(StoreUnavailableError):
        system.questions.search(report=measured).answer("disk")
    assert measured.values[Metric.SEARCH_UNAVAILABLE] == [1.0]
    assert measured.values[Metric.PARTIAL_ANSWERS] == [1.0]
    assert not {Metric.CONFIDENCE, Metric.ZERO_RESULTS} & measured.values.keys()


def test_question_for_no_tier_reports_no_confidence(services: System, measured: Measured) -> None:
    services.questions.search(report=measured).answer("disk", QueryConfig(tiers=("internet",)))
    assert measured.values[Metric.QUERIES] == [1.0]
    assert not {Metric.CONFIDENCE, Metric.ZERO_RESULTS} & measured.values.keys()


def test_plain_results_are_measured_too(services: System, measured: Measured) -> None:
    services.questions.search(report=measured).query(DISK_TITLE)
    assert measured.values[Metric.QUERIES] == [1.0]


def test_refused_question_is_none(services: System, measured: Measured) -> None:
    with pytest.raises(UnknownCategoryError):
        services.questions.search(report=measured).answer("disk", QueryConfig(categories=("nonsense",)))
    assert measured.values == {}


def test_registry_that_is_away_counts_as_unavailable(
    services: System, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(identity: Identity) -> None:
        raise StoreUnavailableError("can't read table opx-knowledge-projects")

    monkeypatch.setattr(services.corpus.projects, "reader", away)
    with pytest.raises(StoreUnavailableError):
        services.questions.search(report=measured)
    assert measured.values == {Metric.SEARCH_UNAVAILABLE: [1.0]}
