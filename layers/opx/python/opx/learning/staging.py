"""Stages captured entries in a table: each is written once, verified once and processed once.

A row is the entry with a `revision`. Waiting and ready entries are found by `waitingPlace`: state, scope and project. An
index of DynamoDB lags for a moment: an entry captured right before a checkpoint may be left for the next one, and a row is
read again before the index's state of it is acted upon.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice

from opx.domain.learning import EntryState, StagingEntry
from opx.domain.record import replace
from opx.errors import EntryNotFoundError
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table
from opx.ports.tables import put_if, readable

KEPT_SECONDS = 365 * 86_400
"""Lifetime of a captured entry. By then it is counted in its pattern, or was never verified."""

_WAITING = (EntryState.WAITING, EntryState.READY)


class Staging:
    """The only writer of the staging table."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def add(self, entry: StagingEntry) -> bool:
        """Stores a new entry; False if it exists already."""
        return put_if(self._table, self._row(entry, 1), KeyAbsent())

    def change(self, entry: StagingEntry, found: StagingEntry) -> bool:
        """Replaces the entry as it was `found`; False if it was changed meanwhile."""
        item = self._table.get({"id": found.id})
        if item is None or StagingEntry.from_json(item) != found:
            return False
        revision = int(item["revision"])
        changed = {**self._row(entry, revision + 1), "expiresAt": item["expiresAt"]}
        return put_if(self._table, changed, Equals("revision", revision))

    def mark_processed(self, entry: StagingEntry, pattern_id: str, at: str) -> bool:
        """Marks an entry as processed; False if another process did, or it was changed meanwhile."""
        processed = replace(entry, embedded=True, embedded_at=at, pattern_id=pattern_id)
        return self.change(processed, entry)

    def get(self, scope_key: str, entry_id: str) -> StagingEntry:
        """An entry of a scope. Raises `EntryNotFoundError`, also for one of another scope."""
        item = self._table.get({"id": entry_id}) if entry_id else None
        if item is None or item["scopeKey"] != scope_key:
            raise EntryNotFoundError(
                f"there is no entry {entry_id[:100]!r} in your scope; `opx learn list` lists captured entries"
            )
        return StagingEntry.from_json(item)

    def get_many(self, ids: Sequence[str]) -> list[StagingEntry]:
        """The entries of these ids that exist, in the order of the ids."""
        found = {str(item["id"]): item for item in self._table.get_many([{"id": one} for one in ids])}
        return list(readable(StagingEntry.from_json, (found[one] for one in ids if one in found)))

    def ids(self, scope_key: str, project_id: str, state: EntryState) -> Iterator[str]:
        """Ids of a project's waiting or ready entries according to the index, the oldest first."""
        for item in self._table.query(_partition(state, scope_key, project_id), index="waiting-index"):
            yield str(item["id"])

    def entries(
        self, scope_key: str, projects: Iterable[str], state: EntryState | None, *, after: StagingEntry | None = None
    ) -> Iterator[StagingEntry]:
        """Entries of a scope, of any state or of one, the newest first; `after` one of them."""
        wanted = frozenset(projects)
        rows: Iterator[Item]
        until = KeyRange(high=after.timestamp) if after else None
        if state in _WAITING:
            partitions = [_partition(state, scope_key, project) for project in sorted(wanted)]
            found = [self._table.query(one, index="waiting-index", where=until, reverse=True) for one in partitions]
            rows = heapq.merge(*found, key=lambda item: str(item["timestamp"]), reverse=True)
        else:
            rows = self._table.query(scope_key, index="scope-index", where=until, reverse=True)
        entries = readable(StagingEntry.from_json, (item for item in rows if item.get("project_id") in wanted))
        kept = (entry for entry in _in_order(entries) if state is None or entry.state is state)
        return (entry for entry in kept if after is None or _order(entry) < _order(after))

    def _row(self, entry: StagingEntry, revision: int) -> Item:
        waits = waiting_partition(entry)
        return {
            **entry.to_json(),
            "scopeKey": entry.scope_key,
            "revision": revision,
            "expiresAt": int(self._clock()) + KEPT_SECONDS,
            **({"waitingPlace": waits} if waits else {}),
        }


def first(entries: Iterable[StagingEntry], limit: int) -> list[StagingEntry]:
    """The first `limit` entries."""
    return list(islice(entries, limit))


def waiting_partition(entry: StagingEntry) -> str:
    """Partition of the index of unprocessed entries that an entry is in; "" for a processed one."""
    return _partition(entry.state, entry.scope_key, entry.project_id) if entry.state in _WAITING else ""


def _partition(state: EntryState, scope_key: str, project_id: str) -> str:
    return f"{state.value}#{scope_key}#{project_id}"


def _order(entry: StagingEntry) -> tuple[str, str]:
    return entry.timestamp, entry.id


def _in_order(entries: Iterable[StagingEntry]) -> Iterator[StagingEntry]:
    """Sorts entries of the same second by id: an index returns them in no particular order."""
    for _, together in groupby(entries, key=lambda entry: entry.timestamp):
        yield from sorted(together, key=_order, reverse=True)
