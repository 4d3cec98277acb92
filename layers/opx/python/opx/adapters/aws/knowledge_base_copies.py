"""Copies chunks to the objects that a knowledge base reads (`ChunkCopies`), and starts its ingestion jobs (`IndexSync`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from opx.adapters.aws.knowledge_base_objects import SIDECAR_SUFFIX, document_folder, object_name, sidecar
from opx.adapters.aws.vendor_errors import error_code, translated_errors
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


_UNDER_WAY = ("STARTING", "IN_PROGRESS", "STOPPING")
_COVERS = ("STARTING", "IN_PROGRESS", "COMPLETE")
_LATER = ("ConflictException", "ServiceQuotaExceededException", "ThrottlingException")
"""Another job of the data source, the knowledge base (one each) or the account (five) is under way, or the last call was
less than ten seconds ago (Amazon Bedrock endpoints and quotas)."""

CLOCK_SKEW_SECONDS = 5.0
"""A job counts as begun after a moment only if it did so this much later: the service's clock is not ours."""


class KnowledgeBaseSync:
    """Starts a job when none has begun since. Each job finds by itself what was added, changed and removed."""

    def __init__(self, client: Any, knowledge_base_id: str, data_source_id: str) -> None:
        self._client = client
        self._ids: Any = {"knowledgeBaseId": knowledge_base_id, "dataSourceId": data_source_id}

    def cover(self, since: float) -> bool:
        last = self._last_job()
        if last:
            _report(last)
            if last["startedAt"].timestamp() >= since + CLOCK_SKEW_SECONDS and last["status"] in _COVERS:
                return True
            if last["status"] in _UNDER_WAY:
                return False
        return self._start()

    def _last_job(self) -> Any:
        newest: Any = {"attribute": "STARTED_AT", "order": "DESCENDING"}
        with translated_errors("list ingestion jobs"):
            jobs = self._client.list_ingestion_jobs(**self._ids, sortBy=newest, maxResults=1)["ingestionJobSummaries"]
        return jobs[0] if jobs else None

    def _start(self) -> bool:
        with translated_errors("start an ingestion job"):
            try:
                job = self._client.start_ingestion_job(**self._ids)["ingestionJob"]
            except ClientError as exc:
                if error_code(exc) not in _LATER:
                    raise
                log.info("an ingestion job has to wait: %s", error_code(exc))
                return False
        log.info("ingestion job %s began", job["ingestionJobId"])
        return True


def _report(job: Any) -> None:
    """Say what a finished job could not do: nobody else looks at it."""
    failed = job.get("statistics", {}).get("numberOfDocumentsFailed", 0)
    if failed or job["status"] == "FAILED":
        name = job["ingestionJobId"]
        log.warning("ingestion job %s is %s; it could not take in %d chunks", name, job["status"], failed)
