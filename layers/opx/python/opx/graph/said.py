"""What a document says, checked and complete: what rows are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opx.domain.graph import EdgeName, EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.graph.rows import Mark, Names, NodeMark, Statement, mark_of, row
from opx.graph.when import moment
from opx.ports import Item

MOST_PASSAGES = 100
"""Of a thing in one document: it may be an end of each of its relations, and a row holds only so much."""


@dataclass(frozen=True, slots=True)
class Said:
    """The statements of a document version by the mark that their rows have."""

    origin: Origin
    updated: str
    statements: dict[Mark, Statement]

    @property
    def evidence(self) -> dict[Mark, tuple[str, ...]]:
        return {mark: statement.chunk_ids for mark, statement in self.statements.items()}

    def under(self, stated: Iterable[Mark]) -> Said:
        """The same with the marks that things have already: under another one, the document would say it twice."""
        known = {mark.key: mark for mark in sorted(mark for mark in stated if isinstance(mark, NodeMark))}
        return replace(
            self,
            statements={
                known.get(mark.key, mark) if isinstance(mark, NodeMark) else mark: one
                for mark, one in self.statements.items()
            },
        )

    def beyond(self, rows: Mapping[Mark, Item]) -> Said:
        """What these rows don't say: other relations and things, and of their things further passages."""
        further = {mark: _further(one, rows.get(mark)) for mark, one in self.statements.items()}
        return replace(self, statements={mark: one for mark, one in further.items() if one})

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
            chunk_ids=_bounded(known.chunk_ids, one.chunk_ids),
            declared=known.declared or one.declared,
        )
    return found.values()


def _edges(statements: Iterable[EdgeStatement]) -> list[EdgeStatement]:
    found: dict[EdgeName, EdgeStatement] = {}
    for one in statements:
        known = found.get(one.name, one)
        found[one.name] = replace(known, chunk_ids=_together(known.chunk_ids, one.chunk_ids))
    return list(found.values())


def _further(statement: Statement, row: Item | None) -> Statement | None:
    """What the row says with the passages of the statement, if it has more."""
    if row is None:
        return statement
    chunk_ids = _bounded(tuple(row["chunkIds"]), statement.chunk_ids)
    if isinstance(statement, EdgeStatement) or len(chunk_ids) <= len(row["chunkIds"]):
        return None
    return NodeStatement(statement.key, row["type"], row["properties"], chunk_ids, row["declared"])


def _together(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return some if others == some else tuple(dict.fromkeys((*some, *others)))


def _bounded(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """At most `MOST_PASSAGES`, and not fewer than there were."""
    return some if len(some) >= MOST_PASSAGES else _together(some, others)[:MOST_PASSAGES]
