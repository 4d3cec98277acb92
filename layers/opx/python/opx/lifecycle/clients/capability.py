"""Composes the administration and offboarding of clients."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
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


@dataclass(eq=False)
class Tenants:
    """Administers the clients of an installation and everything stored for them."""

    installation: Installation
    stores: ClientStores
    _: KW_ONLY
    graph: Graph
    ingestion: Ingestion
    holds: Holds
    connectors: Connectors

    def administration(
        self,
        by: str = "",
        *,
        sleep: Callable[[float], None] = time.sleep,
        progress: Progress = lambda _: None,
    ) -> Administration:
        """Lists, adds and removes clients on behalf of the principal `by`."""
        offboarding = self.offboarding(sleep=sleep, progress=progress)
        return Administration(self.stores.corpus, self.finder, offboarding, by)

    def offboarding(
        self, *, sleep: Callable[[float], None] = time.sleep, progress: Progress = lambda _: None
    ) -> Offboarding:
        """Offboards clients."""
        return Offboarding(
            self.installation,
            self.stores,
            Inventory(self.finder, self._holdings(), Checks(self.stores)),
            holds=self.holds,
            sources=self._sources,
            sleep=sleep,
            progress=progress,
        )

    @cached_property
    def finder(self) -> Finder:
        """Finds the scopes and documents of clients."""
        return Finder(self.stores.tables, self.stores.storage, self.stores.corpus)

    def _holdings(self) -> list[Holding]:
        """Every store that holds items of clients, in the order of removal."""
        stores = self.stores
        return [
            *source_holdings(self._sources),
            *document_holdings(stores, self.graph, self.ingestion),
            *scope_holdings(stores.tables),
            *learned_holdings(stores.tables, stores.corpus),
            *words_holdings(stores.storage, stores.indexing),
            *bulk_holdings(stores.tables, stores.storage, self.installation.clock),
            *corpus_holdings(stores.storage, stores.work),
            *registry_holdings(stores.tables),
        ]

    @cached_property
    def _sources(self) -> InstallationSources:
        return InstallationSources(self.stores.tables, self.connectors, self.installation.scope)
