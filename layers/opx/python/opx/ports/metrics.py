"""What other systems measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class MetricQuery:
    """A metric of many nodes. `node` is the dimension that names the node, `dimensions` are those besides it that the
    metric must have, with their values; metrics with others are not meant. `statistic` is taken of every `period`
    seconds."""

    namespace: str
    metric: str
    node: str
    statistic: str = "Average"
    period: int = 300
    dimensions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeValues:
    """The values of one node: pairs of when (seconds since the epoch) and what."""

    node: str
    values: tuple[tuple[float, float], ...]


class MetricReader(Protocol):
    """Reads metrics back."""

    def values(self, query: MetricQuery, start: float, end: float) -> Iterator[NodeValues]:
        """All values from `start` up to before `end`, node by node, each once; nodes without values may be left out.

        `start` and `end` are in seconds since the epoch and multiples of the period. Raises `StoreUnavailableError` if
        the service fails for now, and rather than give a part of what there is.
        """
