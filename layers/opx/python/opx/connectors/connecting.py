"""A source's definition to a connector that can be asked, with its own client for the web."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from opx.connectors.connector import Connector, Options, SourceTools
from opx.connectors.registry import checked_options, connector_type
from opx.connectors.repository import SourceItems, SourceRepository
from opx.domain.knowledge import KnowledgeModel
from opx.domain.sources import KnowledgeSource, Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SecretNotFoundError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook
from opx.ports import Storage, Tables
from opx.ports.sources import OpenWeb, Secrets, SourceWeb
from opx.ports.tables import SOURCES
from opx.runtime.installation import Installation
from opx.settings import Settings


@dataclass(frozen=True, slots=True)
class ConnectedSource:
    """A connector with what keeps its replies and documents."""

    connector: Connector[Any]
    items: SourceItems
    web: SourceWeb

    def commit(self) -> None:
        self.web.commit_validators()

    def close(self) -> None:
        self.web.close()


@dataclass(frozen=True, slots=True)
class SourceSystem:
    """The parts of a system that sources are connected to."""

    installation: Installation
    tables: Tables
    secrets: Secrets
    storage: Storage
    sources: SourceRepository
    open_web: OpenWeb


def connected(
    definition: SourceDefinition, system: SourceSystem, provided: KnowledgeSource | None = None
) -> ConnectedSource:
    """The source, ready to be asked. Raises `InvalidInputError` for an unknown kind, and for wrong options."""
    if provided is None:
        refuse_files(definition, system.installation.settings)
    items = SourceItems(system.tables.table(SOURCES), definition.source_id)
    web = system.open_web(
        rate=None if provided else connector_type(definition.kind).rate_limit(checked_options(definition)),
        allowed_hosts=system.installation.settings.private_hosts,
        validators=items,
        clock=system.installation.clock,
    )
    book = AddressBook(allowed=system.installation.settings.private_hosts)
    tools = SourceTools(
        web=web,
        secrets=_secrets_of(definition, system),
        clock=system.installation.clock,
        known=items.get_many,
        addresses=book.addresses_of,
        buckets=system.storage.other_bucket,
    )
    return ConnectedSource(_connector(definition, provided, tools), items, web)


def _secrets_of(definition: SourceDefinition, system: SourceSystem) -> Secrets:
    """Sources of knowledge.yaml may use every secret: who writes that file says what the others are for, too."""
    if system.sources.is_declared(definition.source_id):
        return system.secrets
    return SourceSecrets(
        system.secrets, cache(lambda: reserved_secrets(system.installation.knowledge, system.installation.settings))
    )


def _connector(definition: SourceDefinition, provided: KnowledgeSource | None, tools: SourceTools) -> Connector[Any]:
    if provided is not None:
        return ProvidedSource(definition, provided, tools)
    return connector_type(definition.kind)(definition, checked_options(definition), tools)


def refuse_files(definition: SourceDefinition, settings: Settings) -> None:
    """Raise `InvalidInputError` for a source of a deployed system that would read the files of its functions."""
    kind, options = connector_type(definition.kind), checked_options(definition)
    if settings.backend == "aws" and kind.reads_files(options):
        raise InvalidInputError(
            f"source {definition.source_id}: {definition.kind} reads files of a machine, which a deployed system has not: "
            "run it on a laptop, or put the files into a bucket and use s3_prefix"
        )


# -- source secrets


class SourceSecrets:
    """The secrets of a source that was registered: all but the `reserved` ones, which are named with whose they are."""

    def __init__(self, secrets: Secrets, reserved: Callable[[], Mapping[str, str]]) -> None:
        self._secrets = secrets
        self._reserved = reserved

    def get(self, name: str) -> str:
        """The secret with this name. Raises `SecretNotFoundError`, also for one that is reserved."""
        owner = self._reserved().get(name)
        if owner:
            raise SecretNotFoundError(
                f"the secret {name} is that of {owner}: a source that is registered needs one of its own; "
                "or declare the source in knowledge.yaml"
            )
        return self._secrets.get(name)


def reserved_secrets(knowledge: KnowledgeModel, settings: Settings) -> dict[str, str]:
    """Secrets with which the system lets others in, or pays, each with what it is for. Raises `KnowledgeConfigError`."""
    from opx.connectors.webhooks.definitions import load_webhooks
    from opx.retrieval.web.setup import read_internet

    path = Path(settings.knowledge_file) if settings.knowledge_file else None
    found = {
        name: f"webhook {webhook.name}"
        for webhook in load_webhooks(knowledge, path).values()
        for name in webhook.secrets
    }
    internet = read_internet(path)
    if internet:
        found[internet.api_key_env] = "live search of the web"
    if settings.vision_secret:
        found[settings.vision_secret] = "the model that describes pictures"
    return found


# -- provided


PAGE_DOCUMENTS = 100
KIND = "provided"


class NoOptions(Options, frozen=True):
    """There is nothing to choose."""


class ProvidedSource(Connector[NoOptions]):
    """A source as an object of this process. It has no cursor: a pull that is interrupted begins again."""

    options_type = NoOptions

    def __init__(self, definition: SourceDefinition, source: KnowledgeSource, tools: SourceTools) -> None:
        super().__init__(definition, NoOptions(), tools)
        self._source = source

    def pull(self, request: PullRequest) -> Iterator[Page]:
        documents: Iterator[SourceDocument] = iter(self._source.fetch(request.since or None))
        while page := tuple(islice(documents, PAGE_DOCUMENTS)):
            yield Page(page)

    def probe(self) -> None:
        if not self._source.health_check():
            raise SourceUnavailableError(f"source {self.name} says that it can't be fetched from now")
