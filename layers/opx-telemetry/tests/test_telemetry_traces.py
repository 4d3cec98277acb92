"""Analysis of traces: own time of nested and parallel parts, failures, and limits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from opx.errors import InvalidInputError
from opx.ports.telemetry import FoundTraces, Trace, TraceSummary
from opx_telemetry.rules import TelemetryRules
from opx_telemetry.traces import MOST_TRACES, TimedPart, TraceAnalysis, TraceAnswer, parts_of

RULES = TelemetryRules(services=("*",), seconds=10)
NOW = 1_750_000_000.0


def span(name: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    return {"id": f"{name}-{start}", "name": name, "start_time": start, "end_time": end, **more}


def parts(*segments: dict[str, Any], trace_id: str = "1-a") -> dict[tuple[str, str], TimedPart]:
    return {(part.service, part.name): part for part in parts_of([Trace(trace_id, segments)])}


def own(found: dict[tuple[str, str], TimedPart]) -> dict[tuple[str, str], float]:
    return {key: round(part.own_seconds, 6) for key, part in found.items()}


class TestOwnTime:
    def test_own_time_is_without_that_of_the_parts_below(self) -> None:
        query = span("orders", 0.3, 0.8)
        found = parts(span("shop", 0, 1, subsegments=[span("checkout", 0.2, 0.9, subsegments=[query])]))
        assert own(found) == {("shop", ""): 0.3, ("shop", "checkout"): 0.2, ("shop", "orders"): 0.5}

    def test_parts_at_the_same_time_count_once(self) -> None:
        parallel = [span("a", 0.1, 0.5), span("b", 0.2, 0.6), span("c", 0.3, 0.4)]
        assert own(parts(span("shop", 0, 1, subsegments=parallel)))["shop", ""] == 0.5

    def test_part_that_outlives_its_parent_takes_no_more_than_there_is(self) -> None:
        found = parts(span("shop", 0, 1, subsegments=[span("background", 0.5, 9)]))
        assert own(found) == {("shop", ""): 0.5, ("shop", "background"): 8.5}

    def test_call_has_no_time_that_the_service_called_had(self) -> None:
        call = span("payments", 0.1, 0.9, namespace="remote")
        served = span("payments", 0.2, 0.8, parent_id=call["id"])
        found = parts(span("shop", 0, 1, subsegments=[call]), served)
        assert own(found) == {("shop", ""): 0.2, ("shop", "payments"): 0.2, ("payments", ""): 0.6}

    def test_inferred_segment_that_repeats_a_call_is_left_out(self) -> None:
        call = span("DynamoDB", 0.1, 0.9, namespace="aws", aws={"operation": "GetItem"})
        inferred = span("DynamoDB", 0.1, 0.9, parent_id=call["id"], inferred=True)
        found = parts(span("shop", 0, 1, subsegments=[call]), inferred)
        assert own(found) == {("shop", ""): 0.2, ("shop", "DynamoDB GetItem"): 0.8}

    def test_same_part_of_many_traces_is_added_up(self) -> None:
        traces = [Trace(f"1-{n}", (span("shop", 0, n),)) for n in (1, 3, 2, 5)]
        (part,) = parts_of(traces)
        assert (part.calls, part.own_seconds, part.longest_seconds) == (4, 11, 5)
        assert part.trace_ids == ("1-5", "1-3", "1-2")

    @pytest.mark.parametrize(
        "broken",
        [
            {"end_time": None, "in_progress": True},
            {"end_time": "late"},
            {"end_time": -1},
            {"start_time": float("nan")},
            {"start_time": True, "end_time": True},
            {"start_time": 5, "end_time": 4},
        ],
    )
    def test_part_without_a_time_that_can_be_is_left_out(self, broken: dict[str, Any]) -> None:
        found = parts(span("shop", 0, 1, subsegments=[span("x", 0.2, 0.4) | broken, span("y", 0.5, 0.6)]))
        assert set(found) == {("shop", ""), ("shop", "y")}

    @pytest.mark.parametrize("segment", [{}, {"subsegments": "x"}, {"name": 5, "subsegments": [1, None]}, {"aws": []}])
    def test_document_of_another_shape_is_survived(self, segment: dict[str, Any]) -> None:
        assert parts(segment) == {}

    def test_deep_nesting_is_survived(self) -> None:
        innermost = segment = span("part", 0, 1)
        for _ in range(1500):
            segment = span("part", 0, 1, subsegments=[segment])
        assert innermost
        assert parts(segment)["part", "part"].calls == 1500

    def test_own_times_never_exceed_the_whole(self) -> None:
        generator = random.Random(7)
        for _ in range(20):
            cuts = [sorted(generator.uniform(0, 10) for _ in range(2)) for _ in range(5)]
            found = parts(span("shop", 0, 10, subsegments=[span(f"p{n}", *cut) for n, cut in enumerate(cuts)]))
            assert 0 <= found["shop", ""].own_seconds <= 10


class TestFailures:
    def test_faults_errors_and_throttling_are_counted_apart(self) -> None:
        calls = [
            span("a", 0, 1, fault=True),
            span("a", 0, 1, error=True),
            span("a", 0, 1, error=True, throttle=True),
            span("a", 0, 1),
        ]
        part = parts(span("shop", 0, 1, subsegments=calls))["shop", "a"]
        assert (part.calls, part.faults, part.errors, part.throttles, part.failures) == (4, 1, 1, 1, 3)

    def test_exceptions_are_shown_in_a_line_with_secrets_masked(self) -> None:
        key = "AKIA" + "Q3EGRIBDXPJWTN5L"
        cause = {"exceptions": [{"type": "IOError", "message": f"key {key} is refused\nat line 5"}]}
        part = parts(span("shop", 0, 1, fault=True, cause=cause))["shop", ""]
        (text,) = part.exceptions
        assert text.startswith("IOError: key [masked ")
        assert key not in text
        assert "line 5" not in text

    @pytest.mark.parametrize("cause", ["0123456789abcdef", None, {}, {"exceptions": None}, {"exceptions": [None, {}]}])
    def test_cause_that_is_elsewhere_is_survived(self, cause: object) -> None:
        assert not parts(span("shop", 0, 1, fault=True, cause=cause))["shop", ""].exceptions

    def test_examples_of_a_failing_part_are_failed_traces(self) -> None:
        traces = [Trace("1-slow", (span("shop", 0, 9),)), Trace("1-failed", (span("shop", 0, 1, fault=True),))]
        (part,) = parts_of(traces)
        assert part.trace_ids == ("1-failed", "1-slow")


class FakeTraces:
    """Has traces by id; each call takes a second of the clock."""

    batch = 5

    def __init__(self, summaries: Sequence[TraceSummary], *, complete: bool = True, missing: bool = False) -> None:
        self._found = FoundTraces(tuple(summaries), complete)
        self._missing = missing
        self.now = NOW
        self.read: list[str] = []

    def find(self, service: str, *, start: int, end: int, deadline: float, most: int) -> FoundTraces:
        self.now += 1
        return self._found

    def traces(self, trace_ids: Sequence[str]) -> Sequence[Trace]:
        assert len(trace_ids) <= self.batch
        self.now += 1
        self.read += trace_ids
        return [] if self._missing else [Trace(trace_id, (span("shop", 0, 1),)) for trace_id in trace_ids]


def ask(store: FakeTraces, service: str = "shop", **question: int) -> TraceAnswer:
    return TraceAnalysis(store, RULES, clock=lambda: store.now).answer(service, **question)


def summaries(count: int, failed: range = range(0)) -> list[TraceSummary]:
    return [TraceSummary(f"1-{n}", float(n), n in failed) for n in range(count)]


def test_few_traces_are_all_looked_into() -> None:
    answer = ask(FakeTraces(summaries(7)))
    assert (answer.found, answer.looked_into, answer.partial, answer.notes) == (7, 7, False, ())
    assert [(part.service, part.calls) for part in answer.slowest] == [("shop", 7)]
    assert answer.failing == ()


def test_failing_and_slowest_are_chosen_of_many() -> None:
    store = FakeTraces(summaries(1000, failed=range(100)))
    store_clock_start = store.now
    TraceAnalysis(store, TelemetryRules(services=("*",), seconds=20), clock=lambda: store_clock_start).answer("shop")
    failed, slow = store.read[:25], store.read[25:]
    assert failed == [f"1-{n}" for n in range(99, 74, -1)]
    assert slow == [f"1-{n}" for n in range(999, 974, -1)]
    assert len(store.read) == MOST_TRACES


def test_reading_ends_at_the_deadline_with_a_note() -> None:
    store = FakeTraces(summaries(1000))
    answer = ask(store)
    assert len(store.read) == answer.looked_into == 45
    assert answer.partial
    assert answer.notes[-1] == "only 45 of 50 traces could be read"


def test_listing_that_was_cut_short_is_partial() -> None:
    answer = ask(FakeTraces(summaries(7), complete=False))
    assert answer.partial
    assert answer.notes == ("only the newest 7 traces were looked at; query a shorter time range",)


def test_traces_that_are_gone_are_noted() -> None:
    answer = ask(FakeTraces(summaries(3), missing=True))
    assert answer.partial
    assert answer.notes == ("only 0 of 3 traces could be read",)


def test_no_trace_at_all_is_explained() -> None:
    answer = ask(FakeTraces([]))
    assert not answer.partial
    assert "tracing may be sampled or off" in answer.notes[0]


def test_a_too_long_time_range_reads_nothing() -> None:
    store = FakeTraces(summaries(3))
    with pytest.raises(InvalidInputError):
        ask(store, minutes=2000)
    assert store.now == NOW
