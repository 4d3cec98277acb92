"""Manifest of a document: its statements by chunk, as stated, so that chunks lead to nodes and rows can be found again.

The partition `refs#<key id>` has an entry for each chunk with statements, and further ones, `<chunk id>#<n>`, where there
are many. Merges don't change them. A document's entries are written before the rows that they list and removed after them;
entries `~<hash>` list statements that the document no longer makes and of which rows may be left. So the next writer or
remover of the document knows all rows that an interruption left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from opx.domain.graph import EdgeName, EdgeStatement, NodeStatement, Origin, Statements, node_type
from opx.domain.ids import stable_hash
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import InvalidInputError
from opx.graph.rows import EdgeMark, Mark, Names, NodeMark, Statement, mark_of, moment, row
from opx.ports import Item, Table

LEAVING = "~"
MARKS_A_PAGE = 200
"""At most 1,200 bytes each, so that an item stays below 240 KB of the 400 that it may have."""

ChunkName = tuple[str, str]
"""The key id of a document, and the id of a chunk of it."""


@dataclass(slots=True)
class ManifestEntries:
    """Entries of a manifest: those of chunks with their statements, and those of statements that are being removed."""

    pages: list[Item] = field(default_factory=list)
    leaving: list[Item] = field(default_factory=list)

    @property
    def scopes(self) -> set[str]:
        return {str(item["scope"]) for item in (*self.pages, *self.leaving)}

    def evidence(self) -> dict[Mark, list[str]]:
        """Ids of the chunks that are evidence of each statement."""
        found: dict[Mark, list[str]] = {}
        for page in self.pages:
            for mark in marks_in(page):
                found.setdefault(mark, []).append(str(page["chunk"]))
        return found

    @property
    def own(self) -> str:
        return next((str(page["own"]) for page in self.pages), "")

    def of(self, document_ids: Collection[str] | None) -> list[Item]:
        """The entries of these versions of the document, or of all."""
        return [item for item in self.pages if document_ids is None or item["documentId"] in document_ids]


@dataclass(slots=True)
class Stated:
    """Statements of a chunk, and the scope of its document."""

    scope_key: str
    marks: set[Mark] = field(default_factory=set)


def read(table: Table, key_id: str) -> ManifestEntries:
    held = ManifestEntries()
    for item in table.query(manifest_partition(key_id)):
        (held.leaving if str(item["entry"]).startswith(LEAVING) else held.pages).append(item)
    return held


def read_chunks(table: Table, chunks: Sequence[ChunkName]) -> dict[ChunkName, Stated]:
    """Statements of these chunks; chunks without any are left out."""
    first = table.get_many([entry_key(key_id, chunk) for key_id, chunk in chunks if key_id and chunk])
    further = [
        entry_key(str(item["keyId"]), _page_name(str(item["chunk"]), number))
        for item in first
        for number in range(1, int(item["pages"]))
    ]
    found: dict[ChunkName, Stated] = {}
    for item in (*first, *table.get_many(further)):
        name = (str(item["keyId"]), str(item["chunk"]))
        found.setdefault(name, Stated(str(item["scope"]))).marks.update(marks_in(item))
    return found


def pages(origin: Origin, evidence: Mapping[Mark, Sequence[str]], own: str) -> Iterator[Item]:
    """Entries of all chunks that are evidence of a document version's statements. `own` is the node that it is about."""
    by_chunk: dict[str, list[Mark]] = {}
    for mark, chunk_ids in evidence.items():
        for chunk in dict.fromkeys(chunk_ids):
            by_chunk.setdefault(chunk, []).append(mark)
    for chunk, stated in by_chunk.items():
        parts = list(_parts(_sorted(stated)))
        for number, part in enumerate(parts):
            item = _item(origin.key_id, origin.scope, _page_name(chunk, number), part)
            yield {**item, "chunk": chunk, "pages": len(parts), "documentId": origin.document_id, "own": own}


def leaving(key_id: str, scope: Scope, marks: Iterable[Mark]) -> list[Item]:
    """Entries for statements to be removed. They are named by a hash of their marks, so that none overwrites another."""
    return [
        _item(key_id, scope, LEAVING + stable_hash(*(list(mark) for mark in part)), part)
        for part in _parts(_sorted(marks))
    ]


def marks_in(*items: Item) -> set[Mark]:
    found: set[Mark] = set()
    for item in items:
        found.update(NodeMark(*map(str, one)) for one in item["nodes"])
        found.update(EdgeMark(*map(str, one)) for one in item["edges"])
    return found


def entry_key(key_id: str, entry: str) -> dict[str, str]:
    return {"place": manifest_partition(key_id), "entry": entry}


def _item(key_id: str, scope: Scope, entry: str, marks: Sequence[Mark]) -> Item:
    return {
        **entry_key(key_id, entry),
        "keyId": key_id,
        "scope": scope.key,
        "nodes": [list(mark) for mark in marks if isinstance(mark, NodeMark)],
        "edges": [list(mark) for mark in marks if isinstance(mark, EdgeMark)],
    }


def _sorted(marks: Iterable[Mark]) -> list[Mark]:
    return sorted(marks, key=lambda mark: (len(mark), *mark))


def _parts(marks: Sequence[Mark]) -> Iterator[Sequence[Mark]]:
    return (marks[start : start + MARKS_A_PAGE] for start in range(0, len(marks), MARKS_A_PAGE))


def _page_name(chunk: str, number: int) -> str:
    return f"{chunk}#{number}" if number else chunk


def manifest_partition(key_id: str) -> str:
    return f"refs#{key_id}"


# -- statements

MOST_PASSAGES = 100
"""Evidence of a node in one document: it may be an end of every edge there, and the size of a row is limited."""


@dataclass(frozen=True, slots=True)
class ManifestStatements:
    """The statements of a document version by the marks of their rows."""

    origin: Origin
    updated: str
    statements: dict[Mark, Statement]

    @property
    def evidence(self) -> dict[Mark, tuple[str, ...]]:
        return {mark: statement.chunk_ids for mark, statement in self.statements.items()}

    def under(self, stated: Iterable[Mark]) -> ManifestStatements:
        """The same with the marks that nodes have already: under another mark, the document would state a node twice."""
        known = {mark.key: mark for mark in sorted(mark for mark in stated if isinstance(mark, NodeMark))}
        return replace(
            self,
            statements={
                known.get(mark.key, mark) if isinstance(mark, NodeMark) else mark: one
                for mark, one in self.statements.items()
            },
        )

    def beyond(self, rows: Mapping[Mark, Item]) -> ManifestStatements:
        """Statements that these rows lack: other edges and nodes, and further evidence of their nodes."""
        further = {mark: _further(one, rows.get(mark)) for mark, one in self.statements.items()}
        return replace(self, statements={mark: one for mark, one in further.items() if one})

    def rows(self, names: Names) -> list[Item]:
        return [
            row(statement, mark, self.origin, self._time_of(statement), names)
            for mark, statement in self.statements.items()
        ]

    def _time_of(self, statement: Statement) -> str:
        return (moment(statement.at) if isinstance(statement, EdgeStatement) else "") or self.updated


def statements_by_mark(origin: Origin, statements: Statements, now: str) -> ManifestStatements:
    """Statements by mark: the ends of edges are stated as nodes, too, and duplicates are merged with all their evidence.

    Raises `InvalidInputError` for a statement without evidence, and for an invalid reference or edge type.
    """
    edges = _edges(statements.edges)
    nodes = _nodes([*statements.nodes, *(end for edge in edges for end in _ends(edge))])
    updated = moment(origin.updated) or now
    found: dict[Mark, Statement] = {}
    every: tuple[Statement, ...] = (*nodes, *edges)
    for statement in every:
        mark = mark_of(statement, origin, updated, statements.own)
        if not any(statement.chunk_ids):
            raise InvalidInputError(f"{' '.join(mark)} has no evidence: name the chunks of the document that state it")
        found[mark] = statement
    return ManifestStatements(origin, updated, found)


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
    """The row's statement with the evidence of this one added; None if that adds nothing."""
    if row is None:
        return statement
    chunk_ids = _bounded(tuple(row["chunkIds"]), statement.chunk_ids)
    if isinstance(statement, EdgeStatement) or len(chunk_ids) <= len(row["chunkIds"]):
        return None
    return NodeStatement(statement.key, row["type"], row["properties"], chunk_ids, row["declared"])


def _together(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return some if others == some else tuple(dict.fromkeys((*some, *others)))


def _bounded(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    """Both, at most `MOST_PASSAGES`; never fewer than `some`."""
    return some if len(some) >= MOST_PASSAGES else _together(some, others)[:MOST_PASSAGES]
