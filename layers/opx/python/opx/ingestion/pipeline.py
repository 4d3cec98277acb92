"""Ingests documents: applies object events to chunks, index, graph and catalog (claim, read, chunk, embed, publish).

Safe to run any number of times, in any order, by several workers: events that are not newer than the last applied one are
skipped, a document is changed by one worker at a time, and ids depend on content alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import compress, islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from opx.domain.documents import DocumentChunk, DocumentKey, KnowledgeDocument, Remark, is_kept_out
from opx.domain.graph import Origin
from opx.domain.ids import entry_id, stable_hash
from opx.domain.record import replace
from opx.domain.scopes import scope_of_object
from opx.domain.titles import is_completed
from opx.errors import (
    ConditionFailedError,
    DamagedStoreError,
    IndexWakingError,
    InvalidInputError,
    ObjectNotFoundError,
    StoreUnavailableError,
    ThrottledError,
    UnwritableStoreError,
)
from opx.errors import UnparsableDocumentError as Unparsable
from opx.ingestion.corpus.catalog import BusyError, Catalog, StaleEventError, VersionOrigin
from opx.ingestion.corpus.claims import Claim, current_id
from opx.ingestion.events import DOCUMENTS_FOLDER, EventOutcome, ObjectEvent, Result
from opx.ingestion.indexing.editions import OneIndex, Writers
from opx.ingestion.prepared import ChunkingRules, Chunks, CutDocument, Extract, Prepared
from opx.ingestion.reading import DocumentReader, title_path
from opx.ingestion.states import nothing_to_know
from opx.ports import (
    ChunkCopies,
    Clock,
    CopyChange,
    DocumentChange,
    Embedder,
    Item,
    ObjectInfo,
    ObjectStore,
    SearchIndex,
    Vectors,
)
from opx.ports.search import GraphWriter, embed_each
from opx.runtime.deadlines import carried, deadline, remaining
from opx.runtime.extras import missing_extra
from opx.runtime.threads import Each

if TYPE_CHECKING:
    from opx.ingestion.contexts import ContextWriter
    from opx.ingestion.originals import OriginalsProtection

log = logging.getLogger(__name__)


# -- publishing


UnitOfWork = Callable[[], AbstractContextManager[Any]]
"""Groups writes into one commit where the store can; see `Tables.unit_of_work`."""

Step = Claim | Prepared
"""A change to publish: a prepared document, or only the claim on a document to remove from the index."""


@dataclass(eq=False, kw_only=True)
class Publisher:
    """Writes claimed documents to index, copies, graph and catalog. `layout` identifies the current chunking rules; `graph`
    gets the statements of documents; `writers` keeps a new edition in step that is being built meanwhile."""

    catalog: Catalog
    index: SearchIndex
    chunks: Chunks
    layout: Callable[[], str]
    unit_of_work: UnitOfWork
    puts_together: UnitOfWork
    each: Each
    copies: ChunkCopies | None
    graph: GraphWriter | None
    writers: Writers

    def publish(self, steps: Sequence[Step], *, gone_by: float | None = None) -> list[bool]:
        """Applies the steps to the index in one batch, then to the catalog; returns one result per step.

        False if the claim was lost: another worker has the document, and the writes are undone. Raises
        `StoreUnavailableError`; then some steps may be done, and all may be repeated. `gone_by` is as for
        `Catalog.withdraw`.
        """
        with self.writers.writing():
            return self._publish(steps, gone_by)

    def _publish(self, steps: Sequence[Step], gone_by: float | None) -> list[bool]:
        changes = [self._change(step) for step in steps]
        with self.unit_of_work():
            started = [self._start(step) for step in steps]
            live = list(compress(steps, started))
            self.writers.note([claim_of(step).key.id for step in live])
        self._store(live)
        references = self.index.apply(list(compress(changes, started))) if live else []
        if self.copies and live:
            self.copies.apply(_copy(step) for step in live)
        self._sweep(live)
        with self.unit_of_work():
            self.writers.confirm()
            self._state(live)
            kept = [self._finish(step, written, gone_by) for step, written in zip(live, references, strict=True)]
        for step, written, done in zip(live, references, kept, strict=True):
            if not done:
                self._undo(step, written)
        answers = iter(kept)
        return [go and next(answers) for go in started]

    def _change(self, step: Step) -> DocumentChange:
        if isinstance(step, Claim):
            return DocumentChange(step.key.id, "", superseded=self._old_references(step))
        old = self._old_references(step.claim)
        if self.index.derives_ids:
            fresh = {entry_id(step.claim.key.id, chunk.chunk_id) for chunk in step.chunks()}
            old = [reference for reference in old if reference not in fresh]
        return DocumentChange(step.claim.key.id, step.document.document_id, step.entries(), old)

    def _old_references(self, claim: Claim) -> list[str]:
        """References of this document's entries, from chunk files or the catalog: the index may not show them yet.

        Where these may be wrong, the index is queried too: after an interruption, and when the stored chunks may have
        been cut by other rules than those in the index.
        """
        key = claim.key
        if self.index.derives_ids:
            documents = dict.fromkeys(filter(None, (claim.current_id, *claim.unfinished)))
            found, unknown = self._derived(key, documents)
            unknown = unknown or claim.interrupted
        else:
            stored = self.catalog.references(key.id, self.writers.edition)
            found, unknown = list(stored.found), claim.interrupted or bool(stored.expected_since)
        recut = claim.current_id and not str(claim.head.get("fingerprint")).startswith(self.layout())
        if unknown or recut:
            found.extend(self.index.references(key.id))
        return list(dict.fromkeys(found))

    def _derived(self, key: DocumentKey, documents: Iterable[str]) -> tuple[list[str], bool]:
        """References by the chunk files of these versions, and True if one of them is damaged."""
        chunks = (chunk for document in documents for chunk in self.chunks.read(key, document))
        found: list[str] = []
        try:
            found.extend(entry_id(key.id, chunk.chunk_id) for chunk in chunks)
        except DamagedStoreError as exc:
            log.warning("%s", exc)
            return found, True
        return found, False

    def _start(self, step: Step) -> bool:
        try:
            self.catalog.claims.start_writing(claim_of(step), _document_id(step))
        except ConditionFailedError:
            return False
        return True

    def _store(self, steps: Sequence[Step]) -> None:
        """Stores the files of the versions, which the catalog names as being written by now: if this worker is killed, the
        next writer of the document finds them."""
        with self.puts_together():
            self.each(self.chunks.store, [step.cut for step in steps if isinstance(step, Prepared)])

    def _sweep(self, steps: Sequence[Step]) -> None:
        """Deletes the files of versions that interrupted attempts wrote and that never became current, unless another
        document of the scope has the same text, or is getting it."""
        written = {(claim_of(step).key.scope, _document_id(step)) for step in steps}
        for claim in map(claim_of, steps):
            left = [one for one in claim.unfinished if (claim.key.scope, one) not in written]
            for document_id in self.catalog.without_version(claim, left):
                self.chunks.discard(claim.key, document_id, before=self.catalog.abandoned_before)

    def _state(self, steps: Sequence[Step]) -> None:
        """Replaces the statements of the documents in the graph."""
        if self.graph is None:
            return
        for step in steps:
            key = claim_of(step).key
            if isinstance(step, Claim):
                self.graph.remove(key.id, key.scope)
            else:
                self.graph.write(Origin.of(step.document), step.statements)

    def _finish(self, step: Step, references: list[str], gone_by: float | None = None) -> bool:
        """False if the claim was lost while the index was written."""
        try:
            if isinstance(step, Claim):
                self.catalog.withdraw(step, gone_by=gone_by, edition=self.writers.edition)
            else:
                kept = None if self.index.derives_ids else references
                edition = self.writers.edition
                made = VersionOrigin(step.cut.fingerprint, step.cut.provenance)
                self.catalog.finish(step.claim, step.document, made, kept, edition=edition)
        except ConditionFailedError:
            return False
        return True

    def _undo(self, step: Step, references: list[str]) -> None:
        """Removes the entries of a worker that lost its claim, unless the current version has the same ones.

        The entries that it replaced or overwrote are unknown here; the repeated event restores them.
        """
        claim = claim_of(step)
        log.warning("lost the claim on %s, undoing its writes", claim.event.key)
        self.catalog.claims.note_unfinished(claim.key, _document_id(step))
        current = current_id(self.catalog.head(claim.key) or {}) == _document_id(step)
        same = self.index.derives_ids and current
        if references and not same:
            self.index.apply([DocumentChange(claim.key.id, _document_id(step), superseded=references)])
        if self.copies and not current:
            self.copies.apply([CopyChange(claim.key, _document_id(step))])
        if self.graph and not current and not isinstance(step, Claim):
            self.graph.remove(claim.key.id, claim.key.scope, document_ids=[_document_id(step)])


def _copy(step: Step) -> CopyChange:
    """Change of the copies: the document's entries replace those of all versions that may have copies."""
    claim, document_id = claim_of(step), _document_id(step)
    others = dict.fromkeys((claim.current_id, *claim.unfinished))
    chunks = () if isinstance(step, Claim) else (entry.indexed for entry in step.entries())
    return CopyChange(claim.key, document_id, chunks, [other for other in others if other not in ("", document_id)])


def claim_of(step: Step) -> Claim:
    return step if isinstance(step, Claim) else step.claim


def _document_id(step: Step) -> str:
    return "" if isinstance(step, Claim) else step.document.document_id


# -- pipeline


__all__ = ["EMBED_AT_ONCE", "PIPELINE_VERSION", "ChunkingRules", "IngestionPipeline", "Progress"]


PIPELINE_VERSION = 7
"""Raise when parsing, chunking, the embedded text or the filtered fields change: unchanged documents are then
ingested again."""

EMBED_AT_ONCE = 128
READ_AHEAD_FROM = 16
"""Documents of a portion from which they are prepared while the first ones are embedded. A function gets fewer at a time, and
has one core."""

PORTION_BYTES = 32 * 1024 * 1024
"""Size of the objects that are processed together: chunks are spooled to disk, but the vectors of all of them (about as
large as the text) are in memory until the index has them."""

WRITING_SECONDS = 30.0
"""Time that is left for writing to index and catalog: embedding ends so long before the deadline of the call."""

LONGEST_WAKING_SECONDS = 3600.0
"""Time after which waiting for an index that wakes up counts as a failed attempt."""

_BUSY_SECONDS = 5.0
Progress = Callable[[str, int], None]
"""Called with an object key and the number of its chunks embedded so far."""


CutBefore = Callable[[str, str, ExitStack], CutDocument | None]
"""Returns what was made before of the object with this key and fingerprint, None if nothing was."""


@dataclass(eq=False, kw_only=True)
class IngestionPipeline:
    """Applies events to chunks, index and catalog. One instance may serve several threads. `repeatable` is a unit of work for
    claims, which may be lost with those who hold them."""

    store: ObjectStore
    reader: DocumentReader
    catalog: Catalog
    embedder: Embedder
    index: SearchIndex
    rules: ChunkingRules
    unit_of_work: UnitOfWork = nullcontext
    repeatable: UnitOfWork | None = None
    read_threads: int = 1
    puts_together: UnitOfWork = nullcontext
    index_identity: str = ""
    copies: ChunkCopies | None = None
    contexts: ContextWriter | None = None
    graph: GraphWriter | None = None
    extract: Extract | None = None
    writers: Writers = field(default_factory=OneIndex)
    originals: OriginalsProtection | None = None
    cut_before: CutBefore = lambda _key, _fingerprint, _stack: None
    clock: Clock = time.time

    def __post_init__(self) -> None:
        self._chunks = Chunks(self.store, self.rules, self.extract)
        self._each = Each(self.read_threads)  # several at a time where reading and storing mean waiting for a network
        self._publisher = Publisher(
            catalog=self.catalog,
            index=self.index,
            chunks=self._chunks,
            layout=self._layout,
            unit_of_work=self.unit_of_work,
            puts_together=self.puts_together,
            each=self._each,
            copies=self.copies,
            graph=self.graph,
            writers=self.writers,
        )
        self._repeatable = self.repeatable or self.unit_of_work

    def apply(self, events: Sequence[ObjectEvent], progress: Progress | None = None) -> list[EventOutcome]:
        """Applies events of different documents together, so that the index commits once; one outcome each, in order.

        Large batches are processed in portions. Errors of a single document are not raised: its outcome is `FAILED`
        (bad input) or `RETRY`.
        """
        outcomes: list[EventOutcome] = []
        for portion in self._portions(events):
            with ExitStack() as stack, ThreadPoolExecutor(1, "opx-reading") as reading:
                documents, steps = self._arriving(portion, stack, reading)
                done = self._embed_and_write(documents, steps, progress)
            for outcome in done if self.originals else ():
                self._protect(outcome)
            outcomes.extend(done)
        return outcomes

    def _arriving(
        self, events: Sequence[ObjectEvent], stack: ExitStack, reading: ThreadPoolExecutor
    ) -> tuple[Iterable[Prepared], Callable[[], list[EventOutcome | Step]]]:
        """The documents to embed, and a function that returns all steps. Many documents are prepared in another thread: the
        first ones are embedded meanwhile. `stack` is used by that thread alone until the function returns."""
        if len(events) < READ_AHEAD_FROM or self.contexts:
            documents: list[Prepared] = []
            steps = self._prepared(events, stack, documents.append)
            return documents, lambda: steps
        arrived: SimpleQueue[Prepared | None] = SimpleQueue()
        task = reading.submit(carried(self._prepared), events, stack, arrived.put)
        task.add_done_callback(lambda _: arrived.put(None))
        return iter(arrived.get, None), task.result

    def _prepared(
        self, events: Sequence[ObjectEvent], stack: ExitStack, ready: Callable[[Prepared], None]
    ) -> list[EventOutcome | Step]:
        """Reads the documents. Calls `ready` with each document to embed, in order."""
        steps: list[EventOutcome | Step] = []
        try:
            for step in self._each.in_order(lambda claim: self._prepare(claim, stack), self._claims(events)):
                steps.append(step)
                if isinstance(step, Prepared):
                    ready(step)
        except StoreUnavailableError as exc:
            return [
                step if isinstance(step, EventOutcome) else self._unsuccessful(claim_of(step), exc) for step in steps
            ]
        return steps

    def _protect(self, outcome: EventOutcome) -> None:
        """Encrypts the original of an ingested document. That of an unchanged one may have been put again, and is plain."""
        if self.originals and outcome.result in (Result.INGESTED, Result.SKIPPED):
            self.originals.after_ingestion(outcome.object_key, lambda: outcome.remarks)
        elif self.originals and outcome.result is Result.UNCHANGED:
            self.originals.after_ingestion(outcome.object_key, lambda: self._known_remarks(outcome))

    def _known_remarks(self, outcome: EventOutcome) -> Sequence[Remark]:
        key = DocumentKey(*scope_of_object(outcome.object_key))
        known = self.catalog.version(key, outcome.document_id)
        return known.remarks if known else ()

    def fingerprint(self, info: ObjectInfo, sidecar: ObjectInfo | None) -> str:
        """Hash of the object, its sidecar and its metadata, after a hash of the rules of the pipeline."""
        facts = stable_hash("fingerprint", info.etag, sidecar.etag if sidecar else "", dict(info.metadata))
        return f"{self._layout()}-{facts}"

    def is_of(self, fingerprint: str, info: ObjectInfo) -> bool:
        """True if a document was made from the stored object, by any rules."""
        known = self.fingerprint(info, self.reader.sidecar(info.key))
        return fingerprint.rpartition("-")[2] == known.rpartition("-")[2]

    def remove(self, claims: Sequence[Claim], *, gone_by: float) -> list[bool]:
        """Removes claimed documents from index, copies and graph, as if their objects were gone; the catalog keeps the item
        of the current version until `gone_by`. Returns and raises as `Publisher.publish`."""
        return self._publisher.publish(claims, gone_by=gone_by)

    def read_chunks(self, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
        """The chunks of any version, current or not; none if they are gone."""
        return self._chunks.read(key, document_id)

    def _layout(self) -> str:
        """Hash of the rules of chunking and embedding and of the index: documents of another layout are ingested again."""
        model, index = self.writers.lineage() or self.embedder.model_id, self.index_identity
        rules = (self.rules.tokens, self.rules.overlap, model, PIPELINE_VERSION, index)
        return stable_hash("layout", *rules, *((self.contexts.name,) if self.contexts else ()))

    # -- portions

    def _portions(self, events: Sequence[ObjectEvent]) -> Iterator[list[ObjectEvent]]:
        sizes = self._each(self._size, events) if len(events) > 1 else [0] * len(events)
        portion: list[ObjectEvent] = []
        total = 0
        for event, size in zip(events, sizes, strict=True):
            if portion and total + size > PORTION_BYTES:
                yield portion
                portion, total = [], 0
            portion.append(event)
            total += size
        if portion:
            yield portion

    def _size(self, event: ObjectEvent) -> int:
        try:
            info = self.store.head(event.document_key)
        except (StoreUnavailableError, InvalidInputError):
            return 0  # the error occurs again when the document is read
        return info.size if info else 0

    # -- per document: claim, read, chunk

    def _claims(self, events: Sequence[ObjectEvent]) -> list[EventOutcome | Claim]:
        claims: list[EventOutcome | Claim] = []
        try:
            with self._repeatable():
                for event in events:
                    claims.append(self._claim(event))  # noqa: PERF401 - claims before an error are released
        except StoreUnavailableError as exc:
            for claim in claims:
                if isinstance(claim, Claim):
                    self._unsuccessful(claim, exc)
            return [_failed(event, exc) for event in events]
        return claims

    def _claim(self, event: ObjectEvent) -> EventOutcome | Claim:
        try:
            scope, source = scope_of_object(event.document_key)
            if not source.startswith(DOCUMENTS_FOLDER):
                return EventOutcome(Result.SKIPPED, event.key, f"not under {DOCUMENTS_FOLDER}")
            return self.catalog.claim(DocumentKey(scope, source), event)
        except StaleEventError:
            return EventOutcome(Result.SKIPPED, event.key, "not newer than the last applied event", stale=True)
        except BusyError:
            return _busy(event)
        except InvalidInputError as exc:
            return _failed(event, exc)

    def _prepare(self, claim: EventOutcome | Claim, stack: ExitStack) -> EventOutcome | Step:
        if isinstance(claim, EventOutcome):
            return claim
        try:
            return self._read(claim, stack)
        except (StoreUnavailableError, InvalidInputError, Unparsable) as exc:
            return self._unsuccessful(claim, exc)
        except Exception as exc:  # noqa: BLE001 - parsers of others read untrusted bytes: one must not stop all
            return self._unsuccessful(claim, _unreadable(claim.event.document_key, exc))

    def _read(self, claim: Claim, stack: ExitStack) -> EventOutcome | Step:
        """Prepares a claimed document; returns the claim itself if the document has to be removed from the index."""
        key = claim.event.document_key
        info = self.store.head(key)
        if info is None:
            return self._missing(claim)
        if reason := nothing_to_know(self.store, key, info):
            return self._missing(claim, reason)
        fingerprint = self.fingerprint(info, self.reader.sidecar(key))
        if self._is_in_order(claim.key, claim.head, fingerprint):
            self.catalog.claims.release(claim, applied=True)
            return EventOutcome(Result.UNCHANGED, key, document_id=claim.current_id)
        try:
            cut = self.cut_before(key, fingerprint, stack) or self._cut(claim.key, info, fingerprint, stack)
            prepared = self._chunks.prepare(claim, cut)
        except ObjectNotFoundError:
            return self._missing(claim)
        prepared.document = self._versioned(claim, prepared.document, fingerprint)
        return prepared

    def cut(self, key: str, stack: ExitStack) -> CutDocument | EventOutcome:
        """Reads and chunks a document's object, without claiming it or storing anything. Returns the outcome instead
        for one that is unchanged, gone, or can't be read. Raises `StoreUnavailableError`."""
        event = ObjectEvent(key, deleted=False, sequencer="")
        try:
            return self._cut_unclaimed(event, DocumentKey(*scope_of_object(key)), stack)
        except (InvalidInputError, Unparsable) as exc:
            return _failed(event, exc)
        except StoreUnavailableError:
            raise
        except Exception as exc:  # noqa: BLE001 - as in `_prepare`
            return _failed(event, _unreadable(key, exc))

    def _cut_unclaimed(self, event: ObjectEvent, key: DocumentKey, stack: ExitStack) -> CutDocument | EventOutcome:
        info = self.store.head(event.key)
        reason = nothing_to_know(self.store, event.key, info) if info else "the object is gone"
        if info is None or reason:
            return EventOutcome(Result.SKIPPED, event.key, reason)
        fingerprint = self.fingerprint(info, self.reader.sidecar(event.key))
        head = self.catalog.head(key) or {}
        if self._is_in_order(key, head, fingerprint):
            return EventOutcome(Result.UNCHANGED, event.key, document_id=current_id(head))
        try:
            cut = self._cut(key, info, fingerprint, stack)
        except ObjectNotFoundError:
            return EventOutcome(Result.SKIPPED, event.key, "the object is gone")
        now = self.store.head(event.key)
        if now is None or self.fingerprint(now, self.reader.sidecar(event.key)) != fingerprint:
            return EventOutcome(Result.RETRY, event.key, "the object was changed while it was read")
        return cut

    def _cut(self, key: DocumentKey, info: ObjectInfo, fingerprint: str, stack: ExitStack) -> CutDocument:
        with self.reader.read(key, info) as read:
            return self._chunks.cut(read, fingerprint, stack)

    def _is_in_order(self, key: DocumentKey, head: Item, fingerprint: str) -> bool:
        """True if the catalog has the object as it is, and no attempt was interrupted."""
        document_id = current_id(head)
        same = document_id and head.get("fingerprint") == fingerprint and not head.get("writing")
        return bool(same) and not self._is_outdated(key, document_id)

    def _is_outdated(self, key: DocumentKey, document_id: str) -> bool:
        """True if an unchanged document has an incomplete title or lacks contexts, or was kept out by a retention that became
        longer: only such documents are ingested again, and not all of them, as after a change of `PIPELINE_VERSION`."""
        known = self.catalog.version(key, document_id)
        if known is None:
            return False
        if is_kept_out(known) and not self.reader.is_expired(known):
            return True
        if not is_completed(known.title, title_path(known.source, known.category)):
            return True
        if not self.contexts:
            return False
        from opx.ingestion.contexts import are_missing

        return are_missing(known)

    def _missing(self, claim: Claim, reason: str = "the object is gone") -> EventOutcome | Claim:
        if claim.current_id or claim.interrupted:
            return claim
        if claim.head.get("version"):
            self.catalog.claims.release(claim, applied=True)
        else:  # it has no versions, or lost them all
            self.catalog.claims.forget(claim)
        return EventOutcome(Result.SKIPPED, claim.event.key, reason)

    def _versioned(self, claim: Claim, document: KnowledgeDocument, fingerprint: str) -> KnowledgeDocument:
        last = int(claim.head.get("version", 0))
        if claim.current_id != document.document_id:
            return replace(document, version=last + 1)
        document = replace(document, version=max(last, 1))
        known = self.catalog.version(claim.key, claim.current_id)
        if known is None:
            return document
        document = replace(document, created_at=known.created_at)
        is_reviewed = document.reviewed_at not in ("", known.reviewed_at)  # which is no update of the text
        if is_reviewed or _facts(claim.head.get("fingerprint")) in (
            "",
            _facts(fingerprint),
        ):  # ingested again without a change of the object
            document = replace(document, metadata=replace(document.metadata, last_updated=known.last_updated))
        return document

    # -- per batch: embed, publish

    def _embed_and_write(
        self,
        documents: Iterable[Prepared],
        prepared: Callable[[], list[EventOutcome | Step]],
        progress: Progress | None,
    ) -> list[EventOutcome]:
        """One outcome per step; if the model, the index or the catalog is unavailable, all are to be retried. If the quota of
        the model or the time is used up, documents that have all vectors are written, and the others postponed."""
        outcomes: dict[int, EventOutcome] = {}
        try:
            documents = self._with_contexts(documents)
            with self.writers.writing():
                throttled = self._embed(documents, progress)
                changes = [step for step in prepared() if not isinstance(step, EventOutcome)]
                if throttled:
                    lacking = [step for step in changes if isinstance(step, Prepared) and not step.is_embedded]
                    outcomes = {id(step): self._unsuccessful(step.claim, throttled) for step in lacking}
                ready = [step for step in changes if id(step) not in outcomes]
                for step, is_done in zip(ready, self._publisher.publish(ready) if ready else (), strict=True):
                    outcomes[id(step)] = _written(step, is_done=is_done)
        except StoreUnavailableError as exc:
            changes = [step for step in prepared() if not isinstance(step, EventOutcome)]
            failed = [step for step in changes if id(step) not in outcomes]
            outcomes |= {id(step): self._unsuccessful(claim_of(step), exc) for step in failed}
        return [step if isinstance(step, EventOutcome) else outcomes[id(step)] for step in prepared()]

    def _with_contexts(self, documents: Iterable[Prepared]) -> Iterable[Prepared]:
        if not self.contexts:
            return documents
        current, documents = self.contexts.new_round(), list(documents)
        for document in documents:
            document.add_contexts(self.contexts, current)
        return documents

    def _embed(self, documents: Iterable[Prepared], progress: Progress | None) -> ThrottledError | None:
        """Embeds chunks of all documents in batches across documents, until the quota or the time is used up: then some
        documents lack vectors, and the error is returned."""
        chunks = ((document, chunk.text) for document in documents for chunk in document.chunks())
        while batch := list(islice(chunks, EMBED_AT_ONCE)):
            vectors: dict[int, Vectors] = {}
            throttled = None
            try:
                with self._time_to_write():
                    embed_each(self.embedder, [text for _, text in batch], vectors.__setitem__)
            except ThrottledError as exc:
                throttled = exc
            for position in sorted(vectors):
                batch[position][0].vectors.append(vectors[position])
            if throttled:
                return throttled
            if progress:
                last = batch[-1][0]
                progress(last.claim.event.document_key, len(last.vectors))
        return None

    def _time_to_write(self) -> AbstractContextManager[None]:
        """Ends the block early enough that its results can be written before the deadline, if there is one."""
        left = remaining()
        return nullcontext() if left is None else deadline(left - WRITING_SECONDS, self.clock)

    # -- failures

    def _unsuccessful(self, claim: Claim, error: Exception) -> EventOutcome:
        """Releases the claim; if another worker has taken it over, the outcome is busy instead of the error."""
        waits = isinstance(error, (ThrottledError, UnwritableStoreError)) or self._still_wakes(claim, error)
        try:
            held = self.catalog.claims.release(claim, applied=False, counted=not waits)
        except StoreUnavailableError as exc:
            log.warning("the claim on %s stays until its lease ends: %s", claim.event.key, exc)
            return _failed(claim.event, error)
        if not held:
            return _busy(claim.event)
        return postponed(claim.event, error) if waits else _failed(claim.event, error, claim.attempts)

    def _still_wakes(self, claim: Claim, error: Exception) -> bool:
        """True if the index wakes up, and did not have too much time for it already."""
        waited = self.clock() - claim.waits_since if claim.waits_since else 0.0
        return isinstance(error, IndexWakingError) and waited < LONGEST_WAKING_SECONDS


def _unreadable(object_key: str, error: Exception) -> Unparsable:
    """The error of a document for an unexpected one: third-party parsers read untrusted bytes, and one document must not
    stop all others."""
    reason: object = missing_extra(error)
    if reason is None:
        log.error("reading %s failed unexpectedly", object_key, exc_info=error)
        reason = f"it can't be read because of a bug in this program: {error!r}"
    return Unparsable(f"{scope_of_object(object_key)[1]}: {reason}")


def _facts(fingerprint: object) -> str:
    """The part of a fingerprint that identifies the object; "" where it is unknown."""
    return str(fingerprint or "").partition("-")[2]


def _done(step: Step) -> EventOutcome:
    if isinstance(step, Claim):
        return EventOutcome(Result.DELETED, step.event.key, document_id=step.current_id)
    document = step.document
    reason = "" if step.vectors else f"kept, but {document.category} is not searched by text"
    expired = is_kept_out(document)
    return EventOutcome(
        Result.SKIPPED if expired else Result.INGESTED,
        step.claim.event.document_key,
        document.remarks[0].text if expired else reason,
        document.document_id,
        document.title,
        len(step.vectors),
        remarks=document.remarks,
    )


def _written(step: Step, *, is_done: bool) -> EventOutcome:
    return _done(step) if is_done else _busy(claim_of(step).event)


def postponed(event: ObjectEvent, error: Exception) -> EventOutcome:
    """The outcome of an event that has to wait, which is no attempt."""
    return EventOutcome(Result.RETRY, event.document_key, str(error), error=error, postponed=True)


def _busy(event: ObjectEvent) -> EventOutcome:
    return EventOutcome(Result.RETRY, event.key, "another worker has the document", delay_seconds=_BUSY_SECONDS)


def _failed(event: ObjectEvent, error: Exception, attempts: int = 0) -> EventOutcome:
    result = Result.RETRY if isinstance(error, StoreUnavailableError) else Result.FAILED
    return EventOutcome(result, event.document_key, str(error), error=error, attempts=attempts)
