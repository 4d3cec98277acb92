"""Caches vectors of queries, so that a repeated question needs no call of the embedding model."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from opx.errors import StoreUnavailableError
from opx.ingestion.indexing.embedding_cache import packed, unpacked
from opx.ports import Clock, Embedder, Item, Table, Vector, Vectors
from opx.ports.search import WrappedEmbedder, embed_each
from opx.runtime.threads import within

KEPT_QUERIES = 512
"""Vectors kept in this process, 4 KB each."""

LOOKUP_SECONDS = 0.25
"""Time for a look-up in the table, which usually takes 5 to 10 ms where the model takes 100 ms: it comes first."""

PREFIX = "query#"

_log = logging.getLogger(__name__)


def in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="query cache", daemon=True).start()


class CachedQueries(WrappedEmbedder):
    """`Embedder` that looks vectors of queries up before it calls another one: in this process, then in the table of
    `tables.EMBEDDINGS`, which all processes share.

    The key has the model id and SHA-256 of the text; an entry expires after `days`. New vectors are written by `run`, in the
    background, so that no caller waits for it. If the table can't be read or written, queries are embedded. Documents pass.
    """

    def __init__(
        self,
        embedder: Embedder,
        table: Callable[[], Table],
        *,
        days: float = 7,
        clock: Clock = time.time,
        run: Callable[[Callable[[], None]], None] = in_background,
    ) -> None:
        super().__init__(embedder)
        self._table = table
        self._seconds = days * 86_400
        self._clock = clock
        self._run = run
        self._lock = threading.Lock()
        self._latest: OrderedDict[str, Vector] = OrderedDict()

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        embed_each(self._embedder, texts, found)

    def embed_query(self, text: str) -> Vector:
        key = self._key(text)
        vector = self._remembered(key)
        if vector is None:
            vector = self._stored(key)
        if vector is None:
            vector = made = self._embedder.embed_query(text)
            self._run(lambda: self._keep(key, made))
        self._remember(key, vector)
        return vector

    def _key(self, text: str) -> str:
        return f"{PREFIX}{self.model_id}#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"

    def _remembered(self, key: str) -> Vector | None:
        with self._lock:
            return self._latest.get(key)

    def _remember(self, key: str, vector: Vector) -> None:
        with self._lock:
            self._latest[key] = vector
            self._latest.move_to_end(key)
            if len(self._latest) > KEPT_QUERIES:
                self._latest.popitem(last=False)

    def _stored(self, key: str) -> Vector | None:
        def look_up() -> Item | None:
            return self._table().get({"cacheKey": key})

        try:
            item = within(LOOKUP_SECONDS, look_up, "the query cache", StoreUnavailableError)
        except StoreUnavailableError as exc:
            _log.warning("cached vectors of queries can't be read: %s", exc)
            return None
        whole = 4 * self.dimension
        data = item["vector"] if item else b""
        return unpacked(data, whole)[0] if len(data) == whole else None

    def _keep(self, key: str, vector: Vector) -> None:
        expires = int(self._clock() + self._seconds)
        try:
            self._table().put({"cacheKey": key, "vector": packed((vector,)), "expiresAt": expires})
        except StoreUnavailableError as exc:
            _log.warning("the vector of a query is not kept: %s", exc)
