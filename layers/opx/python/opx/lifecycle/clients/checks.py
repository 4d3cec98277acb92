"""Asking for what a client had in other ways than it was removed by: as a reader, and by scope."""

from __future__ import annotations

from collections.abc import Mapping

from opx.lifecycle.clients.holdings import ClientDocument, ClientStores, Held
from opx.ports import SearchFilter, SearchRequest
from opx.ports.tables_specs import GRAPH
from opx.runtime.parallel import Each

GRAPH_TYPES = (
    "alert", "alert_event", "branch", "change", "class", "commit", "confluence_page", "cve", "document", "email", "file",
    "function", "host", "incident", "jira_issue", "method", "mitigation", "module", "product", "runbook", "service", "team",
    "technique", "user",
)  # fmt: skip
"""Types that nodes of our own extraction have."""

_WORDS_FOUND = "passages found by its own words"


class Checks:
    """Counts what should be nothing in the end."""

    def __init__(self, stores: ClientStores) -> None:
        self._stores = stores

    def run(self, held: Held) -> Mapping[str, int]:
        """Each check with how much it found. Raises `StoreUnavailableError`."""
        return {
            _WORDS_FOUND: sum(self._hits(held, word) for word in held.words),
            "entries of its documents in the index": self._references(held),
            "things in the graph by scope and type": self._nodes(held),
            "objects that the store lists": sum(
                1 for prefix in held.folders for _ in self._stores.corpus.store.list(prefix)
            ),
        }

    def _hits(self, held: Held, word: str) -> int:
        """What a reader of exactly the client's scopes finds by words; what is everybody's doesn't count."""
        response = self._stores.indexing.search_engine.search(SearchRequest(SearchFilter(held.scopes), text=word))
        fused = response.fused.hits if response.fused else ()
        return len(response.lexical.hits) + len(fused)

    def _references(self, held: Held) -> int:
        """By document, while the index was counted by scope."""
        return sum(Each(self._stores.storage.read_threads)(self._entries, held.documents))

    def _entries(self, document: ClientDocument) -> int:
        return sum(len(index.references(document.key.id)) for index in self._stores.indexing.every_index())

    def _nodes(self, held: Held) -> int:
        """In the scopes that have documents: nobody else says anything of things."""
        scopes = {document.key.scope.key for document in held.documents}
        places = [f"{scope}|{kind}" for scope in sorted(scopes) for kind in GRAPH_TYPES]
        return sum(Each(self._stores.storage.read_threads)(self._listed, places))

    def _listed(self, place: str) -> int:
        return sum(1 for _ in self._stores.tables.table(GRAPH).query(place, index="type-index"))
