"""Composes the administration and offboarding of clients."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.lifecycle.clients.document_holdings import corpus_holdings, document_holdings, words_holdings
from opx.lifecycle.clients.finding import Checks, ClientStores, Finder
from opx.lifecycle.clients.offboarding import Administration, Inventory, Offboarding, Progress
from opx.lifecycle.retention.holds import Holds
from opx.ports.holdings import Holding, SourceHolding, in_table
from opx.ports.tables import PROJECTS
from opx.runtime.knowledge_file import Installation


@dataclass(eq=False)
class Tenants:
    """Administers the clients of an installation and everything stored for them. `row_holdings` are those of the rows that
    are keyed by scope or client, also by installed distributions."""

    installation: Installation
    stores: ClientStores
    _: KW_ONLY
    graph: Graph
    ingestion: Ingestion
    holds: Holds
    row_holdings: Callable[[], Sequence[Holding]]

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
            sleep=sleep,
            progress=progress,
        )

    @cached_property
    def finder(self) -> Finder:
        """Finds the scopes and documents of clients."""
        return Finder(self.stores.tables, self.stores.storage, self.stores.corpus)

    def _holdings(self) -> list[Holding]:
        """Every store that holds items of clients, in the order of removal: projects last, as they define the client's
        scopes."""
        stores, rows = self.stores, self.row_holdings()
        sources = [one for one in rows if isinstance(one, SourceHolding)]
        return [
            *sources,
            *document_holdings(stores, self.graph, self.ingestion),
            *(one for one in rows if one not in sources),
            *words_holdings(stores.storage, stores.indexing),
            *corpus_holdings(stores.storage, stores.work),
            in_table(
                stores.tables, "projects", PROJECTS, lambda held: stores.tables.table(PROJECTS).query(held.client_id)
            ),
        ]
