"""What is measured: the names that functions report under and that alarms and dashboards look for, once."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from opx.ingestion.outcomes import Result

NAMESPACE = "OpxKnowledge"
SERVICE = "opx"
"""The `service` of log lines and the dimension of every metric. Also the parent of the library's loggers."""


class Metric(StrEnum):
    """Counts, unless `UNITS` says otherwise."""

    QUERIES = "Queries"
    QUERY_LATENCY = "QueryLatency"
    RELEVANCE = "Relevance"
    """Of a query's best candidate, in [0, 1], whether it was confirmed or not; 0 if there was none."""
    UNANSWERED_QUERIES = "UnansweredQueries"
    PARTIAL_ANSWERS = "PartialAnswers"
    SEARCH_UNAVAILABLE = "SearchUnavailable"
    TOOL_CALLS = "ToolCalls"
    """All of them, whatever became of them."""
    TOOL_ERRORS = "ToolErrors"
    """Calls that failed for a reason that nobody foresaw."""
    TOOL_UNAVAILABLE = "ToolUnavailable"
    """Calls that a store failed for now."""
    INVALID_CALLS = "InvalidToolCalls"

    EVENTS = "IngestionEvents"
    DUPLICATE_EVENTS = "DuplicateEvents"
    CHUNKS_INGESTED = "ChunksIngested"
    DOCUMENTS_INGESTED = "DocumentsIngested"
    DOCUMENTS_UNCHANGED = "DocumentsUnchanged"
    DOCUMENTS_DELETED = "DocumentsDeleted"
    EVENTS_SKIPPED = "EventsSkipped"
    INGESTION_FAILURES = "IngestionFailures"
    INGESTION_RETRIES = "IngestionRetries"
    INGESTION_ERRORS = "IngestionErrors"
    """Messages that could not be handled for a reason that nobody foresaw."""


UNITS = {Metric.QUERY_LATENCY: "Milliseconds", Metric.RELEVANCE: "None"}
"""CloudWatch's names of units; `Count` for the rest. A ratio has none there."""

BY_RESULT = {
    Result.INGESTED: Metric.DOCUMENTS_INGESTED,
    Result.UNCHANGED: Metric.DOCUMENTS_UNCHANGED,
    Result.DELETED: Metric.DOCUMENTS_DELETED,
    Result.SKIPPED: Metric.EVENTS_SKIPPED,
    Result.FAILED: Metric.INGESTION_FAILURES,
    Result.RETRY: Metric.INGESTION_RETRIES,
}


class Report(Protocol):
    """Takes a measurement. Reporting the same metric again adds a value to it."""

    def __call__(self, metric: Metric, value: float = 1.0) -> None: ...


def unreported(metric: Metric, value: float = 1.0) -> None:
    """A `Report` for where nobody collects metrics."""
