"""Rows of sources: the registered ones, the states of their pulls, and what they ingested."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from opx.connectors.repository import REGISTERED, SWITCH, definition_of
from opx.connectors.states import PullState
from opx.domain.record import from_json as read
from opx.domain.scopes import scope_of_object
from opx.ports import Item, Table
from opx.ports.holdings import HeldItems, delete
from opx.ports.rows import REVISION, RowKind, Rows, require_time
from opx.ports.tables import SOURCES


def _pull_state(item: Item) -> Mapping[str, Any]:
    state = read(PullState, item["state"])
    for time in (state.started, state.last_attempt, state.last_success):
        require_time(time, "a time of a pull")
    return {"sourceId": state.source_id, "owner": state.owner, "leaseUntil": state.lease_until}


def _source_item(item: Item) -> Mapping[str, Any]:
    scope_of_object(item["objectKey"])
    return {}


def _entry(item: Item) -> str:
    """Entry of a row of a source; "" for a definition, whose entry is a name."""
    return "" if item["sourceId"].startswith("#") else item["entry"]


@dataclass(frozen=True, slots=True)
class Registered:
    """Sources or streams that were registered at run time, if their documents belong to the client. The operator removes
    those that knowledge.yaml declares. `names` are those of all, `remove` removes one, and `rows` are partitions of their
    rows, which are removed here, also those of declared ones."""

    table: Table
    partition: str
    own_client: str
    names: Callable[[], Iterable[str]]
    remove_one: Callable[[str], object]
    rows: Callable[[], Iterable[str]] = tuple
    name = "sources and streams"

    def count(self, held: HeldItems) -> int:
        return sum(map(self.table.count, (self.partition, *self.rows()))) if self._is_own(held) else 0

    def remove(self, held: HeldItems) -> None:
        if self._is_own(held):
            for source in self.rows():
                delete(self.table, SOURCES, list(self.table.query(source)))
            for name in self._registered():
                self.remove_one(name)

    def declared(self, held: HeldItems) -> Iterable[str]:
        return set(self.names()).difference(self._registered()) if self._is_own(held) else ()

    def _is_own(self, held: HeldItems) -> bool:
        return self.own_client == held.client_id

    def _registered(self) -> list[str]:
        return [str(item["entry"]) for item in self.table.query(self.partition)]


def _sources(system: Any) -> Registered:
    connectors, table = system.connectors, system.tables.table(SOURCES)

    def names() -> list[str]:
        registered = [str(item["entry"]) for item in table.query(REGISTERED)]
        return list(dict.fromkeys([*(one.source_id for one in connectors.sources.all()), *registered]))

    def remove(source_id: str) -> None:
        connectors.control.remove(source_id)

    return Registered(table, REGISTERED, system.installation.scope.client_id, names, remove, names)


ROWS = Rows(
    table=SOURCES,
    kinds=(
        RowKind(lambda item: item["sourceId"] == REGISTERED, define=definition_of),
        RowKind(lambda item: _entry(item) == "state", _pull_state, REVISION),
        RowKind(lambda item: _entry(item) == SWITCH, fields={"enabled": bool}),
        RowKind(
            lambda item: _entry(item).startswith("item#"),
            _source_item,
            dict.fromkeys(("digest", "objectKey", "run"), str),
        ),
        RowKind(lambda item: _entry(item).startswith("page#"), fields={"url": str, "validators": dict[str, str]}),
    ),
    holding=_sources,
)
