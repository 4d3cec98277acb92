"""Ports of telemetry: logs, metrics, traces, and baselines, which the entry point `baselines` of `opx.parts` makes.

Times are seconds since the epoch. All access is read-only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from opx.domain.baselines import AddedValues
from opx.domain.scopes import Scope

SERVERS = frozenset(("prometheus", "loki"))
"""Servers that section `telemetry` of knowledge.yaml may declare, in place of a vendor's services."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Lines of one log group between two times, both included.

    A line matches if it contains all of `words` and none of `without`, ignoring case. A word may have spaces in it, which
    stand for one or more. `without` has letters, digits, `_`, `-` and spaces only. `show` chooses the rows of the answer:

    - `lines`: the newest `limit` lines, as rows of `time`, `stream` and `message`;
    - `over_time`: their number in each `bin_seconds`, as rows of `time` and `lines`, the newest first;
    - `by_stream`: their number by stream, as rows of `stream` and `lines`, the most first;
    - `patterns`: common patterns of their messages, as rows of `pattern` and `lines`, the most first.
    """

    log_group: str
    start: int
    end: int
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    show: str = "lines"
    limit: int = 50
    bin_seconds: int = 60


@dataclass(frozen=True, slots=True)
class LogProgress:
    """Results of a query so far. `failed` is the reason why it ended without an answer, "" if it didn't.

    Values of rows are strings. Rows may hold near matches: punctuation in words may match any. Without `complete` some lines
    were not searched; `notes` state why, or what else limits the answer.
    """

    is_done: bool
    rows: tuple[Mapping[str, str], ...] = ()
    matched: int = 0
    scanned_bytes: int = 0
    failed: str = ""
    complete: bool = True
    notes: tuple[str, ...] = ()


class LogStore(Protocol):
    """Searches log lines."""

    def start(self, query: LogQuery) -> str:
        """Begin a query; returns its id. Raises `StoreUnavailableError`."""

    def progress(self, query_id: str) -> LogProgress:
        """Raises `StoreUnavailableError`."""

    def stop(self, query_id: str) -> None:
        """End a query that is under way; one that has ended is left alone. Raises `StoreUnavailableError`."""


@dataclass(frozen=True, slots=True)
class MetricId:
    """One metric of one thing. `statistic` is the aggregate over a period, such as `Average` or `Sum`."""

    namespace: str
    name: str
    dimension: str
    node: str
    statistic: str = "Average"


@dataclass(frozen=True, slots=True)
class FoundSeries:
    """Values of metrics. Without `complete` some were not read; `notes` state why, or what is wrong with values."""

    values: Mapping[MetricId, Mapping[int, float]]
    complete: bool = True
    notes: tuple[str, ...] = ()


class MetricStore(Protocol):
    """Reads time series."""

    def series(self, metrics: Sequence[MetricId], *, start: int, end: int, period: int) -> FoundSeries:
        """Values by the time at which their period begins; periods without a value are missing, and so is a metric
        without any. `end` is excluded. Raises `StoreUnavailableError`."""


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A found trace. `seconds` is the duration of the request."""

    trace_id: str
    seconds: float = 0.0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class FoundTraces:
    """Found traces. `complete` is false if there may be more."""

    summaries: tuple[TraceSummary, ...] = ()
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of a request. `segments` are documents as X-Ray has them ("AWS X-Ray segment documents"), whatever their
    order."""

    trace_id: str
    segments: tuple[Mapping[str, Any], ...] = field(default=())


class TraceStore(Protocol):
    """Searches and reads traces of requests."""

    batch: int
    """Maximum number of traces in one call of `traces`."""

    def find(self, service: str, *, start: int, end: int, deadline: float, most: int) -> FoundTraces:
        """Traces that went through the service, the newest first; ends early once there are `most`, or at the deadline, a
        point in time. Raises `StoreUnavailableError`."""

    def traces(self, trace_ids: Sequence[str]) -> Sequence[Trace]:
        """The existing ones of at most `batch` traces. Raises `StoreUnavailableError`."""


@dataclass(frozen=True, slots=True)
class TelemetryStores:
    """The telemetry stores of a vendor."""

    logs: LogStore
    metrics: MetricStore
    traces: TraceStore


# -- metrics


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """A metric of many nodes. `node` is the dimension that names the node, `dimensions` are those besides it that the
    metric must have, with their values; metrics with others don't match. `statistic` is computed over every `period`
    seconds."""

    namespace: str
    metric: str
    node: str
    statistic: str = "Average"
    period: int = 300
    dimensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The values of one node: pairs of time (seconds since the epoch) and value."""

    node: str
    values: tuple[tuple[float, float], ...]


class MetricReader(Protocol):
    """Reads past values of a metric, node by node."""

    def values(self, query: MetricQuery, start: float, end: float) -> Iterator[NodeValues]:
        """All values from `start` up to before `end`, node by node, each once; nodes without values may be left out.

        `start` and `end` are in seconds since the epoch and multiples of the period. Raises `StoreUnavailableError` if
        the service fails for now, and rather than return a part of the values.
        """


class Baselines(Protocol):
    """Adds to the baselines of a scope: without one, to those of the installation."""

    def add(self, readings: Sequence[Mapping[str, Any]], *, marks: Sequence[str]) -> AddedValues:
        """Adds values with the fields `VALUE_FIELDS`; those that can't be added are in the result with their reasons. A
        value that is repeated with the same one of `marks` counts once. Raises `StoreUnavailableError`."""

    def put_record(self, given: Mapping[str, Any], *, scope: Scope | None = None) -> object:
        """Stores a baseline that was computed elsewhere. Raises `InvalidInputError` that names the wrong field."""
