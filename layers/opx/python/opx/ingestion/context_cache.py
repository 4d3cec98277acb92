"""Contexts of chunks that were written before, from the table of embeddings."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from opx.errors import StoreUnavailableError
from opx.ports import Clock, Table

log = logging.getLogger(__name__)


class ContextCache:
    """Keeps texts in the table of `tables.EMBEDDINGS` for `days`, under keys that no vector has.

    If the table can't be read or written, the work is done without it.
    """

    def __init__(self, table: Table, *, days: float, clock: Clock = time.time) -> None:
        self._table = table
        self._seconds = days * 86_400
        self._clock = clock

    def get(self, keys: Sequence[str]) -> dict[str, str]:
        """The texts that are known."""
        try:
            items = self._table.get_many([{"cacheKey": key} for key in keys]) if keys else []
        except StoreUnavailableError as exc:
            log.warning("the cache of contexts can't be read, writing all %d: %s", len(keys), exc)
            return {}
        return {item["cacheKey"]: item["context"] for item in items if item.get("context")}

    def forget(self, keys: Sequence[str]) -> None:
        """Remove texts. Raises `StoreUnavailableError`."""
        for key in dict.fromkeys(keys):
            self._table.delete({"cacheKey": key})

    def put(self, texts: Mapping[str, str]) -> None:
        expires = int(self._clock() + self._seconds)
        items = [{"cacheKey": key, "context": text, "expiresAt": expires} for key, text in texts.items()]
        try:
            self._table.put_many(items)
        except StoreUnavailableError as exc:
            log.warning("the cache of contexts can't be written, %d are not kept: %s", len(items), exc)
