"""Entries as they were captured, in the table of staging: each is written once, verified once and taken in once.

A row is the entry with a `revision`. What waits, and what is ready for a checkpoint, is found by `waitingPlace`: state,
scope and project. An index of DynamoDB lags for a moment: what was captured right before a checkpoint may be left for the
next one, and what an index says is asked of the row itself before anything is done about it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from opx.domain.learning import EntryState, StagingEntry
from opx.domain.record import replace
from opx.errors import ConditionFailedError, EntryNotFoundError
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table

KEPT_SECONDS = 365 * 86_400
"""After an entry was captured. What it taught is in its pattern by then, or nobody ever said whether it worked."""

_WAITING = (EntryState.WAITING, EntryState.READY)


class Staging:
    """The only writer of the table of staging."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def add(self, entry: StagingEntry) -> bool:
        """Keep a new entry; False if it is there already."""
        try:
            self._table.put(self._row(entry, 1), condition=KeyAbsent())
        except ConditionFailedError:
            return False
        return True

    def change(self, entry: StagingEntry, found: StagingEntry) -> bool:
        """Write an entry in place of how it was `found`; False if it is another by now."""
        item = self._table.get({"id": found.id})
        if item is None or StagingEntry.from_json(item) != found:
            return False
        revision = int(item["revision"])
        try:
            self._table.put(
                {**self._row(entry, revision + 1), "expiresAt": item["expiresAt"]},
                condition=Equals("revision", revision),
            )
        except ConditionFailedError:
            return False
        return True

    def take_in(self, entry: StagingEntry, pattern_id: str, at: str) -> bool:
        """Note that an entry was taken in; False if somebody else did, or it is another by now."""
        taken = replace(entry, embedded=True, embedded_at=at, pattern_id=pattern_id)
        return self.change(taken, entry)

    def get(self, scope_key: str, entry_id: str) -> StagingEntry:
        """An entry of a scope. Raises `EntryNotFoundError`, also for one of another scope."""
        item = self._table.get({"id": entry_id}) if entry_id else None
        if item is None or item["scopeKey"] != scope_key:
            raise EntryNotFoundError(
                f"nothing was captured here as {entry_id[:100]!r}; `opx learn list` has what was captured"
            )
        return StagingEntry.from_json(item)

    def get_many(self, ids: Sequence[str]) -> list[StagingEntry]:
        """The entries of these ids that exist, in the order of the ids."""
        found = {str(item["id"]): item for item in self._table.get_many([{"id": one} for one in ids])}
        return [StagingEntry.from_json(found[one]) for one in ids if one in found]

    def ids(self, scope_key: str, project_id: str, state: EntryState) -> Iterator[str]:
        """Ids of a project's entries that wait or are ready, as the index has them, the oldest first."""
        for item in self._table.query(_place(state, scope_key, project_id), index="waiting-index"):
            yield str(item["id"])

    def entries(
        self, scope_key: str, projects: Iterable[str], state: EntryState | None, *, after: StagingEntry | None = None
    ) -> Iterator[StagingEntry]:
        """Entries of a scope, of any state or of one, the newest first; `after` one of them."""
        wanted = frozenset(projects)
        rows: Iterator[Item]
        until = KeyRange(high=after.timestamp) if after else None
        if state in _WAITING:
            places = [_place(state, scope_key, project) for project in sorted(wanted)]
            found = [self._table.query(one, index="waiting-index", where=until, reverse=True) for one in places]
            rows = heapq.merge(*found, key=lambda item: str(item["timestamp"]), reverse=True)
        else:
            rows = self._table.query(scope_key, index="scope-index", where=until, reverse=True)
        entries = (StagingEntry.from_json(item) for item in rows if item["project_id"] in wanted)
        kept = (entry for entry in _in_order(entries) if state is None or entry.state is state)
        return (entry for entry in kept if after is None or _order(entry) < _order(after))

    def _row(self, entry: StagingEntry, revision: int) -> Item:
        waits = entry.state in _WAITING
        place = _place(entry.state, entry.scope_key, entry.project_id)
        return {
            **entry.to_json(),
            "scopeKey": entry.scope_key,
            "revision": revision,
            "expiresAt": int(self._clock()) + KEPT_SECONDS,
            **({"waitingPlace": place} if waits else {}),
        }


def first(entries: Iterable[StagingEntry], limit: int) -> list[StagingEntry]:
    """So many of them."""
    return list(islice(entries, limit))


def _place(state: EntryState, scope_key: str, project_id: str) -> str:
    return f"{state.value}#{scope_key}#{project_id}"


def _order(entry: StagingEntry) -> tuple[str, str]:
    return entry.timestamp, entry.id


def _in_order(entries: Iterable[StagingEntry]) -> Iterator[StagingEntry]:
    """Entries of the same second by id, which an index gives in no particular order."""
    for _, together in groupby(entries, key=lambda entry: entry.timestamp):
        yield from sorted(together, key=_order, reverse=True)
