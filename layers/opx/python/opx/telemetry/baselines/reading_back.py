"""What the values of a time window say, over all scopes that a reader sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from opx.domain.baselines import BaselineStats, HourBaseline, SeriesView
from opx.domain.times import iso_time
from opx.ports import Clock, KeyRange, Table
from opx.telemetry.baselines.items import DayPart, Series, part_from
from opx.telemetry.baselines.readings import names_of
from opx.telemetry.baselines.records import RecordStore
from opx.telemetry.baselines.series import SeriesRegistry
from opx.telemetry.baselines.sketch import MAX_BUCKETS
from opx.telemetry.baselines.summary import Summary
from opx.telemetry.baselines.windows import DAY, HOUR, Window

_ALL_DAY = "~"
"""Sorts after whatever stands behind a day."""

_BUCKETS = 4 * MAX_BUCKETS
"""Of what is put together for an answer, which is stored nowhere."""


class BaselineReader:
    """Reads what feeders added."""

    def __init__(self, table: Table, series: SeriesRegistry, records: RecordStore, clock: Clock) -> None:
        self._table = table
        self._series = series
        self._records = records
        self._clock = clock

    def get(self, visible: Sequence[str], node: str, metric: str, time_window: str) -> BaselineStats:
        """Those of the visible scopes together. Raises `InvalidInputError` for names or a window that can't be."""
        node, metric = names_of(node, metric)
        window = Window.ending(self._clock(), time_window)
        series = [Series(scope_key, node, metric) for scope_key in visible]
        parts = [part for one in series for part in self._parts(one, window)]
        parts, notes = _of_one_unit(parts)
        if not parts:
            recorded = self._records.newest(series, time_window)
            return recorded or BaselineStats(node=node, metric=metric, time_window=time_window)
        return _stats(node, metric, window, parts, notes)

    def series(self, visible: Iterable[str]) -> list[SeriesView]:
        """All series of the visible scopes, by node and metric."""
        found: dict[tuple[str, str], SeriesView] = {}
        for scope_key in visible:
            for item in self._series.of(scope_key):
                view = SeriesView(item["node"], item["metric"], item["unit"], item["lastSeen"])
                known = found.get((view.node, view.metric))
                if known is None or known.last_seen < view.last_seen:
                    found[view.node, view.metric] = view
        return [found[name] for name in sorted(found)]

    def _parts(self, series: Series, window: Window) -> list[DayPart]:
        """Those that have values in the window."""
        where = KeyRange(low=window.first_day, high=window.last_day + _ALL_DAY)
        parts = (part_from(item, series) for item in self._table.query(series.key, where=where))
        return [part for part in parts if any(window.has(start) for start in _hours(part).values())]


def _hours(part: DayPart) -> dict[int, int]:
    """The seconds at which the hours begin that have values."""
    start = (date.fromisoformat(part.day) - date(1970, 1, 1)).days * DAY
    return {hour: start + hour * HOUR for hour in part.hours}


def _of_one_unit(parts: list[DayPart]) -> tuple[list[DayPart], tuple[str, ...]]:
    """The parts whose unit is that of the newest one, and a note about those that are left out."""
    newest = max((part for part in parts if part.unit), key=lambda part: part.last_seen, default=None)
    if newest is None:
        return parts, ()
    kept = [part for part in parts if part.unit in ("", newest.unit)]
    others = sorted({part.unit for part in parts} - {"", newest.unit})
    note = f"values in {', '.join(others)} are left out: these are in {newest.unit}"
    return kept, ((note,) if others else ())


def _stats(node: str, metric: str, window: Window, parts: Sequence[DayPart], notes: tuple[str, ...]) -> BaselineStats:
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
