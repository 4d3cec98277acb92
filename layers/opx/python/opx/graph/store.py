"""Reads and writes nodes and edges of all scopes in one table, and moves rows after a merge."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import merge
from itertools import groupby, islice, product

from opx.domain.graph import Direction, Edge, EdgeStatement, Node, NodeStatement, Origin, Statements, Walk, node_type
from opx.domain.ids import batched, iso_time
from opx.domain.scopes import Scope, scope_of_key
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.graph import manifest
from opx.graph.aliases import AliasRegistry
from opx.graph.manifest import ManifestStatements, statements_by_mark
from opx.graph.partitions import AdjacentRows, FoundEdges, Partitions
from opx.graph.rows import (
    EDGE,
    HEAD,
    MOST_EVIDENCE,
    NODE,
    EdgeMark,
    Mark,
    Names,
    NodeMark,
    declared_partition,
    edges_of,
    ends,
    is_node,
    key_in_table,
    mark_in,
    moved,
    node_of,
    partition_key,
    row_key,
)
from opx.graph.views import Adjacent
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table
from opx.ports.search import Canonical
from opx.ports.tables import delete_if, put_if
from opx.runtime.threads import Each

# -- reads

INDEXES = {
    Direction.OUT: ("out-index",),
    Direction.IN: ("in-index",),
    Direction.BOTH: ("out-index", "in-index"),
}
MOST_BETWEEN = 200


class TableReads:
    """Implements `opx.graph.views.GraphReads`. Head rows are read first, a hundred a call: most scopes have no statement
    about most nodes."""

    def __init__(self, table: Table, each: Each, canonical: Canonical) -> None:
        self._table = table
        self._each = each
        self._canonical = canonical

    def nodes(self, scopes: Sequence[str], keys: Sequence[str]) -> list[Node]:
        known = self._known(scopes, keys)
        rows: dict[str, list[Item]] = {}
        for (_, key), found in zip(known, self._each(self._statements, known), strict=True):
            rows.setdefault(key, []).extend(found)
        nodes = (node_of(key, rows.get(key, ())) for key in dict.fromkeys(keys))
        return [node for node in nodes if node]

    def edges(self, scopes: Sequence[str], key: str, walk: Walk) -> Adjacent:
        return self.edges_of(scopes, [key], walk).get(key, ([], False))

    def edges_of(self, scopes: Sequence[str], keys: Sequence[str], walk: Walk) -> dict[str, Adjacent]:
        adjacent = AdjacentRows(self._table, walk)
        known = self._known(scopes, keys)
        jobs = list(product(known, INDEXES[walk.direction]))
        answers = self._each(lambda job: adjacent.read(partition_key(*job[0]), job[1]), jobs)
        found: dict[str, list[FoundEdges]] = {key: [] for _, key in known}
        for ((_, key), _), answer in zip(jobs, answers, strict=True):
            found[key].append(answer)
        return {key: _newest(found[key], walk.fan_out) for key in dict.fromkeys(keys) if key in found}

    def between(self, scopes: Sequence[str], one: str, other: str) -> list[Edge]:
        jobs = [
            (scope, *pair) for scope in dict.fromkeys(scopes) for pair in dict.fromkeys([(one, other), (other, one)])
        ]
        return edges_of(row for rows in self._each(self._from_to, jobs) for row in rows)

    def references(self, scopes: Sequence[str], chunks: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        by_scope: dict[str, dict[str, list[str]]] = {}
        for (_, chunk), stated in manifest.read_chunks(self._table, list(dict.fromkeys(chunks))).items():
            if stated.scope_key in scopes:
                keys = sorted({key for mark in stated.marks for key in ends(mark)})
                by_scope.setdefault(stated.scope_key, {})[chunk] = keys
        for scope_key, stated_keys in by_scope.items():
            every = sorted({key for keys in stated_keys.values() for key in keys})
            names = self._canonical(scope_of_key(scope_key), every)
            for chunk, keys in stated_keys.items():
                found[chunk] = tuple(dict.fromkeys(names.get(key, key) for key in keys))
        return {chunk: found[chunk] for _, chunk in chunks if chunk in found}

    def existing(self, scopes: Sequence[str], keys: Sequence[str]) -> dict[str, str]:
        return {key: key for _, key in self._known(scopes, keys)}

    def of_type(
        self,
        scopes: Sequence[str],
        node_type: str,
        *,
        begins_with: str = "",
        after: str = "",
        limit: int = 1_000,
        declared: bool = False,
    ) -> list[Node]:
        where = KeyRange(begins_with=begins_with) if begins_with else KeyRange(low=after) if after else None

        def listed(scope: str) -> list[str]:
            name = declared_partition(scope, node_type) if declared else partition_key(scope, node_type)
            most = None if declared else limit + bool(after)  # a node that several documents declare has several rows
            items = self._table.query(name, index="type-index", where=where, limit=most)
            keys = (str(item["nodeKey"]) for item in items)
            return list(islice((key for key, _ in groupby(keys) if key > after), limit))

        keys = dict.fromkeys(merge(*self._each(listed, list(dict.fromkeys(scopes)))))
        return [Node(key, node_type, declared=declared) for key in islice(keys, limit)]

    def _known(self, scopes: Sequence[str], keys: Sequence[str]) -> list[tuple[str, str]]:
        """Pairs of scope and key that have a head row."""
        wanted = {
            partition_key(scope, key): (scope, key) for key in dict.fromkeys(keys) for scope in dict.fromkeys(scopes)
        }
        heads = self._table.get_many([{"place": name, "entry": HEAD} for name in wanted])
        there = {str(head["place"]) for head in heads}
        return [job for name, job in wanted.items() if name in there]

    def _statements(self, job: tuple[str, str]) -> list[Item]:
        """The best statements about a node in one scope."""
        where = KeyRange(begins_with=NODE)
        return list(self._table.query(partition_key(*job), where=where, reverse=True, limit=MOST_EVIDENCE))

    def _from_to(self, job: tuple[str, str, str]) -> list[Item]:
        scope, source, target = job
        rows = self._table.query(
            partition_key(scope, source), where=KeyRange(begins_with=f"{EDGE}{target}#"), limit=MOST_BETWEEN
        )
        return [row for row in rows if row["to"] == target]


def _newest(found: Sequence[FoundEdges], fan_out: int) -> Adjacent:
    edges = edges_of((row for one in found for row in one.rows), fan_out + 1)
    return edges[:fan_out], len(edges) > fan_out or any(one.more for one in found)


# -- store


class GraphStore(TableReads):
    """Stores the statements of documents (a `GraphWriter`), and reads nodes and edges within scopes (a `GraphReads`).

    `aliases` resolves the canonical references of statements, and records the aliases that documents declare. `threads`
    is the number of partitions that are read or written at a time.
    """

    def __init__(self, table: Table, clock: Clock, *, aliases: AliasRegistry | None = None, threads: int = 1) -> None:
        each = Each(threads)
        canonical = aliases.canonical if aliases else _as_stated
        filed = aliases.filed if aliases else _nowhere_else
        super().__init__(table, each, canonical)
        partitions = Partitions(table, each)
        self._aliases = aliases
        self._writer = StatementWriter(table, partitions, canonical, filed, clock)
        self._mover = RowMover(table, partitions, canonical, each)

    def write(self, origin: Origin, statements: Statements) -> None:
        """See `GraphWriter.write`. Raises `InvalidInputError` also if the document key is known to be of another scope."""
        if self._aliases:
            self._aliases.state(origin.key_id, origin.scope, statements.aliases)
        self._writer.write(origin, statements)
        if self._aliases:
            ends = (end for edge in statements.edges for end in (edge.source, edge.target))
            self._aliases.note_uses(origin.key_id, origin.scope, ends)

    def add(self, origin: Origin, statements: Statements) -> bool:
        """Add statements to those of a document version; the caller holds the claim on the document. Existing statements stay
        as they are. Returns False without a change if another version is in the graph, or none. Raises as `write` does."""
        return self._writer.add(origin, statements)

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        """See `GraphWriter.remove`."""
        if self._aliases and document_ids is None:
            self._aliases.state(key_id, scope, ())
        self._writer.remove(key_id, scope, None if document_ids is None else list(document_ids))

    def rewrite(self, scope: Scope, key: str) -> int:
        """File each row of this scope under `key` again by its present canonical references; returns the number moved.

        To be called after a merge or its undoing. Idempotent; may be interrupted and called again, and documents may be
        written meanwhile. On AWS an index lags a moment behind: rows that it didn't show are found by calling again.
        Raises `StoreUnavailableError`.
        """
        return self._mover.rewrite(scope, key)

    def statements_of(self, key_id: str) -> Statements:
        """Statements of a document with their evidence, references as the document writes them, without properties. Access is
        not checked: for callers that may change the document."""
        held = manifest.read(self._table, key_id)
        stated = sorted(held.evidence().items(), key=lambda one: tuple(one[0]))
        nodes = ((mark, ids) for mark, ids in stated if isinstance(mark, NodeMark))
        edges = ((mark, ids) for mark, ids in stated if isinstance(mark, EdgeMark))
        return Statements(
            own=held.own,
            nodes=tuple(NodeStatement(mark.key, node_type(mark.key), chunk_ids=tuple(ids)) for mark, ids in nodes),
            edges=tuple(EdgeStatement(*mark, chunk_ids=tuple(ids)) for mark, ids in edges),
        )


def _as_stated(scope: Scope, keys: Sequence[str]) -> Names:  # noqa: ARG001 - signature of `Canonical`
    return {}


def _nowhere_else(scope: Scope, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:  # noqa: ARG001 - as above
    return {}


# -- writes

Filed = Callable[[Scope, Sequence[str]], Mapping[str, tuple[str, ...]]]
"""All references under which statements may be filed at present, by reference; those filed under themselves are absent."""

MOST_MERGES = 5
"""Concurrent merges that a writer follows while it writes one document."""


class StatementWriter:
    """Writes and removes the statements of documents; see `opx.ports.search.GraphWriter`."""

    def __init__(self, table: Table, partitions: Partitions, canonical: Canonical, filed: Filed, clock: Clock) -> None:
        self._table = table
        self._partitions = partitions
        self._canonical = canonical
        self._filed = filed
        self._clock = clock

    def write(self, origin: Origin, statements: Statements) -> None:
        """Raises `InvalidInputError`, also if the document key is known to be of another scope."""
        new = statements_by_mark(origin, statements, iso_time(self._clock()))
        held = self._held(origin.key_id, origin.scope)
        gone = manifest.marks_in(*held.pages, *held.leaving) - new.statements.keys()
        leaving = manifest.leaving(origin.key_id, origin.scope, gone)
        self._partitions.list(leaving)
        pages = list(manifest.pages(origin, new.evidence, statements.own))
        self._partitions.list(pages)
        listed = {page["entry"] for page in pages}
        self._partitions.delete([key_in_table(page) for page in held.pages if page["entry"] not in listed])
        self._put(new)
        self._clear(origin.key_id, origin.scope, gone)
        self._partitions.delete(list(map(key_in_table, (*held.leaving, *leaving))))
        if pages and not self._holds(pages[0]):
            self._clear(origin.key_id, origin.scope, new.statements, [origin.document_id])

    def add(self, origin: Origin, statements: Statements) -> bool:
        """Add statements to those of the version. Returns False without a change if the manifest lists another version."""
        held = self._held(origin.key_id, origin.scope)
        if not held.pages or any(page["documentId"] != origin.document_id for page in held.pages):
            return False
        stated = held.evidence()
        every = statements_by_mark(origin, statements, iso_time(self._clock())).under(stated)
        new = every.beyond(self._written(origin, every))
        touched = {
            chunk for mark, chunks in new.evidence.items() for chunk in chunks if chunk not in stated.get(mark, ())
        }
        pages = manifest.pages(origin, {**stated, **new.evidence}, held.own)
        self._partitions.list([page for page in pages if page["chunk"] in touched])
        self._put(new)
        self._partitions.put_heads(every.rows(self._names(origin.scope, every.statements)))
        return True

    def remove(self, key_id: str, scope: Scope, document_ids: Collection[str] | None = None) -> None:
        held = self._held(key_id, scope)
        pages = held.of(document_ids)
        if document_ids is None:
            marks = manifest.marks_in(*pages, *held.leaving)
        else:
            others = [page for page in held.pages if page not in pages]
            marks = manifest.marks_in(*pages) - manifest.marks_in(*others)
        leaving = manifest.leaving(key_id, scope, marks)
        self._partitions.list(leaving)
        self._partitions.delete(list(map(key_in_table, pages)))
        self._clear(key_id, scope, marks, document_ids)
        listed = (*held.leaving, *leaving) if document_ids is None else leaving
        self._partitions.delete(list(map(key_in_table, listed)))

    def _held(self, key_id: str, scope: Scope) -> manifest.ManifestEntries:
        held = manifest.read(self._table, key_id)
        if held.scopes - {scope.key}:
            raise InvalidInputError(
                f"document key {key_id} belongs to another scope than {scope.key}: relations don't cross scopes, "
                "put the document into the scope whose things it is about"
            )
        return held

    def _holds(self, page: Item) -> bool:
        """True if the entry is still listed: else another worker took the document over meanwhile."""
        found = self._table.get(key_in_table(page))
        return found is not None and found["documentId"] == page["documentId"]

    def _written(self, origin: Origin, new: ManifestStatements) -> dict[Mark, Item]:
        """The stored rows of these statements: after an interruption the manifest may list more than was written."""
        names = self._names(origin.scope, new.statements)
        keys = {mark: key_in_table(row_key(mark, origin.key_id, origin.scope.key, names)) for mark in new.statements}
        there = {(row["place"], row["entry"]): row for row in self._table.get_many(list(keys.values()))}
        return {mark: row for mark, key in keys.items() if (row := there.get((key["place"], key["entry"])))}

    def _put(self, new: ManifestStatements) -> None:
        """Write the rows under their canonical references, again if a merge changed these during the write."""
        scope, key_id = new.origin.scope, new.origin.key_id
        names = self._names(scope, new.statements)
        for _ in range(MOST_MERGES):
            self._partitions.put(new.rows(names))
            before, names = names, self._names(scope, new.statements)
            if names == before:
                return
            old = [row_key(mark, key_id, scope.key, before) for mark in new.statements]
            kept = [row_key(mark, key_id, scope.key, names) for mark in new.statements]
            self._delete_rows([key for key, now in zip(old, kept, strict=True) if key != now])
        raise StoreUnavailableError("references were merged repeatedly during the write: try again later")

    def _clear(
        self, key_id: str, scope: Scope, marks: Iterable[Mark], document_ids: Collection[str] | None = None
    ) -> None:
        """Delete the rows of these marks under each reference where an unfinished merge may have left them."""
        marks = list(marks)
        filed = self._filed(scope, _ends(marks)) if marks else {}
        keys = [
            row_key(mark, key_id, scope.key, dict(zip(ends(mark), references, strict=True)))
            for mark in marks
            for references in product(*(filed.get(end, (end,)) for end in ends(mark)))
        ]
        self._delete_rows(keys, document_ids)

    def _delete_rows(self, keys: Iterable[dict[str, str]], document_ids: Collection[str] | None = None) -> None:
        found = list({(key["place"], key["entry"]): key_in_table(key) for key in keys}.values())
        self._partitions.delete(found, document_ids)
        self._partitions.tidy(key["place"] for key in found)

    def _names(self, scope: Scope, marks: Collection[Mark]) -> Names:
        return self._canonical(scope, _ends(marks)) if marks else {}


def _ends(marks: Iterable[Mark]) -> list[str]:
    return list(dict.fromkeys(key for mark in marks for key in ends(mark)))


# -- moves after a merge

ROWS_AT_ONCE = 100


class RowMover:
    """Moves rows to the partitions of their present canonical references. Documents may be written and removed meanwhile:
    rows that a document no longer states are deleted, and rows that its writer already put at the destination stay."""

    def __init__(self, table: Table, partitions: Partitions, canonical: Canonical, each: Each) -> None:
        self._table = table
        self._each = each
        self._partitions = partitions
        self._canonical = canonical

    def rewrite(self, scope: Scope, key: str) -> int:
        """Move the rows of this scope that are filed under `key`, by either end; returns the number of rows to move.

        May be interrupted and repeated. An index may not show the latest writes yet: 0 is final only a moment after the
        merge.
        """
        name, count = partition_key(scope.key, key), 0
        for index in ("", "in-index"):
            for batch in batched(self._table.query(name, index=index), ROWS_AT_ONCE):
                count += self._move(scope, batch)
        self._partitions.tidy([name])
        return count

    def _move(self, scope: Scope, batch: Sequence[Item]) -> int:
        keys = [key_in_table(row) for row in batch if row["entry"] != HEAD]
        rows = self._table.get_many(keys)  # an index may still show deleted rows
        ends = list(dict.fromkeys(str(key) for row in rows for key in row["stated"]))
        names = self._canonical(scope, ends) if ends else {}
        changes = [(row, moved(row, names)) for row in rows]
        misplaced = [(row, new) for row, new in changes if key_in_table(new) != key_in_table(row)]
        in_place = [row for row, new in changes if key_in_table(new) == key_in_table(row)]
        for row in self._unstated(in_place):  # left by an interruption
            delete_if(self._table, key_in_table(row), Equals("documentId", row["documentId"]))
        self._each(self._relocate, misplaced)
        return len(misplaced)

    def _relocate(self, change: tuple[Item, Item]) -> None:
        old, new = change
        token = secrets.token_hex(8)
        if not put_if(self._table, {**new, "moved": token}, KeyAbsent()):
            token = ""  # put there by the document's writer, or before an interruption
        if is_node(new):
            self._partitions.put_heads([new])
        if token and self._unstated([old]):
            delete_if(self._table, key_in_table(new), Equals("moved", token))
            self._partitions.tidy([new["place"]])
        delete_if(self._table, key_in_table(old), Equals("documentId", old["documentId"]))

    def _unstated(self, rows: Sequence[Item]) -> list[Item]:
        """Rows that their documents no longer state."""
        chunks = {id(row): [(str(row["keyId"]), str(chunk)) for chunk in row["chunkIds"]] for row in rows}
        stated = manifest.read_chunks(
            self._table, list(dict.fromkeys(name for names in chunks.values() for name in names))
        )
        nothing = manifest.Stated("")
        return [
            row for row in rows if not any(mark_in(row) in stated.get(name, nothing).marks for name in chunks[id(row)])
        ]
