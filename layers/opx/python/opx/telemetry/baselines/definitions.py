"""Which metrics are rolled up every day: the section `baselines` of `knowledge.yaml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opx.errors import InvalidInputError
from opx.ports.telemetry import MetricQuery
from opx.runtime.knowledge_file import Marked, read_section
from opx.telemetry.baselines.readings import names_of

MINUTE, DAY = 60, 86_400
_STATISTICS = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
_PERCENTILE = re.compile(r"(p|tm|wm|tc|ts)\d{1,2}(\.\d{1,10})?\Z")
"""CloudWatch User Guide, "Statistics definitions"."""


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """`name` is what the metric is called in baselines."""

    name: str
    query: MetricQuery
    unit: str = ""


def declared_metrics(path: Path | None = None) -> tuple[MetricDefinition, ...]:
    """The metrics of the file, in its order; none without the section. Raises `KnowledgeConfigError` with file and
    line."""
    section = read_section("baselines", path)
    if section is None:
        return ()
    metrics = section.fields(optional=("metrics",)).get("metrics")
    return tuple(_definition(name, entry) for name, entry in metrics.entries().items()) if metrics else ()


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
