"""From an object event to searchable chunks: claim, read, chunk, embed, index, catalog.

Safe to run any number of times, in any order, by several workers: events that are not newer than what was applied are
skipped, a document is changed by one worker at a time, and ids depend on content alone.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import IO, Any

from opx.domain.documents import DocumentChunk, DocumentKey, KnowledgeDocument
from opx.domain.ids import entry_id, stable_hash
from opx.domain.results import IndexedChunk
from opx.domain.scopes import scope_of_object
from opx.errors import ConditionFailedError, InvalidInputError, ObjectNotFoundError, StoreUnavailableError
from opx.errors import UnparsableDocumentError as Unparsable
from opx.ingestion.catalog import BusyError, Catalog, Claim, StaleEventError
from opx.ingestion.chunking import ChunkOwner, chunk_lines
from opx.ingestion.events import DOCUMENTS_FOLDER, ObjectEvent
from opx.ingestion.outcomes import Outcome, Result
from opx.ingestion.reading import DocumentReader, ReadDocument
from opx.ports import DocumentChange, Embedder, IndexEntry, ObjectStore, SearchIndex, Vector

log = logging.getLogger(__name__)

PIPELINE_VERSION = 1
"""Raise when parsing, chunking or the embedded text changes: documents are then taken in again although unchanged."""

EMBED_AT_ONCE = 128
_SPOOL_BYTES = 1024 * 1024
_BUSY_SECONDS = 5.0
Progress = Callable[[str, int], None]
"""Called with an object key and the number of its chunks embedded so far."""


@dataclass(frozen=True, slots=True)
class ChunkingRules:
    tokens: int
    overlap: int


@dataclass(slots=True)
class _Prepared:
    """A document ready to be indexed: its chunks as lines of an open temporary file, and their vectors."""

    claim: Claim
    document: KnowledgeDocument
    fingerprint: str
    lines: IO[str]
    vectors: list[Vector]

    def chunks(self) -> Iterator[DocumentChunk]:
        self.lines.seek(0)
        for line in self.lines:
            yield DocumentChunk.from_json(json.loads(line))

    def entries(self) -> Iterator[IndexEntry]:
        for chunk, vector in zip(self.chunks(), self.vectors, strict=True):
            yield IndexEntry(_indexed(chunk, self.document), vector)


class IngestionPipeline:
    """Applies events to chunks, index and catalog. One instance may serve several threads."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        reader: DocumentReader,
        catalog: Catalog,
        embedder: Embedder,
        index: SearchIndex,
        rules: ChunkingRules,
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        read_threads: int = 1,
    ) -> None:
        self._store = store
        self._reader = reader
        self._catalog = catalog
        self._embedder = embedder
        self._index = index
        self._rules = rules
        self._unit_of_work = unit_of_work
        self._read_threads = read_threads

    def apply(self, events: Sequence[ObjectEvent], progress: Progress | None = None) -> list[Outcome]:
        """Handle events of different documents together, so that the index commits once; one outcome each, in order.

        Nothing that concerns a single document is raised: its outcome is `FAILED` (bad input) or `RETRY`.
        """
        with ExitStack() as stack:
            with self._unit_of_work():
                claims = [self._claim(event) for event in events]
            steps = self._prepare_all(claims, stack)
            changes = [step for step in steps if not isinstance(step, Outcome)]
            written = iter(self._embed_and_write(changes, progress))
            return [step if isinstance(step, Outcome) else next(written) for step in steps]

    # -- one document at a time: up to its chunks

    def _claim(self, event: ObjectEvent) -> Outcome | Claim:
        scope, source = scope_of_object(event.document_key)
        if not source.startswith(DOCUMENTS_FOLDER):
            return Outcome(Result.SKIPPED, event.key, f"not under {DOCUMENTS_FOLDER}")
        try:
            return self._catalog.claim(DocumentKey(scope, source), event)
        except StaleEventError:
            return Outcome(Result.SKIPPED, event.key, "not newer than what was applied")
        except BusyError:
            return Outcome(Result.RETRY, event.key, "another worker has the document", delay_seconds=_BUSY_SECONDS)
        except (StoreUnavailableError, InvalidInputError) as exc:
            return _failed(event, exc)

    def _prepare_all(self, claims: Sequence[Outcome | Claim], stack: ExitStack) -> list[Outcome | Claim | _Prepared]:
        """Several at a time where reading and storing mean waiting for a network."""
        if self._read_threads == 1:
            return [self._prepare(claim, stack) for claim in claims]
        with ThreadPoolExecutor(self._read_threads) as pool:
            return list(pool.map(lambda claim: self._prepare(claim, stack), claims))

    def _prepare(self, claim: Outcome | Claim, stack: ExitStack) -> Outcome | Claim | _Prepared:
        if isinstance(claim, Outcome):
            return claim
        try:
            return self._read(claim, stack)
        except (StoreUnavailableError, InvalidInputError, Unparsable) as exc:
            self._catalog.release(claim, applied=False)
            return _failed(claim.event, exc)

    def _read(self, claim: Claim, stack: ExitStack) -> Outcome | Claim | _Prepared:
        """What to write for a claimed document; the claim itself if the document is to leave the index."""
        key = claim.event.document_key
        info = self._store.head(key)
        if info is None:
            return self._missing(claim)
        sidecar = self._reader.sidecar(key)
        fingerprint = self._fingerprint(info.etag, sidecar.etag if sidecar else "", dict(info.metadata))
        if claim.current_id and claim.head.get("fingerprint") == fingerprint and not claim.interrupted:
            self._catalog.release(claim, applied=True)
            return Outcome(Result.UNCHANGED, key, document_id=claim.current_id)
        try:
            with self._reader.read(claim.key, info) as read:
                return self._chunked(claim, read, fingerprint, stack)
        except ObjectNotFoundError:
            return self._missing(claim)

    def _missing(self, claim: Claim) -> Outcome | Claim:
        if claim.current_id or claim.interrupted:
            return claim
        self._catalog.release(claim, applied=True)
        return Outcome(Result.SKIPPED, claim.event.key, "the object is gone")

    def _fingerprint(self, etag: str, sidecar: str, metadata: dict[str, str]) -> str:
        rules = [self._rules.tokens, self._rules.overlap, self._embedder.model_id, PIPELINE_VERSION]
        return stable_hash("fingerprint", etag, sidecar, metadata, rules)

    def _chunked(self, claim: Claim, read: ReadDocument, fingerprint: str, stack: ExitStack) -> _Prepared:
        lines = stack.enter_context(
            tempfile.SpooledTemporaryFile(_SPOOL_BYTES, "w+", encoding="utf-8", newline="\n", errors="surrogatepass")
        )
        document = self._chunk(claim, read, lines)
        if not read.category.embed:
            lines.truncate(0)
        return _Prepared(claim, document, fingerprint, lines, [])

    def _chunk(self, claim: Claim, read: ReadDocument, lines: IO[str]) -> KnowledgeDocument:
        """Write the chunks' lines and store them; return the document with its counts and its version."""
        document = read.document
        owner = ChunkOwner(document.document_id, document.title, document.category, document.tags)
        count = tokens = 0
        for chunk in chunk_lines(read.lines(), owner, tokens=self._rules.tokens, overlap=self._rules.overlap):
            lines.write(chunk.to_json_line() + "\n")
            count += 1
            tokens += chunk.token_count
        if not count:
            raise Unparsable(f"{document.key.source}: the document has no text")
        with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as data:
            lines.seek(0)
            for line in lines:
                data.write(line.encode("utf-8", "surrogatepass"))
            data.seek(0)
            self._store.put(chunk_file(document.key, document.document_id), data)  # type: ignore[arg-type]
        return self._versioned(claim, replace(document, chunk_count=count, token_count=tokens))

    def _versioned(self, claim: Claim, document: KnowledgeDocument) -> KnowledgeDocument:
        last = int(claim.head.get("version", 0))
        if claim.current_id != document.document_id:
            return replace(document, version=last + 1)
        known = self._catalog.version(claim.key, claim.current_id)
        return replace(document, version=max(last, 1), created_at=known.created_at if known else document.created_at)

    # -- all documents together: vectors, index, catalog

    def _embed_and_write(self, steps: Sequence[Claim | _Prepared], progress: Progress | None) -> list[Outcome]:
        """One outcome a step; if the model, the index or the catalog is unavailable, all are to be retried."""
        if not steps:
            return []
        claims = [step if isinstance(step, Claim) else step.claim for step in steps]
        try:
            self._embed([step for step in steps if isinstance(step, _Prepared)], progress)
            return self._write(steps, claims)
        except (StoreUnavailableError, ConditionFailedError) as exc:
            for claim in claims:
                self._catalog.release(claim, applied=False)
            return [_failed(claim.event, exc) for claim in claims]

    def _embed(self, documents: Sequence[_Prepared], progress: Progress | None) -> None:
        """Embed chunks of all documents in batches that don't end where a document does."""
        chunks = ((document, chunk.text) for document in documents for chunk in document.chunks())
        while batch := list(islice(chunks, EMBED_AT_ONCE)):
            vectors = self._embedder.embed_documents([text for _, text in batch])
            for (document, _), vector in zip(batch, vectors, strict=True):
                document.vectors.append(vector)
            if progress:
                last = batch[-1][0]
                progress(last.claim.event.document_key, len(last.vectors))

    def _write(self, steps: Sequence[Claim | _Prepared], claims: Sequence[Claim]) -> list[Outcome]:
        """Change the index in one go and note it in the catalog."""
        changes = [self._change(step) for step in steps]
        with self._unit_of_work():
            for claim in claims:
                self._catalog.start_writing(claim)
        references = self._index.apply(changes)
        with self._unit_of_work():
            return [self._finish(step, refs) for step, refs in zip(steps, references, strict=True)]

    def _change(self, step: Claim | _Prepared) -> DocumentChange:
        if isinstance(step, Claim):
            return DocumentChange(step.key.id, "", superseded=self._old_references(step))
        old = self._old_references(step.claim)
        if self._index.derives_ids:
            fresh = {entry_id(step.claim.key.id, chunk.chunk_id) for chunk in step.chunks()}
            old = [reference for reference in old if reference not in fresh]
        return DocumentChange(step.claim.key.id, step.document.document_id, step.entries(), old)

    def _old_references(self, claim: Claim) -> list[str]:
        """References of what is in the index of this document, from our own books: the index may not show it yet."""
        found: list[str] = []
        if not self._index.derives_ids:
            found = self._catalog.references(claim.key)
        elif claim.current_id:
            found = [entry_id(claim.key.id, chunk.chunk_id) for chunk in self.read_chunks(claim.key, claim.current_id)]
        if claim.interrupted:
            found = list(dict.fromkeys([*found, *self._index.references(claim.key.id)]))
        return found

    def _finish(self, step: Claim | _Prepared, references: list[str]) -> Outcome:
        claim = step if isinstance(step, Claim) else step.claim
        try:
            if isinstance(step, Claim):
                self._catalog.withdraw(step)
                return Outcome(Result.DELETED, claim.event.key, document_id=claim.current_id)
            kept = None if self._index.derives_ids else references
            self._catalog.finish(claim, step.document, step.fingerprint, kept)
        except ConditionFailedError as exc:
            self._undo(claim, step, references)
            return _failed(claim.event, exc)
        document = step.document
        reason = "" if step.vectors else f"kept, but {document.category} is not searched by text"
        key = claim.event.document_key
        return Outcome(Result.INGESTED, key, reason, document.document_id, document.title, len(step.vectors))

    def _undo(self, claim: Claim, step: Claim | _Prepared, references: list[str]) -> None:
        """Another worker took over while this one was slow: take out what this one wrote, unless it is the same."""
        head = self._catalog.head(claim.key) or {}
        if isinstance(step, Claim) or head.get("documentId") == step.document.document_id:
            return
        log.warning("lost the claim on %s, undoing", claim.event.key)
        self._index.apply([DocumentChange(claim.key.id, step.document.document_id, superseded=references)])

    def read_chunks(self, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
        """The chunks of any version, current or not; nothing if they are gone."""
        try:
            stream = self._store.open(chunk_file(key, document_id))
        except ObjectNotFoundError:
            return
        with stream:
            for line in stream:
                yield DocumentChunk.from_json(json.loads(line.decode("utf-8", "surrogatepass")))


def chunk_file(key: DocumentKey, document_id: str) -> str:
    """Where the chunks of a document version are kept."""
    return f"{key.scope.prefix}chunks/{document_id}.jsonl"


def _indexed(chunk: DocumentChunk, document: KnowledgeDocument) -> IndexedChunk:
    key = document.key
    return IndexedChunk(
        entry_id=entry_id(key.id, chunk.chunk_id),
        chunk=chunk,
        key_id=key.id,
        scope_key=key.scope.key,
        tier=document.tier,
        trust=document.trust,
        source_uri=document.source_uri,
        last_updated=document.last_updated,
        language=document.language,
    )


def _failed(event: ObjectEvent, error: Exception) -> Outcome:
    transient = isinstance(error, StoreUnavailableError | ConditionFailedError)
    result = Result.RETRY if transient else Result.FAILED
    return Outcome(result, event.document_key, str(error), error=error)
