"""Composes queries of logs, metrics and traces, and the baselines of metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError
from opx.ports import Tables
from opx.ports.tables import BASELINES
from opx.ports.telemetry import MetricQuery, MetricReader, NodeValues, TelemetryStores
from opx.runtime.knowledge_file import Installation
from opx.runtime.metrics import Report, unreported
from opx_telemetry.loki import LokiLogs
from opx_telemetry.prometheus import PROMETHEUS, PrometheusMetrics
from opx_telemetry.rules import read_telemetry
from opx_telemetry.servers import Servers

if TYPE_CHECKING:
    from opx.lifecycle.daily import DailyFeed
    from opx.operations.system import System
    from opx_telemetry.baselines.definitions import RollUp
    from opx_telemetry.baselines.store import BaselineStore
    from opx_telemetry.rules import TelemetryRules


def telemetry(system: System) -> Telemetry:
    """Telemetry of a system; `system.part` keeps it."""
    ports = system.ports
    servers = Servers(lambda: ports.secrets, ports.open_web, system.settings.private_hosts)
    return Telemetry(system.installation, system.tables, ports.telemetry_stores, ports.metric_reader, servers)


def baselines(system: System) -> BaselineStore:
    """The baselines that the core adds values and records to."""
    return system.part(telemetry).baselines


@dataclass(eq=False)
class Telemetry:
    """Telemetry of an installation. `new_stores` returns a vendor's logs, metrics and traces, `new_reader` its metrics for
    baselines; None if it has none. `servers` opens connections to declared servers."""

    installation: Installation
    tables: Tables
    new_stores: Callable[[], TelemetryStores | None]
    new_reader: Callable[[], MetricReader | None]
    servers: Servers

    @cached_property
    def stores(self) -> TelemetryStores | None:
        return self.new_stores()

    @cached_property
    def metric_reader(self) -> MetricReader | None:
        return self.new_reader()

    @cached_property
    def prometheus(self) -> PrometheusMetrics:
        """Metrics of the declared server. Raises `InvalidInputError` without one."""
        if self.rules.prometheus is None:
            raise InvalidInputError("knowledge.yaml declares no telemetry.prometheus")
        return PrometheusMetrics(self.rules.prometheus, self.servers, self.installation.clock, self.rules.seconds)

    @cached_property
    def loki(self) -> LokiLogs:
        """Logs of the declared server. Raises `InvalidInputError` without one."""
        if self.rules.loki is None:
            raise InvalidInputError("knowledge.yaml declares no telemetry.loki")
        return LokiLogs(self.rules.loki, self.servers, self.rules.seconds)

    @property
    def rules(self) -> TelemetryRules:
        """The log groups, metrics and traces that may be queried. Raises `KnowledgeConfigError`."""
        return self.installation.declared(read_telemetry)

    @cached_property
    def baselines(self) -> BaselineStore:
        """Baselines of metrics of nodes."""
        from opx_telemetry.baselines.store import BaselineStore

        return BaselineStore(
            self.tables.table(BASELINES),
            clock=self.installation.clock,
            scope=self.installation.scope,
            unit_of_work=self.tables.unit_of_work,
        )

    def roll_up(self, report: Report = unreported) -> RollUp:
        """Returns the roll-up into baselines, of Prometheus alone where there is no other reader. Raises
        `KnowledgeConfigError`, and `InvalidInputError` without any reader."""
        from opx_telemetry.baselines.definitions import RollUp, declared_metrics

        reader = MetricsBySource(self.prometheus if self.rules.prometheus else None, self.metric_reader)
        if not (reader.prometheus or reader.vendor):
            raise InvalidInputError(
                "metrics are rolled up from CloudWatch by a system on AWS (OPX_BACKEND=aws), and from Prometheus if "
                "knowledge.yaml declares telemetry.prometheus"
            )
        declared = self.installation.declared(declared_metrics)
        metrics = [one for one in declared if reader.of(one.query)]
        return RollUp(metrics, reader, self.baselines, clock=self.installation.clock, report=report)


@dataclass(frozen=True, slots=True)
class MetricsBySource:
    """A `MetricReader` of Prometheus and of a vendor. Without a query's reader it has no values."""

    prometheus: MetricReader | None
    vendor: MetricReader | None

    def of(self, query: MetricQuery) -> MetricReader | None:
        return self.prometheus if query.namespace == PROMETHEUS else self.vendor

    def values(self, query: MetricQuery, start: float, end: float) -> Iterator[NodeValues]:
        reader = self.of(query)
        return reader.values(query, start, end) if reader else iter(())


def feed(system: System) -> DailyFeed:
    """The daily roll-up of Prometheus within the background loop of a single-process installation."""
    from opx.lifecycle.daily import DailyFeed

    return DailyFeed("baselines", lambda: _rolled_up(system.part(telemetry)), system.clock)


def _rolled_up(part: Telemetry) -> tuple[str, ...]:
    """Lines on the roll-up; none where a function does it, and without a declared server."""
    if part.installation.settings.backend == "aws" or part.rules.prometheus is None:
        return ()
    done = part.roll_up().run()
    lines = [f"baselines: {done.values:,} values rolled up from Prometheus"]
    lines += [f"baselines: {done.refused:,} values refused, such as NaN and infinite ones"] if done.refused else []
    return (*lines, *(f"baselines: {name} has no values: does its query fit?" for name in done.empty))
