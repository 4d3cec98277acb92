"""What people do with streams: list them, subscribe, and end a subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opx.connectors.streams.definitions import stream_of, subscription_id
from opx.domain.streams import StreamDefinition, StreamKind
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.connectors.streams.definitions import StreamRepository
    from opx.domain.knowledge import KnowledgeModel
    from opx.ports.sources import StreamSubscriptions


class StreamControl:
    """The streams of an installation. `subscriptions` has them read on AWS; None where this machine's process reads."""

    def __init__(
        self, streams: StreamRepository, knowledge: KnowledgeModel, subscriptions: StreamSubscriptions | None
    ) -> None:
        self._streams = streams
        self._knowledge = knowledge
        self._subscriptions = subscriptions

    def subscribe(
        self, source: str, category: str, pattern: Mapping[str, Any] | None, *, name: str = "", **more: Any
    ) -> str:
        """Have records become documents from now on. Returns the stream's name. Raises `InvalidInputError`."""
        topic = str(more.get("topic", ""))
        chosen = name or subscription_id(source, topic, category)
        given = {"source": source, "category": category, "filter": dict(pattern or {}), **more}
        definition = stream_of(chosen, given, self._knowledge)
        self._check_reader(definition)
        streams, subscriptions = self._streams, self._subscriptions
        before = next((one for one in streams.all() if one.name == chosen), None)
        streams.put(definition)
        if subscriptions is not None:
            if before is not None and not before.is_of(definition.source, definition.topic):
                subscriptions.delete(before)
            subscriptions.put(definition)
        return chosen

    def _check_reader(self, definition: StreamDefinition) -> None:
        """Redis is read by this machine's process, all else by a function of a deployed system."""
        deployed = self._subscriptions is not None
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
        definition = self._streams.subscribed(name)
        if self._subscriptions is not None:
            self._subscriptions.delete(definition)
        self._streams.remove(name)
