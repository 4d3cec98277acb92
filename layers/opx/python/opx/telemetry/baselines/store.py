"""Baselines: values added up by day and hour, and what they say about a time window.

An item of the table has a day of a series. Whoever adds to it reads it, and writes it back on the condition that nobody
else has meanwhile; else it begins again. So no value is lost however many add at once, and as the marks of what was
added are written with it, a delivery that comes again is counted once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opx.domain.baselines import AddedValues, BaselineStats, SeriesView
from opx.domain.scopes import Reader, Scope
from opx.errors import InvalidInputError
from opx.ports import Clock, Table
from opx.telemetry.baselines.adding import Adder, Batch, marked
from opx.telemetry.baselines.items import Series, empty_part
from opx.telemetry.baselines.reading_back import BaselineReader
from opx.telemetry.baselines.readings import Reading
from opx.telemetry.baselines.records import RecordStore
from opx.telemetry.baselines.series import MAX_SERIES, SeriesRegistry

MAX_READINGS = 10_000
"""Of one call."""


class BaselineStore:
    """The baselines of all scopes. What is given without a scope goes to `scope`, that of the installation."""

    def __init__(
        self,
        table: Table,
        *,
        clock: Clock,
        scope: Scope = Scope(),  # noqa: B008 (frozen)
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        sleep: Callable[[float], None] = time.sleep,
        most_series: int = MAX_SERIES,
    ) -> None:
        series = SeriesRegistry(table, most=most_series)
        self._table = table
        self._clock = clock
        self._scope = scope
        self._unit_of_work = unit_of_work
        self._series = series
        self._adder = Adder(table, series, sleep)
        self._records = RecordStore(table, clock)
        self._reader = BaselineReader(table, series, self._records, clock)

    # -- asking

    def get(self, reader: Reader, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        """What is normal for a metric of a node: the values of the last `time_window` (1h to 90d, as 24h, 7d or 4w), of
        all scopes that the reader sees together.

        A count of 0 means that there are none. Where there are none but a computed record for this very window, it is
        that. Raises `InvalidInputError` for names or a window that can't be, and `StoreUnavailableError`.
        """
        return self._reader.get(reader.visible, node, metric, time_window)

    def series(self, reader: Reader) -> list[SeriesView]:
        """All series that the reader sees, by node and metric; those that have had no values for 90 days are gone."""
        return self._reader.series(reader.visible)

    # -- adding

    def add(
        self, readings: Sequence[Reading | Mapping[str, Any]], *, scope: Scope | None = None, batch_id: str = ""
    ) -> AddedValues:
        """Add values; what can't be added is in the result with its reason, and keeps no other back.

        A reading is a `Reading`, or a mapping with node, metric and value, and if wanted with at (ISO 8601, or seconds
        since the epoch; else now) and unit. The same `batch_id` again is not counted again, as long as the day of the
        series remembers it: it has the last 512. Raises `InvalidInputError` for more than 10,000 at once, and
        `StoreUnavailableError`: some may have been added by then, so that who repeats it needs a `batch_id`.
        """
        if len(readings) > MAX_READINGS:
            raise InvalidInputError(f"{len(readings):,} values at once are too many; send at most {MAX_READINGS:,}")
        added = repeated = 0
        with self._unit_of_work():
            batch = Batch.of(readings, (scope or self._scope).key, self._clock())
            parts = self._adder.prepare(batch)
            for day, placed in batch.days.items():
                wanted = [marked(one, batch_id) for _, one in placed]
                new = self._adder.write(parts[day], day[1], wanted) if wanted else 0
                added, repeated = added + new, repeated + len(wanted) - new
        return AddedValues(added, repeated, tuple(sorted(batch.refused, key=lambda one: one.index)))

    def replace(self, readings: Iterable[Reading], part: str, *, scope: Scope | None = None) -> AddedValues:
        """Let these be all that the feeder `part` says of the days that they are of: what it said of those days of these
        series before is replaced, what others said stays. Raises `StoreUnavailableError`."""
        batch = Batch.of(list(readings), (scope or self._scope).key, self._clock())
        with self._unit_of_work():
            self._adder.prepare(batch)
            items = [
                empty_part(series, start, part).adding(one for _, one in placed).to_item(start)
                for (series, start), placed in batch.days.items()
                if placed
            ]
            self._table.put_many(items)
        added = sum(map(len, batch.days.values()))
        return AddedValues(added, 0, tuple(sorted(batch.refused, key=lambda one: one.index)))

    def put_record(self, given: Mapping[str, Any], *, scope: Scope | None = None) -> Series:
        """Keep a baseline that was computed elsewhere (node, metric, time_window, mean, stddev, samples), in place of the
        one of the same window. Raises `InvalidInputError` that names what is wrong."""
        return self._records.put((scope or self._scope).key, given)
