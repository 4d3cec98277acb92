"""What a document says, chunk by chunk, as it states it: by this its chunks lead to things, and its rows are found again.

The place `refs#<key id>` has an entry for each chunk with statements, and further ones, `<chunk id>#<n>`, where there are
many. Merging names doesn't touch them. A document's entries are written before the rows that they list and removed after
them; entries `~<hash>` list what the document doesn't say any more and of which there may still be rows. So whatever an
interruption leaves is known to the next who writes or removes the document.
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
    """What is listed: entries of chunks with what each states, and those of what is leaving."""

    pages: list[Item] = field(default_factory=list)
    leaving: list[Item] = field(default_factory=list)

    @property
    def scopes(self) -> set[str]:
        return {str(item["scope"]) for item in (*self.pages, *self.leaving)}

    def evidence(self) -> dict[Mark, list[str]]:
        """The chunks by which each thing is stated."""
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
    """What a chunk states, and the scope of its document."""

    scope_key: str
    marks: set[Mark] = field(default_factory=set)


def read(table: Table, key_id: str) -> ManifestEntries:
    held = ManifestEntries()
    for item in table.query(place_of(key_id)):
        (held.leaving if str(item["entry"]).startswith(LEAVING) else held.pages).append(item)
    return held


def read_chunks(table: Table, chunks: Sequence[ChunkName]) -> dict[ChunkName, Stated]:
    """Those of these chunks that state something."""
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
    """The entries of all chunks that are evidence of what a document version states. `own` is what it is about."""
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
    """Entries for what is not stated any more. Their names follow from what they list: none overwrites another."""
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
    return {"place": place_of(key_id), "entry": entry}


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


def place_of(key_id: str) -> str:
    return f"refs#{key_id}"


# -- said


MOST_PASSAGES = 100
"""Of a thing in one document: it may be an end of each of its relations, and a row holds only so much."""


@dataclass(frozen=True, slots=True)
class ManifestStatements:
    """The statements of a document version by the mark that their rows have."""

    origin: Origin
    updated: str
    statements: dict[Mark, Statement]

    @property
    def evidence(self) -> dict[Mark, tuple[str, ...]]:
        return {mark: statement.chunk_ids for mark, statement in self.statements.items()}

    def under(self, stated: Iterable[Mark]) -> ManifestStatements:
        """The same with the marks that things have already: under another one, the document would say it twice."""
        known = {mark.key: mark for mark in sorted(mark for mark in stated if isinstance(mark, NodeMark))}
        return replace(
            self,
            statements={
                known.get(mark.key, mark) if isinstance(mark, NodeMark) else mark: one
                for mark, one in self.statements.items()
            },
        )

    def beyond(self, rows: Mapping[Mark, Item]) -> ManifestStatements:
        """What these rows don't say: other relations and things, and of their things further passages."""
        further = {mark: _further(one, rows.get(mark)) for mark, one in self.statements.items()}
        return replace(self, statements={mark: one for mark, one in further.items() if one})

    def rows(self, names: Names) -> list[Item]:
        return [
            row(statement, mark, self.origin, self._at(statement), names) for mark, statement in self.statements.items()
        ]

    def _at(self, statement: Statement) -> str:
        return (moment(statement.at) if isinstance(statement, EdgeStatement) else "") or self.updated


def said(origin: Origin, statements: Statements, now: str) -> ManifestStatements:
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
