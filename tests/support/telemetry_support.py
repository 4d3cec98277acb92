"""Fakes of logs, metrics and traces of running systems, and measurements as log lines have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from opx.ports.telemetry import (
    FoundSeries,
    FoundTraces,
    LogProgress,
    LogQuery,
    MetricId,
    TelemetryStores,
    Trace,
    TraceSummary,
)
from opx_telemetry.rules import MetricFamily, TelemetryRules

GROUP = "/ecs/shop"
RULES = TelemetryRules(
    log_groups=(GROUP,), services=("shop",), metrics=(MetricFamily("AWS/EC2", "InstanceId", ("cpu", "net")),)
)


class FakeLogs:
    def __init__(self) -> None:
        self.rows: tuple[dict[str, str], ...] = (
            {"time": "2025-06-15 15:06:40.000", "stream": "s", "message": "error 1"},
        )

    def start(self, query: LogQuery) -> str:
        return "query-1"

    def progress(self, query_id: str) -> LogProgress:
        return LogProgress(True, self.rows, len(self.rows), 10)

    def stop(self, query_id: str) -> None:
        raise AssertionError("nothing is under way")


class FakeMetrics:
    def series(self, metrics: list[MetricId], *, start: int, end: int, period: int) -> FoundSeries:
        wave = {time: float((time // 60) % 17 + (time // 60) % 5) for time in range(start, end, period)}
        return FoundSeries(dict.fromkeys(metrics, wave))


class FakeTraces:
    batch = 5

    def find(self, service: str, **_: Any) -> FoundTraces:
        return FoundTraces((TraceSummary("1-a", 2.0),))

    def traces(self, trace_ids: list[str]) -> list[Trace]:
        segment = {"id": "a", "name": "shop", "start_time": 0.0, "end_time": 2.0, "fault": True}
        return [Trace(trace_id, (segment,)) for trace_id in trace_ids]


def fake_stores() -> TelemetryStores:
    return TelemetryStores(FakeLogs(), FakeMetrics(), FakeTraces())  # type: ignore[arg-type]


MAX_METRICS = MAX_VALUES = 100
MAX_DIMENSIONS = 30


@dataclass(frozen=True)
class Named:
    """The identity of a metric: namespace, name and the values of all its dimensions."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        return f"{self.namespace} {self.name} {dict(sorted(self.dimensions))}"


def measured(output: str) -> dict[Named, list[float]]:
    """Every metric with its values. A line that CloudWatch would not take fails."""
    found: dict[Named, list[float]] = {}
    for line in metric_lines(output):
        for named, values in _of_line(line):
            found.setdefault(named, []).extend(values)
    return found


def metric_lines(output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" in line]


def log_lines(output: str) -> list[dict[str, Any]]:
    """The lines that are no metrics."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" not in line]


def _of_line(line: dict[str, Any]) -> Iterator[tuple[Named, list[float]]]:
    assert isinstance(line["_aws"]["Timestamp"], int)
    for directive in line["_aws"]["CloudWatchMetrics"]:
        assert 0 < len(directive["Metrics"]) <= MAX_METRICS
        for names in directive["Dimensions"]:
            assert len(names) <= MAX_DIMENSIONS
            dimensions = frozenset((name, line[name]) for name in names)
            assert all(isinstance(value, str) and value for _, value in dimensions)
            for metric in directive["Metrics"]:
                values = line[metric["Name"]]
                assert 0 < len(values) <= MAX_VALUES
                yield Named(directive["Namespace"], metric["Name"], dimensions), values
