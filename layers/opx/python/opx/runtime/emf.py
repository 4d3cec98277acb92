"""Measurements as CloudWatch takes them from a function's log: lines in the embedded metric format (EMF).

Not Powertools' `Metrics`: its lines have one list of dimension sets for all metrics in them, so that a query's count,
its latency by mode and the latency of its legs would be lines of their own.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.ports import Clock
from opx.runtime.metrics import ENVIRONMENT, NAMESPACE, SERVICE, Metric, dimension_sets, labels_of, unit_of

MAX_VALUES = 100
"""Of a metric in a line. Source: CloudWatch user guide, "Specification: Embedded metric format"."""


@dataclass(slots=True)
class _Line:
    """Metrics that have no label with different values."""

    labels: dict[str, str] = field(default_factory=dict)
    values: dict[Metric, list[float]] = field(default_factory=dict)

    def takes(self, metric: Metric, labels: Mapping[str, str]) -> bool:
        agrees = all(self.labels.get(name, value) == value for name, value in labels.items())
        return agrees and len(self.values.get(metric, ())) < MAX_VALUES


class Recorder:
    """A `Report` that collects, and writes what it has as lines to the standard output.

    Raises `TypeError` for a measurement whose labels are not those that its metric is declared with.
    """

    def __init__(self, environment: str, *, clock: Clock = time.time) -> None:
        self._environment = environment
        self._clock = clock
        self._lines: list[_Line] = []

    def __call__(self, metric: Metric, value: float = 1.0, /, **labels: str) -> None:
        if labels.keys() != labels_of(metric):
            declared = ", ".join(sorted(labels_of(metric))) or "none"
            raise TypeError(f"{metric} is declared with labels {declared}; reported with {', '.join(labels) or 'none'}")
        line = next((line for line in self._lines if line.takes(metric, labels)), None)
        if line is None:
            line = _Line()
            self._lines.append(line)
        line.labels |= labels
        line.values.setdefault(metric, []).append(value)

    def flush(self, facts: Mapping[str, str | list[str]]) -> None:
        """Write the lines, each with the facts beside, by which lines of one call are found together."""
        lines, self._lines = self._lines, []
        for line in lines:
            sys.stdout.write(json.dumps(self._embedded(line, facts), separators=(",", ":")) + "\n")

    def _embedded(self, line: _Line, facts: Mapping[str, str | list[str]]) -> dict[str, Any]:
        metadata = {"Timestamp": int(self._clock() * 1000), "CloudWatchMetrics": list(_directives(line.values))}
        return {
            "service": SERVICE,
            **facts,
            "_aws": metadata,
            ENVIRONMENT: self._environment,
            **line.labels,
            **{metric.value: values for metric, values in line.values.items()},
        }


def _directives(metrics: Iterable[Metric]) -> Iterable[dict[str, Any]]:
    """One for all metrics with the same dimension sets."""
    grouped: dict[tuple[tuple[str, ...], ...], list[Metric]] = {}
    for metric in metrics:
        grouped.setdefault(dimension_sets(metric), []).append(metric)
    for sets, members in grouped.items():
        named = [{"Name": metric.value, "Unit": unit_of(metric)} for metric in members]
        yield {"Namespace": NAMESPACE, "Dimensions": [list(names) for names in sets], "Metrics": named}
