"""Items of the baselines' table: a day of a series, the notes of a scope's series, and baselines computed elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opx.domain.baselines import BaselineStats
from opx.domain.ids import iso_time, stable_hash
from opx.domain.record import replace
from opx.ports import Clock, Condition, Equals, Item, KeyAbsent, Table
from opx_telemetry.baselines.readings import DAY, HOUR, KEPT_DAYS, Reading, day_of, mark_of, record_of
from opx_telemetry.baselines.summary import Summary

MARKS = 512
"""Number of marks that an item remembers, the last ones: a reading that is repeated after as many others counts again."""

GRACE_DAYS = 2
_MARK_BYTES = 8

MAX_SERIES = 10_000
"""Series of a scope. A metric with a request's id in its name would create a series for each request."""

SCOPES = "#scopes"
"""The partition with one item per scope. No scope has this key."""

_SERIES = "#series"


@dataclass(frozen=True, slots=True)
class Series:
    """A metric of a node, in a scope."""

    scope_key: str
    node: str
    metric: str

    @property
    def key(self) -> str:
        """Scope keys have no `#`."""
        return f"{self.scope_key}#{stable_hash('series', self.node, self.metric)}"


@dataclass(frozen=True, slots=True)
class DayPart:
    """Values that one feeder reported for a series on a day. `hours` has the bytes of a `Summary` by hour of the day.

    `part` names a feeder that replaces its earlier values of the day; "" is shared by all feeders that add values.
    """

    series: Series
    day: str
    part: str = ""
    unit: str = ""
    hours: Mapping[int, bytes] = field(default_factory=dict)
    marks: bytes = b""
    last_seen: float = 0.0
    version: int = 0

    @property
    def key(self) -> dict[str, Any]:
        return {"seriesKey": self.series.key, "day": f"{self.day}#{self.part}" if self.part else self.day}

    def lacking(self, readings: Iterable[Reading]) -> list[Reading]:
        """Returns the readings whose marks are not remembered."""
        known = {self.marks[at : at + _MARK_BYTES] for at in range(0, len(self.marks), _MARK_BYTES)}
        return [one for one in readings if not (one.mark and mark_of(one.mark) in known)]

    def adding(self, readings: Iterable[Reading]) -> DayPart:
        """Returns the part with these readings added; they are of its series and day. Only summaries of hours that get
        readings are decoded and encoded again."""
        readings = list(readings)
        by_hour: dict[int, list[float]] = {}
        for one in readings:
            by_hour.setdefault(hour_of(one.at), []).append(one.value)
        hours = dict(self.hours)
        for hour, values in by_hour.items():
            summary = Summary.from_bytes(hours[hour]) if hour in hours else Summary()
            summary.add(values)
            hours[hour] = summary.to_bytes()
        new = dict.fromkeys(mark_of(one.mark) for one in readings if one.mark)
        return replace(
            self,
            hours=hours,
            marks=(self.marks + b"".join(new))[-MARKS * _MARK_BYTES :],
            last_seen=max(self.last_seen, *(one.at for one in readings)),
            unit=self.unit or next((one.unit for one in readings if one.unit), ""),
            version=self.version + 1,
        )

    def to_item(self, day_start: float) -> Item:
        return {
            **self.key,
            "node": self.series.node,
            "metric": self.series.metric,
            "unit": self.unit,
            "hours": {f"{hour:02}": data for hour, data in sorted(self.hours.items())},
            "marks": self.marks,
            "lastSeen": self.last_seen,
            "version": self.version,
            "expiresAt": expiry_of(day_start),
        }

    @property
    def unchanged(self) -> Condition:
        """Holds while no other process has written the item since it was read (optimistic lock)."""
        return Equals("version", self.version) if self.version else KeyAbsent()


def part_from(item: Item, series: Series) -> DayPart:
    day, _, part = str(item["day"]).partition("#")
    return DayPart(
        series=series,
        day=day,
        part=part,
        unit=item["unit"],
        hours={int(hour): data for hour, data in item["hours"].items()},
        marks=item["marks"],
        last_seen=item["lastSeen"],
        version=item["version"],
    )


def expiry_of(day_start: float) -> int:
    """Expiry of a day's item: the end of the last window that contains the day, plus `GRACE_DAYS`."""
    return int(day_start) + (1 + KEPT_DAYS + GRACE_DAYS) * DAY


def hour_of(at: float) -> int:
    return int(at % DAY // HOUR)


def day_start_of(at: float) -> int:
    return int(at // DAY) * DAY


def empty_part(series: Series, day_start: float, part: str = "") -> DayPart:
    return DayPart(series, day_of(day_start), part)


class SeriesRegistry:
    """Index of the series that have values: a note for each, which expires with its last day."""

    def __init__(self, table: Table, *, most: int = MAX_SERIES) -> None:
        self._table = table
        self.most = most

    def known(self, wanted: Iterable[Series]) -> dict[Series, Item]:
        """Returns the existing notes of these series."""
        by_key = {(series_partition(one.scope_key), _sort(one)): one for one in wanted}
        found = self._table.get_many([_key(one) for one in by_key.values()])
        return {by_key[item["seriesKey"], item["day"]]: item for item in found}

    def room(self, scope_key: str) -> int:
        """Number of series that the scope may still add. Reads all of its notes."""
        return self.most - sum(1 for _ in self._table.query(series_partition(scope_key), limit=self.most))

    def note(self, series: Series, unit: str, day_start: float, before: Item | None) -> Item:
        """Returns the note of a series after values of a day were added."""
        expires, last = expiry_of(day_start), day_of(day_start)
        return {
            **_key(series),
            "node": series.node,
            "metric": series.metric,
            "unit": unit or (before["unit"] if before else ""),
            "lastSeen": max(last, before["lastSeen"]) if before else last,
            "expiresAt": max(expires, int(before["expiresAt"])) if before else expires,
        }

    def put(self, notes: Sequence[Item]) -> None:
        """Writes notes, and a note of each of their scopes."""
        scopes = dict.fromkeys(str(note["seriesKey"]).removesuffix(_SERIES) for note in notes)
        self._table.put_many([*map(scope_note, scopes), *notes])

    def of(self, scope_key: str) -> Iterator[Item]:
        return self._table.query(series_partition(scope_key))


def scope_note(scope_key: str) -> Item:
    """Records that a scope has or had baselines, so that offboarding finds all baselines of a client."""
    return {"seriesKey": SCOPES, "day": scope_key}


def series_partition(scope_key: str) -> str:
    """Partition key of a scope's series notes."""
    return f"{scope_key}{_SERIES}"


def _sort(series: Series) -> str:
    return stable_hash("series", series.node, series.metric)


def _key(series: Series) -> dict[str, Any]:
    return {"seriesKey": series_partition(series.scope_key), "day": _sort(series)}


class RecordStore:
    """Stores baselines that were computed elsewhere: the latest record of each series and window."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def put(self, scope_key: str, given: Mapping[str, Any]) -> Series:
        """Stores a record. Raises `InvalidInputError` that names the wrong field."""
        record = record_of(given)
        series, now = Series(scope_key, record.node, record.metric), self._clock()
        item = {
            **record_key(series, record.time_window),
            "node": record.node,
            "metric": record.metric,
            "unit": record.unit,
            "mean": repr(record.mean),  # as strings: the table's numbers have a smaller range
            "stddev": repr(record.stddev),
            "samples": record.samples,
            "lastSeen": now,
            "expiresAt": expiry_of(now),
        }
        note = {"seriesKey": recorded_partition(scope_key), "day": series.key, "expiresAt": item["expiresAt"]}
        for each in (scope_note(scope_key), note, item):  # one by one: some who put records may do nothing else
            self._table.put(each)
        return series

    def newest(self, series: Sequence[Series], time_window: str) -> BaselineStats | None:
        """Returns the latest record of the same series in several scopes; None without one."""
        found = self._table.get_many([record_key(one, time_window) for one in series])
        if not found:
            return None
        return recorded_in(max(found, key=lambda item: float(item["lastSeen"])), time_window)


def recorded_in(item: Item, time_window: str) -> BaselineStats:
    """The baseline in the item of a record that was computed elsewhere."""
    return BaselineStats(
        node=item["node"],
        metric=item["metric"],
        time_window=time_window,
        count=item["samples"],
        mean=float(item["mean"]),
        stddev=float(item["stddev"]),
        last_seen=iso_time(item["lastSeen"]),
        unit=item["unit"],
        notes=(f"as it was recorded on {day_of(item['lastSeen'])}: there are no values to take percentiles from",),
    )


def recorded_partition(scope_key: str) -> str:
    """Partition key of a scope's notes of series with records, so that all records of a scope can be found."""
    return f"{scope_key}#records"


def record_key(series: Series, time_window: str) -> dict[str, Any]:
    """Key of a record that was computed elsewhere."""
    return {"seriesKey": series.key, "day": f"record#{time_window}"}
