"""Places of the graph's table, for those who change them."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence

from opx.domain.graph import node_type
from opx.errors import ConditionFailedError
from opx.graph.rows import HEAD, head_row, is_node, key_in_table
from opx.ports import AnyOf, Condition, Equals, Item, Table
from opx.runtime.parallel import Each

ROWS_A_WRITE = 100


class Places:
    """Puts rows and takes them out, and keeps the heads of places: each place with a statement about its thing has one,
    and none is left in an empty place."""

    def __init__(self, table: Table, each: Each) -> None:
        self._table = table
        self._each = each

    def list(self, items: Sequence[Item]) -> None:
        """Write these as they are."""
        parts = [items[start : start + ROWS_A_WRITE] for start in range(0, len(items), ROWS_A_WRITE)]
        self._each(self._table.put_many, parts)

    def put(self, rows: Sequence[Item]) -> None:
        """Write rows, and then the heads of their places: in this order, `tidy` can't miss a row."""
        self.list(rows)
        self.put_heads(rows)

    def put_heads(self, rows: Iterable[Item]) -> None:
        heads = {str(row["place"]): row for row in rows if is_node(row)}
        self.list([self._head(row) for row in heads.values()])

    def delete(self, keys: Sequence[Mapping[str, str]], document_ids: Collection[str] | None = None) -> None:
        """Take these rows out; with `document_ids`, only those that are of these versions."""
        condition = _of_any(document_ids)
        self._each(lambda key: self._delete(key, condition), keys)

    def tidy(self, places: Iterable[str]) -> None:
        """Take the heads out of those of these places that are empty else.

        Who adds to a place writes its head anew, after the rows: a head that is the same as before the place was seen
        to be empty goes with nothing behind it.
        """
        keys = [{"place": name, "entry": HEAD} for name in dict.fromkeys(places)]
        self._each(self._tidy, self._table.get_many(keys))

    def _tidy(self, head: Item) -> None:
        if all(row["entry"] == HEAD for row in self._table.query(head["place"], limit=2)):
            self._delete(key_in_table(head), Equals("token", head["token"]))

    def _delete(self, key: Mapping[str, str], condition: Condition | None) -> None:
        try:
            self._table.delete(key, condition=condition)
        except ConditionFailedError:
            return  # another's by now

    def _head(self, row: Item) -> Item:
        key, stated = str(row["node"]), row["stated"][0]
        kind = str(row["type"]) if key == stated else node_type(key)
        return head_row(str(row["scope"]), key, kind, secrets.token_hex(8))


def _of_any(document_ids: Collection[str] | None) -> Condition | None:
    if document_ids is None:
        return None
    return AnyOf(tuple(Equals("documentId", one) for one in sorted(document_ids)))
