"""Reads the allowed log groups, metrics and services, the limits of queries, and the servers to query, from section
`telemetry` of `knowledge.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from opx.errors import InvalidInputError
from opx.ports.telemetry import SERVERS, MetricId
from opx.runtime.knowledge_file import Marked, read_section
from opx_telemetry.loki import Loki, read_loki
from opx_telemetry.prometheus import Prometheus, read_prometheus
from opx_telemetry.servers import Server

SECTION = "telemetry"
ANY = "*"
STATISTICS = ("Average", "Sum", "Minimum", "Maximum", "SampleCount")

_LOG_GROUP = re.compile(r"[.\-_/#A-Za-z0-9]{1,512}\*?\Z")
"""Names as `StartQuery` accepts them (Amazon CloudWatch Logs API Reference), or a prefix and a star; not a star alone."""
_SERVICE = re.compile(r"[\w\s.:/%&#=+\-@]{0,200}\*?\Z")
_NAME = re.compile(r"[^\x00-\x1f:][^\x00-\x1f]{0,254}\Z")
_BOUNDS = {
    "max_minutes": (1.0, 10_080.0),
    "max_scanned_megabytes": (1.0, 1_000_000.0),
    "max_rows": (1.0, 200.0),
    "seconds": (1.0, 20.0),
}
"""Lowest and highest value of each limit: a function has 30 seconds for all of its work."""


class LogShow(StrEnum):
    """Rows of a log query's answer, as `LogQuery` describes them."""

    LINES = "lines"
    OVER_TIME = "over_time"
    BY_STREAM = "by_stream"
    PATTERNS = "patterns"


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """Metrics of one kind of node: those of `names` whose only dimension is `dimension`; its value is the node."""

    namespace: str
    dimension: str
    names: tuple[str, ...]
    statistic: str = "Average"

    def metrics_of(self, node: str) -> tuple[MetricId, ...]:
        return tuple(MetricId(self.namespace, name, self.dimension, node, self.statistic) for name in self.names)


@dataclass(frozen=True, slots=True)
class TelemetryRules:
    """Names that may be queried, with a star at the end for a prefix; only listed ones are allowed. `seconds` is the time
    limit of a query. `log_groups`, `metrics` and `services` are CloudWatch's and X-Ray's, the servers have their own."""

    log_groups: tuple[str, ...] = ()
    metrics: tuple[MetricFamily, ...] = ()
    services: tuple[str, ...] = ()
    max_minutes: int = 1440
    max_scanned_megabytes: int = 5000
    max_rows: int = 200
    seconds: float = 20.0
    prometheus: Prometheus | None = None
    loki: Loki | None = None

    @property
    def servers(self) -> tuple[Server, ...]:
        """The declared servers."""
        return tuple(one.server for one in (self.prometheus, self.loki) if one)

    def check_log_group(self, name: str) -> None:
        """Raises `InvalidInputError`, which lists the allowed ones, for a log group that may not be queried."""
        _check("log group", "log_groups", name, (*self.log_groups, *(self.loki.log_groups if self.loki else ())))

    def is_in_loki(self, log_group: str) -> bool:
        """True if Loki is declared, and CloudWatch's list doesn't have the group."""
        return self.loki is not None and not any(_fits(log_group, each) for each in self.log_groups)

    def is_in_prometheus(self, metric: str) -> bool:
        """True if Prometheus is declared, and CloudWatch's list doesn't have the metric."""
        return self.prometheus is not None and not any(metric in family.names for family in self.metrics)

    def check_service(self, name: str) -> None:
        """Raises `InvalidInputError`, which lists the allowed ones, for a service that may not be queried."""
        _check("service", "services", name, self.services)
        if not _SERVICE.match(name) or name.endswith(ANY):
            raise InvalidInputError(f"a service's name has letters, digits, spaces and _.:/%&#=+-@ only, not {name!r}")

    def check_minutes(self, minutes: int) -> None:
        """Raises `InvalidInputError` for more minutes than allowed."""
        if minutes > self.max_minutes:
            raise InvalidInputError(f"minutes must be at most {self.max_minutes} here, not {minutes}")


def _check(kind: str, key: str, name: str, allowed: Sequence[str]) -> None:
    if not allowed:
        raise InvalidInputError(f"no {kind} may be queried: the operators have listed none ({SECTION}.{key})")
    if not any(_fits(name, each) for each in allowed):
        raise InvalidInputError(f"{kind} {name[:200]!r} may not be queried; there are: {', '.join(allowed)}")


def _fits(name: str, allowed: str) -> bool:
    return name.startswith(allowed[:-1]) if allowed.endswith(ANY) else name == allowed


def read_telemetry(path: Path | None = None) -> TelemetryRules:
    """Reads the section of the file; without it nothing is allowed. Raises `KnowledgeConfigError` with file and line."""
    section = read_section(SECTION, path)
    if section is None:
        return TelemetryRules()
    found = section.fields(optional=("log_groups", "metrics", "services", *sorted(SERVERS), *_BOUNDS))
    bounds = {key: _bounded(key, found[key]) for key in _BOUNDS if key in found}
    prometheus = read_prometheus(found["prometheus"]) if "prometheus" in found else None
    loki = read_loki(found["loki"]) if "loki" in found else None
    families = [(item, _family(item)) for item in found["metrics"].items()] if "metrics" in found else []
    log_groups = _names(found.get("log_groups"), _LOG_GROUP, "the name of a log group, or how names begin and a *")
    for item, family in families:
        if prometheus and (twice := [name for name in family.names if name in prometheus.metrics]):
            raise item.error(f"{twice[0]} is a metric of telemetry.prometheus too; give that one another name")
    if loki and (twice := [name for name in log_groups if name in loki.log_groups]):
        raise found["log_groups"].error(f"{twice[0]} is a log group of telemetry.loki too; list it once")
    return TelemetryRules(
        log_groups=log_groups,
        metrics=tuple(family for _, family in families),
        prometheus=prometheus,
        loki=loki,
        services=_names(found.get("services"), _SERVICE, "a service's name, or how names begin and a *"),
        **bounds,  # type: ignore[arg-type]
    )


def _names(entry: Marked | None, form: re.Pattern[str], words: str) -> tuple[str, ...]:
    if entry is None:
        return ()
    return tuple(_name(item, form, words) for item in entry.items())


def _name(item: Marked, form: re.Pattern[str], words: str) -> str:
    name = item.text()
    if not form.match(name):
        raise item.error(f"{name!r} must be {words}")
    return name


def _bounded(key: str, entry: Marked) -> float:
    low, high = _BOUNDS[key]
    value = entry.number()
    if not low <= value <= high:
        raise entry.error(f"{key} must be from {low:g} to {high:g}, not {value:g}")
    return value if key == "seconds" else int(value)


def _family(entry: Marked) -> MetricFamily:
    found = entry.fields(required=("namespace", "dimension", "names"), optional=("statistic",))
    statistic = found["statistic"].text() if "statistic" in found else STATISTICS[0]
    if statistic not in STATISTICS:
        raise found["statistic"].error(f"unknown statistic {statistic!r}; allowed: {', '.join(STATISTICS)}")
    names = tuple(_name(item, _NAME, "the name of a metric") for item in found["names"].items())
    if not names:
        raise found["names"].error("names must name at least one metric")
    return MetricFamily(
        _name(found["namespace"], _NAME, "a namespace such as AWS/EC2"),
        _name(found["dimension"], _NAME, "the name of a dimension such as InstanceId"),
        names,
        statistic,
    )


def metrics_of_node(rules: TelemetryRules, node: str) -> Iterator[MetricId]:
    """Yields every listed metric with this node as the value of its dimension, or of its label."""
    for family in rules.metrics:
        yield from family.metrics_of(node)
    if rules.prometheus:
        yield from rules.prometheus.metrics_of(node)
