"""Rows of sources: the registered ones, the states of their pulls, and what they ingested."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opx.connectors.repository import REGISTERED, SWITCH, definition_of
from opx.connectors.states import PullState
from opx.domain.record import Record
from opx.domain.record import from_json as read
from opx.domain.scopes import scope_of_object
from opx.ports import Item
from opx.ports.holdings import HeldItems, SourceHolding, delete
from opx.ports.rows import Revision, RowKind, Rows, require_time, whole
from opx.ports.tables import SOURCES


class _StateRow(Record, frozen=True):
    state: PullState
    owner: str
    lease_until: float
    revision: Revision


class _SwitchRow(Record, frozen=True):
    enabled: bool


class _ItemRow(Record, frozen=True):
    digest: str
    object_key: str
    run: str


class _PageRow(Record, frozen=True):
    url: str
    validators: dict[str, str]


def _pull_state(item: Item) -> Mapping[str, Any]:
    row = read(_StateRow, item)
    for name in ("started", "last_attempt", "last_success"):
        require_time(getattr(row.state, name), name)
    return {"sourceId": row.state.source_id, "owner": row.state.owner, "leaseUntil": row.state.lease_until}


def _source_item(item: Item) -> Mapping[str, Any]:
    row = whole(_ItemRow, item)
    scope_of_object(row.object_key)
    return {}


def _entry(item: Item) -> str:
    """Entry of a row of a source; "" for a definition, whose entry is a name."""
    return "" if item["sourceId"].startswith("#") else item["entry"]


class RegisteredSources:
    """Sources that were registered at run time, if their documents belong to the client. The operator removes those that
    knowledge.yaml declares; the records of their documents are removed here."""

    name = "sources and streams"

    def __init__(self, system: Any) -> None:
        self._table = system.tables.table(SOURCES)
        self._connectors = system.connectors
        self._client_id = system.installation.scope.client_id

    def count(self, held: HeldItems) -> int:
        if held.client_id != self._client_id:
            return 0
        return len(self._registered()) + sum(self._table.count(source) for source in self._sources())

    def remove(self, held: HeldItems) -> None:
        if held.client_id != self._client_id:
            return
        for source in self._sources():
            delete(self._table, SOURCES, list(self._table.query(source)))
        for source in self._registered():
            self._connectors.control.remove(source)

    def declared(self, held: HeldItems) -> Iterable[str]:
        if held.client_id != self._client_id:
            return ()
        return {definition.source_id for definition in self._connectors.sources.all()}.difference(self._registered())

    def _registered(self) -> list[str]:
        return [str(item["entry"]) for item in self._table.query(REGISTERED)]

    def _sources(self) -> list[str]:
        declared = [definition.source_id for definition in self._connectors.sources.all()]
        return list(dict.fromkeys([*declared, *self._registered()]))


def _holding(system: Any) -> SourceHolding:
    return RegisteredSources(system)


ROWS = Rows(
    table=SOURCES,
    kinds=(
        RowKind(lambda item: item["sourceId"] == REGISTERED, define=definition_of),
        RowKind(lambda item: _entry(item) == "state", _pull_state),
        RowKind(lambda item: _entry(item) == SWITCH, lambda item: whole(_SwitchRow, item).to_json()),
        RowKind(lambda item: _entry(item).startswith("item#"), _source_item),
        RowKind(lambda item: _entry(item).startswith("page#"), lambda item: whole(_PageRow, item).to_json()),
    ),
    holding=_holding,
)
