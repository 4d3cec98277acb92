"""Writes chunks as objects that a Bedrock Knowledge Base ingests (`ChunkCopies`), reads them back, and syncs (`IndexSync`).

Each chunk is an object of text, with its metadata in a sidecar beside it, by Bedrock's convention (user guide, "Connect
to Amazon S3 for your knowledge base"): `x.txt` has `x.txt.metadata.json`. Fields used in filters are attributes of their
own. The other fields of a chunk are one attribute with a JSON string: the vector store guesses the type of a field from
its first value, and a title that looks like a date would make it refuse all others.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from opx.domain.documents import ChunkMetadata, DocumentChunk, DocumentKey, contextual_text
from opx.domain.ids import day_number
from opx.domain.knowledge import Tier
from opx.domain.results import IndexedChunk
from opx.ingestion.states import sync_request
from opx.ports import Clock, CopyChange, ObjectStore, Queue
from opx_aws.vendor_errors import error_code, translated_errors

log = logging.getLogger(__name__)

COPIES_FOLDER = "managed/"
"""Folder of the copies in the corpus bucket; the data source reads it whole, so it contains nothing else."""

SIDECAR_SUFFIX = ".metadata.json"
MAX_SIDECAR_BYTES = 10_000
"""Larger ones are ignored: "10 KB" in AWS's announcement of metadata filtering, by the smaller interpretation."""

FILTER_ATTRIBUTES: dict[str, str] = {
    "scopes": "scope",
    "categories": "category",
    "tiers": "tier",
    "document_ids": "document_id",
    "languages": "language",
}
"""Single-valued fields of a `SearchFilter`, and their attributes."""

LIST_ATTRIBUTES: dict[str, str] = {"tags": "tags", "resources": "services"}
"""List-valued fields of a `SearchFilter`, and their attributes; absent where the list is empty."""

DAY_ATTRIBUTE = "updated_day"
"""Days from 1970-01-01 to the last update, a number; absent where that is unknown."""

CHUNK_ATTRIBUTE = "chunk"


def document_folder(key: DocumentKey, document_id: str) -> str:
    """Folder of one version's copies, within its owner's folder, so that all copies of a client can be found."""
    return f"{COPIES_FOLDER}{key.scope.prefix}{key.id}/{document_id}/"


def object_name(folder: str, chunk: DocumentChunk) -> str:
    return f"{folder}{chunk.chunk_index:06d}.txt"


def sidecar(indexed: IndexedChunk) -> bytes | None:
    """The metadata of a copy; None if they exceed a knowledge base's limit."""
    chunk = indexed.chunk
    attributes: dict[str, Any] = {
        "scope": indexed.scope_key,
        "category": chunk.category,
        "tier": indexed.tier.value,
        "document_id": chunk.document_id,
        "language": indexed.language,
        CHUNK_ATTRIBUTE: _to_json(_facts(indexed)),
    }
    lists = {"tags": chunk.tags, "resources": indexed.resources}
    attributes |= {name: list(lists[part]) for part, name in LIST_ATTRIBUTES.items() if lists[part]}
    day = day_number(indexed.last_updated)
    if day is not None:
        attributes[DAY_ATTRIBUTE] = day
    data = _to_json({"metadataAttributes": attributes}).encode("utf-8", "replace")
    return data if len(data) <= MAX_SIDECAR_BYTES else None


def chunk_of(text: str, attributes: Mapping[str, Any]) -> IndexedChunk:
    """The chunk whose copy has this text and these attributes. Raises `ValueError` if they are not of a copy."""
    try:
        facts = json.loads(attributes[CHUNK_ATTRIBUTE])
        return _chunk_of(text, attributes, facts)
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not the metadata of a chunk: {exc!r}") from exc


def _facts(indexed: IndexedChunk) -> dict[str, Any]:
    """Fields that are not used in filters."""
    chunk = indexed.chunk
    return {
        "entry_id": indexed.entry_id,
        "key_id": indexed.key_id,
        "chunk_id": chunk.chunk_id,
        "index": chunk.chunk_index,
        "tokens": chunk.token_count,
        "start": chunk.start,
        "end": chunk.end,
        "title": chunk.title,
        "section": list(chunk.section),
        "trust": indexed.trust,
        "source_uri": indexed.source_uri,
        "last_updated": indexed.last_updated,
        "fingerprint": indexed.fingerprint,
        **({"flags": list(indexed.flags)} if indexed.flags else {}),
        **({"context": chunk.context} if chunk.context else {}),
    }


def _chunk_of(text: str, attributes: Mapping[str, Any], facts: Mapping[str, Any]) -> IndexedChunk:
    title, section = facts["title"], tuple(facts["section"])
    context = f"{facts['context']}\n\n" if facts.get("context") else ""
    chunk = DocumentChunk(
        chunk_id=facts["chunk_id"],
        document_id=attributes["document_id"],
        chunk_index=facts["index"],
        content=text.removeprefix(contextual_text(title, section, context)),
        token_count=facts["tokens"],
        section=section,
        start=facts["start"],
        end=facts["end"],
        metadata=ChunkMetadata(title, attributes["category"], tuple(attributes.get(LIST_ATTRIBUTES["tags"], ()))),
    )
    return IndexedChunk(
        entry_id=facts["entry_id"],
        chunk=chunk,
        key_id=facts["key_id"],
        scope_key=attributes["scope"],
        tier=Tier(attributes["tier"]),
        trust=facts["trust"],
        source_uri=facts["source_uri"],
        last_updated=facts["last_updated"],
        language=attributes["language"],
        flags=tuple(facts.get("flags", ())),
        fingerprint=facts.get("fingerprint", ""),
        resources=tuple(attributes.get(LIST_ATTRIBUTES["resources"], ())),
    )


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


THREADS = 8
_AT_ONCE = 100
"""Objects in progress: bounds memory."""

Call = Callable[[], object]


class KnowledgeBaseCopies:
    """One object per chunk below `managed/`, in a folder of its document version, and its metadata beside it.

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
        """Writes the new copies, then removes those that they replace, and leftovers of another chunking of this version."""
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
            # First the metadata: a chunk without a scope is returned to no reader.
            self._store.put(name + SIDECAR_SUFFIX, metadata)
            self._store.put(name, text)

        return write

    def _removals(self, folder: str, kept: set[str]) -> Iterator[Call]:
        # Both at once are safe: text without metadata is returned to no reader, and metadata without text are nothing.
        gone = (info.key for info in self._store.list(folder) if info.key not in kept)
        return (lambda key=key: self._store.delete(key) for key in gone)  # type: ignore[misc]


def _run(pool: ThreadPoolExecutor, calls: Iterator[Call]) -> None:
    """Makes all calls, some concurrently. Raises the first error, once the calls in progress are over."""
    while futures := [pool.submit(call) for call in islice(calls, _AT_ONCE)]:
        for future in futures:
            future.result()


_UNDER_WAY = ("STARTING", "IN_PROGRESS", "STOPPING")
_COVERS = ("STARTING", "IN_PROGRESS", "COMPLETE")
_LATER = ("ConflictException", "ServiceQuotaExceededException", "ThrottlingException")
"""Another job of the data source, the knowledge base (one each) or the account (five) is running, or the last call was
less than ten seconds ago (Amazon Bedrock endpoints and quotas)."""

CLOCK_SKEW_SECONDS = 5.0
"""A job counts as begun after a moment only if it did so this much later: the service's clock is not ours."""


class KnowledgeBaseSync:
    """Starts a job when none has begun since. Each job detects by itself which objects were added, changed and removed."""

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
    """Logs the failures of a finished job: no other component reads them."""
    failed = job.get("statistics", {}).get("numberOfDocumentsFailed", 0)
    if failed or job["status"] == "FAILED":
        name = job["ingestionJobId"]
        log.warning(
            "ingestion job %s is %s; %d copies (one per chunk) could not be indexed", name, job["status"], failed
        )
