"""Fakes of logs, metrics and traces of running systems."""

from __future__ import annotations

from typing import Any

from opx.ports.telemetry import FoundTraces, LogProgress, LogQuery, MetricId, TelemetryStores, Trace, TraceSummary
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
    def series(self, metrics: list[MetricId], *, start: int, end: int, period: int) -> dict[MetricId, dict[int, float]]:
        wave = {time: float((time // 60) % 17 + (time // 60) % 5) for time in range(start, end, period)}
        return dict.fromkeys(metrics, wave)


class FakeTraces:
    batch = 5

    def find(self, service: str, **_: Any) -> FoundTraces:
        return FoundTraces((TraceSummary("1-a", 2.0),))

    def traces(self, trace_ids: list[str]) -> list[Trace]:
        segment = {"id": "a", "name": "shop", "start_time": 0.0, "end_time": 2.0, "fault": True}
        return [Trace(trace_id, (segment,)) for trace_id in trace_ids]


def fake_stores() -> TelemetryStores:
    return TelemetryStores(FakeLogs(), FakeMetrics(), FakeTraces())  # type: ignore[arg-type]
