"""Rows of baselines: summaries of a day of a series, baselines that were computed elsewhere, and their indexes by scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.scopes import scope_of_key
from opx.errors import InvalidInputError
from opx.ports import Item, KeyRange, Table
from opx.ports.holdings import HeldItems
from opx.ports.rows import RowKind, Rows, checked, require_bytes, require_number, require_time, scope_key, whole
from opx.ports.tables import BASELINES
from opx_telemetry.baselines.items import (
    SCOPES,
    Series,
    part_from,
    record_key,
    recorded_in,
    recorded_partition,
    series_partition,
)
from opx_telemetry.baselines.readings import TimeWindow
from opx_telemetry.baselines.store import SeriesView
from opx_telemetry.baselines.summary import Summary


def _scope(item: Item) -> str:
    return scope_key(item["seriesKey"].rpartition("#")[0])


def _series_note(item: Item) -> Mapping[str, Any]:
    view = whole(SeriesView, item)
    require_time(view.last_seen, "lastSeen")
    return {"seriesKey": series_partition(_scope(item)), "day": stable_hash("series", view.node, view.metric)}


def _record_note(item: Item) -> Mapping[str, Any]:
    scope_of_key(item["day"].rpartition("#")[0])
    return {"seriesKey": recorded_partition(_scope(item))}


def _recorded(item: Item) -> Mapping[str, Any]:
    window = item["day"].removeprefix("record#")
    TimeWindow.ending(0.0, window)
    require_number(item["lastSeen"], "lastSeen")
    found = checked(recorded_in(item, window))
    return record_key(Series(_scope(item), found.node, found.metric), window)


def _day(item: Item) -> Mapping[str, Any]:
    part = checked(part_from(item, Series(_scope(item), item["node"], item["metric"])))
    require_number(part.last_seen, "lastSeen")
    require_time(part.day, "day")
    if len(part.day) != len("2026-11-24") or len(require_bytes(part.marks, "marks")) % 8 or part.version < 1:
        raise InvalidInputError("day, marks or version are malformed")
    for hour, data in part.hours.items():
        if hour not in range(24):
            raise InvalidInputError("hours has an unknown hour")
        Summary.from_bytes(data)
    return {name: value for name, value in part.to_item(0.0).items() if name != "expiresAt"}


def _scopes(table: Table, begins_with: str) -> Iterator[str]:
    return (item["day"] for item in table.query(SCOPES, where=KeyRange(begins_with=begins_with)))


def _items(table: Table, held: HeldItems) -> Iterator[Item]:
    for scope in held.scopes:
        series = list(table.query(series_partition(scope)))
        records = list(table.query(recorded_partition(scope)))
        for key in dict.fromkeys((*(f"{scope}#{note['day']}" for note in series), *(one["day"] for one in records))):
            yield from table.query(key)
        yield from (*series, *records)
    yield from table.get_many([{"seriesKey": SCOPES, "day": scope} for scope in held.scopes])


ROWS = Rows(
    table=BASELINES,
    name="baselines",
    kinds=(
        RowKind(lambda item: item["seriesKey"] == SCOPES, lambda item: {"day": scope_key(item["day"])}),
        RowKind(lambda item: item["seriesKey"].endswith("#series"), _series_note, expires=True),
        RowKind(lambda item: item["seriesKey"].endswith("#records"), _record_note, expires=True),
        RowKind(lambda item: item["day"].startswith("record#"), _recorded, expires=True),
        RowKind(lambda item: "#" in item["seriesKey"], _day, expires=True),
    ),
    scopes=_scopes,
    items=_items,
)
