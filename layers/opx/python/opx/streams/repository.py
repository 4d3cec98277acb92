"""Streams that are declared or subscribed to."""

from __future__ import annotations

from collections.abc import Mapping

from opx.domain.knowledge import KnowledgeModel
from opx.domain.streams import StreamDefinition
from opx.errors import InvalidInputError
from opx.ports.tables import Table
from opx.streams.definitions import stream_fields, stream_of

_STREAMS = "#streams"


class StreamRepository:
    """Above the table of sources. A stream that `declared` has can't be subscribed to under its name."""

    def __init__(self, table: Table, declared: Mapping[str, StreamDefinition], knowledge: KnowledgeModel) -> None:
        self._table = table
        self._declared = declared
        self._knowledge = knowledge

    def all(self) -> list[StreamDefinition]:
        """Every stream, by name."""
        found = {
            item["entry"]: stream_of(item["entry"], item["definition"], self._knowledge)
            for item in self._table.query(_STREAMS)
        }
        return sorted({**found, **self._declared}.values(), key=lambda definition: definition.name)

    def is_declared(self, name: str) -> bool:
        return name in self._declared

    def put(self, definition: StreamDefinition) -> None:
        """Keep a subscription, replacing the one of its name. Raises `InvalidInputError` for a declared name."""
        if definition.name in self._declared:
            raise InvalidInputError(f"stream {definition.name} is declared in knowledge.yaml; change it there")
        self._table.put({"sourceId": _STREAMS, "entry": definition.name, "definition": stream_fields(definition)})

    def remove(self, name: str) -> None:
        """Forget a subscription; its documents stay. Raises `InvalidInputError` for one that isn't there."""
        if name in self._declared:
            raise InvalidInputError(f"stream {name} is declared in knowledge.yaml; remove it there")
        if self._table.get({"sourceId": _STREAMS, "entry": name}) is None:
            known = ", ".join(definition.name for definition in self.all()) or "none yet"
            raise InvalidInputError(f"no stream {name!r}; there are: {known}")
        self._table.delete({"sourceId": _STREAMS, "entry": name})
