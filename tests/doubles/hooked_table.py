"""A table with a hook before one of its writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opx.ports import Table


class HookedTable:
    """Writes items one by one, and calls `hook` before the write with this number (from 0), once."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._left = -1
        self._hook: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def arm(self, number: int, hook: Callable[[], None]) -> None:
        self._left, self._hook = number, hook

    @property
    def is_armed(self) -> bool:
        """True while there were fewer writes than that."""
        return self._left >= 0

    def disarm(self) -> None:
        self._left = -1

    def put(self, item: Mapping[str, Any], **options: Any) -> None:
        self._before()
        self._table.put(item, **options)

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        for item in items:
            self.put(item)

    def delete(self, key: Mapping[str, Any], **options: Any) -> None:
        self._before()
        self._table.delete(key, **options)

    def _before(self) -> None:
        self._left -= 1
        if self._left == -1:
            self._hook()
