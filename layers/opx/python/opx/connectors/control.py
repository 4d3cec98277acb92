"""Lists, registers, removes, pulls and checks sources, and connects each with its dependencies."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.connectors.connector import Connector, Options, SourceTools, naming_errors, nothing_known
from opx.connectors.registry import checked_options, connector_type
from opx.connectors.repository import SourceItems, SourceRepository, definition_of
from opx.connectors.states import BY_HAND, PullState, SourceView, due_at, freshness_of, next_time
from opx.connectors.trial import SourceTrial, tried
from opx.domain.ids import iso_time, stable_hash
from opx.domain.record import replace
from opx.domain.sources import Health, KnowledgeSource, Page, PullRequest, SourceDefinition
from opx.errors import InvalidInputError, PluginError, SecretNotFoundError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook
from opx.ingestion.given_documents import listed, source_document
from opx.ports import Storage, Tables
from opx.ports.sources import OpenWeb, Secrets, SourceWeb
from opx.ports.tables import SOURCES
from opx.ports.telemetry import SERVERS as TELEMETRY_SERVERS
from opx.runtime.knowledge_file import Installation, read_section
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.connectors.pulling import SourcePuller
    from opx.domain.sources import PullReport
    from opx.ports import Queue
    from opx.ports.sources import SourceSchedules


@dataclass(eq=False)
class SourceControl:
    """Operations on the sources of an installation. `connect_new` connects a source that isn't registered. `pulls` is the
    queue of a deployed function that pulls, None where this process pulls; `schedules` triggers registered sources at
    their times, None where the pulling process checks the clock itself."""

    installation: Installation
    sources: SourceRepository
    _: KW_ONLY
    connect: Callable[[SourceDefinition], ConnectedSource]
    connect_new: Callable[[SourceDefinition], ConnectedSource]
    puller: Callable[[], SourcePuller]
    pulls: Queue | None
    schedules: SourceSchedules | None
    is_pulled_here: Callable[[str], bool]

    @property
    def pulls_elsewhere(self) -> bool:
        """True if a deployed function pulls, which can't read this machine's files."""
        return self.pulls is not None

    def views(self) -> list[SourceView]:
        """Returns every source by id with the state of its pulls."""
        return [self._view(definition) for definition in self.sources.all()]

    def view(self, source_id: str) -> SourceView:
        """Returns one source. Raises `InvalidInputError` that lists the existing ones."""
        return self._view(self.sources.get(source_id))

    def health(self, source_id: str) -> SourceView:
        """Returns the source with a health check that was made now."""
        definition = self.sources.get(source_id)
        try:
            with closing(self.connect(definition)) as connected:
                health: Health = connected.connector.check()
        except PluginError as exc:
            health = Health(ok=False, reason=str(exc))
        return replace(self._view(definition), health=health)

    def register(self, source_id: str, given: Mapping[str, Any]) -> SourceView:
        """Registers or replaces a source under this id, and schedules its pulls.

        `given` has the fields of knowledge.yaml: kind, category, and options. Raises `InvalidInputError` that names what
        is wrong, before anything is stored.
        """
        definition = definition_of(source_id, given, self.installation.knowledge)
        self.connect(definition).close()  # which checks its options
        self.sources.register(definition)
        if self.schedules:
            self.schedules.put(definition)
        return self._view(definition)

    def change(self, source_id: str, given: Mapping[str, Any]) -> SourceView:
        """Changes some fields of a source, as in knowledge.yaml; of the options those that are given, and null removes one.

        A source of knowledge.yaml can only be paused and enabled. Raises `InvalidInputError` as `register`.
        """
        definition = self.sources.get(source_id)
        if self.sources.is_declared(source_id):
            self._switch(definition, given)
            return self.view(source_id)
        options = {**definition.options, **(given.get("options") or {})}
        fields = {name: value for name, value in definition.fields().items() if name != "tier"} | dict(given)
        fields["options"] = {name: value for name, value in options.items() if value is not None}
        return self.register(source_id, fields)

    def _switch(self, definition: SourceDefinition, given: Mapping[str, Any]) -> None:
        """Pauses or enables a declared source. One that knowledge.yaml enables has a schedule of the deployment; it is
        paused by ignoring that."""
        source_id = definition.source_id
        if set(given) != {"enabled"}:
            raise InvalidInputError(
                f"source {source_id} is declared in knowledge.yaml: change it there; here it can be paused and enabled"
            )
        if self.sources.switch(source_id, enabled=given["enabled"]) and given["enabled"]:
            refuse_unreachable(definition, self.installation.settings)
            schedule = replace(definition, enabled=True)
        else:
            schedule = replace(definition, enabled=False)
        if self.schedules:
            self.schedules.put(schedule)

    def try_out(self, source_id: str, given: Mapping[str, Any], *, limit: int) -> SourceTrial:
        """Reads the first documents of a source that isn't registered, without storing anything. Raises
        `InvalidInputError` as `register`."""
        definition = definition_of(source_id, given, self.installation.knowledge)
        checked_options(definition)
        refuse_unreachable(definition, self.installation.settings)
        return tried(lambda: self.connect_new(definition), limit=limit)

    def remove(self, source_id: str) -> None:
        """Removes a registered source. Its documents stay; `opx delete` removes those. Raises `InvalidInputError`."""
        self.sources.remove(source_id)
        if self.schedules:
            self.schedules.delete(source_id)

    def pull(
        self,
        source_id: str,
        *,
        everything: bool = False,
        accept_missing: bool = False,
        progress: Callable[[str, int], None] = lambda _step, _count: None,
    ) -> PullReport | None:
        """Pulls the source now; `progress` is called after every page. Returns None where a deployed function pulls: the
        request is queued, and the source's state reports the outcome.

        Raises `InvalidInputError` and `SourceBusyError`.
        """
        definition = self.sources.get(source_id)
        if self.pulls is None:

            def after_page() -> bool:
                state = self.sources.state(source_id)
                progress(f"{state.put} documents changed, {state.unchanged} unchanged", state.put)
                return False

            return self.puller().pull(source_id, stop=after_page, everything=everything, accept_missing=accept_missing)
        refuse_unreachable(definition, self.installation.settings)
        self.pulls.send(pull_message(source_id, everything=everything, accept_missing=accept_missing))
        return None

    def crawl(self, category: str, options: Mapping[str, Any]) -> tuple[str, PullReport | None]:
        """Registers a site as a source without a schedule, under an id derived from its address, and pulls it now.
        Returns the id and the result of `pull`. Raises `InvalidInputError`."""
        starts = options.get("start") or options.get("sitemaps") or ()
        source_id = f"crawl-{stable_hash('crawl', sorted(starts))[:12]}"
        self.register(source_id, {"kind": "crawl", "category": category, "schedule": "", "options": options})
        return source_id, self.pull(source_id)

    def _view(self, definition: SourceDefinition) -> SourceView:
        declared = self.sources.is_declared(definition.source_id)
        state, now = self._shown(definition.source_id), self.installation.clock()
        view = SourceView.of(definition, state, declared=declared)
        due = self._next(definition, state, now)
        return replace(view, next_pull=iso_time(due) if due else "", freshness=freshness_of(definition, state, now))

    def _next(self, definition: SourceDefinition, state: PullState, now: float) -> float | None:
        """The time of the next scheduled pull; None without one, and until the one in progress ends."""
        if not (definition.schedule and definition.enabled) or state.owner:
            return None
        if self.pulls_elsewhere:
            return next_time(definition.schedule, definition.time_zone, now)
        due = due_at(definition, state)
        return None if due is None else max(due, now)

    def _shown(self, source_id: str) -> PullState:
        """The state; an expired lease is shown as released, as the process that held it is gone, unless this machine's lock
        shows that it isn't."""
        state = self.sources.state(source_id)
        if not state.owner or state.lease_until > self.installation.clock() or self.is_pulled_here(source_id):
            return state
        return replace(state, owner="")


def pull_message(source_id: str, *, everything: bool = False, accept_missing: bool = False) -> str:
    """Body of a message that requests a pull."""
    flags = {"everything": everything, "accept_missing": accept_missing, BY_HAND: True}
    return json.dumps({"source": source_id, **{name: True for name, wanted in flags.items() if wanted}})


# -- connections


@dataclass(frozen=True, slots=True)
class ConnectedSource:
    """A connector with the store of its items and its web client."""

    connector: Connector[Any]
    items: SourceItems
    web: SourceWeb

    def commit(self) -> None:
        self.web.commit_validators()

    def close(self) -> None:
        self.web.close()


@dataclass(frozen=True, slots=True)
class SourceSystem:
    """Parts of a system that sources are connected to."""

    installation: Installation
    tables: Tables
    secrets: Secrets
    storage: Storage
    sources: SourceRepository
    open_web: OpenWeb


def connected(
    definition: SourceDefinition, system: SourceSystem, provided: KnowledgeSource | None = None
) -> ConnectedSource:
    """Connects a source. Raises `InvalidInputError` for an unknown kind, and for wrong options."""
    if provided is None:
        refuse_unreachable(definition, system.installation.settings)
    items = SourceItems(system.tables.table(SOURCES), definition.source_id)
    web = _opened_web(definition, system, validators=items, is_provided=provided is not None)
    declared = system.sources.is_declared(definition.source_id)
    secrets = system.secrets if declared else unreserved_secrets(system)
    tools = _tools(system, web, secrets, known=items.get_many)
    return ConnectedSource(_connector(definition, provided, tools), items, web)


def connected_new(definition: SourceDefinition, system: SourceSystem) -> ConnectedSource:
    """Connects a source that isn't registered, whatever its id: nothing is known of it, and it may read no reserved secret.
    Raises `InvalidInputError`."""
    refuse_unreachable(definition, system.installation.settings)
    web = _opened_web(definition, system, validators=None)
    tools = _tools(system, web, unreserved_secrets(system), known=nothing_known)
    items = SourceItems(system.tables.table(SOURCES), definition.source_id)
    return ConnectedSource(_connector(definition, None, tools), items, web)


def _opened_web(
    definition: SourceDefinition, system: SourceSystem, *, validators: SourceItems | None, is_provided: bool = False
) -> SourceWeb:
    return system.open_web(
        rate=None if is_provided else connector_type(definition.kind).rate_limit(checked_options(definition)),
        allowed_hosts=system.installation.settings.private_hosts,
        validators=validators,
        clock=system.installation.clock,
    )


def _tools(
    system: SourceSystem, web: SourceWeb, secrets: Secrets, *, known: Callable[[Sequence[str]], Collection[str]]
) -> SourceTools:
    book = AddressBook(allowed=system.installation.settings.private_hosts)
    return SourceTools(
        web=web,
        secrets=secrets,
        clock=system.installation.clock,
        known=known,
        addresses=book.addresses_of,
        buckets=system.storage.other_bucket,
    )


def unreserved_secrets(system: SourceSystem) -> Secrets:
    """Secrets that a source may read which knowledge.yaml doesn't declare: the author of that assigns the others."""
    return SourceSecrets(system.secrets, cache(lambda: reserved_secrets(system.installation.settings)))


def _connector(definition: SourceDefinition, provided: KnowledgeSource | None, tools: SourceTools) -> Connector[Any]:
    if provided is not None:
        return ProvidedSource(definition, provided, tools)
    kind, options = connector_type(definition.kind), checked_options(definition)
    with naming_errors(definition):
        return kind(definition, options, tools)


def refuse_unreachable(definition: SourceDefinition, settings: Settings) -> None:
    """Raises `InvalidInputError` for a source of a deployed system that would read the files of its functions, or the
    internet without a way there."""
    kind, options = connector_type(definition.kind), checked_options(definition)
    if settings.backend == "aws" and kind.reads_files(options):
        raise InvalidInputError(
            f"source {definition.source_id}: {definition.kind} reads files of a machine, which a deployed system "
            "does not have: run it on a laptop, or put the files into a bucket and use s3_prefix"
        )
    if settings.internet == "off" and needs_internet(definition):
        raise InvalidInputError(
            f"source {definition.source_id}: {definition.kind} fetches from the internet, which this deployment's private "
            "network has no way to: put the documents into a bucket and use s3_prefix, or deploy into a VPC that has one "
            "(-c vpc_internet=true)"
        )


def needs_internet(definition: SourceDefinition) -> bool:
    """True if a source reads more than files and buckets."""
    kind, options = connector_type(definition.kind), checked_options(definition)
    return kind.from_internet and not kind.reads_files(options)


# -- secrets of registered sources


class SourceSecrets:
    """Secrets of a registered source: all but the `reserved` ones, which map to their owner."""

    def __init__(self, secrets: Secrets, reserved: Callable[[], Mapping[str, str]]) -> None:
        self._secrets = secrets
        self._reserved = reserved

    def get(self, name: str) -> str:
        """Returns the secret with this name. Raises `SecretNotFoundError`, also for a reserved one."""
        owner = self._reserved().get(name)
        if owner:
            raise SecretNotFoundError(
                f"the secret {name} belongs to {owner}: a registered source needs one of its own; "
                "or declare the source in knowledge.yaml"
            )
        return self._secrets.get(name)


def reserved_secrets(settings: Settings) -> dict[str, str]:
    """Secrets that authenticate others to the system, or that it pays with, each with its purpose. Raises
    `KnowledgeConfigError`."""
    path = Path(settings.knowledge_file) if settings.knowledge_file else None
    webhooks = read_section("webhooks", path)
    found = {
        secret: f"webhook {name}"
        for name, webhook in (webhooks.entries() if webhooks else {}).items()
        if (given := webhook.entries().get("secret"))
        for secret in given.texts()
    }
    internet = read_section("internet", path)
    if internet and (key := internet.entries().get("api_key_env")):
        found[key.text()] = "live search of the web"
    telemetry = read_section("telemetry", path)
    for name, server in (telemetry.entries() if telemetry else {}).items():
        if name in TELEMETRY_SERVERS and (token := server.entries().get("token_env")):
            found[token.text()] = f"telemetry from {name}"
    if settings.vision_secret:
        found[settings.vision_secret] = "the model that describes pictures"
    return found


# -- sources that are objects of this process


PAGE_DOCUMENTS = 100
KIND = "provided"


class NoOptions(Options, frozen=True):
    """Options of a provided source: none."""


class ProvidedSource(Connector[NoOptions]):
    """Connects a `KnowledgeSource` object of this process. It has no cursor: an interrupted pull begins again."""

    options_type = NoOptions

    def __init__(self, definition: SourceDefinition, source: KnowledgeSource, tools: SourceTools) -> None:
        super().__init__(definition, NoOptions(), tools)
        self._source = source

    def pull(self, request: PullRequest) -> Iterator[Page]:
        fetched = self._source.fetch(datetime.fromisoformat(request.since) if request.since else None)
        documents = (source_document(one) for one in listed(fetched, self.name))
        while page := tuple(islice(documents, PAGE_DOCUMENTS)):
            yield Page(page)

    def probe(self) -> None:
        if not self._source.health_check():
            raise SourceUnavailableError(f"source {self.name} reports that it is not available")
