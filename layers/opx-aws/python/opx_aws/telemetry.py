"""Reads logs and metrics of CloudWatch, and traces of X-Ray.

Of the searched words only ASCII letters, digits and `_` get into a log query; every other character becomes a regular
expression of ours. So no word can end its expression, or be a command, a comment or another log group
("CloudWatch Logs Insights language query syntax", "filter", "SOURCE").

The metrics of all nodes are listed first and then requested by name: a search expression would find 500 at most, and a
metric's node is one of its dimensions, which a search result has only in its label. Limits: CloudWatch API Reference,
`ListMetrics` (metrics that had values within the last two weeks) and `GetMetricData` (500 metrics and 100,800 points per
call).
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from opx.errors import StoreUnavailableError
from opx.ports import Clock
from opx.ports.telemetry import (
    FoundSeries,
    FoundTraces,
    LogProgress,
    LogQuery,
    MetricId,
    MetricQuery,
    NodeValues,
    Trace,
    TraceSummary,
)
from opx_aws.vendor_errors import answers, passed_over, translated_errors

log = logging.getLogger(__name__)

_SAFE = re.compile(r"[A-Za-z0-9_]", re.ASCII)
_SPACES = r"\s+"
_ANY_ASCII, _ANY_OTHER = ".", ".{1,4}"
"""A character beyond ASCII has up to four bytes, in case the engine counts bytes."""

_SHOWN = {
    "lines": "fields @timestamp, @logStream, @message | sort @timestamp desc | limit {limit}",
    "over_time": "stats count(*) as lines by bin({bin}s) as time | sort time desc | limit {limit}",
    "by_stream": "stats count(*) as lines by @logStream | sort lines desc | limit {limit}",
    "patterns": "pattern @message | limit {limit}",
}


def insights_query(query: LogQuery) -> str:
    """The query's text; the log group and the times are separate arguments."""
    filters = [f"filter @message like {_expression(word)}" for word in query.words]
    filters += [f"filter @message not like {_expression(word)}" for word in query.without]
    shown = _SHOWN[query.show].format(limit=int(query.limit), bin=int(query.bin_seconds))
    return " | ".join((*filters, shown))


def _expression(word: str) -> str:
    return "/(?i)" + _SPACES.join("".join(map(_character, part)) for part in word.split()) + "/"


def _character(character: str) -> str:
    if _SAFE.match(character):
        return character
    return _ANY_ASCII if character.isascii() else _ANY_OTHER


_FAILED = ("Failed", "Cancelled", "Timeout", "Unknown")
_NOT_RUNNING = ("InvalidParameterException", "ResourceNotFoundException")
_NAMES = {
    "@timestamp": "time",
    "time": "time",
    "@logStream": "stream",
    "@message": "message",
    "lines": "lines",
    "@pattern": "pattern",
    "@sampleCount": "lines",
}
"""Our names of result fields; other fields, such as `@ptr`, are left out."""


class CloudWatchLogs:
    """Queries CloudWatch Logs Insights. Results are those of the first page, which has up to 10,000 rows."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def start(self, query: LogQuery) -> str:
        with translated_errors("start a log query"):
            started = self._client.start_query(
                logGroupNames=[query.log_group],
                startTime=query.start,
                endTime=query.end,
                queryString=insights_query(query),
                limit=query.limit,
            )
        return str(started["queryId"])

    def progress(self, query_id: str) -> LogProgress:
        with translated_errors("read the results of a log query"):
            found = self._client.get_query_results(queryId=query_id)
        statistics = found.get("statistics") or {}
        status = found["status"]
        return LogProgress(
            is_done=status == "Complete",
            rows=tuple(_row(fields) for fields in found.get("results") or ()),
            matched=int(statistics.get("recordsMatched", 0)),
            scanned_bytes=int(statistics.get("bytesScanned", 0)),
            failed=status.lower() if status in _FAILED else "",
        )

    def stop(self, query_id: str) -> None:
        with translated_errors("stop a log query"), passed_over(*_NOT_RUNNING):
            self._client.stop_query(queryId=query_id)


def _row(fields: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {_NAMES[field["field"]]: field.get("value", "") for field in fields if field.get("field") in _NAMES}


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
        request = {"Namespace": query.namespace, "MetricName": query.metric, "Dimensions": wanted}
        found: set[str] = set()
        for answer in answers(self._client.list_metrics, request, f"list metrics {query.namespace} {query.metric}"):
            for metric in answer["Metrics"]:
                dimensions = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
                if set(dimensions) == {query.node, *query.dimensions}:
                    found.add(dimensions[query.node])
        return sorted(found)

    def _read(self, query: MetricQuery, nodes: Sequence[str], start: float, end: float) -> Iterator[NodeValues]:
        by_id = {f"m{at}": node for at, node in enumerate(nodes)}
        request: dict[str, Any] = {
            "MetricDataQueries": [_data_query(key, node, query) for key, node in by_id.items()],
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "ScanBy": "TimestampAscending",
            "MaxDatapoints": POINTS_A_CALL,
        }
        found: dict[str, list[tuple[float, float]]] = {key: [] for key in by_id}
        for answer in answers(self._client.get_metric_data, request, f"read metrics {query.namespace} {query.metric}"):
            for result in answer["MetricDataResults"]:
                _check(result, query, last=not answer.get("NextToken"))
                moments = (moment.timestamp() for moment in result["Timestamps"])
                found[result["Id"]] += zip(moments, result["Values"], strict=True)
            for message in answer.get("Messages", ()):
                log.warning("%s %s: %s %s", query.namespace, query.metric, message.get("Code"), message.get("Value"))
        for key, values in found.items():
            if values:
                yield NodeValues(by_id[key], tuple(dict(values).items()))


def _data_query(key: str, node: str, query: MetricQuery) -> dict[str, Any]:
    dimensions = {query.node: node, **query.dimensions}
    metric = {
        "Namespace": query.namespace,
        "MetricName": query.metric,
        "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions.items()],
    }
    return {"Id": key, "MetricStat": {"Metric": metric, "Period": query.period, "Stat": query.statistic}}


def _check(result: dict[str, Any], query: MetricQuery, *, last: bool) -> None:
    """Raises `StoreUnavailableError` for incomplete data."""
    status = result.get("StatusCode", "Complete")
    if status in ("InternalError", "Forbidden") or (status == "PartialData" and last):
        raise StoreUnavailableError(f"CloudWatch returned {query.namespace} {query.metric} with the status {status}")


MOST_METRICS = 500
"""Metrics per request ("GetMetricData", Amazon CloudWatch API Reference)."""

MOST_PAGES = 20


class CloudWatchSeries:
    """Reads as many metrics per request as the service allows."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def series(self, metrics: Sequence[MetricId], *, start: int, end: int, period: int) -> FoundSeries:
        found: dict[MetricId, dict[int, float]] = {}
        for first in range(0, len(metrics), MOST_METRICS):
            some = {f"m{at}": metric for at, metric in enumerate(metrics[first : first + MOST_METRICS])}
            self._read(some, start, end, period, found)
        return FoundSeries(found)

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
        for page in islice(answers(self._client.get_metric_data, request, "read metrics"), MOST_PAGES):
            for result in page["MetricDataResults"]:
                points = zip(result.get("Timestamps") or (), result.get("Values") or (), strict=True)
                values = {int(time.timestamp()): value for time, value in points}
                if values:
                    found.setdefault(metrics[result["Id"]], {}).update(values)


def _query(name: str, metric: MetricId, period: int) -> dict[str, Any]:
    dimensions = [{"Name": metric.dimension, "Value": metric.node}]
    requested = {"Namespace": metric.namespace, "MetricName": metric.name, "Dimensions": dimensions}
    return {"Id": name, "MetricStat": {"Metric": requested, "Period": period, "Stat": metric.statistic}}


BATCH = 5
"""Ids per call of BatchGetTraces (X-Ray API Reference and quotas)."""

_NOT_IN_A_NAME = '"\\'


class XRayTraces:
    """Finds indexed traces; with Transaction Search these are a sample, by default one in a hundred."""

    batch = BATCH

    def __init__(self, client: Any, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def find(self, service: str, *, start: int, end: int, deadline: float, most: int) -> FoundTraces:
        request: dict[str, Any] = {
            "StartTime": datetime.fromtimestamp(start, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "FilterExpression": filter_expression(service),
            "Sampling": False,
        }
        found: list[TraceSummary] = []
        for page in answers(self._client.get_trace_summaries, request, "list traces"):
            found += map(_summary, page.get("TraceSummaries") or ())
            if page.get("NextToken") and (len(found) >= most or self._clock() >= deadline):
                return FoundTraces(tuple(found), complete=False)
        return FoundTraces(tuple(found))

    def traces(self, trace_ids: Sequence[str]) -> Sequence[Trace]:
        segments: dict[str, list[Mapping[str, Any]]] = {}
        for page in answers(self._client.batch_get_traces, {"TraceIds": list(trace_ids)}, "read traces"):
            for trace in page.get("Traces") or ():
                segments.setdefault(trace["Id"], []).extend(_documents(trace))
        return [Trace(trace_id, tuple(found)) for trace_id, found in segments.items()]


def filter_expression(service: str) -> str:
    """Matches traces that went through the service ("Using filter expressions", AWS X-Ray Developer Guide).

    A name with a quote or a backslash could escape its literal; X-Ray's own names have none.
    """
    if any(character in _NOT_IN_A_NAME for character in service):
        raise ValueError("a service's name has a quote or a backslash in it")
    return f'service("{service}")'


def _summary(found: Mapping[str, Any]) -> TraceSummary:
    failed = any(found.get(flag) for flag in ("HasFault", "HasError", "HasThrottle"))
    return TraceSummary(found["Id"], float(found.get("Duration") or found.get("ResponseTime") or 0.0), failed)


def _documents(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = []
    for segment in trace.get("Segments") or ():
        try:
            document = json.loads(segment["Document"])
        except ValueError:
            log.warning("a segment of a trace is not JSON")
            continue
        if isinstance(document, Mapping):
            found.append(document)
    return found
