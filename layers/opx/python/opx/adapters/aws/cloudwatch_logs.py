"""`LogStore` on CloudWatch Logs Insights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from botocore.exceptions import ClientError

from opx.adapters.aws.insights_query import insights_query
from opx.adapters.aws.vendor_errors import error_code, translated_errors
from opx.ports.telemetry import LogProgress, LogQuery

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
"""What the fields of results are called by us; the others, such as `@ptr`, are left out."""


class CloudWatchLogs:
    """Results are those of the first page, which has up to 10,000 rows."""

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
        with translated_errors("stop a log query"):
            try:
                self._client.stop_query(queryId=query_id)
            except ClientError as exc:
                if error_code(exc) not in _NOT_RUNNING:
                    raise


def _row(fields: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {_NAMES[field["field"]]: field.get("value", "") for field in fields if field.get("field") in _NAMES}
