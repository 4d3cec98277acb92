"""Records newly declared names as documents are written, and lists the scopes whose documents may use them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from opx.domain.graph import Origin, Statements, node_type
from opx.domain.scopes import Scope
from opx.graph.extraction.mentions import NAMED_TYPES, KnownNames
from opx.graph.relink_queue import RelinkQueue, WaitingNames
from opx.ingestion.corpus.clients import ClientRegistry, ProjectRegistry, is_gone
from opx.ports.search import GraphWriter


class NamingWriter:
    """A `GraphWriter` that queues names that documents declare for the first time."""

    def __init__(self, writer: GraphWriter, known: KnownNames, queue: RelinkQueue) -> None:
        self._writer = writer
        self._known = known
        self._queue = queue
        self._new: deque[WaitingNames] = deque()

    def write(self, origin: Origin, statements: Statements) -> None:
        fresh = self._fresh(origin, statements)
        queued = self._queue.add(origin, fresh) if fresh else []
        self._writer.write(origin, statements)
        if fresh:
            self._known.declare(origin.scope, fresh)
            self._new.extend(queued)

    def _fresh(self, origin: Origin, statements: Statements) -> list[str]:
        declared = [node.key for node in statements.nodes if node.declared]
        declared += [alias for alias, _ in statements.aliases]
        named = [key for key in dict.fromkeys(declared) if node_type(key) in NAMED_TYPES]
        fresh = self._known.unknown(origin.scope, named) if named else []
        return sorted(fresh, key=lambda key: NAMED_TYPES.index(node_type(key)))

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        self._writer.remove(key_id, scope, document_ids=document_ids)

    def drain(self) -> list[WaitingNames]:
        """The rows that this process queued since the last call, including those that were rolled back."""
        rows = []
        while self._new:
            rows.append(self._new.popleft())
        return rows


# -- scopes


class ScopeDirectory:
    """The scopes of registered clients and projects; both are registered with their first document."""

    def __init__(self, clients: ClientRegistry, projects: ProjectRegistry) -> None:
        self._clients = clients
        self._projects = projects

    def all(self) -> Iterator[Scope]:
        """The global scope, and those of each client that is not offboarded."""
        yield Scope()
        for client in self._clients.all():
            if not is_gone(client):
                yield from self.of_client(client.client_id)

    def of_client(self, client_id: str) -> Iterator[Scope]:
        """The client's own scope, those of its projects, and those of their groups."""
        yield Scope(client_id)
        projects = list(self._projects.projects(client_id))
        yield from (Scope(client_id, project_id=project.project_id) for project in projects)
        groups = sorted({project.group_id for project in projects} - {""})
        yield from (Scope(client_id, group_id=group) for group in groups)

    def naming(self, scope: Scope) -> Iterator[str]:
        """Keys of the scopes whose documents may name nodes of this scope: itself and those within it, the inverse of
        `scopes_that_name`."""
        if scope.group_id or scope.project_id:
            yield scope.key
            return
        within = self.of_client(scope.client_id) if scope.client_id else self.all()
        yield from (other.key for other in within)
