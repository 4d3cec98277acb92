"""Reads metrics from a function's output in CloudWatch's embedded metric format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_METRICS = MAX_VALUES = 100
MAX_DIMENSIONS = 30


@dataclass(frozen=True)
class Named:
    """The identity of a metric: namespace, name and the values of all its dimensions."""

    namespace: str
    name: str
    dimensions: frozenset[tuple[str, str]]

    def __str__(self) -> str:
        return f"{self.namespace} {self.name} {dict(sorted(self.dimensions))}"


def measured(output: str) -> dict[Named, list[float]]:
    """Every metric with its values. A line that CloudWatch would not take fails."""
    found: dict[Named, list[float]] = {}
    for line in metric_lines(output):
        for named, values in _of_line(line):
            found.setdefault(named, []).extend(values)
    return found


def metric_lines(output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" in line]


def log_lines(output: str) -> list[dict[str, Any]]:
    """The lines that are no metrics."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" not in line]


def _of_line(line: dict[str, Any]) -> Iterator[tuple[Named, list[float]]]:
    assert isinstance(line["_aws"]["Timestamp"], int)
    for directive in line["_aws"]["CloudWatchMetrics"]:
        assert 0 < len(directive["Metrics"]) <= MAX_METRICS
        for names in directive["Dimensions"]:
            assert len(names) <= MAX_DIMENSIONS
            dimensions = frozenset((name, line[name]) for name in names)
            assert all(isinstance(value, str) and value for _, value in dimensions)
            for metric in directive["Metrics"]:
                values = line[metric["Name"]]
                assert 0 < len(values) <= MAX_VALUES
                yield Named(directive["Namespace"], metric["Name"], dimensions), values
