"""Streams that are declared or subscribed to."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from opx.domain.knowledge import KnowledgeModel
from opx.domain.streams import StreamDefinition
from opx.errors import InvalidInputError
from opx.ports.tables import Table
from opx.streams.definitions import refuse_shared, stream_of

log = logging.getLogger(__name__)

REGISTERED = "#streams"


class StreamRepository:
    """Above the table of sources. A stream that `declared` has can't be subscribed to under its name."""

    def __init__(self, table: Table, declared: Mapping[str, StreamDefinition], knowledge: KnowledgeModel) -> None:
        self._table = table
        self._declared = declared
        self._knowledge = knowledge
        self._wrong: set[str] = set()

    def all(self) -> list[StreamDefinition]:
        """Every stream, by name. A subscription that has become wrong, as its category is gone, is logged once and left
        out."""
        found = {definition.name: definition for definition in self._subscribed()}
        return sorted({**found, **self._declared}.values(), key=lambda definition: definition.name)

    def _subscribed(self) -> Iterator[StreamDefinition]:
        for item in self._table.query(REGISTERED):
            try:
                yield stream_of(item["entry"], item["definition"], self._knowledge)
            except InvalidInputError as exc:
                if item["entry"] not in self._wrong:
                    log.error("a stream isn't read: %s", exc)  # noqa: TRY400 - the message says it all
                self._wrong.add(item["entry"])

    def put(self, definition: StreamDefinition) -> None:
        """Keep a subscription, replacing the one of its name. Raises `InvalidInputError` for a declared name, and for a
        stream that is read under another."""
        if definition.name in self._declared:
            raise InvalidInputError(f"stream {definition.name} is declared in knowledge.yaml; change it there")
        refuse_shared(definition, self.all())
        self._table.put({"sourceId": REGISTERED, "entry": definition.name, "definition": definition.fields()})

    def subscribed(self, name: str) -> StreamDefinition:
        """A subscription. Raises `InvalidInputError` for a declared stream, and for one that isn't there."""
        if name in self._declared:
            raise InvalidInputError(f"stream {name} is declared in knowledge.yaml; remove it there")
        item = self._table.get({"sourceId": REGISTERED, "entry": name}) if name else None
        if item is None:
            known = ", ".join(definition.name for definition in self.all()) or "none yet"
            raise InvalidInputError(f"no stream {name!r}; there are: {known}")
        return stream_of(name, item["definition"], self._knowledge)

    def remove(self, name: str) -> None:
        """Forget a subscription; its documents stay. Nothing happens if it isn't there."""
        self._table.delete({"sourceId": REGISTERED, "entry": name})
