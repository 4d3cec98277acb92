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
        self._check_reader(definition)
        streams, subscriptions = self._services.streams, self._services.stream_subscriptions
        before = next((one for one in streams.all() if one.name == chosen), None)
        streams.put(definition)
        if subscriptions is not None:
            if before is not None and not before.is_of(definition.source, definition.topic):
                subscriptions.delete(before)
            subscriptions.put(definition)
        return chosen

    def _check_reader(self, definition: StreamDefinition) -> None:
        """Redis is read by this machine's process, all else by a function of a deployed system."""
        deployed = self._services.stream_subscriptions is not None
        if deployed and definition.kind is StreamKind.REDIS:
            raise InvalidInputError(
                f"stream {definition.name}: functions don't read Redis; `opx run` on a machine does"
            )
        if not deployed and definition.kind is not StreamKind.REDIS:
            raise InvalidInputError(
                f"stream {definition.name}: {definition.kind} is read by a function of a deployed system "
                "(OPX_BACKEND=aws, OPX_STREAM_FUNCTION); `opx run` reads Redis"
            )

    def end(self, name: str) -> None:
        """End a subscription; its documents stay. Raises `InvalidInputError` for a declared stream, and for one that
        isn't there."""
        definition = self._services.streams.subscribed(name)
        if self._services.stream_subscriptions is not None:
            self._services.stream_subscriptions.delete(definition)
        self._services.streams.remove(name)
