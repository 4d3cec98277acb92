"""What people do with streams: list them, subscribe, and end a subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opx.domain.streams import StreamDefinition, StreamKind
from opx.errors import InvalidInputError
from opx.streams.definitions import stream_of, subscription_id

if TYPE_CHECKING:
    from opx.services import Services


class StreamControl:
    """The streams of the installation that `services` are of."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def subscribe(
        self, source: str, category: str, pattern: Mapping[str, Any] | None, *, name: str = "", **more: Any
    ) -> str:
        """Have records become documents from now on. Returns the stream's name. Raises `InvalidInputError`."""
        topic = str(more.get("topic", ""))
        chosen = name or subscription_id(source, topic, category)
        given = {"source": source, "category": category, "filter": dict(pattern or {}), **more}
        definition = stream_of(chosen, given, self._services.knowledge)
        subscriptions = self._services.stream_subscriptions
        if subscriptions is None and definition.kind is not StreamKind.REDIS:
            raise InvalidInputError(
                f"stream {chosen}: {definition.kind} is read by a function of a deployed system; `opx run` reads Redis"
            )
        self._services.streams.put(definition)
        if subscriptions is not None:
            subscriptions.put(definition)
        return chosen

    def end(self, name: str) -> None:
        """End a subscription; its documents stay. Raises `InvalidInputError`."""
        definition = next((found for found in self._services.streams.all() if found.name == name), None)
        self._services.streams.remove(name)
        if definition is not None and self._services.stream_subscriptions is not None:
            self._services.stream_subscriptions.delete(definition)

    def all(self) -> list[StreamDefinition]:
        return self._services.streams.all()
