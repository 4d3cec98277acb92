"""Items of the documents table by owner: what a list reads depends on nothing but the scopes that it is of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter

from opx.ingestion.corpus.catalog_items import category_place
from opx.ports import Item, KeyRange, Table

INDEX = "scope-category-index"

_BEYOND = "$"
"""The character after the `#` of `category_place`; paths of categories have neither, nor any that sorts before."""


def items_of_scopes(
    documents: Table, scopes: Sequence[str], categories: Sequence[str], begin: tuple[str, ...] = ()
) -> Iterator[Item]:
    """Versions of these scopes (keys) and categories (sorted): by category, in each the last updated first, equal ones in
    no particular order.

    `begin` is a category and a time of update: what comes before that place is left out, what is at it is not.
    """
    wanted = [path for path in categories if not begin or path >= begin[0]]
    held = merge(*(_held(documents, scope, wanted) for scope in scopes))
    for category, found in groupby(held, key=itemgetter(0)):
        where = _part(category, begin)
        parts = [documents.query(scope, index=INDEX, where=where, reverse=True) for _, scope in found]
        yield from merge(*parts, key=itemgetter("lastUpdated"), reverse=True)


def _held(documents: Table, scope: str, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The categories that the scope has anything of, each with the scope. One item is read of each, and those between are
    leapt over: there are more categories than most scopes have."""
    if len(wanted) < 2:
        yield from ((path, scope) for path in wanted)
        return
    low, high = category_place(wanted[0]), wanted[-1] + _BEYOND
    while item := next(documents.query(scope, index=INDEX, where=KeyRange(low, high), limit=1), None):
        category = str(item["category"])
        if category in wanted:
            yield category, scope
        low = category + _BEYOND


def _part(category: str, begin: tuple[str, ...]) -> KeyRange:
    first = category_place(category)
    return KeyRange(first, category_place(*begin)) if begin[:1] == (category,) else KeyRange(begins_with=first)
