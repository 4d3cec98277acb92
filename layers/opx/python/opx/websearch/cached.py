"""A search that remembers its answers for a while."""

from __future__ import annotations

import logging
from typing import Any

from opx.domain.ids import stable_hash
from opx.errors import StoreUnavailableError
from opx.ports.tables import Item, Table
from opx.ports.time import Clock
from opx.ports.web_search import WebResult, WebSearch

log = logging.getLogger(__name__)


class CachedWebSearch:
    """Keeps the answers of an engine for `seconds`: questions that differ in case and space alone are one. What failed
    is not kept. Without its table the engine is asked each time. Each client has answers of its own: how quickly one
    comes would else tell what others asked."""

    def __init__(self, search: WebSearch, table: Table, *, seconds: float, clock: Clock, client_id: str = "") -> None:
        self._search = search
        self._table = table
        self._seconds = seconds
        self._clock = clock
        self._client_id = client_id

    @property
    def name(self) -> str:
        return self._search.name

    def search(self, query: str, limit: int) -> list[WebResult]:
        key = stable_hash("web search", self.name, self._client_id, " ".join(query.casefold().split()), str(limit))
        item = self._kept(key)
        if item is not None:
            return [WebResult(*each) for each in item["results"]]
        results = self._search.search(query, limit)
        self._keep(key, results)
        return results

    def _kept(self, key: str) -> Item | None:
        try:
            item = self._table.get({"cacheKey": key})
        except StoreUnavailableError:
            log.warning("the cache of web searches can't be read")
            return None
        return item if item and item["until"] > self._clock() else None

    def _keep(self, key: str, results: list[WebResult]) -> None:
        until = self._clock() + self._seconds
        kept: list[Any] = [[each.title, each.url, each.text, each.published] for each in results]
        try:
            self._table.put({"cacheKey": key, "results": kept, "until": until, "expiresAt": int(until) + 1})
        except StoreUnavailableError:
            log.warning("the cache of web searches can't be written")
