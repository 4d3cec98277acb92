"""Spreads the items of one value of an index over several partitions of DynamoDB.

A partition takes 1,000 write units a second, and an index that throttles throttles the table. The items of all global
documents have one scope, so that many writers would wait for one another there.

The shard follows from the item's key. It is stored with the value, as `global#2`; shard 0 has the plain name, so that items
of earlier releases, which know no shards, are in one of them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import itemgetter
from typing import Any

from opx.ports import Item
from opx.ports.tables import SHARD_NAME, SHARDS, IndexSpec, TableSpec


def partitions_of(spec: TableSpec, index: str, value: Any) -> list[Any]:
    """The partitions of an index that have items of a value; the value alone where it isn't spread."""
    if not index or not spec.index(index).is_spread(value):
        return [value]
    return [_named(value, number) for number in range(SHARDS)]


def spread(spec: TableSpec, item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item as it is stored: with its shard in the values that are spread."""
    found = {
        index.partition: _named(item[index.partition], _shard(spec, item))
        for index in spec.indexes
        if index.spread and index.is_spread(item.get(index.partition))
    }
    return {**item, **found} if found else item


def gathered(spec: TableSpec, item: Item) -> Item:
    """The item as it was put."""
    for index in spec.indexes:
        if index.spread and isinstance(stored := item.get(index.partition), str):
            item[index.partition] = _plain(index, stored)
    return item


def merged(parts: list[Iterator[Item]], sort: str, *, reverse: bool) -> Iterator[Item]:
    """Items of all parts in one order, that of their sort attribute; part after part without one."""
    if len(parts) == 1:
        return parts[0]
    if not sort:
        return (item for part in parts for item in part)
    return merge(*parts, key=itemgetter(sort), reverse=reverse)


def _named(value: str, number: int) -> str:
    return f"{value}#{number}" if number else value


def _plain(index: IndexSpec, stored: str) -> str:
    value = SHARD_NAME.sub("", stored)
    return value if index.is_spread(value) else stored


def _shard(spec: TableSpec, item: Mapping[str, Any]) -> int:
    """The shard of the item's key. crc32, as it is the same in every process and quick."""
    return zlib.crc32("\0".join(_key_texts(spec, item)).encode()) % SHARDS


def _key_texts(spec: TableSpec, item: Mapping[str, Any]) -> Iterable[str]:
    return (str(item[name]) for name in (spec.partition, spec.sort) if name)
