"""Remembers the last delivery of each webhook and the last record of each stream, for people who ask why nothing comes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import StrEnum
from threading import Lock
from typing import Annotated

from opx.domain.ids import iso_time
from opx.domain.record import Record, about, replace
from opx.errors import ConditionFailedError, StoreUnavailableError
from opx.ports import Clock, Equals, Item, KeyAbsent, Table

log = logging.getLogger(__name__)

WRITE_SECONDS = 60.0
"""A process writes what arrived at one webhook or stream once in this time at most: the others are counted until then."""
WEBHOOK, STREAM = "webhook", "stream"


class ArrivalState(StrEnum):
    """Outcome of a delivery or a record: it changed documents, it changed none (filtered, known or outdated), or it was
    refused."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    REFUSED = "refused"


class ArrivalCount(Record, frozen=True):
    """The last arrival with one outcome, and how many had it, at least."""

    at: str
    count: int
    reason: Annotated[str, about("Why it was refused or ignored, as a code.")] = ""


class LastArrival(Record, frozen=True):
    """The last arrivals at a webhook or a stream; null where there was none."""

    accepted: ArrivalCount | None = None
    ignored: ArrivalCount | None = None
    refused: ArrivalCount | None = None


class Arrivals:
    """Arrivals by webhook and stream, in the table of deliveries. Nothing depends on them: where they can't be written, the
    delivery is processed all the same.

    What a process counted and didn't write is lost at its end, so that counts are the least that arrived.
    """

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock
        self._waiting: dict[tuple[str, ArrivalState], ArrivalCount] = {}
        self._written: dict[tuple[str, ArrivalState], float] = {}
        self._lock = Lock()

    def note(self, kind: str, name: str, state: ArrivalState, reason: str = "") -> None:
        """Counts an arrival, and writes it with those before unless that was done just now."""
        key, now = (_key(kind, name), state), self._clock()
        with self._lock:
            before = self._waiting.get(key)
            self._waiting[key] = ArrivalCount(iso_time(now), (before.count if before else 0) + 1, reason)
            if now - self._written.get(key, now - WRITE_SECONDS) < WRITE_SECONDS:
                return
            self._written[key] = now
            added = self._waiting.pop(key)
        try:
            self._add(key[0], state, added)
        except (ConditionFailedError, StoreUnavailableError) as exc:
            log.warning("the arrival at %s %s is not recorded: %s", kind, name, type(exc).__name__)

    def last(self, kind: str, names: Iterable[str]) -> dict[str, LastArrival]:
        """The last arrivals of those with these names that had any. Raises `StoreUnavailableError`."""
        keys = {_key(kind, name): name for name in names}
        found = self._table.get_many([{"deliveryId": key} for key in keys])
        return {keys[str(item["deliveryId"])]: _arrivals_in(item) for item in found}

    def _add(self, key: str, state: ArrivalState, added: ArrivalCount) -> None:
        item = self._table.get({"deliveryId": key})
        known = _arrivals_in(item) if item else LastArrival()
        before = getattr(known, state.value)
        counted = replace(added, count=added.count + (before.count if before else 0))
        changed = replace(known, **{state.value: counted})
        revision = int(item["revision"]) if item else 0
        self._table.put(
            {"deliveryId": key, "arrivals": changed.to_json(), "revision": revision + 1},
            condition=Equals("revision", revision) if item else KeyAbsent(),
        )


def _key(kind: str, name: str) -> str:
    return f"last#{kind}#{name}"


def _arrivals_in(item: Item) -> LastArrival:
    return LastArrival.from_json(item["arrivals"])


def last_shown(last: LastArrival | None) -> str:
    """The latest arrival in a cell of a table: `2026-03-31T09:12:00Z accepted (12)`."""
    found = {state: getattr(last, state.value) for state in ArrivalState} if last else {}
    known = [(one.at, state.value, one) for state, one in found.items() if one]
    if not known:
        return "-"
    at, state, one = max(known, key=lambda each: each[0])
    return " ".join(filter(None, (at, state, one.reason, f"({one.count:,})")))
