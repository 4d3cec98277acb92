"""Composes queries of logs, metrics and traces, and the baselines of metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError
from opx.ports import Tables
from opx.ports.tables import BASELINES
from opx.ports.telemetry import MetricReader, TelemetryStores
from opx.runtime.knowledge_file import Installation
from opx.runtime.metrics import Report, unreported
from opx_telemetry.rules import read_telemetry

if TYPE_CHECKING:
    from opx.operations.system import System
    from opx_telemetry.baselines.definitions import RollUp
    from opx_telemetry.baselines.store import BaselineStore
    from opx_telemetry.rules import TelemetryRules


def telemetry(system: System) -> Telemetry:
    """Telemetry of a system; `system.part` keeps it."""
    ports = system.ports
    return Telemetry(system.installation, system.tables, ports.telemetry_stores, ports.metric_reader)


def baselines(system: System) -> BaselineStore:
    """The baselines that the core adds values and records to."""
    return system.part(telemetry).baselines


@dataclass(eq=False)
class Telemetry:
    """Telemetry of an installation. `new_stores` returns its logs, metrics and traces, `new_reader` its metrics for
    baselines; None if it has none."""

    installation: Installation
    tables: Tables
    new_stores: Callable[[], TelemetryStores | None]
    new_reader: Callable[[], MetricReader | None]

    @cached_property
    def stores(self) -> TelemetryStores | None:
        return self.new_stores()

    @cached_property
    def metric_reader(self) -> MetricReader | None:
        return self.new_reader()

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
        """Returns the roll-up into baselines. Raises `KnowledgeConfigError`, and `InvalidInputError` without a reader."""
        from opx_telemetry.baselines.definitions import RollUp, declared_metrics

        if self.metric_reader is None:
            raise InvalidInputError("metrics are rolled up by a system on AWS (OPX_BACKEND=aws), from CloudWatch")
        metrics = self.installation.declared(declared_metrics)
        return RollUp(metrics, self.metric_reader, self.baselines, clock=self.installation.clock, report=report)
