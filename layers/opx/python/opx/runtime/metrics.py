"""Declares name, unit and dimensions of every metric, for the code, the dashboards and the alarms."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

NAMESPACE = "OpxKnowledge"
SERVICE = "opx"
"""The `service` of log lines, and the parent of the library's loggers."""

ENVIRONMENT = "environment"
"""A dimension of every metric, as several environments share one account."""

MODE, LEG, STAGE, TIER, CATEGORY = "mode", "leg", "stage", "tier", "category"
OWNER = "owner"


class Metric(StrEnum):
    """Names of metrics; counts, unless `UNITS` has another unit."""

    QUERIES = "Queries"
    QUERY_LATENCY = "QueryLatency"
    LEG_LATENCY = "LegLatency"
    """Time of one leg as the engine reports it; both run in parallel, within the stage `search`."""
    STAGE_LATENCY = "StageLatency"
    CONFIDENCE = "Confidence"
    """Confidence of a query's best candidate, in [0, 1], even if it was not returned; 0 if there was none."""
    ZERO_RESULTS = "ZeroResults"
    """1 for a query without results, 0 for others, so that the average is the rate; likewise the next two."""
    PARTIAL_ANSWERS = "PartialAnswers"
    SEARCH_UNAVAILABLE = "SearchUnavailable"
    WAKE_TIME = "WakeTime"
    """Time until the index answered a call that was to wake it."""
    CANARY_FAILED = "CanaryFailed"
    """1 for a canary's question that was not searched completely, 0 for others."""
    RECORDING_FAILURES = "RecordingFailures"
    """1 for an answer that was returned without its audit record, or without recording its gap."""
    TOOL_CALLS = "ToolCalls"
    """All tool calls, whatever their outcome."""
    TOOL_ERRORS = "ToolErrors"
    """Calls that failed with an unexpected error."""
    TOOL_UNAVAILABLE = "ToolUnavailable"
    """Calls that failed because a store was unavailable."""
    INVALID_CALLS = "InvalidToolCalls"
    API_REQUESTS = "ApiRequests"
    """Requests of the HTTP API that reached a function, whatever their outcome. The next three are as with tools."""
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
    """Messages that failed with an unexpected error."""
    ANNOUNCED_AGAIN = "ChangesAnnouncedAgain"
    """Changes whose messages were lost, and that were put into the queue again."""
    DOCUMENTS_POSTPONED = "DocumentsPostponed"
    """Deliveries that had to wait for the quota of the embedding model, for the index, or for more time: no attempts."""
    EMBEDDING_THROTTLES = "EmbeddingThrottles"
    """Calls of the embedding model that were throttled."""
    EMBEDDING_WAIT = "EmbeddingWait"
    """Time that workers waited for their turn at the embedding model."""
    CACHE_HITS = "EmbeddingCacheHits"
    """Texts with a cached vector. Misses are those that the model embedded."""
    CACHE_MISSES = "EmbeddingCacheMisses"

    DOCUMENTS_PULLED = "DocumentsPulled"
    """Documents that pulls wrote to the corpus, because they were new or had changed."""
    DOCUMENTS_WITHDRAWN = "DocumentsWithdrawn"
    PULL_FAILURES = "PullFailures"
    """Pulls that the source interrupted; the next pull continues."""
    SOURCES_FLAGGED = "SourcesFlagged"
    """Complete listings that lacked so much that nothing was withdrawn: an operator has to check."""

    STREAM_RECORDS = "StreamRecords"
    """Records of streams that became documents; the next counts those that a filter excluded."""
    STREAM_RECORDS_UNWANTED = "StreamRecordsUnwanted"
    STREAM_RETRIES = "StreamRetries"
    """Records that must be redelivered because a store failed."""

    LEARNING_EVENTS = "LearningEvents"
    """Learning events; the next counts those that were rejected, and set aside with the reason."""
    LEARNING_REFUSED = "LearningEventsRefused"
    ENTRIES_TAKEN_IN = "LearningEntriesTakenIn"
    """Entries that checkpoints processed; the next counts those that they rejected."""
    ENTRIES_REFUSED = "LearningEntriesRefused"

    BASELINE_VALUES = "BaselineValues"
    """Values that were added to baselines; the next counts rejected ones."""
    BASELINE_REFUSED = "BaselineValuesRefused"

    VERSIONS_PRUNED = "VersionsPruned"
    """Expired versions of documents that were removed."""
    PRUNE_STOPPED = "PruneStopped"
    """1 for a run that removed nothing because too much was due at once, 0 for others."""

    SEAL_CONTRADICTIONS = "SealContradictions"
    """Items that were altered since the last seal and not ingested, of a run that compared all."""

    DOCUMENTS = "Documents"
    """Current documents. This and the next are reported once a day: a metric is billed by the hours that have values."""
    CHUNKS = "Chunks"
    FAILED_ITEMS = "FailedItems"
    """Number of failed items. This and the following are reported every hour."""
    NOT_INGESTED = "ChangesNotIngested"
    """Changes that the bucket announced over 15 minutes ago and that are not ingested; 0 included, as for the next."""
    OLDEST_ANNOUNCEMENT = "OldestAnnouncement"
    """Age of the oldest of them."""
    SOURCE_AGE = "SourceAge"
    """Time since a category that is pulled was last synchronised, or since its newest document was updated."""
    SYNC_OVERDUE = "SyncOverdue"
    """Delay of a category's synchronisation after its schedule; 0 if it is not due."""
    OPEN_GAPS = "OpenGaps"
    """Questions without a good answer, by owner. Reported once a day."""


UNITS = {
    Metric.QUERY_LATENCY: "Milliseconds",
    Metric.LEG_LATENCY: "Milliseconds",
    Metric.STAGE_LATENCY: "Milliseconds",
    Metric.CONFIDENCE: "None",
    Metric.WAKE_TIME: "Seconds",
    Metric.EMBEDDING_WAIT: "Seconds",
    Metric.SOURCE_AGE: "Seconds",
    Metric.OLDEST_ANNOUNCEMENT: "Seconds",
    Metric.SYNC_OVERDUE: "Seconds",
}
"""CloudWatch units; `Count` for the rest. CloudWatch has no unit for a ratio."""

LEVELS = frozenset(
    {
        Metric.SEAL_CONTRADICTIONS,
        Metric.DOCUMENTS,
        Metric.CHUNKS,
        Metric.FAILED_ITEMS,
        Metric.NOT_INGESTED,
        Metric.OLDEST_ANNOUNCEMENT,
        Metric.SOURCE_AGE,
        Metric.SYNC_OVERDUE,
        Metric.OPEN_GAPS,
    }
)
"""Metrics whose values are states, which rise and fall; the others are events and times of single ones."""

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
"""Dimension sets of each metric, without the environment. Each combination of values is a billed metric."""


def unit_of(metric: Metric) -> str:
    return UNITS.get(metric, "Count")


def dimension_sets(metric: Metric) -> tuple[tuple[str, ...], ...]:
    """Dimension sets of a metric in CloudWatch, each with the environment first."""
    return tuple((ENVIRONMENT, *labels) for labels in _LABELS.get(metric, _ALONE))


def labels_of(metric: Metric) -> frozenset[str]:
    """Labels that every measurement must have: all dimensions but the environment."""
    return frozenset(label for labels in _LABELS.get(metric, _ALONE) for label in labels)


class Report(Protocol):
    """Records a measurement with the values of its labels (`labels_of`). Each call adds a value to the metric."""

    def __call__(self, metric: Metric, value: float = 1.0, /, **labels: str) -> None: ...


def unreported(metric: Metric, value: float = 1.0, /, **labels: str) -> None:
    """A `Report` that discards measurements."""
