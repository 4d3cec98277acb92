"""Baselines that somebody else computed: answered where no values are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opx.domain.baselines import BaselineStats
from opx.domain.times import iso_time
from opx.ports import Clock, Table
from opx.telemetry.baselines.items import Series, expiry_of
from opx.telemetry.baselines.readings import record_of
from opx.telemetry.baselines.series import scope_note
from opx.telemetry.baselines.windows import day_of


class RecordStore:
    """One record for each series and window, the last one that was given."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def put(self, scope_key: str, given: Mapping[str, Any]) -> Series:
        """Keep a record. Raises `InvalidInputError` that names what is wrong with it."""
        record = record_of(given)
        series, now = Series(scope_key, record.node, record.metric), self._clock()
        item = {
            **_key(series, record.time_window),
            "node": record.node,
            "metric": record.metric,
            "unit": record.unit,
            "mean": repr(record.mean),  # as texts: the table's numbers have a smaller range
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
        """The record that was given last, among the same series in several scopes."""
        found = self._table.get_many([_key(one, time_window) for one in series])
        if not found:
            return None
        item = max(found, key=lambda item: float(item["lastSeen"]))
        return BaselineStats(
            node=item["node"],
            metric=item["metric"],
            time_window=time_window,
            count=int(item["samples"]),
            mean=float(item["mean"]),
            stddev=float(item["stddev"]),
            last_seen=iso_time(item["lastSeen"]),
            unit=item["unit"],
            notes=(f"as it was recorded on {day_of(item['lastSeen'])}: there are no values to take percentiles from",),
        )


def recorded_partition(scope_key: str) -> str:
    """Where the scope's series that have records are noted, so that all of a scope can be found."""
    return f"{scope_key}#records"


def _key(series: Series, time_window: str) -> dict[str, Any]:
    return {"seriesKey": series.key, "day": f"record#{time_window}"}
