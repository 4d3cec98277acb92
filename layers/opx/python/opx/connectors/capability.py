"""Composes sources: their registry, pullers and the feeds of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from opx.connectors.states import checked_cron
from opx.domain.ids import stable_hash
from opx.domain.sources import SourceDeclaration
from opx.errors import InvalidInputError, SourceBusyError
from opx.ingestion.manager import IngestionManager
from opx.ports import Storage, Tables, WorkQueue
from opx.ports.queues import Functions
from opx.ports.sources import OpenWeb, Secrets
from opx.ports.tables import SOURCES
from opx.runtime.knowledge_file import Installation, unread_sections
from opx.runtime.machine import path_here
from opx.runtime.metrics import Report, unreported

if TYPE_CHECKING:
    from opx.connectors.control import ConnectedSource, SourceControl, SourceSystem
    from opx.connectors.deliveries import WebhooksPart
    from opx.connectors.files import DirectoryFeed
    from opx.connectors.pulling import PullRequests, SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.connectors.runner import Feed
    from opx.domain.sources import KnowledgeSource, PullReport, SourceDefinition


log = logging.getLogger(__name__)

PULL_LEASE_SECONDS = 900.0
NO_LEASE = -1.0
"""A process's lock on the machine is released as soon as the process ends."""


class StreamsPart(Protocol):
    """The streams of an installation, which the part `streams` of a system has."""

    def feeds(self) -> Sequence[Feed]:
        """Feeds of the streams that this process can read."""

    def schedule(self) -> None:
        """Subscribes to all streams, where a service outside of this process reads them. Raises `KnowledgeConfigError`."""

    def subscribe(self, source: str, category: str, pattern: Mapping[str, Any] | None, *, topic: str) -> str:
        """Ingests the records of a stream from now on. Returns the stream's name. Raises `InvalidInputError`."""


@dataclass(eq=False)
class Connectors:
    """Sources of an installation. `manager` stores documents in the corpus with the installation's scope; `optional_part` and
    `needed_part` have the capabilities of other distributions, by name (see `System`)."""

    installation: Installation
    tables: Tables
    storage: Storage
    work: WorkQueue
    _: KW_ONLY
    secrets: Callable[[], Secrets]
    manager: Callable[[], IngestionManager]
    functions: Functions
    open_web: OpenWeb
    optional_part: Callable[[str], Any]
    needed_part: Callable[[str], Any]

    def __post_init__(self) -> None:
        self._provided: dict[str, KnowledgeSource] = {}

    # -- sources

    @cached_property
    def sources(self) -> SourceRepository:
        """The declared and registered sources. Raises `KnowledgeConfigError`."""
        from opx.connectors.repository import SourceRepository, declared_sources

        installation = self.installation
        declared = declared_sources(installation.knowledge, installation.knowledge_path)
        return SourceRepository(self.tables.table(SOURCES), declared, installation.knowledge, installation.clock)

    @cached_property
    def _system(self) -> SourceSystem:
        from opx.connectors.control import SourceSystem

        return SourceSystem(self.installation, self.tables, self.secrets(), self.storage, self.sources, self.open_web)

    def connected(self, definition: SourceDefinition) -> ConnectedSource:
        """Connects a source for pulling. Raises `InvalidInputError` for an unknown kind, and for wrong options."""
        from opx.connectors.control import connected

        return connected(definition, self._system, self._provided.get(definition.source_id))

    def _connected_new(self, definition: SourceDefinition) -> ConnectedSource:
        from opx.connectors.control import connected_new

        return connected_new(definition, self._system)

    def provide(self, source: KnowledgeSource, schedule: str, category: str) -> str:
        """Registers an object of this process as a source. Returns its id. Raises `InvalidInputError`."""
        from opx.connectors.control import KIND
        from opx.connectors.repository import definition_of

        given = {"kind": KIND, "category": category, "schedule": schedule}
        self.sources.provide(definition_of(source.name, given, self.installation.knowledge))
        self._provided[source.name] = source
        return source.name

    def puller(self, report: Report = unreported) -> SourcePuller:
        """Pulls sources into the installation's scope."""
        from opx.connectors.pulling import SourcePuller
        from opx.connectors.storing import PageStore, past_retention

        knowledge, clock = self.installation.knowledge, self.installation.clock
        store = PageStore(
            self.manager(),
            past_retention(knowledge, clock),
            threads=self.storage.read_threads,
            unit_of_work=self.tables.unit_of_work,
            report=report,
        )
        local = self.work.in_process
        return SourcePuller(
            sources=self.sources,
            connect=self.connected,
            store=store,
            knowledge=knowledge,
            clock=clock,
            lease_seconds=NO_LEASE if local else PULL_LEASE_SECONDS,
            exclusive=self.work.exclusive_pull if local else lambda _: nullcontext(),
            report=report,
        )

    @property
    def control(self) -> SourceControl:
        """Lists, registers, removes, pulls and checks sources."""
        from opx.connectors.control import SourceControl

        return SourceControl(
            self.installation,
            self.sources,
            connect=self.connected,
            connect_new=self._connected_new,
            puller=self.puller,
            pulls=self.functions.pulls,
            schedules=self.functions.source_schedules,
            is_pulled_here=self._is_pulled_here,
        )

    def _is_pulled_here(self, source_id: str) -> bool:
        """True while a process of this machine pulls the source, where locks stand for leases."""
        if not self.work.in_process:
            return False
        try:
            with self.work.exclusive_pull(source_id):
                return False
        except SourceBusyError:
            return True

    # -- schedules

    def schedule(self) -> None:
        """Schedules the pulls of registered sources and subscribes to streams, where a service outside of this process
        triggers them. Raises `KnowledgeConfigError`."""
        if schedules := self.functions.source_schedules:
            for source in self.sources.all():
                schedules.put(source)
        if streams := self.optional_part("streams"):
            streams.schedule()

    # -- feeds and queued pulls

    def directory_feed(self) -> DirectoryFeed:
        """Watches the directories among the sources."""
        from opx.connectors.files import DirectoryFeed

        return DirectoryFeed(self.sources, self.puller, self.installation.clock)

    def stream_feeds(self) -> Sequence[Feed]:
        """Feeds of the streams that this process can read."""
        streams: StreamsPart | None = self.optional_part("streams")
        for section, distribution in unread_sections(self.installation.knowledge_path).items():
            log.warning("nothing reads %s of knowledge.yaml: pip install %s", section, distribution)
        return streams.feeds() if streams else ()

    def pull_requests(self, report: Report = unreported) -> PullRequests:
        """Executes the pulls that queue messages request."""
        from opx.connectors.pulling import PullRequests

        puller = self.puller(report)
        return PullRequests(self.sources, puller, self.functions.pulls, self.installation.clock)

    # -- as used by the manager of an installation

    @property
    def ways_in(self) -> ConnectedWaysIn:
        return ConnectedWaysIn(self.control, self.provide, self.needed_part)


# -- implementation of `WaysIn` for the manager


BUCKET = "s3://"
WATCHED_SHARE = 0.99
"""Missing files of a directory that can be listed were deleted; an empty directory is probably not mounted."""

WATCHED_EVERY = "*/15 * * * *"
"""Schedule of a foreign bucket: it sends no events and is listed instead."""


@dataclass(eq=False)
class ConnectedWaysIn:
    """Implements `WaysIn` for an installation. `provide` registers an object of this process as a source, with its
    schedule and its category, and returns its id; `needed_part` has the capabilities of other distributions, by name."""

    control: SourceControl
    provide: Callable[[KnowledgeSource, str, str], str]
    needed_part: Callable[[str], Any]

    def webhook_endpoint(self, tier: str, category: str) -> str:
        """See `IngestionManager.get_webhook_endpoint`."""
        webhooks: WebhooksPart = self.needed_part("webhooks")
        return webhooks.endpoint(tier, category)

    def register(
        self, source: KnowledgeSource | SourceDeclaration | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """See `IngestionManager.register_source`."""
        common = {"category": category, "tier": tier, "schedule": schedule}
        if isinstance(source, Mapping | SourceDeclaration):
            given = dict(source.definition() if isinstance(source, SourceDeclaration) else source)
            name = given.pop("name", None)
            if not isinstance(name, str):
                raise InvalidInputError("a source needs a name, which is its id")
            return self.control.register(name, {**given, **common}).source_id
        return self.provide(source, checked_cron(schedule) if schedule else "", category)

    def pull(self, source_id: str) -> PullReport | None:
        return self.control.pull(source_id)

    def subscribe(self, stream: str, category: str, pattern: Mapping[str, Any] | None) -> str:
        """See `IngestionManager.subscribe_stream`."""
        streams: StreamsPart = self.needed_part("streams")
        source, _, topic = stream.partition("#")
        return streams.subscribe(source, category, pattern, topic=topic)

    def watch(self, path: str, category: str, pattern: str) -> str:
        """See `IngestionManager.watch_directory`."""
        given: dict[str, Any]
        source_id = f"watch-{stable_hash('watch', path, category)[:12]}"
        if path.startswith(BUCKET):
            bucket, _, prefix = path.removeprefix(BUCKET).partition("/")
            given = {"kind": "s3_prefix", "schedule": WATCHED_EVERY, "options": {"bucket": bucket, "prefix": prefix}}
        else:
            folder = path_here(path).absolute()
            if self.control.pulls_elsewhere:
                raise InvalidInputError(f"{path}: functions can't see this machine's files; watch s3://bucket/prefix")
            given = {"kind": "directory", "schedule": "", "options": {"path": str(folder), "pattern": pattern}}
            given["max_missing_share"] = WATCHED_SHARE
        self.control.register(source_id, {**given, "category": category})
        self.control.pull(source_id)
        return source_id
