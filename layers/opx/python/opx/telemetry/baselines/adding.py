"""Adds values to the days of their series, however many feeders do so at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opx.domain.baselines import RefusedValue
from opx.domain.record import replace
from opx.errors import ConditionFailedError, InvalidInputError, StoreUnavailableError
from opx.ports import Item, Table
from opx.telemetry.baselines.items import DayPart, Series, day_start_of, empty_part, part_from
from opx.telemetry.baselines.readings import Reading, checked_reading, reading_of
from opx.telemetry.baselines.series import SeriesRegistry

ATTEMPTS = 12
_LONGEST_PAUSE = 0.5


Day = tuple[Series, int]
"""A series, and the second at which the day begins."""


@dataclass(slots=True)
class Batch:
    """Values on their way in: by day of a series, each with its place. `refuse` takes one out and keeps the reason."""

    days: dict[Day, list[tuple[int, Reading]]] = field(default_factory=dict)
    refused: list[RefusedValue] = field(default_factory=list)

    @classmethod
    def of(cls, given: Sequence[Reading | Mapping[str, Any]], scope_key: str, now: float) -> Batch:
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

    def refuse(self, day: Day, reason: str, places: Iterable[int] | None = None) -> None:
        """Take values of a day out: those at these places of the batch, or all."""
        out = {index for index, _ in self.days[day]} if places is None else set(places)
        self.refused += [RefusedValue(index, reason) for index in sorted(out)]
        self.days[day] = [(index, one) for index, one in self.days[day] if index not in out]


def _checked(given: object, now: float) -> Reading:
    if isinstance(given, Reading):
        return checked_reading(given, now)
    if isinstance(given, Mapping):
        return reading_of(given, now)
    raise InvalidInputError("a value is an object with node, metric and value")


class Adder:
    """Adds batches. An item that somebody else wrote meanwhile is read again, and added to again."""

    def __init__(self, table: Table, series: SeriesRegistry, sleep: Callable[[float], None]) -> None:
        self._table = table
        self._series = series
        self._sleep = sleep

    def prepare(self, batch: Batch) -> dict[Day, DayPart]:
        """The days as they are stored, after what may not be added is refused and new series are noted."""
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
        """Add what wasn't added before; how many that is. Raises `StoreUnavailableError`."""
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

    def _stored(self, batch: Batch) -> dict[Day, DayPart]:
        parts = {(series, start): empty_part(series, start) for series, start in batch.days}
        days = {(part.series.key, part.day): day for day, part in parts.items()}
        for item in self._table.get_many([part.key for part in parts.values()]):
            day = days[item["seriesKey"], item["day"]]
            parts[day] = part_from(item, day[0])
        return parts

    def _refuse_too_many(self, batch: Batch, fresh: Sequence[Day], notes: Mapping[Series, Item]) -> None:
        """A series that isn't noted is a new one, and needs room."""
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

    def _note(self, batch: Batch, fresh: Sequence[Day], notes: Mapping[Series, Item]) -> None:
        found = dict(notes)
        for series, start in fresh:
            unit = next((one.unit for _, one in batch.days[series, start] if one.unit), "")
            if batch.days[series, start]:
                found[series] = self._series.note(series, unit, start, found.get(series))
        self._series.put([item for series, item in found.items() if item != notes.get(series)])


def _refuse_other_units(batch: Batch, day: Day, unit: str) -> None:
    """A series has one unit: the first that is said."""
    given = batch.days[day]
    unit = unit or next((one.unit for _, one in given if one.unit), "")
    wrong: dict[str, list[int]] = {}
    for index, one in given:
        if one.unit and one.unit != unit:
            wrong.setdefault(one.unit, []).append(index)
    for other, places in wrong.items():
        batch.refuse(day, f"{day[0].metric} of {day[0].node} is in {unit}, not in {other}: convert it", places)


def marked(reading: Reading, batch_id: str) -> Reading:
    """With the batch's id as its mark, unless it has one."""
    return reading if reading.mark or not batch_id else replace(reading, mark=batch_id)
