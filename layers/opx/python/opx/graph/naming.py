"""Notes which names become known as documents are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opx.domain.graph import Origin, Statements, node_type
from opx.domain.scopes import Scope
from opx.graph.extraction.mentions import NAMED_TYPES, KnownNames
from opx.ingestion.corpus.clients import ClientRegistry, ProjectRegistry, is_gone
from opx.ports.search import GraphWriter


@dataclass(frozen=True, slots=True, order=True)
class DeclaredName:
    """A reference, and the scope of the document that declares it."""

    scope_key: str
    key: str


class NamingWriter:
    """A `GraphWriter` that notes which names documents declare that were not known before."""

    def __init__(self, writer: GraphWriter, known: KnownNames) -> None:
        self._writer = writer
        self._known = known
        self._new: deque[DeclaredName] = deque()

    def write(self, origin: Origin, statements: Statements) -> None:
        self._writer.write(origin, statements)
        declared = [node.key for node in statements.nodes if node.declared]
        declared += [alias for alias, _ in statements.aliases]
        if any(node_type(key) in NAMED_TYPES for key in declared):
            fresh = self._known.declare(origin.scope, declared)
            self._new.extend(DeclaredName(origin.scope.key, key) for key in fresh)

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        self._writer.remove(key_id, scope, document_ids=document_ids)

    def taken(self) -> list[DeclaredName]:
        """The new names since this was asked last."""
        names = []
        while self._new:
            names.append(self._new.popleft())
        return list(dict.fromkeys(names))


# -- naming scopes


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
