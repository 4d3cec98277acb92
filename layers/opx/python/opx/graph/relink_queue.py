"""Queue of newly declared names that earlier documents may use, kept in the graph's table until these have the mentions.

The partition `relink#` has the names of all scopes. A row has up to `NAMES_A_ROW` names of one document, and the entry
`<scope>|<key id>#<hash of the names>`. It is written before the statements that declare the names: where a writer is
interrupted, a name may be searched in vain, and none is forgotten.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from opx.domain.graph import Origin, node_type
from opx.domain.ids import stable_hash
from opx.domain.scopes import scope_of_key
from opx.graph.extraction.mentions import NAMED_TYPES
from opx.ports import Clock, Equals, Item, KeyRange, Table
from opx.ports.tables import delete_if, readable

PARTITION = "relink#"

NAMES_A_ROW = 50
"""Names have up to 512 bytes, and a row of DynamoDB up to 400 KB; runs with a time limit search whole rows, at least one."""

ROWS_A_READ = 1_000
_HASH = 16


@dataclass(frozen=True, slots=True)
class WaitingNames:
    """A row of the queue. `since` is the time of writing (seconds), `token` differs with each write."""

    scope_key: str
    entry: str
    names: tuple[str, ...]
    since: float
    token: str

    @classmethod
    def of(cls, origin: Origin, names: Sequence[str], now: float) -> WaitingNames:
        entry = _entry(f"{origin.scope.key}|{origin.key_id}", names)
        return cls(origin.scope.key, entry, tuple(names), now, secrets.token_hex(8))

    def after(self, count: int) -> WaitingNames:
        """The row of the names behind the first `count`."""
        names = self.names[count:]
        entry = _entry(self.entry.rpartition("#")[0], names)
        return WaitingNames(self.scope_key, entry, names, self.since, secrets.token_hex(8))

    @classmethod
    def from_item(cls, item: Item) -> WaitingNames:
        """Raises `DamagedRowError`, `InvalidInputError` or `ValueError` for a damaged row."""
        scope, stored = scope_of_key(str(item["scope"])), item["names"]
        names = tuple(map(str, stored)) if isinstance(stored, list) else ()
        if not names or any(node_type(name) not in NAMED_TYPES for name in names):
            raise ValueError(f"{item['entry']} has no names")
        return cls(scope.key, str(item["entry"]), names, float(item["since"]), str(item["token"]))

    def to_item(self) -> Item:
        facts = {"scope": self.scope_key, "names": list(self.names), "since": self.since, "token": self.token}
        return {"place": PARTITION, "entry": self.entry, **facts}


def _entry(document: str, names: Sequence[str]) -> str:
    return f"{document}#{stable_hash(*names)[:_HASH]}"


class RelinkQueue:
    """Rows of the queue, in the graph's table."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def add(self, origin: Origin, names: Sequence[str]) -> list[WaitingNames]:
        """Add names that a document declares. Raises `StoreUnavailableError`."""
        now, parts = self._clock(), (names[at : at + NAMES_A_ROW] for at in range(0, len(names), NAMES_A_ROW))
        rows = [WaitingNames.of(origin, part, now) for part in parts]
        self._table.put_many([row.to_item() for row in rows])
        return rows

    def waiting(self, *, seconds: float = 0.0) -> list[WaitingNames]:
        """Rows that were written so long ago, the first `ROWS_A_READ` by scope. Raises `StoreUnavailableError`."""
        rows = islice(readable(WaitingNames.from_item, self._table.query(PARTITION)), ROWS_A_READ)
        before = self._clock() - seconds
        return [row for row in rows if not seconds or row.since <= before]

    def take(self, rows: Iterable[WaitingNames], count: int) -> None:
        """Remove the first `count` names of these rows, but for rows that were written again since. Raises
        `StoreUnavailableError`."""
        for row in rows:
            if count <= 0:
                break
            if count < len(row.names):
                self._table.put(row.after(count).to_item())
            delete_if(self._table, {"place": PARTITION, "entry": row.entry}, Equals("token", row.token))
            count -= len(row.names)

    def items_of(self, scopes: Iterable[str]) -> Iterator[Item]:
        """The rows of these scopes as items of the table."""
        for scope in scopes:
            yield from self._table.query(PARTITION, where=KeyRange(begins_with=f"{scope}|"))
