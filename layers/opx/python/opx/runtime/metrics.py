"""What is measured: name, unit and dimensions of every metric, once, for the code, the dashboards and the alarms."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

NAMESPACE = "OpxKnowledge"
SERVICE = "opx"
"""The `service` of log lines, and the parent of the library's loggers."""

ENVIRONMENT = "environment"
"""A dimension of every metric: several environments live side by side in one account."""

MODE, LEG, STAGE, TIER, CATEGORY = "mode", "leg", "stage", "tier", "category"
OWNER = "owner"


class Metric(StrEnum):
    """Counts, unless `UNITS` says otherwise."""

    QUERIES = "Queries"
    QUERY_LATENCY = "QueryLatency"
    LEG_LATENCY = "LegLatency"
    """What the engine says that one leg took; both run at once, within the stage `search`."""
    STAGE_LATENCY = "StageLatency"
    CONFIDENCE = "Confidence"
    """Of a query's best candidate, in [0, 1], whether it was good enough or not; 0 if there was none."""
    ZERO_RESULTS = "ZeroResults"
    """1 for a query without results, 0 for others, so that the average is the rate. So are the next two."""
    PARTIAL_ANSWERS = "PartialAnswers"
    SEARCH_UNAVAILABLE = "SearchUnavailable"
    RECORDING_FAILURES = "RecordingFailures"
    """1 for an answer that was handed out without its record in the audit log, or without the gap that it showed."""
    TOOL_CALLS = "ToolCalls"
    """All of them, whatever became of them."""
    TOOL_ERRORS = "ToolErrors"
    """Calls that failed for a reason that nobody foresaw."""
    TOOL_UNAVAILABLE = "ToolUnavailable"
    """Calls that a store failed for now."""
    INVALID_CALLS = "InvalidToolCalls"
    API_REQUESTS = "ApiRequests"
    """Of the HTTP API, as far as they reached a function, whatever became of them. The next three are as with tools."""
    API_ERRORS = "ApiErrors"
    API_UNAVAILABLE = "ApiUnavailable"
    API_REFUSED = "ApiRefused"

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
    CACHE_HITS = "EmbeddingCacheHits"
    """Texts whose vector was known already. Misses are those that the model was asked for."""
    CACHE_MISSES = "EmbeddingCacheMisses"

    DOCUMENTS_PULLED = "DocumentsPulled"
    """Put into the corpus by pulls, because they were new or had changed."""
    DOCUMENTS_WITHDRAWN = "DocumentsWithdrawn"
    PULL_FAILURES = "PullFailures"
    """Pulls that ended because of the source; they go on with the next one."""
    SOURCES_FLAGGED = "SourcesFlagged"
    """Complete listings that missed so much that nothing was withdrawn: somebody has to look."""

    STREAM_RECORDS = "StreamRecords"
    """Records of streams that became documents; the next counts those that a filter left out."""
    STREAM_RECORDS_UNWANTED = "StreamRecordsUnwanted"
    STREAM_RETRIES = "StreamRetries"
    """Records that are to be delivered again, as a store failed."""

    LEARNING_EVENTS = "LearningEvents"
    """Events about what work taught; the next counts those that were refused, and set aside with the reason."""
    LEARNING_REFUSED = "LearningEventsRefused"
    ENTRIES_TAKEN_IN = "LearningEntriesTakenIn"
    """Entries that checkpoints took in; the next counts those that they could not."""
    ENTRIES_REFUSED = "LearningEntriesRefused"

    BASELINE_VALUES = "BaselineValues"
    """Values that were added to baselines; the next counts those that can't be."""
    BASELINE_REFUSED = "BaselineValuesRefused"

    VERSIONS_PRUNED = "VersionsPruned"
    """Versions of documents that went because their retention was over."""
    PRUNE_STOPPED = "PruneStopped"
    """1 for a run that removed nothing because too much would have gone at once, 0 for others."""

    DOCUMENTS = "Documents"
    """Current ones. This and the next are reported once a day: a metric is paid for by the hours that have it."""
    CHUNKS = "Chunks"
    FAILED_ITEMS = "FailedItems"
    """How many there are. This and those that follow are reported every hour."""
    SOURCE_AGE = "SourceAge"
    """Time since a category that is pulled was last synchronised, or since its newest document was updated."""
    SYNC_OVERDUE = "SyncOverdue"
    """Time since that should have happened again by the category's schedule; 0 if it is not due."""
    OPEN_GAPS = "OpenGaps"
    """Questions without a good answer, by who is to see to it. Reported once a day."""


UNITS = {
    Metric.QUERY_LATENCY: "Milliseconds",
    Metric.LEG_LATENCY: "Milliseconds",
    Metric.STAGE_LATENCY: "Milliseconds",
    Metric.CONFIDENCE: "None",
    Metric.SOURCE_AGE: "Seconds",
    Metric.SYNC_OVERDUE: "Seconds",
}
"""CloudWatch's names of units; `Count` for the rest. A ratio has none there."""

_ALONE: tuple[tuple[str, ...], ...] = ((),)

_LABELS: dict[Metric, tuple[tuple[str, ...], ...]] = {
    Metric.QUERIES: ((), (MODE,)),
    Metric.QUERY_LATENCY: ((), (MODE,)),
    Metric.LEG_LATENCY: ((MODE, LEG),),
    Metric.STAGE_LATENCY: ((MODE, STAGE),),
    Metric.DOCUMENTS: ((TIER, CATEGORY),),
    Metric.CHUNKS: ((TIER, CATEGORY),),
    Metric.SOURCE_AGE: ((CATEGORY,),),
    Metric.SYNC_OVERDUE: ((), (CATEGORY,)),
    Metric.OPEN_GAPS: ((), (OWNER,)),
}
"""What a metric is broken down by, besides the environment. Each combination of values is a metric that is paid for."""


def unit_of(metric: Metric) -> str:
    return UNITS.get(metric, "Count")


def dimension_sets(metric: Metric) -> tuple[tuple[str, ...], ...]:
    """The sets of dimensions under which CloudWatch keeps the metric, each with the environment first."""
    return tuple((ENVIRONMENT, *labels) for labels in _LABELS.get(metric, _ALONE))


def labels_of(metric: Metric) -> frozenset[str]:
    """What has to be said with every measurement: all its dimensions but the environment."""
    return frozenset(label for labels in _LABELS.get(metric, _ALONE) for label in labels)


class Report(Protocol):
    """Takes a measurement with the values of its labels (`labels_of`). Another of the same metric is one more value."""

    def __call__(self, metric: Metric, value: float = 1.0, /, **labels: str) -> None: ...


def unreported(metric: Metric, value: float = 1.0, /, **labels: str) -> None:
    """A `Report` for where nobody collects metrics."""
