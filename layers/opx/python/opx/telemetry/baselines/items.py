"""A day of a series as an item of the table, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.ports import Absent, Condition, Equals, Item
from opx.telemetry.baselines.readings import Reading, mark_of
from opx.telemetry.baselines.summary import Summary
from opx.telemetry.baselines.windows import DAY, HOUR, KEPT_DAYS, day_of

MARKS = 512
"""How many marks an item remembers, the last ones: what comes again after as many others is counted again."""

GRACE_DAYS = 2
_MARK_BYTES = 8


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
    """What one feeder said of a series on a day. `hours` has the bytes of a `Summary` by hour of the day.

    `part` tells feeders apart that replace what they said before; "" is for all that add to it.
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
        """The readings without those whose marks are remembered."""
        known = {self.marks[at : at + _MARK_BYTES] for at in range(0, len(self.marks), _MARK_BYTES)}
        return [one for one in readings if not (one.mark and mark_of(one.mark) in known)]

    def adding(self, readings: Iterable[Reading]) -> DayPart:
        """The part with these readings, which are of its series and its day, added. A summary is read and written only
        for hours that something is added to."""
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
        """Holds while nobody else has written the item since it was read."""
        return Equals("version", self.version) if self.version else Absent()


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
    """When an item goes: when the last window that its day is in has passed, and a little later."""
    return int(day_start) + (1 + KEPT_DAYS + GRACE_DAYS) * DAY


def hour_of(at: float) -> int:
    return int(at % DAY // HOUR)


def day_start_of(at: float) -> int:
    return int(at // DAY) * DAY


def empty_part(series: Series, day_start: float, part: str = "") -> DayPart:
    return DayPart(series, day_of(day_start), part)
