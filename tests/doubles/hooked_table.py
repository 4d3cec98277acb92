"""Tables with a hook before a write, with counted reads, and clients that are called one at a time."""

from __future__ import annotations

import threading
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


class CountedReads:
    """A table, and how often it is read."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        self.reads += name in ("get", "get_many", "query")
        return getattr(self._table, name)


class OneCallAtATime:
    """A client whose calls exclude one another: the service's calls are atomic, those of its double aren't."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(**arguments: Any) -> Any:
            with self._lock:
                return method(**arguments)

        return call
