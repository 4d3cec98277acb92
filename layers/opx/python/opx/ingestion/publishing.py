"""Changes of documents into the index and the catalog, so that what one says the other has."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import compress
from typing import Any

from opx.domain.graph import Origin
from opx.domain.ids import entry_id
from opx.errors import ConditionFailedError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import Claim, current_id
from opx.ingestion.indexing.editions import OneIndex, Writers
from opx.ingestion.prepared import Chunks, Prepared
from opx.ports import ChunkCopies, CopyChange, DocumentChange, SearchIndex
from opx.ports.graph import GraphWriter

log = logging.getLogger(__name__)

Step = Claim | Prepared
"""A change to make: a document to write, or the claim alone on one that is to leave the index."""


class Publisher:
    """Writes claimed documents. `layout` names the rules by which chunks are cut now; `copies` get what the index gets, and
    `graph` what documents say of things; `writers` keeps others in step who make a new index meanwhile."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        index: SearchIndex,
        chunks: Chunks,
        layout: Callable[[], str],
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        copies: ChunkCopies | None = None,
        graph: GraphWriter | None = None,
        writers: Writers | None = None,
    ) -> None:
        self._writers = writers or OneIndex()
        self._catalog = catalog
        self._index = index
        self._chunks = chunks
        self._layout = layout
        self._unit_of_work = unit_of_work
        self._copies = copies
        self._graph = graph

    def publish(self, steps: Sequence[Step], *, gone_by: float | None = None) -> list[bool]:
        """Change the index in one go and note it in the catalog; one answer a step.

        False if the claim was lost: another worker has the document, and what was written here is undone. Raises
        `StoreUnavailableError`; then some steps may be done, and all may be done again. `gone_by` is as for
        `Catalog.withdraw`.
        """
        with self._writers.writing():
            return self._publish(steps, gone_by)

    def _publish(self, steps: Sequence[Step], gone_by: float | None) -> list[bool]:
        changes = [self._change(step) for step in steps]
        with self._unit_of_work():
            started = [self._start(step) for step in steps]
            live = list(compress(steps, started))
            self._writers.note([claim_of(step).key.id for step in live])
        references = self._index.apply(list(compress(changes, started))) if live else []
        if self._copies and live:
            self._copies.apply(_copy(step) for step in live)
        with self._unit_of_work():
            self._writers.confirm()
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
        if self._index.derives_ids:
            fresh = {entry_id(step.claim.key.id, chunk.chunk_id) for chunk in step.chunks()}
            old = [reference for reference in old if reference not in fresh]
        return DocumentChange(step.claim.key.id, step.document.document_id, step.entries(), old)

    def _old_references(self, claim: Claim) -> list[str]:
        """References of what is in the index of this document, from our own books: the index may not show it yet.

        Where the books may be wrong, the index is asked too: after an interruption, and when the chunks on file may
        have been cut by other rules than those in the index.
        """
        key = claim.key
        if self._index.derives_ids:
            documents = dict.fromkeys(filter(None, (claim.current_id, *claim.unfinished)))
            chunks = (chunk for document in documents for chunk in self._chunks.read(key, document))
            found = [entry_id(key.id, chunk.chunk_id) for chunk in chunks]
        else:
            found = self._catalog.references(key)
        recut = claim.current_id and not str(claim.head.get("fingerprint")).startswith(self._layout())
        if claim.interrupted or recut:
            found.extend(self._index.references(key.id))
        return list(dict.fromkeys(found))

    def _start(self, step: Step) -> bool:
        try:
            self._catalog.start_writing(claim_of(step), _document_id(step))
        except ConditionFailedError:
            return False
        return True

    def _state(self, steps: Sequence[Step]) -> None:
        """Have the graph say what the documents say now."""
        if self._graph is None:
            return
        for step in steps:
            key = claim_of(step).key
            if isinstance(step, Claim):
                self._graph.remove(key.id, key.scope)
            else:
                self._graph.write(Origin.of(step.document), step.statements)

    def _finish(self, step: Step, references: list[str], gone_by: float | None = None) -> bool:
        """False if the claim was lost while the index was written."""
        try:
            if isinstance(step, Claim):
                self._catalog.withdraw(step, gone_by=gone_by)
            else:
                kept = None if self._index.derives_ids else references
                self._catalog.finish(step.claim, step.document, step.fingerprint, kept)
        except ConditionFailedError:
            return False
        return True

    def _undo(self, step: Step, references: list[str]) -> None:
        """Another worker took over while this one was slow: take out what this one wrote, unless it is the same.

        What it replaced or overwrote can't be known here; the event that comes again puts that right.
        """
        claim = claim_of(step)
        log.warning("lost the claim on %s, undoing", claim.event.key)
        self._catalog.note_unfinished(claim.key, _document_id(step))
        current = current_id(self._catalog.head(claim.key) or {}) == _document_id(step)
        same = self._index.derives_ids and current
        if references and not same:
            self._index.apply([DocumentChange(claim.key.id, _document_id(step), superseded=references)])
        if self._copies and not current:
            self._copies.apply([CopyChange(claim.key, _document_id(step))])
        if self._graph and not current and not isinstance(step, Claim):
            self._graph.remove(claim.key.id, claim.key.scope, document_ids=[_document_id(step)])


def _copy(step: Step) -> CopyChange:
    """What takes the place of all versions that may have copies."""
    claim, document_id = claim_of(step), _document_id(step)
    others = dict.fromkeys((claim.current_id, *claim.unfinished))
    chunks = () if isinstance(step, Claim) else (entry.indexed for entry in step.entries())
    return CopyChange(claim.key, document_id, chunks, [other for other in others if other not in ("", document_id)])


def claim_of(step: Step) -> Claim:
    return step if isinstance(step, Claim) else step.claim


def _document_id(step: Step) -> str:
    return "" if isinstance(step, Claim) else step.document.document_id
