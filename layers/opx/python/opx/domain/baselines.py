"""What is normal for a metric of a node."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from opx.domain.anomalies import MIN_VALUES, Distribution, Verdict, judged, shown, was_there
from opx.domain.record import Record, replace
from opx.errors import InvalidInputError

BASELINES_CATEGORY = "operations/baselines"
"""The category whose records are numbers to compare with: they are added up, not searched."""


class HourBaseline(Distribution, frozen=True):
    """The values of one hour of the day (0-23, UTC), of all days together."""

    hour: Annotated[int, Meta(description="Of the day: 0-23, UTC.")]


class BaselineStats(Distribution, frozen=True, kw_only=True):
    """The values of a metric of a node within a time window; a `count` of 0 means that there are none.

    The window covers whole hours: those that it touches. `by_hour` has the hours of the day that have values, in order,
    `days` counts the days (UTC) that do. `last_seen` is ISO 8601, "" for never. `unit` is as it was given. `notes` say
    what the numbers lack.
    """

    node: str
    metric: str
    time_window: str
    by_hour: Annotated[
        tuple[HourBaseline, ...], Meta(description="The same by hour of the day, for hours that have values.")
    ] = ()
    days: Annotated[int, Meta(description="Days that have values.")] = 0
    last_seen: Annotated[str, Meta(description="When the newest value was measured, empty for never.")] = ""
    unit: str = ""
    notes: Annotated[tuple[str, ...], Meta(description="What the numbers lack.")] = ()

    def judge(self, value: float, hour: int | None = None) -> Verdict:
        """Whether a value is out of the ordinary, why, and how far.

        With an hour of the day (0-23, UTC), it is compared with the values of that hour, if there are 30; else with all
        of them, and then what one value in a hundred of some hour of the day reaches is not out of the ordinary: a job
        of every night is none. With fewer than 30 values nothing is. Raises `InvalidInputError` for what is no finite
        number, and for an hour that no day has.
        """
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InvalidInputError(f"a value to judge must be a finite number, not {value!r}")
        if hour is not None and (isinstance(hour, bool) or hour not in range(24)):
            raise InvalidInputError(f"an hour of the day is 0 to 23 (UTC), not {hour!r}")
        if not self.count:
            return Verdict(False, f"no data: {self.metric} of {self.node} has no values in the last {self.time_window}")
        if hour is not None:
            return self._judged_at(hour, value)
        found = judged(self, value)
        return self._unless_some_hour(found, value) if found.anomalous else found

    def _judged_at(self, hour: int, value: float) -> Verdict:
        values = next((one for one in self.by_hour if one.hour == hour), Distribution())
        if values.count >= MIN_VALUES:
            return _with(judged(values, value), f"of {hour:02}:00 to {(hour + 1) % 24:02}:00 UTC")
        few = f"of all hours, as {hour:02}:00 UTC has only {values.count} values"
        return _with(judged(self, value), few)

    def _unless_some_hour(self, found: Verdict, value: float) -> Verdict:
        for one in self.by_hour:
            if one.count >= MIN_VALUES and was_there(one, value):
                hours = f"{one.hour:02}:00 to {(one.hour + 1) % 24:02}:00 UTC"
                reason = f"{shown(value)} is usual from {hours}, though not at all hours; give the hour to be exact"
                return replace(found, anomalous=False, reason=reason)
        return found


class SeriesView(Record, frozen=True):
    """A metric of a node that has values. `last_seen` is the day (UTC) of the newest."""

    node: str
    metric: str
    unit: str
    last_seen: str


class RefusedValue(Record, frozen=True):
    """A value that can't be added: its index in the batch, and the reason."""

    index: int
    reason: str


class AddedValues(Record, frozen=True):
    """Counts of a batch that was added."""

    added: int = 0
    repeated: Annotated[int, Meta(description="Values that had been counted before.")] = 0
    refused: tuple[RefusedValue, ...] = ()


def _with(verdict: Verdict, compared: str) -> Verdict:
    return replace(verdict, reason=f"{verdict.reason} (compared with the values {compared})")
