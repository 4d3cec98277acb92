"""Rolls metrics up into baselines every day: of CloudWatch, as section `baselines` of `knowledge.yaml` declares them, and of
Prometheus, as section `telemetry` does."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from opx.errors import InvalidInputError, OpxError, StoreUnavailableError
from opx.ports import Clock
from opx.ports.telemetry import MetricQuery, MetricReader
from opx.runtime.knowledge_file import Marked, read_section
from opx.runtime.metrics import Metric, Report, unreported
from opx_telemetry.baselines.items import day_start_of
from opx_telemetry.baselines.readings import KEPT_DAYS, Reading, day_of, names_of
from opx_telemetry.baselines.store import BaselineStore
from opx_telemetry.prometheus import PROMETHEUS
from opx_telemetry.rules import read_telemetry

log = logging.getLogger(__name__)


MINUTE, DAY = 60, 86_400
_STATISTICS = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
_PERCENTILE = re.compile(r"(p|tm|wm|tc|ts)\d{1,2}(\.\d{1,10})?\Z")
"""CloudWatch User Guide, "Statistics definitions"."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """A metric to roll up. `name` is its name in baselines."""

    name: str
    query: MetricQuery
    unit: str = ""


def declared_metrics(path: Path | None = None) -> tuple[MetricDefinition, ...]:
    """The metrics of the file, in its order, Prometheus' last; none without the sections. Raises `KnowledgeConfigError`
    with file and line."""
    section, server = read_section("baselines", path), read_telemetry(path).prometheus
    metrics = section.fields(optional=("metrics",)).get("metrics") if section else None
    entries = metrics.entries() if metrics else {}
    scraped = [MetricDefinition(*one) for one in server.baselines()] if server else []
    if twice := [entries[one.name] for one in scraped if one.name in entries]:
        raise twice[0].error(f"{twice[0].path} is a metric of telemetry.prometheus too; give one of them another name")
    return (*(_definition(name, entry) for name, entry in entries.items()), *scraped)


def _definition(name: str, entry: Marked) -> MetricDefinition:
    fields = entry.fields(
        required=("namespace", "metric", "node"), optional=("statistic", "period", "dimensions", "unit")
    )
    try:
        names_of("node", name)
    except InvalidInputError as exc:
        raise entry.error(f"{entry.path}: {exc}") from exc
    fixed = fields["dimensions"].entries() if "dimensions" in fields else {}
    dimensions = {key: value.text() for key, value in fixed.items()}
    node = fields["node"].text()
    if fields["namespace"].text() == PROMETHEUS:
        raise fields["namespace"].error("declare metrics of Prometheus in telemetry.prometheus.metrics")
    if node in dimensions:
        raise fields["dimensions"].error(f"{node} names the node, and can't have a value of its own")
    query = MetricQuery(
        namespace=fields["namespace"].text(),
        metric=fields["metric"].text(),
        node=node,
        statistic=_statistic(fields["statistic"]) if "statistic" in fields else "Average",
        period=_period(fields["period"]) if "period" in fields else 300,
        dimensions=dimensions,
    )
    return MetricDefinition(name, query, fields["unit"].text() if "unit" in fields else "")


def _statistic(entry: Marked) -> str:
    text = entry.text()
    if text not in _STATISTICS and not _PERCENTILE.match(text):
        raise entry.error(f"unknown statistic {text!r}; allowed: {', '.join(_STATISTICS)}, or such as p99 and tm95")
    return text


def _period(entry: Marked) -> int:
    period = entry.number()
    if period % MINUTE or not MINUTE <= period <= DAY or DAY % period:
        raise entry.error(
            f"period {period:g} must be a number of whole minutes that a day can be divided by, in seconds"
        )
    return int(period)


# -- rolling up


PART = "cloudwatch"
DAYS = 2
"""Default number of whole days that are rolled up: a day that was missed, or was late, is made good."""

READINGS_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class RolledUp:
    """Counts of a roll-up. `failed` has the metrics that couldn't be read, with reasons; `empty` those without a value."""

    values: int
    nodes: int
    refused: int
    failed: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RollUp:
    """Rolls the declared metrics up, each by itself: one that fails doesn't keep the others back."""

    metrics: Sequence[MetricDefinition]
    reader: MetricReader
    store: BaselineStore
    _: KW_ONLY
    clock: Clock
    report: Report = unreported

    def run(self, days: int = DAYS) -> RolledUp:
        """Rolls the last `days` whole days (UTC) up. Raises `InvalidInputError` for a number out of range, and
        `StoreUnavailableError` with the names of the failed metrics when the others are done."""
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days < KEPT_DAYS:
            raise InvalidInputError(f"days must be 1 to {KEPT_DAYS - 1}, not {days!r}")
        today = day_start_of(self.clock())
        work = [(metric, today - back * DAY) for back in range(days, 0, -1) for metric in self.metrics]
        done = [self._one(metric, start) for metric, start in work]
        failed = tuple(dict.fromkeys(name for one in done for name in one.failed))
        known = {metric.name for (metric, _), one in zip(work, done, strict=True) if one.nodes or one.failed}
        empty = tuple(metric.name for metric in self.metrics if metric.name not in known)
        numbers = (sum(d.values for d in done), sum(d.nodes for d in done), sum(d.refused for d in done))
        total = RolledUp(*numbers, failed, empty)
        if empty:
            log.warning("without any value: %s", ", ".join(empty))
        self.report(Metric.BASELINE_VALUES, float(total.values))
        self.report(Metric.BASELINE_REFUSED, float(total.refused))
        if failed:
            rest = [f"without any value: {', '.join(empty)}"] if empty else []
            rest += [f"values refused: {total.refused:,}"] if total.refused else []
            problems = "; ".join((*failed, *rest))
            raise StoreUnavailableError(f"these could not be rolled up, all others were: {problems}")
        return total

    def _one(self, metric: MetricDefinition, start: int) -> RolledUp:
        """Rolls one day of a metric up."""
        values = nodes = refused = 0
        waiting: list[Reading] = []
        try:
            for found in self.reader.values(metric.query, start, start + DAY):
                waiting += [Reading(found.node, metric.name, value, at, metric.unit) for at, value in found.values]
                nodes += 1
                if len(waiting) >= READINGS_AT_ONCE:
                    added, wrong = self._put(metric, waiting)
                    values, refused, waiting = values + added, refused + wrong, []
            added, wrong = self._put(metric, waiting)
        except OpxError as exc:
            log.warning("%s of %s can't be rolled up: %s", metric.name, day_of(start), exc)
            return RolledUp(values, nodes, refused, (f"{metric.name} ({exc})",))
        return RolledUp(values + added, nodes, refused + wrong)

    def _put(self, metric: MetricDefinition, readings: list[Reading]) -> tuple[int, int]:
        done = self.store.replace(readings, PART) if readings else None
        if done is None:
            return 0, 0
        for reason in dict.fromkeys(one.reason for one in done.refused):
            log.warning("%s: values refused: %s", metric.name, reason)
        return done.added, len(done.refused)
