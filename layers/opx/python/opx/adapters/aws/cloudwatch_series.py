"""`MetricStore` on CloudWatch metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from opx.adapters.aws.vendor_errors import translated_errors
from opx.ports.telemetry import MetricId

MOST_METRICS = 500
"""Of one request ("GetMetricData", Amazon CloudWatch API Reference)."""

MOST_PAGES = 20


class CloudWatchSeries:
    """Reads as many metrics at once as the service takes."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def series(
        self, metrics: Sequence[MetricId], *, start: int, end: int, period: int
    ) -> Mapping[MetricId, Mapping[int, float]]:
        found: dict[MetricId, dict[int, float]] = {}
        for first in range(0, len(metrics), MOST_METRICS):
            some = {f"m{at}": metric for at, metric in enumerate(metrics[first : first + MOST_METRICS])}
            self._read(some, start, end, period, found)
        return found

    def _read(
        self,
        metrics: Mapping[str, MetricId],
        start: int,
        end: int,
        period: int,
        found: dict[MetricId, dict[int, float]],
    ) -> None:
        request: dict[str, Any] = {
            "MetricDataQueries": [_query(name, metric, period) for name, metric in metrics.items()],
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "ScanBy": "TimestampDescending",
        }
        for _ in range(MOST_PAGES):
            with translated_errors("read metrics"):
                page = self._client.get_metric_data(**request)
            for result in page["MetricDataResults"]:
                values = {int(time.timestamp()): value for time, value in _points(result)}
                if values:
                    found.setdefault(metrics[result["Id"]], {}).update(values)
            if not page.get("NextToken"):
                return
            request["NextToken"] = page["NextToken"]


def _query(name: str, metric: MetricId, period: int) -> dict[str, Any]:
    dimensions = [{"Name": metric.dimension, "Value": metric.node}]
    asked = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {"Id": name, "MetricStat": {"Metric": asked, "Period": period, "Stat": metric.statistic}}


def _points(result: Mapping[str, Any]) -> list[tuple[datetime, float]]:
    return list(zip(result.get("Timestamps") or (), result.get("Values") or (), strict=True))
