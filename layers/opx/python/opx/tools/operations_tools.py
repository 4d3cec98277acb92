"""The tools that look at running systems, as plain methods."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from opx.domain.scopes import Identity
from opx.errors import StoreUnavailableError, TelemetryUnavailableError
from opx.ports import Clock
from opx.ports.telemetry import TelemetryStores
from opx.telemetry.logs import LogQuestion, LogSearch, Sleep
from opx.telemetry.metrics import MetricComparison, MetricQuestion
from opx.telemetry.rules import TelemetryRules
from opx.telemetry.traces import TraceAnalysis
from opx.tools.calling import called
from opx.tools.declarations import ArgumentError, Tool
from opx.tools.operation_replies import BaselineReply, LogsReply, MetricsReply, TracesReply
from opx.tools.replies import Reply

if TYPE_CHECKING:
    from opx.retrieval.readers import ProjectRegistry
    from opx.telemetry.baselines.store import BaselineStore

NOT_HERE = "there is nothing to ask: this system isn't on AWS (OPX_BACKEND=aws)"


class Operations(Protocol):
    """What the tools need of a system; `Services` has it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def telemetry(self) -> TelemetryStores | None: ...

    @property
    def telemetry_rules(self) -> TelemetryRules: ...

    @property
    def baselines(self) -> BaselineStore: ...

    @property
    def projects(self) -> ProjectRegistry: ...


class OperationsTools:
    """The tools of one identity. Logs, metrics and traces are the installation's own, whoever asks; baselines are those
    that the identity may see.

    Methods raise `ArgumentError` for what may not be asked, `TelemetryUnavailableError`, and `InvalidScopeError` for a
    malformed identity.
    """

    def __init__(self, operations: Operations, identity: Identity, *, sleep: Sleep = time.sleep) -> None:
        self._operations = operations
        self._identity = identity
        self._sleep = sleep

    def call(self, tool: Tool, given: Iterable[tuple[str, object]]) -> Reply:
        """Do what a tool does. Raises `ArgumentError` for arguments that are not as declared."""
        try:
            return called(self, tool, given)
        except StoreUnavailableError as exc:
            raise TelemetryUnavailableError(str(exc)) from exc

    def query_logs(
        self, query: str, log_group: str, minutes: int = 60, limit: int = 50, show: str = "lines"
    ) -> LogsReply:
        """Search the lines of a log group."""
        rules, clock = self._operations.telemetry_rules, self._operations.clock
        search = LogSearch(self._stores.logs, rules, clock=clock, sleep=self._sleep)
        return LogsReply(search.answer(LogQuestion(query, log_group, minutes, limit, show)))

    def correlate_metrics(
        self, metric: str, node: str, minutes: int = 180, candidates: str = "", max_lag: int = 30
    ) -> MetricsReply:
        """Find what moved with a metric."""
        names = tuple(name.strip() for name in candidates.split(",") if name.strip())
        rules, clock = self._operations.telemetry_rules, self._operations.clock
        comparison = MetricComparison(self._stores.metrics, rules, clock=clock)
        return MetricsReply(comparison.answer(MetricQuestion(metric, node, minutes, names, max_lag)))

    def analyze_traces(self, service: str, minutes: int = 60, limit: int = 5) -> TracesReply:
        """Find where requests are slow or fail."""
        rules, clock = self._operations.telemetry_rules, self._operations.clock
        return TracesReply(TraceAnalysis(self._stores.traces, rules, clock=clock).answer(service, minutes, limit))

    def get_baseline(
        self, node: str, metric: str, time_window: str = "7d", value: float | None = None
    ) -> BaselineReply:
        """What is normal for a metric, and whether a value of now is, at this hour (UTC) if enough is known of it."""
        reader = self._operations.projects.reader(self._identity)
        stats = self._operations.baselines.get(reader, node, metric, time_window)
        hour = int(self._operations.clock()) % 86_400 // 3600
        return BaselineReply(stats, None if value is None else stats.judge(value, hour))

    @property
    def _stores(self) -> TelemetryStores:
        stores = self._operations.telemetry
        if stores is None:
            raise ArgumentError(NOT_HERE)
        return stores
