"""Measurements become lines that CloudWatch reads as declared."""

from __future__ import annotations

import json

import pytest

from opx.runtime.functions import MAX_VALUES, Recorder
from opx.runtime.metrics import Metric, dimension_sets, labels_of, unit_of
from tests.support.emf import Named, measured, metric_lines

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder("trial", clock=lambda: 1_700_000_000.25)


def ours(name: str, **dimensions: str) -> Named:
    return Named("OpxKnowledge", name, frozenset({"environment": "trial", **dimensions}.items()))


def test_a_measurement_is_recorded_for_each_dimension_set(recorder: Recorder, capsys: Captured) -> None:
    recorder(Metric.QUERY_LATENCY, 12.5, mode="fast")
    recorder.flush({})
    assert measured(capsys.readouterr().out) == {
        ours("QueryLatency"): [12.5],
        ours("QueryLatency", mode="fast"): [12.5],
    }


def test_metrics_whose_labels_agree_share_a_line(recorder: Recorder, capsys: Captured) -> None:
    recorder(Metric.TOOL_CALLS)
    recorder(Metric.QUERIES, mode="fast")
    recorder(Metric.LEG_LATENCY, 3.0, mode="fast", leg="lexical")
    recorder.flush({})
    (line,) = metric_lines(capsys.readouterr().out)
    assert line["_aws"]["Timestamp"] == 1_700_000_000_250
    assert (line["mode"], line["leg"], line["ToolCalls"], line["LegLatency"]) == ("fast", "lexical", [1.0], [3.0])


def test_values_of_different_labels_are_not_mixed(recorder: Recorder, capsys: Captured) -> None:
    recorder(Metric.LEG_LATENCY, 3.0, mode="fast", leg="lexical")
    recorder(Metric.LEG_LATENCY, 9.0, mode="fast", leg="vector")
    recorder(Metric.LEG_LATENCY, 4.0, mode="fast", leg="lexical")
    recorder.flush({})
    assert measured(capsys.readouterr().out) == {
        ours("LegLatency", mode="fast", leg="lexical"): [3.0, 4.0],
        ours("LegLatency", mode="fast", leg="vector"): [9.0],
    }


def test_more_values_than_a_line_takes_go_into_another(recorder: Recorder, capsys: Captured) -> None:
    for number in range(MAX_VALUES + 1):
        recorder(Metric.TOOL_CALLS, float(number))
    recorder.flush({})
    output = capsys.readouterr().out
    assert len(metric_lines(output)) == 2
    assert measured(output) == {ours("ToolCalls"): [float(number) for number in range(MAX_VALUES + 1)]}


def test_lines_have_the_facts_of_the_call(recorder: Recorder, capsys: Captured) -> None:
    recorder(Metric.LEG_LATENCY, mode="fast", leg="lexical")
    recorder(Metric.LEG_LATENCY, mode="fast", leg="vector")
    recorder.flush({"correlation_id": "request-1"})
    lines = metric_lines(capsys.readouterr().out)
    assert [(line["correlation_id"], line["service"]) for line in lines] == [("request-1", "opx")] * 2


def test_flushed_measurements_are_not_written_again(recorder: Recorder, capsys: Captured) -> None:
    recorder(Metric.TOOL_CALLS)
    recorder.flush({})
    capsys.readouterr()
    recorder.flush({})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("labels", [{}, {"mode": "fast"}, {"mode": "fast", "leg": "lexical", "stage": "embed"}])
def test_labels_that_are_not_declared_are_refused(recorder: Recorder, labels: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="LegLatency is declared with labels leg, mode"):
        recorder(Metric.LEG_LATENCY, 1.0, **labels)


@pytest.mark.parametrize("metric", Metric)
def test_every_declaration_can_be_reported(metric: Metric, recorder: Recorder, capsys: Captured) -> None:
    recorder(metric, 1.0, **dict.fromkeys(labels_of(metric), "x"))
    recorder.flush({})
    output = capsys.readouterr().out
    assert {frozenset(name for name, _ in named.dimensions) for named in measured(output)} == {
        frozenset(names) for names in dimension_sets(metric)
    }
    (directive,) = json.loads(output)["_aws"]["CloudWatchMetrics"]
    assert directive["Metrics"] == [{"Name": metric.value, "Unit": unit_of(metric)}]
