"""Which scopes there are, and whose documents may name what."""

from __future__ import annotations

from collections.abc import Iterator

from opx.domain.scopes import Scope
from opx.ingestion.corpus.clients import ClientRegistry, is_gone
from opx.ingestion.corpus.projects import ProjectRegistry


class ScopeDirectory:
    """The scopes of the clients and projects that are registered: the first document of each does that."""

    def __init__(self, clients: ClientRegistry, projects: ProjectRegistry) -> None:
        self._clients = clients
        self._projects = projects

    def all(self) -> Iterator[Scope]:
        """Everybody's, and those of each client that is served."""
        yield Scope()
        for client in self._clients.all():
            if not is_gone(client):
                yield from self.of_client(client.client_id)

    def of_client(self, client_id: str) -> Iterator[Scope]:
        """The client's own, those of its projects, and those of the groups that these are in."""
        yield Scope(client_id)
        places = list(self._projects.projects(client_id))
        yield from (Scope(client_id, project_id=place.project_id) for place in places)
        groups = sorted({place.group_id for place in places} - {""})
        yield from (Scope(client_id, group_id=group) for group in groups)

    def naming(self, scope: Scope) -> Iterator[str]:
        """Keys of the scopes whose documents may name what belongs to this one: itself and those within it, as
        `scopes_that_name` has it."""
        if scope.group_id or scope.project_id:
            yield scope.key
            return
        within = self.of_client(scope.client_id) if scope.client_id else self.all()
        yield from (other.key for other in within)
