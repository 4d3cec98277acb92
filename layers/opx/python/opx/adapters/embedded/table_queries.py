"""The SQL that reads one page of a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opx.adapters.embedded.table_schema import ITEM, key_names, quoted
from opx.adapters.slices import Slice
from opx.tables import TableSpec

LAST_CHARACTER = "\U0010ffff"


def page_query(spec: TableSpec, part: Slice, after: tuple[Any, ...] | None, *, reverse: bool) -> tuple[str, list[Any]]:
    """Statement and parameters, but for the last one: how many rows. A row is the item and its place in the order.

    `after` is the place of the last row of the page before.
    """
    order = _order(spec, part)
    places = ", ".join(map(quoted, order))
    conditions = list(_bounds(part))
    if after is not None:
        conditions.append((f"({places}) {'<' if reverse else '>'} ({', '.join('?' * len(after))})", after))
    where = " AND ".join(condition for condition, _ in conditions)
    direction = ", ".join(f"{quoted(name)} {'DESC' if reverse else 'ASC'}" for name in order)
    statement = f"SELECT {ITEM}, {places} FROM {quoted(spec.name)} WHERE {where} ORDER BY {direction} LIMIT ?"  # noqa: S608
    return statement, [value for _, values in conditions for value in values]


def _order(spec: TableSpec, part: Slice) -> tuple[str, ...]:
    """The sort attribute, and the key of the table to make it total."""
    names = dict.fromkeys((part.sort_name, *key_names(spec)))
    return tuple(name for name in names if name)


def _bounds(part: Slice) -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield f"{quoted(part.partition_name)} = ?", (part.partition,)
    if not part.sort_name:
        return
    sort = quoted(part.sort_name)
    yield f"{sort} IS NOT NULL", ()
    if part.low is not None:
        yield f"{sort} >= ?", (part.low,)
    if part.high is not None:
        yield f"{sort} <= ?", (part.high,)
    if part.begins_with:
        yield f"{sort} >= ?", (part.begins_with,)
        end = _after_prefix(part.begins_with)
        if end:
            yield f"{sort} < ?", (end,)


def _after_prefix(prefix: str) -> str:
    """The first string, in the order of UTF-8 bytes, after all that begin with `prefix`; "" if there is none."""
    shortened = prefix.rstrip(LAST_CHARACTER)
    if not shortened:
        return ""
    following = ord(shortened[-1]) + 1
    return shortened[:-1] + ("\ue000" if following == 0xD800 else chr(following))
