"""Rows of streams that were subscribed to at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from opx.connectors.rows import Registered
from opx.ports.rows import RowKind, Rows
from opx.ports.tables import SOURCES
from opx_streams.capability import StreamIngestion
from opx_streams.streams.definitions import REGISTERED, stream_of


def _streams(system: Any) -> Registered:
    streams, table = system.part(StreamIngestion), system.tables.table(SOURCES)

    def names() -> Iterable[str]:
        return (stream.name for stream in streams.repository.all())

    def end(name: str) -> None:
        streams.control.end(name)

    return Registered(table, REGISTERED, system.installation.scope.client_id, names, end)


ROWS = Rows(
    table=SOURCES,
    kinds=(RowKind(lambda item: item["sourceId"] == REGISTERED, define=stream_of),),
    holding=_streams,
)
