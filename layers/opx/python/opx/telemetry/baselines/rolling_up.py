"""Yesterday's metrics into baselines, as often as one likes: what a day was rolled up to before is replaced."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ports import Clock
from opx.ports.telemetry import MetricReader
from opx.runtime.metrics import Metric, Report, unreported
from opx.telemetry.baselines.definitions import MetricDefinition
from opx.telemetry.baselines.items import day_start_of
from opx.telemetry.baselines.readings import DAY, KEPT_DAYS, Reading, day_of
from opx.telemetry.baselines.store import BaselineStore

log = logging.getLogger(__name__)

PART = "cloudwatch"
DAYS = 2
"""The last whole days that are rolled up if nobody says otherwise: a day that was missed, or came late, is made good."""

READINGS_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What became of the days. `failed` names metrics that couldn't be read."""

    values: int
    nodes: int
    refused: int
    failed: tuple[str, ...] = ()


class RollUp:
    """Rolls the declared metrics up, each by itself: one that fails keeps no other back."""

    def __init__(
        self,
        metrics: Sequence[MetricDefinition],
        reader: MetricReader,
        store: BaselineStore,
        *,
        clock: Clock,
        report: Report = unreported,
    ) -> None:
        self._metrics = metrics
        self._reader = reader
        self._store = store
        self._clock = clock
        self._report = report

    def run(self, days: int = DAYS) -> RolledUp:
        """Roll the last `days` whole days (UTC) up. Raises `InvalidInputError` for a number that can't be, and
        `StoreUnavailableError` that names the metrics which failed, when the others are done."""
        if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days < KEPT_DAYS:
            raise InvalidInputError(f"days must be 1 to {KEPT_DAYS - 1}, not {days!r}")
        today = day_start_of(self._clock())
        done = [self._one(metric, today - back * DAY) for back in range(days, 0, -1) for metric in self._metrics]
        failed = tuple(dict.fromkeys(name for one in done for name in one.failed))
        total = RolledUp(sum(d.values for d in done), sum(d.nodes for d in done), sum(d.refused for d in done), failed)
        self._report(Metric.BASELINE_VALUES, float(total.values))
        self._report(Metric.BASELINE_REFUSED, float(total.refused))
        if failed:
            raise StoreUnavailableError(f"these could not be rolled up, all others were: {', '.join(failed)}")
        return total

    def _one(self, metric: MetricDefinition, start: int) -> RolledUp:
        """A metric's day."""
        values = nodes = refused = 0
        waiting: list[Reading] = []
        try:
            for found in self._reader.values(metric.query, start, start + DAY):
                waiting += [Reading(found.node, metric.name, value, at, metric.unit) for at, value in found.values]
                nodes += 1
                if len(waiting) >= READINGS_AT_ONCE:
                    added, wrong = self._put(metric, waiting)
                    values, refused, waiting = values + added, refused + wrong, []
            added, wrong = self._put(metric, waiting)
        except StoreUnavailableError as exc:
            log.warning("%s of %s can't be rolled up: %s", metric.name, day_of(start), exc)
            return RolledUp(values, nodes, refused, (metric.name,))
        return RolledUp(values + added, nodes, refused + wrong)

    def _put(self, metric: MetricDefinition, readings: list[Reading]) -> tuple[int, int]:
        done = self._store.replace(readings, PART) if readings else None
        if done is None:
            return 0, 0
        for reason in dict.fromkeys(one.reason for one in done.refused):
            log.warning("%s: values refused: %s", metric.name, reason)
        return done.added, len(done.refused)
