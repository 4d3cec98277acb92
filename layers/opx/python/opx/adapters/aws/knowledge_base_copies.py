"""`ChunkCopies` as objects of the corpus bucket, which a knowledge base takes in when it is told to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from opx.adapters.aws.knowledge_base_objects import SIDECAR_SUFFIX, document_folder, object_name, sidecar
from opx.domain.results import IndexedChunk
from opx.ingestion.syncing import sync_request
from opx.ports import Clock, CopyChange, ObjectStore, Queue

log = logging.getLogger(__name__)

THREADS = 8
_AT_ONCE = 100
"""Objects in hand: what bounds memory."""

Call = Callable[[], object]


class KnowledgeBaseCopies:
    """One object a chunk below `managed/`, in a folder of its document version, and its metadata beside it.

    Names follow from ids and positions, so that writing again replaces. When all is written, a request to index it goes
    to `requests`. A chunk whose metadata are too large for a knowledge base is left out, which is logged.
    """

    def __init__(self, store: ObjectStore, requests: Queue, clock: Clock) -> None:
        self._store = store
        self._requests = requests
        self._clock = clock

    def apply(self, changes: Iterable[CopyChange]) -> None:
        count = 0
        with ThreadPoolExecutor(THREADS) as pool:
            for change in changes:
                count += 1
                self._replace(change, pool)
        if count:
            self._requests.send(sync_request(self._clock()))

    def _replace(self, change: CopyChange, pool: ThreadPoolExecutor) -> None:
        """Write the new copies, then remove those that they replace, and what another cut of this version left."""
        folder = document_folder(change.key, change.document_id)
        written: set[str] = set()
        _run(pool, self._writes(folder, change.chunks, written))
        superseded = dict.fromkeys((change.document_id, *change.superseded))
        for document_id in filter(None, superseded):
            _run(pool, self._removals(document_folder(change.key, document_id), written))

    def _writes(self, folder: str, chunks: Iterable[IndexedChunk], written: set[str]) -> Iterator[Call]:
        for indexed in chunks:
            name, metadata = object_name(folder, indexed.chunk), sidecar(indexed)
            if metadata is None:
                log.warning("not in the knowledge base, its metadata are too large: %s", indexed.source_uri)
                continue
            written |= {name, name + SIDECAR_SUFFIX}
            yield self._writing(name, indexed.chunk.text.encode("utf-8", "replace"), metadata)

    def _writing(self, name: str, text: bytes, metadata: bytes) -> Call:
        def write() -> None:
            # First the metadata: without a scope, a chunk is found by nobody.
            self._store.put(name + SIDECAR_SUFFIX, metadata)
            self._store.put(name, text)

        return write

    def _removals(self, folder: str, kept: set[str]) -> Iterator[Call]:
        # Both at once are safe: a text without metadata is found by nobody, and metadata without a text are nothing.
        gone = (info.key for info in self._store.list(folder) if info.key not in kept)
        return (lambda key=key: self._store.delete(key) for key in gone)  # type: ignore[misc]


def _run(pool: ThreadPoolExecutor, calls: Iterator[Call]) -> None:
    """Make all calls, some at a time. Raises the first error, once those under way are over."""
    while futures := [pool.submit(call) for call in islice(calls, _AT_ONCE)]:
        _all_done(futures)


def _all_done(futures: list[Future[object]]) -> None:
    for future in futures:
        future.result()
