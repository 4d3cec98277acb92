"""Rows of streams that were subscribed to at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opx.connectors.streams.definitions import REGISTERED, stream_of
from opx.ports.holdings import HeldItems, SourceHolding
from opx.ports.rows import RowKind, Rows
from opx.ports.tables import SOURCES


class Subscriptions:
    """Streams that were subscribed to at run time, if their documents belong to the client. The operator removes those that
    knowledge.yaml declares."""

    name = "sources and streams"

    def __init__(self, system: Any) -> None:
        self._table = system.tables.table(SOURCES)
        self._connectors = system.connectors
        self._client_id = system.installation.scope.client_id

    def count(self, held: HeldItems) -> int:
        return len(self._subscribed(held))

    def remove(self, held: HeldItems) -> None:
        for stream in self._subscribed(held):
            self._connectors.stream_control.end(stream)

    def declared(self, held: HeldItems) -> Iterable[str]:
        if held.client_id != self._client_id:
            return ()
        return {stream.name for stream in self._connectors.streams.all()}.difference(self._subscribed(held))

    def _subscribed(self, held: HeldItems) -> list[str]:
        own = held.client_id == self._client_id
        return [str(item["entry"]) for item in self._table.query(REGISTERED)] if own else []


def _holding(system: Any) -> SourceHolding:
    return Subscriptions(system)


ROWS = Rows(
    table=SOURCES,
    kinds=(RowKind(lambda item: item["sourceId"] == REGISTERED, define=stream_of),),
    holding=_holding,
)
