"""Stores which contradictions of documents people have marked as none, in the table of gaps, in a partition of each scope.

The id of a contradiction has those of both documents in it, which change with their text, so that a mark needs no end.
"""

from __future__ import annotations

from collections.abc import Iterable

from opx.domain.ids import iso_time
from opx.domain.record import Record
from opx.domain.scopes import Scope
from opx.ingestion.corpus.clients import ClientRegistry
from opx.ports import Clock, Table, Tables
from opx.ports.tables import GAPS
from opx.records.gaps.log import SCOPES

DISMISSED = "#dismissed "


class DismissedMark(Record, frozen=True):
    """A row: who marked a contradiction as none, and the reason."""

    by: str
    because: str
    at: str


class Dismissals:
    """Marks by scope. Raises `StoreUnavailableError`."""

    def __init__(self, table: Table, clients: ClientRegistry, clock: Clock) -> None:
        self._table = table
        self._clients = clients
        self._clock = clock

    @classmethod
    def of(cls, tables: Tables, clients: ClientRegistry, clock: Clock) -> Dismissals:
        return cls(tables.table(GAPS), clients, clock)

    def ids(self, scopes: Iterable[str]) -> set[str]:
        """The contradictions that these scopes have marks of."""
        return {str(item["gapId"]) for scope in scopes for item in self._table.query(dismissed_partition(scope))}

    def put(self, scope: Scope, contradiction_id: str, *, by: str, because: str) -> None:
        """Keeps a mark. Raises `ClientRemovedError` for a removed client."""
        self._clients.check(scope.client_id)
        self._table.put({"scopeKey": SCOPES, "gapId": scope.key})
        mark = DismissedMark(by, because, iso_time(self._clock()))
        key = {"scopeKey": dismissed_partition(scope.key), "gapId": contradiction_id}
        self._table.put({**key, **mark.to_json()})

    def remove(self, scope: Scope, contradiction_id: str) -> None:
        """Takes a mark away; does nothing without one."""
        self._table.delete({"scopeKey": dismissed_partition(scope.key), "gapId": contradiction_id})


def dismissed_partition(scope_key: str) -> str:
    """The partition of a scope's marks, whose gaps are in that of its key."""
    return f"{DISMISSED}{scope_key}"
