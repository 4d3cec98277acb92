"""What operators do with clients: see them, serve them, and let one go."""

from __future__ import annotations

from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.clients import Client, ClientView
from opx.lifecycle.clients.finding import Finder
from opx.lifecycle.clients.offboarding import Offboarding
from opx.lifecycle.clients.report import RemovalReport


class Administration:
    """The clients of one system. It sees every scope: for whoever owns the system alone."""

    def __init__(self, corpus: Corpus, finder: Finder, offboarding: Offboarding, by: str) -> None:
        self._corpus = corpus
        self._finder = finder
        self._offboarding = offboarding
        self._by = by

    def clients(self) -> list[ClientView]:
        """Every client that was noted, or of whose questions or values something is kept, by id."""
        noted = {client.client_id: client for client in self._corpus.clients.all()}
        unregistered = self._finder.noted_clients() - noted.keys()
        return [self.view(client_id) for client_id in sorted({*noted, *unregistered})]

    def view(self, client_id: str) -> ClientView:
        """One client. Raises `InvalidScopeError` for a malformed id."""
        client = self._corpus.clients.get(client_id) or Client(client_id)
        projects = sum(1 for _ in self._corpus.projects.projects(client_id))
        documents = self._finder.document_count(client_id)
        return ClientView(client_id, client.state, client.since, documents, projects)

    def inventory(self, client_id: str) -> dict[str, int]:
        """How much there is of a client in each store, which takes a while where there is much."""
        return self._offboarding.count(client_id)

    def add(self, client_id: str) -> Client:
        """See `ClientRegistry.add`."""
        return self._corpus.clients.add(client_id, self._by)

    def remove(self, client_id: str) -> RemovalReport:
        """See `Offboarding.remove`."""
        return self._offboarding.remove(client_id, self._by)
