"""Moves rows whose references have another canonical one now."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from itertools import islice

from opx.domain.scopes import Scope
from opx.errors import ConditionFailedError
from opx.graph import manifest
from opx.graph.places import Places
from opx.graph.rows import HEAD, Names, is_node, key_in_table, mark_in, moved, place
from opx.ports import Absent, Equals, Item, Table
from opx.ports.graph import Canonical

ROWS_AT_ONCE = 100


class RowMover:
    """Puts rows where the references that they state belong now. Documents may be written and removed meanwhile: what a
    document doesn't say any more is not moved but removed, and what its writer put there already stays."""

    def __init__(self, table: Table, places: Places, canonical: Canonical) -> None:
        self._table = table
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
        stated = list(dict.fromkeys(str(key) for row in rows for key in row["stated"]))
        names = self._canonical(scope, stated) if stated else {}
        return sum(map(self._placed, self._misplaced(rows, names)))

    def _misplaced(self, rows: Sequence[Item], names: Names) -> Iterator[tuple[Item, Item]]:
        for row in rows:
            new = moved(row, names)
            if key_in_table(new) != key_in_table(row):
                yield row, new

    def _placed(self, change: tuple[Item, Item]) -> bool:
        old, new = change
        token = secrets.token_hex(8)
        try:
            self._table.put({**new, "moved": token}, condition=Absent())
        except ConditionFailedError:
            token = ""  # by the document's writer, or before an interruption
        if is_node(new):
            self._places.put_heads([new])
        if token and not self._is_stated(old):
            self._delete(new, Equals("moved", token))
            self._places.tidy([new["place"]])
        self._delete(old, Equals("documentId", old["documentId"]))
        return True

    def _is_stated(self, row: Item) -> bool:
        chunks = [(str(row["keyId"]), str(chunk)) for chunk in row["chunkIds"]]
        mark = mark_in(row)
        return any(mark in stated.marks for stated in manifest.read_chunks(self._table, chunks).values())

    def _delete(self, row: Item, condition: Equals) -> None:
        try:
            self._table.delete(key_in_table(row), condition=condition)
        except ConditionFailedError:
            return  # its writer was there first, or it is gone
