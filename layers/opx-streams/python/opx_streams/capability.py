"""Composes streams and webhooks over the ports of a system: registries, takers, receivers and the feeds of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from opx.connectors.deliveries import Delivery, DeliveryReply
from opx.domain.baselines import BASELINES_CATEGORY
from opx.domain.sources import StreamDefinition
from opx.operations.system import System
from opx.ports.tables import DELIVERIES, SOURCES
from opx_streams.arrivals import STREAM, Arrivals, ArrivalState

if TYPE_CHECKING:
    from opx.connectors.runner import Feed
    from opx_streams.redis_streams import RedisStreamFeed
    from opx_streams.streams.definitions import StreamControl, StreamRepository
    from opx_streams.streams.taking import BaselineTaker, RecordTaker
    from opx_streams.webhooks.receiving import WebhookReceiver


def arrivals(system: System) -> Arrivals:
    """The last deliveries of webhooks and records of streams."""
    return Arrivals(system.tables.table(DELIVERIES), system.clock)


class StreamIngestion:
    """Streams of an installation. Their documents have the installation's scope."""

    def __init__(self, system: System) -> None:
        self._system = system

    @cached_property
    def repository(self) -> StreamRepository:
        """The declared and subscribed streams. Raises `KnowledgeConfigError`."""
        from opx_streams.streams.definitions import StreamRepository, declared_streams

        about = self._system.installation
        declared = declared_streams(about.knowledge, about.knowledge_path)
        return StreamRepository(self._system.tables.table(SOURCES), declared, about.knowledge)

    @property
    def control(self) -> StreamControl:
        """Lists streams, and creates and ends subscriptions."""
        from opx_streams.streams.definitions import StreamControl

        system = self._system
        return StreamControl(
            self.repository, system.installation.knowledge, system.ports.functions.stream_subscriptions
        )

    def subscribe(self, source: str, category: str, pattern: Mapping[str, Any] | None, *, topic: str) -> str:
        """See `opx.connectors.capability.StreamsPart`."""
        return self.control.subscribe(source, category, pattern, topic=topic)

    def schedule(self) -> None:
        """See `opx.connectors.capability.StreamsPart`."""
        if subscriptions := self._system.ports.functions.stream_subscriptions:
            for stream in self.repository.all():
                subscriptions.put(stream)

    def feeds(self) -> Sequence[Feed]:
        """See `opx.connectors.capability.StreamsPart`."""
        if not self._system.work.in_process:
            return ()
        from opx_streams.redis_streams import RedisFeeds

        return (RedisFeeds(self.repository.all, self._feed_of),)

    def _feed_of(self, stream: StreamDefinition) -> RedisStreamFeed:
        from opx_streams.redis_streams import RedisStreamFeed

        secrets = self._system.ports.secrets
        return RedisStreamFeed(stream, self._taker_of(stream), password=lambda: secrets.get(stream.password_secret))

    def _taker_of(self, stream: StreamDefinition) -> RecordTaker:
        from opx_streams.streams.taking import NotedTaker, StreamTaker

        values = stream.category == BASELINES_CATEGORY
        taker = self.taker_of_values(stream) if values else StreamTaker(stream, self._system.manager)
        return NotedTaker(taker, partial(self.note_record, stream.name))

    def note_record(self, stream: str, state: ArrivalState) -> None:
        """Notes a record of a stream."""
        self._system.part(arrivals).note(STREAM, stream, state)

    def taker_of_values(self, stream: StreamDefinition) -> BaselineTaker:
        """Adds the values of a stream to baselines."""
        from opx_streams.streams.taking import BaselineTaker

        system = self._system
        return BaselineTaker(stream, lambda: system.baselines, system.manager)


class WebhookIngestion:
    """Webhooks of an installation. Their documents have the installation's scope."""

    def __init__(self, system: System) -> None:
        self._system = system

    @cached_property
    def receiver(self) -> WebhookReceiver:
        """Receives deliveries. Raises `KnowledgeConfigError` for malformed declarations."""
        from opx_streams.webhooks.receiving import receiver_of

        system = self._system
        return receiver_of(
            system.installation,
            system.tables,
            system.ports.secrets,
            system.manager,
            open_web=system.ports.open_web,
            arrivals=system.part(arrivals),
        )

    def check(self) -> None:
        """See `opx.connectors.deliveries.WebhooksPart`."""
        from opx_streams.webhooks.definitions import load_webhooks

        about = self._system.installation
        load_webhooks(about.knowledge, about.knowledge_path)

    def answer(self, delivery: Delivery) -> DeliveryReply:
        """See `opx.connectors.deliveries.WebhooksPart`."""
        from opx_streams.webhooks.receiving import answer

        return answer(lambda: self.receiver, delivery)

    def endpoint(self, tier: str, category: str) -> str:
        """See `opx.connectors.deliveries.WebhooksPart`."""
        from opx_streams.webhooks.definitions import webhook_endpoint

        return webhook_endpoint(self._system.settings.webhook_url, tier, category)
