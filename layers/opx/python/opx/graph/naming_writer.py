"""Notes which names become known as documents are written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from opx.domain.graph import Origin, Statements, node_type
from opx.domain.scopes import Scope
from opx.graph.extraction.mentions import NAMED_TYPES, KnownNames
from opx.ports.graph import GraphWriter


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
