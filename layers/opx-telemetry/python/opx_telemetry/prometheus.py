"""Reads metrics of Prometheus, and of servers with its HTTP API: Thanos, Mimir, VictoriaMetrics.

A value is that of an expression at the end of its period, and its time is when the period begins, as in CloudWatch. A day
by the minute has 1,440 points: Prometheus refuses more than 11,000 of a series.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from opx.errors import StoreUnavailableError
from opx.ports import Clock
from opx.ports.telemetry import FoundSeries, MetricId, MetricQuery, NodeValues
from opx.runtime.knowledge_file import Marked
from opx_telemetry.servers import ACCESS, Query, Server, ServerApi, Servers, read_server

PROMETHEUS = "prometheus"
"""Name of its section, and namespace of its metrics."""

NODE, PERIOD = "$node", "$period"
MOST_SERIES = 4000
"""Series of one reply; a day of them has about 30 MB."""

_TIME_SHARE = 4
"""Part of a question's time in which queries are begun, and that one may take; a question may read its series twice."""

READ_SECONDS, TRIES = 60.0, 4
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_NAME = re.compile(r"[A-Za-z_][\w.-]{0,99}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class PromMetric:
    """An expression of PromQL. `$node` stands for the matcher of nodes, `$period` for the length of a period."""

    query: str
    unit: str = ""

    def expression(self, matcher: str, period: int) -> str:
        return self.query.replace(PERIOD, f"{period}s").replace(NODE, matcher)


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The declared server, and its metrics by name. `node` is the label that names the node."""

    server: Server
    node: str = "instance"
    metrics: Mapping[str, PromMetric] = field(default_factory=dict)

    def metrics_of(self, node: str) -> Iterator[MetricId]:
        return (MetricId(PROMETHEUS, name, self.node, node) for name in self.metrics)

    def baselines(self) -> Iterator[tuple[str, MetricQuery, str]]:
        """The name, the query and the unit of each metric that is rolled up."""
        return ((name, MetricQuery(PROMETHEUS, name, self.node), one.unit) for name, one in self.metrics.items())


def node_exporter(node: str) -> dict[str, PromMetric]:
    """Default metrics, of node_exporter: shares of processor, memory and the fullest disk that are in use."""
    cpu = f'avg by ({node}) (rate(node_cpu_seconds_total{{mode="idle", $node}}[$period]))'
    available, total = (
        f"avg_over_time(node_memory_Mem{name}_bytes{{$node}}[$period])" for name in ("Available", "Total")
    )
    free, size = (
        f'avg_over_time(node_filesystem_{name}_bytes{{fstype!~"tmpfs|ramfs|squashfs|iso9660", $node}}[$period])'
        for name in ("avail", "size")
    )
    found = {
        "cpu": f"100 * (1 - {cpu})",
        "memory": f"100 * (1 - max by ({node}) ({available} / {total}))",
        "disk": f"100 * (1 - min by ({node}) ({free} / ({size} > 0)))",
    }
    return {name: PromMetric(query, "percent") for name, query in found.items()}


def read_prometheus(entry: Marked) -> Prometheus:
    """Reads the server and its metrics. Raises `KnowledgeConfigError`."""
    fields = entry.fields(required=("url",), optional=(*ACCESS, "node", "metrics"))
    node = fields["node"].text() if "node" in fields else "instance"
    if not _LABEL.match(node):
        raise fields["node"].error(f"node must be the name of a label such as instance, not {node!r}")
    given = fields["metrics"].entries() if "metrics" in fields else {}
    metrics = {name: _metric(name, one) for name, one in given.items()}
    if "metrics" in fields and not metrics:
        raise fields["metrics"].error("metrics is empty; leave it out for those of node_exporter, or name some")
    return Prometheus(read_server(PROMETHEUS, fields), node, metrics or node_exporter(node))


def _metric(name: str, entry: Marked) -> PromMetric:
    fields = {"query": entry} if entry.is_scalar else entry.fields(required=("query",), optional=("unit",))
    query = fields["query"].text()
    if not _NAME.match(name):
        raise entry.error(f"{name[:100]!r} must be a name of letters, digits and _.- that begins with a letter")
    if NODE not in query or f'"{NODE}' in query:
        raise fields["query"].error(f"{entry.path} must have {NODE} where labels are matched, as in up{{{NODE}}}")
    return PromMetric(query, fields["unit"].text() if "unit" in fields else "")


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    histograms: list[msgspec.Raw] = []


class _Matrix(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: list[_Series]


@dataclass(frozen=True, slots=True)
class PrometheusMetrics:
    """A `MetricStore` and a `MetricReader`. `seconds` is the time limit of a question."""

    declared: Prometheus
    servers: Servers
    clock: Clock
    seconds: float

    def series(self, metrics: Sequence[MetricId], *, start: int, end: int, period: int) -> FoundSeries:
        """Raises `StoreUnavailableError` if the first metric can't be read; of others the reason is noted."""
        values: dict[MetricId, Mapping[int, float]] = {}
        notes: list[str] = []
        complete, until = True, self.clock() + self.seconds / _TIME_SHARE
        with self.servers.connected(self.declared.server, seconds=self.seconds / _TIME_SHARE) as api:
            for at, metric in enumerate(metrics):
                if at and self.clock() > until:
                    unread = ", ".join(one.name for one in metrics[at:])
                    return FoundSeries(values, False, (*notes, f"not read, as time ran out: {unread}"))
                try:
                    found, problems = self._read(api, metric.name, metric.node, range(start, end, period))
                    points = [point for one in found.values() for point in _points(one, period)]
                except StoreUnavailableError as exc:
                    if not at:
                        raise
                    points, problems = [], [str(exc)]
                values[metric] = {int(time): value for time, value in points}
                complete = complete and not problems
                odd = sum(not math.isfinite(value) for value in values[metric].values())
                problems += [f"{odd} values are NaN or infinite"] if odd else []
                notes += [f"{metric.name}: {problem}" for problem in problems]
        return FoundSeries(values, complete, tuple(notes))

    def values(self, query: MetricQuery, start: float, end: float) -> Iterator[NodeValues]:
        with self.servers.connected(self.declared.server, seconds=READ_SECONDS, tries=TRIES) as api:
            found, warnings = self._read(api, query.metric, "", range(int(start), int(end), query.period))
        if warnings:
            raise StoreUnavailableError(f"{PROMETHEUS} warns that values are missing: {'; '.join(warnings)}")
        yield from (NodeValues(node, _points(one, query.period)) for node, one in found.items())

    def _read(self, api: ServerApi, metric: str, node: str, grid: range) -> tuple[dict[str, _Series], list[str]]:
        """The series of a node, or of all nodes for "", for periods that begin on the grid, and the server's warnings. Raises
        `StoreUnavailableError`."""
        label = self.declared.node
        matcher = f"{label}={json.dumps(node, ensure_ascii=False)}" if node else f'{label}!=""'
        query = {"query": self.declared.metrics[metric].expression(matcher, grid.step)}
        times: Query = {"start": grid.start + grid.step, "end": grid.stop, "step": grid.step}
        matrix, warnings = api.get("/api/v1/query_range", {**query, **times}, _Matrix)
        if len(matrix.result) > MOST_SERIES:
            raise StoreUnavailableError(
                f"{len(matrix.result):,} series, of which {MOST_SERIES:,} can be read; match fewer nodes in the query"
            )
        names = Counter(one.metric.get(label, node) for one in matrix.result)
        if twice := [name for name, count in names.items() if count > 1 or not name]:
            raise StoreUnavailableError(
                f"{names[twice[0]]} series for {label} {twice[0]!r}; aggregate the query, as in max by ({label}) (...)"
            )
        return {one.metric.get(label, node): one for one in matrix.result}, warnings


def _points(series: _Series, period: int) -> tuple[tuple[float, float], ...]:
    """The values by the time at which their period begins. Raises `StoreUnavailableError` for what isn't a number."""
    if series.histograms:
        raise StoreUnavailableError("the values are histograms; take a number of them, as with histogram_quantile")
    try:
        return tuple((time - period, float(value)) for time, value in series.values)
    except ValueError as exc:
        raise StoreUnavailableError(f"a value is no number: {str(exc)[:100]}") from exc
