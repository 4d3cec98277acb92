"""A source's definition to a connector that can be asked, with its own client for the web."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from opx.connectors.connector import Connector, SourceTools
from opx.connectors.provided import ProvidedSource
from opx.connectors.registry import checked_options, connector_type
from opx.connectors.repository import SourceItems, SourceRepository
from opx.connectors.source_secrets import SourceSecrets, reserved_secrets
from opx.domain.sources import KnowledgeSource, SourceDefinition
from opx.errors import InvalidInputError
from opx.hygiene.addresses import AddressBook
from opx.ports import Storage, Tables
from opx.ports.sources import OpenWeb, Secrets, SourceWeb
from opx.ports.tables_specs import SOURCES
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
