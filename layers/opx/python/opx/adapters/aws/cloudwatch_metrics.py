"""Metrics of CloudWatch, of all nodes that have them.

Metrics are listed first and then asked for by name: a search expression would find 500 at most, and a metric's node is
one of its dimensions, which a result of a search only has in its label. Limits: CloudWatch API Reference, `ListMetrics`
(metrics that had values within the last two weeks) and `GetMetricData` (500 metrics and 100,800 points a call).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from opx.adapters.aws.vendor_errors import translated_errors
from opx.errors import StoreUnavailableError
from opx.ports.metrics import MetricQuery, NodeValues

log = logging.getLogger(__name__)

METRICS_A_CALL = 500
POINTS_A_CALL = 100_800


class CloudWatchMetrics:
    """A `MetricReader`."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def values(self, query: MetricQuery, start: float, end: float) -> Iterator[NodeValues]:
        nodes = self._nodes(query)
        points = max(1, int((end - start) // query.period))
        at_once = max(1, min(METRICS_A_CALL, POINTS_A_CALL // points))
        for first in range(0, len(nodes), at_once):
            yield from self._read(query, nodes[first : first + at_once], start, end)

    def _nodes(self, query: MetricQuery) -> list[str]:
        """The nodes whose metric has these dimensions and no others, in order."""
        wanted = [{"Name": query.node}, *({"Name": name, "Value": value} for name, value in query.dimensions.items())]
        request: dict[str, Any] = {
            "Namespace": query.namespace,
            "MetricName": query.metric,
            "Dimensions": wanted,
        }
        found: set[str] = set()
        while True:
            with translated_errors(f"list metrics {query.namespace} {query.metric}"):
                answer = self._client.list_metrics(**request)
            for metric in answer["Metrics"]:
                dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
                if set(dimensions) == {query.node, *query.dimensions}:
                    found.add(dimensions[query.node])
            if not answer.get("NextToken"):
                return sorted(found)
            request["NextToken"] = answer["NextToken"]

    def _read(self, query: MetricQuery, nodes: Sequence[str], start: float, end: float) -> Iterator[NodeValues]:
        by_id = {f"m{at}": node for at, node in enumerate(nodes)}
        request: dict[str, Any] = {
            "MetricDataQueries": [_asked(key, node, query) for key, node in by_id.items()],
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "ScanBy": "TimestampAscending",
            "MaxDatapoints": POINTS_A_CALL,
        }
        found: dict[str, list[tuple[float, float]]] = {key: [] for key in by_id}
        while True:
            with translated_errors(f"read metrics {query.namespace} {query.metric}"):
                answer = self._client.get_metric_data(**request)
            more = answer.get("NextToken")
            for result in answer["MetricDataResults"]:
                _check(result, query, last=not more)
                moments = (moment.timestamp() for moment in result["Timestamps"])
                found[result["Id"]] += zip(moments, result["Values"], strict=True)
            for message in answer.get("Messages", ()):
                log.warning("%s %s: %s %s", query.namespace, query.metric, message.get("Code"), message.get("Value"))
            if not more:
                break
            request["NextToken"] = more
        for key, values in found.items():
            if values:
                yield NodeValues(by_id[key], tuple(dict(values).items()))


def _asked(key: str, node: str, query: MetricQuery) -> dict[str, Any]:
    dimensions = {query.node: node, **query.dimensions}
    metric = {
        "Namespace": query.namespace,
        "MetricName": query.metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    return {"Id": key, "MetricStat": {"Metric": metric, "Period": query.period, "Stat": query.statistic}}


def _check(result: dict[str, Any], query: MetricQuery, *, last: bool) -> None:
    """Raise `StoreUnavailableError` for what is not all that there is."""
    status = result.get("StatusCode", "Complete")
    if status in ("InternalError", "Forbidden") or (status == "PartialData" and last):
        raise StoreUnavailableError(f"CloudWatch gave {query.namespace} {query.metric} with the status {status}")
