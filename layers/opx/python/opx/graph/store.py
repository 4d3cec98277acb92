"""The graph of all scopes, over one table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from opx.domain.graph import EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.domain.scopes import Scope
from opx.graph import manifest
from opx.graph.moving import RowMover
from opx.graph.places import Places
from opx.graph.reading import TableReads
from opx.graph.rows import EdgeMark, Names, NodeMark
from opx.graph.writing import StatementWriter
from opx.ports import Clock, Table
from opx.runtime.parallel import Each

if TYPE_CHECKING:
    from opx.graph.aliases import AliasRegistry


class GraphStore(TableReads):
    """Keeps what documents say of things (a `GraphWriter`), and gives it back (a `GraphReads`) within scopes.

    `aliases` are asked for the canonical references of what is written, and learn those that documents declare. With
    `threads`, so many places are read or written at a time.
    """

    def __init__(self, table: Table, clock: Clock, *, aliases: AliasRegistry | None = None, threads: int = 1) -> None:
        each = Each(threads)
        canonical = aliases.canonical if aliases else _as_stated
        filed = aliases.filed if aliases else _nowhere_else
        super().__init__(table, each, canonical)
        places = Places(table, each)
        self._aliases = aliases
        self._writer = StatementWriter(table, places, canonical, filed, clock)
        self._mover = RowMover(table, places, canonical, each)

    def write(self, origin: Origin, statements: Statements) -> None:
        """See `GraphWriter.write`. Raises `InvalidInputError` also if the document key is known to be of another scope."""
        if self._aliases:
            self._aliases.state(origin.key_id, origin.scope, statements.aliases)
        self._writer.write(origin, statements)

    def add(self, origin: Origin, statements: Statements) -> bool:
        """Have a document version say this, too, for who holds the claim on it. What it says already stays as it is.
        False, and nothing is done, if another version is in the graph, or none. Raises as `write` does."""
        return self._writer.add(origin, statements)

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        """See `GraphWriter.remove`."""
        if self._aliases and document_ids is None:
            self._aliases.state(key_id, scope, ())
        self._writer.remove(key_id, scope, None if document_ids is None else list(document_ids))

    def rewrite(self, scope: Scope, key: str) -> int:
        """Put each row of this scope that is filed under `key` where what it states belongs now; how many there were.

        To be called after two names were merged or parted. Idempotent; may be interrupted and called again, and
        documents may be written meanwhile. On AWS an index lags a moment behind: what it didn't show is found by
        calling again. Raises `StoreUnavailableError`.
        """
        return self._mover.rewrite(scope, key)

    def statements_of(self, key_id: str) -> Statements:
        """What a document states, by what it gives as evidence: references as it writes them, without properties. For
        who may change the document: nobody is asked whether they may see it."""
        held = manifest.read(self._table, key_id)
        stated = sorted(held.evidence().items(), key=lambda one: tuple(one[0]))
        nodes = ((mark, ids) for mark, ids in stated if isinstance(mark, NodeMark))
        edges = ((mark, ids) for mark, ids in stated if isinstance(mark, EdgeMark))
        return Statements(
            own=held.own,
            nodes=tuple(NodeStatement(mark.key, node_type(mark.key), chunk_ids=tuple(ids)) for mark, ids in nodes),
            edges=tuple(EdgeStatement(*mark, chunk_ids=tuple(ids)) for mark, ids in edges),
        )


def _as_stated(scope: Scope, keys: Sequence[str]) -> Names:  # noqa: ARG001 - of a port
    return {}


def _nowhere_else(scope: Scope, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:  # noqa: ARG001 - as above
    return {}
