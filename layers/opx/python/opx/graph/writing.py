"""Has the table say what documents say, and no more.

The order of the writes is what makes any interruption harmless: first what is to leave is listed, then what is stated
now, then come the rows of the statements, then the rows of what has left go, and the list of those at last. References
are looked up between the list and the rows, and once more after them: who merges two names registers that first, so that
either the merge finds the rows, or the writer finds the merge.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product

from opx.domain.graph import Origin, Statements
from opx.domain.scopes import Scope
from opx.domain.times import iso_time
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.graph import manifest
from opx.graph.places import Places
from opx.graph.rows import Mark, Names, ends, key_in_table, row_key
from opx.graph.said import Said, said
from opx.ports import Clock, Item, Table
from opx.ports.graph import Canonical

Filed = Callable[[Scope, Sequence[str]], Mapping[str, tuple[str, ...]]]
"""All references under which statements may be filed just now, of those that may be under others than themselves."""

MOST_MERGES = 5
"""That a writer follows while it writes one document."""


class StatementWriter:
    """Writes and removes the statements of documents; see `opx.ports.graph.GraphWriter`."""

    def __init__(self, table: Table, places: Places, canonical: Canonical, filed: Filed, clock: Clock) -> None:
        self._table = table
        self._places = places
        self._canonical = canonical
        self._filed = filed
        self._clock = clock

    def write(self, origin: Origin, statements: Statements) -> None:
        """Raises `InvalidInputError` too where the document key is known to be of another scope."""
        new = said(origin, statements, iso_time(self._clock()))
        held = self._held(origin.key_id, origin.scope)
        gone = manifest.marks_in(*held.pages, *held.leaving) - new.statements.keys()
        leaving = manifest.leaving(origin.key_id, origin.scope, gone)
        self._places.list(leaving)
        pages = list(manifest.pages(origin, new.evidence, statements.own))
        self._places.list(pages)
        listed = {page["entry"] for page in pages}
        self._places.delete([key_in_table(page) for page in held.pages if page["entry"] not in listed])
        self._put(new)
        self._clear(origin.key_id, origin.scope, gone)
        self._places.delete(list(map(key_in_table, (*held.leaving, *leaving))))
        if pages and not self._holds(pages[0]):
            self._clear(origin.key_id, origin.scope, new.statements, [origin.document_id])

    def add(self, origin: Origin, statements: Statements) -> bool:
        """Have the version say this too. False, and nothing done, if it isn't this version that is listed."""
        held = self._held(origin.key_id, origin.scope)
        if not held.pages or any(page["documentId"] != origin.document_id for page in held.pages):
            return False
        stated = held.evidence()
        every = said(origin, statements, iso_time(self._clock())).under(stated)
        new = every.beyond(self._written(origin, every))
        touched = {
            chunk for mark, chunks in new.evidence.items() for chunk in chunks if chunk not in stated.get(mark, ())
        }
        pages = manifest.pages(origin, {**stated, **new.evidence}, held.own)
        self._places.list([page for page in pages if page["chunk"] in touched])
        self._put(new)
        self._places.put_heads(every.rows(self._names(origin.scope, every.statements)))
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
        self._places.list(leaving)
        self._places.delete(list(map(key_in_table, pages)))
        self._clear(key_id, scope, marks, document_ids)
        listed = (*held.leaving, *leaving) if document_ids is None else leaving
        self._places.delete(list(map(key_in_table, listed)))

    def _held(self, key_id: str, scope: Scope) -> manifest.Held:
        held = manifest.read(self._table, key_id)
        if held.scopes - {scope.key}:
            raise InvalidInputError(
                f"document key {key_id} belongs to another scope than {scope.key}: relations don't cross scopes, "
                "put the document into the scope whose things it is about"
            )
        return held

    def _holds(self, page: Item) -> bool:
        """Whether what was listed still is: else another worker took the document over meanwhile."""
        found = self._table.get(key_in_table(page))
        return found is not None and found["documentId"] == page["documentId"]

    def _written(self, origin: Origin, new: Said) -> dict[Mark, Item]:
        """The rows that there are of these: what is listed alone may be what an interruption left."""
        names = self._names(origin.scope, new.statements)
        keys = {mark: key_in_table(row_key(mark, origin.key_id, origin.scope.key, names)) for mark in new.statements}
        there = {(row["place"], row["entry"]): row for row in self._table.get_many(list(keys.values()))}
        return {mark: row for mark, key in keys.items() if (row := there.get((key["place"], key["entry"])))}

    def _put(self, new: Said) -> None:
        """Write the rows where their references belong, until these stay the same over it."""
        scope, key_id = new.origin.scope, new.origin.key_id
        names = self._names(scope, new.statements)
        for _ in range(MOST_MERGES):
            self._places.put(new.rows(names))
            before, names = names, self._names(scope, new.statements)
            if names == before:
                return
            old = [row_key(mark, key_id, scope.key, before) for mark in new.statements]
            kept = [row_key(mark, key_id, scope.key, names) for mark in new.statements]
            self._take_out([key for key, now in zip(old, kept, strict=True) if key != now])
        raise StoreUnavailableError("names of things are merged again and again: try again later")

    def _clear(
        self, key_id: str, scope: Scope, marks: Iterable[Mark], document_ids: Collection[str] | None = None
    ) -> None:
        """Take out the rows of these marks, wherever a merge that isn't finished may have left them."""
        marks = list(marks)
        filed = self._filed(scope, _ends(marks)) if marks else {}
        keys = [
            row_key(mark, key_id, scope.key, dict(zip(ends(mark), places, strict=True)))
            for mark in marks
            for places in product(*(filed.get(end, (end,)) for end in ends(mark)))
        ]
        self._take_out(keys, document_ids)

    def _take_out(self, keys: Iterable[dict[str, str]], document_ids: Collection[str] | None = None) -> None:
        found = list({(key["place"], key["entry"]): key_in_table(key) for key in keys}.values())
        self._places.delete(found, document_ids)
        self._places.tidy(key["place"] for key in found)

    def _names(self, scope: Scope, marks: Collection[Mark]) -> Names:
        return self._canonical(scope, _ends(marks)) if marks else {}


def _ends(marks: Iterable[Mark]) -> list[str]:
    return list(dict.fromkeys(key for mark in marks for key in ends(mark)))
