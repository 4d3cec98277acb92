"""Log lines have the ids of a call and no text of documents or queries; measurements are lines that CloudWatch reads."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from opx.errors import InvalidInputError, StoreUnavailableError
from opx.runtime.functions import MAX_VALUES, FunctionFailedError, Recorder, call_ids, observed, traceback_without_texts
from opx.runtime.metrics import SERVICE, Metric, Report, dimension_sets, labels_of, unit_of
from tests.support.fakes import FakeContext
from tests.support.telemetry_support import Named, log_lines, measured, metric_lines

pytestmark = pytest.mark.usefixtures("json_logs")

CANARY = "canary-7f3a"
Captured = pytest.CaptureFixture[str]


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except type(error) as exc:
        return exc


class TestTracebacks:
    def test_message_of_an_unknown_error_is_left_out(self) -> None:
        shown = traceback_without_texts(raised(KeyError(CANARY)))
        assert CANARY not in shown
        assert shown.endswith("KeyError")
        assert "in raised" in shown

    def test_message_about_the_input_is_left_out(self) -> None:
        assert CANARY not in traceback_without_texts(raised(InvalidInputError(f"not {CANARY}")))

    def test_the_message_of_a_store_error_is_logged_but_not_that_of_its_cause(self) -> None:
        error = raised(StoreUnavailableError("can't read table x"), raised(ValueError(CANARY)))
        shown = traceback_without_texts(error)
        assert CANARY not in shown
        assert shown.index("ValueError") < shown.index("StoreUnavailableError: can't read table x")

    def test_an_error_of_a_service_is_logged_with_its_code(self) -> None:
        error = KeyError(CANARY)
        error.response = {"Error": {"Code": "ValidationException", "Message": CANARY}}  # type: ignore[attr-defined]
        assert traceback_without_texts(raised(error)).endswith("KeyError (ValidationException)")

    def test_causes_in_a_circle_end(self) -> None:
        one, other = KeyError("a"), ValueError("b")
        one.__cause__, other.__cause__ = other, one
        assert traceback_without_texts(one) == "ValueError\nKeyError"

    def test_notes_are_left_out(self, capsys: Captured) -> None:
        def work(event: Any, context: Any, report: Report) -> None:
            error = ValueError(CANARY)
            error.add_note(CANARY)
            raise error

        with pytest.raises(FunctionFailedError):
            observed(work)({}, FakeContext())
        assert CANARY not in capsys.readouterr().out

    def test_messages_are_logged_when_debugging(self, capsys: Captured) -> None:
        def work(event: Any, context: Any, report: Report) -> None:
            logging.getLogger(SERVICE).setLevel("DEBUG")
            raise ValueError(CANARY)

        with pytest.raises(FunctionFailedError):
            observed(work)({}, FakeContext())
        assert CANARY in capsys.readouterr().out


class TestFunctions:
    def test_a_failed_function_raises_a_redacted_error_and_logs_the_traceback(self, capsys: Captured) -> None:
        def work(event: Any, context: Any, report: Report) -> None:
            report(Metric.TOOL_CALLS)
            raise ValueError(CANARY)

        with pytest.raises(FunctionFailedError, match=r"^ValueError: see the function's log$") as caught:
            observed(work)({}, FakeContext())
        assert caught.value.__suppress_context__
        output = capsys.readouterr().out
        (line,) = log_lines(output)
        assert line["level"] == "ERROR"
        assert "in work" in line["exception"]
        assert metric_lines(output)[0]["ToolCalls"] == [1.0]

    def test_lines_of_the_library_have_the_ids_of_the_call(
        self, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPX_ENVIRONMENT", "trial")
        monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1")

        def work(event: Any, context: Any, report: Report) -> None:
            report(Metric.TOOL_CALLS)
            logging.getLogger("opx.retrieval.query").info("from the library")

        observed(work)({"requestContext": {"requestId": "api-1"}}, FakeContext())
        output = capsys.readouterr().out
        (line,), (metrics,) = log_lines(output), metric_lines(output)
        for found in (line, metrics):
            assert found["correlation_id"] == "api-1"
            assert found["function_request_id"] == FakeContext().aws_request_id
            assert (found["environment"], found["service"]) == ("trial", "opx")
        assert line["xray_trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"

    def test_ids_of_a_call_do_not_stay_for_the_next(self, capsys: Captured) -> None:
        def work(event: Any, context: Any, report: Report) -> None:
            logging.getLogger("opx.x").info("here")

        handler = observed(work)
        handler({"Records": [{"messageId": "m-1"}]}, FakeContext())
        handler({}, FakeContext())
        first, second = log_lines(capsys.readouterr().out)
        assert first["message_ids"] == ["m-1"]
        assert "message_ids" not in second


@dataclass
class Call:
    event: Any
    correlation: str
    context: Any = None


GATEWAY = FakeContext(SimpleNamespace(custom={"bedrockAgentCoreAwsRequestId": "gateway-1"}))
UNNAMED_GATEWAY = FakeContext(SimpleNamespace(custom={}))
REQUEST = FakeContext().aws_request_id
CALLS = {
    "http api": Call({"requestContext": {"requestId": "Xyz123="}}, "Xyz123="),
    "action group": Call({"actionGroup": "retrieve-knowledge", "sessionId": "session-1"}, "session-1"),
    "gateway": Call({"query": "disk"}, "gateway-1", GATEWAY),
    "gateway with an event that a model made up": Call(
        {"actionGroup": "x", "sessionId": CANARY, "requestContext": {"requestId": CANARY}}, REQUEST, UNNAMED_GATEWAY
    ),
    "scheduler": Call({}, REQUEST),
    "no event at all": Call(None, REQUEST),
    "an id that is none": Call({"requestContext": {"requestId": "what is wrong with the disk?"}}, "malformed"),
    "an id that is no text": Call({"actionGroup": "x", "sessionId": {"a": 1}}, "malformed"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_correlation_id_is_the_callers_if_it_has_one(call: Call) -> None:
    assert call_ids(call.event, call.context or FakeContext())["correlation_id"] == call.correlation


def test_event_through_a_gateway_names_no_messages() -> None:
    assert call_ids({"Records": [{"messageId": CANARY}]}, GATEWAY) == {"correlation_id": "gateway-1"}


def test_message_ids_are_those_of_the_queue() -> None:
    event = {"Records": [{"messageId": "m-1"}, {"messageId": "m-2"}, {"messageId": None}, "odd"]}
    assert call_ids(event, FakeContext())["message_ids"] == ["m-1", "m-2", "malformed"]


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
