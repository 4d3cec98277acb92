"""Moves rows whose references have another canonical one now."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import islice

from opx.domain.scopes import Scope
from opx.errors import ConditionFailedError
from opx.graph import manifest
from opx.graph.places import Places
from opx.graph.rows import HEAD, is_node, key_in_table, mark_in, moved, place
from opx.ports import Absent, Equals, Item, Table
from opx.ports.graph import Canonical
from opx.runtime.parallel import Each

ROWS_AT_ONCE = 100


class RowMover:
    """Puts rows where the references that they state belong now. Documents may be written and removed meanwhile: what a
    document doesn't say any more is not moved but removed, and what its writer put there already stays."""

    def __init__(self, table: Table, places: Places, canonical: Canonical, each: Each) -> None:
        self._table = table
        self._each = each
        self._places = places
        self._canonical = canonical

    def rewrite(self, scope: Scope, key: str) -> int:
        """Move the rows of this scope that are filed under `key`, by either end; returns how many there were to move.

        May be interrupted and done again. An index may not show yet what has just been written: 0 is final a moment
        after the merge.
        """
        name, count = place(scope.key, key), 0
        for index in ("", "in-index"):
            rows = iter(self._table.query(name, index=index))
            while batch := list(islice(rows, ROWS_AT_ONCE)):
                count += self._move(scope, batch)
        self._places.tidy([name])
        return count

    def _move(self, scope: Scope, batch: Sequence[Item]) -> int:
        keys = [key_in_table(row) for row in batch if row["entry"] != HEAD]
        rows = self._table.get_many(keys)  # an index may show what isn't there any more
        ends = list(dict.fromkeys(str(key) for row in rows for key in row["stated"]))
        names = self._canonical(scope, ends) if ends else {}
        changes = [(row, moved(row, names)) for row in rows]
        misplaced = [(row, new) for row, new in changes if key_in_table(new) != key_in_table(row)]
        in_place = [row for row, new in changes if key_in_table(new) == key_in_table(row)]
        for row in self._unstated(in_place):  # what an interruption has left
            self._delete(row, Equals("documentId", row["documentId"]))
        self._each(self._put_in_place, misplaced)
        return len(misplaced)

    def _put_in_place(self, change: tuple[Item, Item]) -> None:
        old, new = change
        token = secrets.token_hex(8)
        try:
            self._table.put({**new, "moved": token}, condition=Absent())
        except ConditionFailedError:
            token = ""  # by the document's writer, or before an interruption
        if is_node(new):
            self._places.put_heads([new])
        if token and self._unstated([old]):
            self._delete(new, Equals("moved", token))
            self._places.tidy([new["place"]])
        self._delete(old, Equals("documentId", old["documentId"]))

    def _unstated(self, rows: Sequence[Item]) -> list[Item]:
        """Those that their documents don't state now."""
        chunks = {id(row): [(str(row["keyId"]), str(chunk)) for chunk in row["chunkIds"]] for row in rows}
        stated = manifest.read_chunks(
            self._table, list(dict.fromkeys(name for names in chunks.values() for name in names))
        )
        nothing = manifest.Stated("")
        return [
            row for row in rows if not any(mark_in(row) in stated.get(name, nothing).marks for name in chunks[id(row)])
        ]

    def _delete(self, row: Item, condition: Equals) -> None:
        try:
            self._table.delete(key_in_table(row), condition=condition)
        except ConditionFailedError:
            return  # its writer was there first, or it is gone
