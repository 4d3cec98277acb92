"""Stores baselines: values summarised by day and hour, and their statistics over a time window.

An item of the table has a day of a series. A writer reads it and writes it back with an optimistic lock; if another
process has written meanwhile, it starts again. So no value is lost however many add at once, and as the marks of the
added values are written with it, a repeated delivery counts once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from opx.domain.baselines import AddedValues, BaselineStats, HourBaseline, RefusedValue
from opx.domain.ids import iso_time
from opx.domain.record import Record, replace
from opx.domain.scopes import Reader, Scope
from opx.errors import ConditionFailedError, InvalidInputError, StoreUnavailableError
from opx.ports import Clock, Item, KeyRange, Table
from opx.ports.tables import readable
from opx_telemetry.baselines.items import (
    MAX_SERIES,
    DayPart,
    RecordStore,
    Series,
    SeriesRegistry,
    day_start_of,
    empty_part,
    part_from,
)
from opx_telemetry.baselines.readings import DAY, HOUR, Reading, TimeWindow, checked_reading, names_of, reading_of
from opx_telemetry.baselines.summary import MAX_BUCKETS, Summary

MAX_READINGS = 10_000
"""Values of one call."""

ATTEMPTS = 12
_LONGEST_PAUSE = 0.5

Day = tuple[Series, int]
"""A series, and the second at which the day begins."""

_ALL_DAY = "~"
"""Sorts after everything that can follow a day in a sort key."""

_BUCKETS = 4 * MAX_BUCKETS
"""Buckets of a summary that is merged for an answer and not stored."""


class SeriesView(Record, frozen=True):
    """A metric of a node with at least one value. `last_seen` is the day (UTC) of the newest."""

    node: str
    metric: str
    unit: str
    last_seen: str


class BaselineStore:
    """The baselines of all scopes. Values without a scope go to `scope`, that of the installation."""

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

    # -- reading

    def get(self, reader: Reader, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        """Returns the baseline of a metric of a node: statistics of the last `time_window` (1h to 90d, as 24h, 7d or 4w)
        over all scopes that the reader sees.

        A count of 0 means that there are no values. Without values, a computed record of the same window is returned.
        Raises `InvalidInputError` for an invalid name or window, and `StoreUnavailableError`.
        """
        node, metric = names_of(node, metric)
        window = TimeWindow.ending(self._clock(), time_window)
        series = [Series(scope_key, node, metric) for scope_key in reader.visible]
        parts, notes = _of_one_unit([part for one in series for part in self._parts(one, window)])
        if parts:
            return _stats(node, metric, window, parts, notes)
        recorded = self._records.newest(series, time_window)
        return recorded or BaselineStats(node=node, metric=metric, time_window=time_window)

    def _parts(self, series: Series, window: TimeWindow) -> list[DayPart]:
        """Returns the parts of a series that have values in the window."""
        where = KeyRange(low=window.first_day, high=window.last_day + _ALL_DAY)
        parts = readable(lambda item: part_from(item, series), self._table.query(series.key, where=where))
        return [part for part in parts if any(window.has(start) for start in _hours(part).values())]

    def series(self, reader: Reader) -> list[SeriesView]:
        """Lists all series that the reader sees, by node and metric; those without values for 90 days have expired."""
        found: dict[tuple[str, str], SeriesView] = {}
        for scope_key in reader.visible:
            for view in readable(_view, self._series.of(scope_key)):
                known = found.get((view.node, view.metric))
                if known is None or known.last_seen < view.last_seen:
                    found[view.node, view.metric] = view
        return [found[name] for name in sorted(found)]

    # -- adding

    def add(
        self,
        readings: Sequence[Reading | Mapping[str, Any]],
        *,
        scope: Scope | None = None,
        batch_id: str = "",
        marks: Sequence[str] = (),
    ) -> AddedValues:
        """Adds values; those that can't be added are in the result with their reasons, and don't keep the others back.

        A reading is a `Reading`, or a mapping with node, metric and value, optionally with at (ISO 8601, or seconds since
        the epoch; else now) and unit. A repeated `batch_id` counts once, as long as the day of the series remembers it:
        it has the last 512. `marks` has an id for each reading instead. Raises `InvalidInputError` for more than 10,000 at
        once, and `StoreUnavailableError`: some may have been added by then, so that a caller that repeats the call needs
        a `batch_id`.
        """
        if len(readings) > MAX_READINGS:
            raise InvalidInputError(f"{len(readings):,} values at once are too many; send at most {MAX_READINGS:,}")
        added = repeated = 0
        with self._unit_of_work():
            batch = ValueBatch.of(readings, (scope or self._scope).key, self._clock())
            parts = self._adder.prepare(batch)
            for day, indexed in batch.days.items():
                wanted = [marked(one, marks[index] if marks else batch_id) for index, one in indexed]
                new = self._adder.write(parts[day], day[1], wanted) if wanted else 0
                added, repeated = added + new, repeated + len(wanted) - new
        return AddedValues(added, repeated, tuple(sorted(batch.refused, key=lambda one: one.index)))

    def replace(self, readings: Iterable[Reading], part: str, *, scope: Scope | None = None) -> AddedValues:
        """Replaces the values that the feeder `part` reported before for these series and days; those of other feeders
        stay. Raises `StoreUnavailableError`."""
        batch = ValueBatch.of(list(readings), (scope or self._scope).key, self._clock())
        with self._unit_of_work():
            self._adder.prepare(batch)
            items = [
                empty_part(series, start, part).adding(one for _, one in indexed).to_item(start)
                for (series, start), indexed in batch.days.items()
                if indexed
            ]
            self._table.put_many(items)
        added = sum(map(len, batch.days.values()))
        return AddedValues(added, 0, tuple(sorted(batch.refused, key=lambda one: one.index)))

    def put_record(self, given: Mapping[str, Any], *, scope: Scope | None = None) -> Series:
        """Stores a baseline that was computed elsewhere (node, metric, time_window, mean, stddev, samples), instead of the
        previous one of the same window. Raises `InvalidInputError` that names the wrong field."""
        return self._records.put((scope or self._scope).key, given)


@dataclass(slots=True)
class ValueBatch:
    """Values to add, by day of a series, each with its index in the request; and the refused ones with their reasons."""

    days: dict[Day, list[tuple[int, Reading]]] = field(default_factory=dict)
    refused: list[RefusedValue] = field(default_factory=list)

    @classmethod
    def of(cls, given: Sequence[Reading | Mapping[str, Any]], scope_key: str, now: float) -> ValueBatch:
        batch = cls()
        for index, one in enumerate(given):
            try:
                reading = _checked(one, now)
            except InvalidInputError as exc:
                batch.refused.append(RefusedValue(index, str(exc)))
                continue
            day = Series(scope_key, reading.node, reading.metric), day_start_of(reading.at)
            batch.days.setdefault(day, []).append((index, reading))
        return batch

    def refuse(self, day: Day, reason: str, indexes: Iterable[int] | None = None) -> None:
        """Moves values of a day to `refused`: those with these indexes, or all."""
        out = {index for index, _ in self.days[day]} if indexes is None else set(indexes)
        self.refused += [RefusedValue(index, reason) for index in sorted(out)]
        self.days[day] = [(index, one) for index, one in self.days[day] if index not in out]


def _checked(given: object, now: float) -> Reading:
    if isinstance(given, Reading):
        return checked_reading(given, now)
    if isinstance(given, Mapping):
        return reading_of(given, now)
    raise InvalidInputError("a value is an object with node, metric and value")


class Adder:
    """Adds batches. An item that another process wrote meanwhile is read again, and the values are added to that state."""

    def __init__(self, table: Table, series: SeriesRegistry, sleep: Callable[[float], None]) -> None:
        self._table = table
        self._series = series
        self._sleep = sleep

    def prepare(self, batch: ValueBatch) -> dict[Day, DayPart]:
        """Returns the days as they are stored, after refusing invalid values and noting new series."""
        parts = self._stored(batch)
        fresh = [day for day, part in parts.items() if not part.version]
        notes = self._series.known({series for series, _ in fresh})
        self._refuse_too_many(batch, fresh, notes)
        for day, part in parts.items():
            note = notes.get(day[0])
            _refuse_other_units(batch, day, part.unit or (note["unit"] if note else ""))
        self._note(batch, fresh, notes)
        return parts

    def write(self, part: DayPart, day_start: int, readings: Sequence[Reading]) -> int:
        """Adds the readings that weren't added before; returns their number. Raises `StoreUnavailableError`."""
        for attempt in range(ATTEMPTS):
            new = part.lacking(readings)
            if not new:
                return 0
            try:
                self._table.put(part.adding(new).to_item(day_start), condition=part.unchanged)
            except ConditionFailedError:
                self._sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.005 * 2**attempt)))  # noqa: S311 - not a secret
                stored = self._table.get(part.key)
                part = part_from(stored, part.series) if stored else empty_part(part.series, day_start)
            else:
                return len(new)
        raise StoreUnavailableError(
            f"{part.series.metric} of {part.series.node}: too many write to its values of {part.day} at once; try again"
        )

    def _stored(self, batch: ValueBatch) -> dict[Day, DayPart]:
        parts = {(series, start): empty_part(series, start) for series, start in batch.days}
        days = {(part.series.key, part.day): day for day, part in parts.items()}
        for item in self._table.get_many([part.key for part in parts.values()]):
            day = days[item["seriesKey"], item["day"]]
            parts[day] = part_from(item, day[0])
        return parts

    def _refuse_too_many(self, batch: ValueBatch, fresh: Sequence[Day], notes: Mapping[Series, Item]) -> None:
        """Refuses values of new series (without a note) beyond the scope's limit."""
        new = dict.fromkeys(series for series, _ in fresh if series not in notes)
        if not new:
            return
        room = max(0, self._series.room(next(iter(new)).scope_key))
        beyond = set(list(new)[room:])
        for day in fresh:
            if day[0] in beyond:
                batch.refuse(
                    day,
                    f"{day[0].metric} of {day[0].node} would be one series more than the {self._series.most:,} that a scope "
                    "may have; is something in its name that is new each time?",
                )

    def _note(self, batch: ValueBatch, fresh: Sequence[Day], notes: Mapping[Series, Item]) -> None:
        found = dict(notes)
        for series, start in fresh:
            unit = next((one.unit for _, one in batch.days[series, start] if one.unit), "")
            if batch.days[series, start]:
                found[series] = self._series.note(series, unit, start, found.get(series))
        self._series.put([item for series, item in found.items() if item != notes.get(series)])


def _refuse_other_units(batch: ValueBatch, day: Day, unit: str) -> None:
    """Refuses values in another unit: a series has one, the first that was given."""
    given = batch.days[day]
    unit = unit or next((one.unit for _, one in given if one.unit), "")
    wrong: dict[str, list[int]] = {}
    for index, one in given:
        if one.unit and one.unit != unit:
            wrong.setdefault(one.unit, []).append(index)
    for other, indexes in wrong.items():
        batch.refuse(day, f"{day[0].metric} of {day[0].node} is in {unit}, not in {other}: convert it", indexes)


def marked(reading: Reading, batch_id: str) -> Reading:
    """Returns the reading with the batch's id as its mark, unless it has one."""
    return reading if reading.mark or not batch_id else replace(reading, mark=batch_id)


def _view(item: Item) -> SeriesView:
    return SeriesView(item["node"], item["metric"], item["unit"], item["lastSeen"])


def _hours(part: DayPart) -> dict[int, int]:
    """Maps each hour with values to the second at which it begins."""
    start = (date.fromisoformat(part.day) - date(1970, 1, 1)).days * DAY
    return {hour: start + hour * HOUR for hour in part.hours}


def _of_one_unit(parts: list[DayPart]) -> tuple[list[DayPart], tuple[str, ...]]:
    """Returns the parts in the unit of the newest one, and a note about those that are left out."""
    newest = max((part for part in parts if part.unit), key=lambda part: part.last_seen, default=None)
    if newest is None:
        return parts, ()
    kept = [part for part in parts if part.unit in ("", newest.unit)]
    others = sorted({part.unit for part in parts} - {"", newest.unit})
    note = f"values in {', '.join(others)} are left out: these are in {newest.unit}"
    return kept, ((note,) if others else ())


def _stats(
    node: str, metric: str, window: TimeWindow, parts: Sequence[DayPart], notes: tuple[str, ...]
) -> BaselineStats:
    by_hour: dict[int, Summary] = {}
    for part in parts:
        for hour, start in _hours(part).items():
            if window.has(start):
                by_hour.setdefault(hour, Summary(limit=_BUCKETS)).merge(Summary.from_bytes(part.hours[hour]))
    total = Summary(limit=_BUCKETS)
    for hour in sorted(by_hour):
        total.merge(by_hour[hour])
    return BaselineStats(
        node=node,
        metric=metric,
        time_window=window.text,
        **total.numbers(),
        by_hour=tuple(HourBaseline(hour, **by_hour[hour].numbers()) for hour in sorted(by_hour)),
        days=len({part.day for part in parts}),
        last_seen=iso_time(max(part.last_seen for part in parts)),
        unit=next((part.unit for part in parts if part.unit), ""),
        notes=notes,
    )
