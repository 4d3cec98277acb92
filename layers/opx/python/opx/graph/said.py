"""What a document says, checked and complete: what rows are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from opx.domain.graph import EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.errors import InvalidInputError
from opx.graph.rows import Mark, Names, Statement, mark_of, row
from opx.graph.when import moment
from opx.ports import Item


@dataclass(frozen=True, slots=True)
class Said:
    """The statements of a document version by the mark that their rows have."""

    origin: Origin
    updated: str
    statements: dict[Mark, Statement]

    @property
    def evidence(self) -> dict[Mark, tuple[str, ...]]:
        return {mark: statement.chunk_ids for mark, statement in self.statements.items()}

    def without(self, marks: Collection[Mark]) -> Said:
        """What of it isn't among these."""
        return replace(self, statements={mark: one for mark, one in self.statements.items() if mark not in marks})

    def rows(self, names: Names) -> list[Item]:
        return [
            row(statement, mark, self.origin, self._at(statement), names) for mark, statement in self.statements.items()
        ]

    def _at(self, statement: Statement) -> str:
        return (moment(statement.at) if isinstance(statement, EdgeStatement) else "") or self.updated


def said(origin: Origin, statements: Statements, now: str) -> Said:
    """Each relation's ends are things that are stated, too; what is said twice is said once, with all its passages.

    Raises `InvalidInputError` for a statement without evidence, and for what is no reference or type.
    """
    edges = _edges(statements.edges)
    nodes = _nodes([*statements.nodes, *(end for edge in edges for end in _ends(edge))])
    updated = moment(origin.updated) or now
    found: dict[Mark, Statement] = {}
    every: tuple[Statement, ...] = (*nodes, *edges)
    for statement in every:
        mark = mark_of(statement, origin, updated, statements.own)
        if not any(statement.chunk_ids):
            raise InvalidInputError(f"{' '.join(mark)} has no evidence: name the chunks of the document that say so")
        found[mark] = statement
    return Said(origin, updated, found)


def _ends(edge: EdgeStatement) -> Iterable[NodeStatement]:
    return (NodeStatement(key, node_type(key), chunk_ids=edge.chunk_ids) for key in (edge.source, edge.target))


def _nodes(statements: Iterable[NodeStatement]) -> Iterable[NodeStatement]:
    found: dict[str, NodeStatement] = {}
    for one in statements:
        known = found.get(one.key, one)
        found[one.key] = replace(
            known,
            properties={**one.properties, **known.properties},
            chunk_ids=_together(known.chunk_ids, one.chunk_ids),
            declared=known.declared or one.declared,
        )
    return found.values()


def _edges(statements: Iterable[EdgeStatement]) -> list[EdgeStatement]:
    found: dict[tuple[str, str, str], EdgeStatement] = {}
    for one in statements:
        name = (one.source, one.edge_type, one.target)
        known = found.get(name, one)
        found[name] = replace(known, chunk_ids=_together(known.chunk_ids, one.chunk_ids))
    return list(found.values())


def _together(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return some if others == some else tuple(dict.fromkeys((*some, *others)))
