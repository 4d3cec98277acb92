"""Measurements of a server in the text format of Prometheus."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from opx.runtime.metrics import LEVELS, Metric, labels_of, unit_of

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_SHARES = tuple(n / 10 for n in range(1, 11))
_MILLISECONDS, _SECONDS_UNIT, _COUNT = "Milliseconds", "Seconds", "Count"


@dataclass
class MeasuredRequest:
    """A request in progress; its route and status are set when they are known."""

    route: str = ""
    status: int = 500


class Measurements:
    """A `Report` of the metrics of `opx.runtime.metrics`, times in seconds, and the times of requests by route and status."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Histogram(
            "opx_http_request_seconds",
            "Time of HTTP requests.",
            ("route", "status"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._collectors = {metric: self._collector(metric) for metric in Metric}

    def _collector(self, metric: Metric) -> Counter | Gauge | Histogram:
        unit, labels = unit_of(metric), sorted(labels_of(metric))
        name = "opx_" + re.sub(r"(?<=[a-z])(?=[A-Z])", "_", metric.value).lower()
        about = f"{metric.value}, as on AWS."
        if metric in LEVELS:
            return Gauge(f"{name}_seconds" if unit == _SECONDS_UNIT else name, about, labels, registry=self._registry)
        if unit == _MILLISECONDS:
            return Histogram(f"{name}_seconds", about, labels, buckets=_SECONDS, registry=self._registry)
        if metric is Metric.CONFIDENCE:
            return Histogram(name, about, labels, buckets=_SHARES, registry=self._registry)
        if unit == _COUNT:
            return Counter(name, about, labels, registry=self._registry)
        return Histogram(name, about, labels, registry=self._registry)

    def __call__(self, metric: Metric, value: float = 1.0, /, **labels: str) -> None:
        collector = self._collectors[metric]
        named = {name: labels[name] for name in labels_of(metric)}
        child = collector.labels(**named) if named else collector
        if isinstance(child, Counter):
            child.inc(max(value, 0.0))
        elif isinstance(child, Gauge):
            child.set(value)
        else:
            child.observe(value / 1000 if unit_of(metric) == _MILLISECONDS else value)

    @contextmanager
    def request(self) -> Iterator[MeasuredRequest]:
        """Measures a request."""
        measured, started = MeasuredRequest(), time.perf_counter()
        try:
            yield measured
        finally:
            labels = {"route": measured.route or "none", "status": str(measured.status)}
            self._requests.labels(**labels).observe(time.perf_counter() - started)

    def exposition(self) -> tuple[bytes, int, dict[str, str]]:
        """Text, status and headers of the page for Prometheus."""
        return generate_latest(self._registry), 200, {"content-type": CONTENT_TYPE_LATEST}
