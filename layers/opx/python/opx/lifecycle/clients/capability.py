"""Composes the administration and offboarding of clients."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property

from opx.connectors.capability import Connectors
from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.lifecycle.clients.document_holdings import document_holdings
from opx.lifecycle.clients.finding import Checks, Finder
from opx.lifecycle.clients.holdings import ClientStores, Holding
from opx.lifecycle.clients.offboarding import Administration, Inventory, Offboarding, Progress
from opx.lifecycle.clients.scope_holdings import (
    InstallationSources,
    bulk_holdings,
    corpus_holdings,
    learned_holdings,
    registry_holdings,
    scope_holdings,
    source_holdings,
    words_holdings,
)
from opx.lifecycle.retention.holds import Holds
from opx.runtime.knowledge_file import Installation


class Tenants:
    """Administers the clients of an installation and everything stored for them."""

    def __init__(
        self,
        installation: Installation,
        stores: ClientStores,
        *,
        graph: Graph,
        ingestion: Ingestion,
        holds: Holds,
        connectors: Connectors,
    ) -> None:
        self._installation = installation
        self._stores = stores
        self._graph = graph
        self._ingestion = ingestion
        self._holds = holds
        self._connectors = connectors

    def administration(
        self,
        by: str = "",
        *,
        sleep: Callable[[float], None] = time.sleep,
        progress: Progress = lambda _: None,
    ) -> Administration:
        """Lists, adds and removes clients on behalf of the principal `by`."""
        offboarding = self.offboarding(sleep=sleep, progress=progress)
        return Administration(self._stores.corpus, self.finder, offboarding, by)

    def offboarding(
        self, *, sleep: Callable[[float], None] = time.sleep, progress: Progress = lambda _: None
    ) -> Offboarding:
        """Offboards clients."""
        return Offboarding(
            self._installation,
            self._stores,
            Inventory(self.finder, self._holdings(), Checks(self._stores)),
            holds=self._holds,
            sources=self._sources,
            sleep=sleep,
            progress=progress,
        )

    @cached_property
    def finder(self) -> Finder:
        """Finds the scopes and documents of clients."""
        return Finder(self._stores.tables, self._stores.storage, self._stores.corpus)

    def _holdings(self) -> list[Holding]:
        """Every store that holds items of clients, in the order of removal."""
        stores = self._stores
        return [
            *source_holdings(self._sources),
            *document_holdings(stores, self._graph, self._ingestion),
            *scope_holdings(stores.tables),
            *learned_holdings(stores.tables, stores.corpus),
            *words_holdings(stores.storage, stores.indexing),
            *bulk_holdings(stores.tables, stores.storage, self._installation.clock),
            *corpus_holdings(stores.storage, stores.work),
            *registry_holdings(stores.tables),
        ]

    @cached_property
    def _sources(self) -> InstallationSources:
        return InstallationSources(self._stores.tables, self._connectors, self._installation.scope)
