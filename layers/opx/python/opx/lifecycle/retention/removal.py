"""Removes due versions of documents, in an order that the next run can resume after any interruption.

The object is deleted first, and only if the version was made of its present state: from then on nothing can bring the
document back. Then the document is removed from index, graph and copies like any deleted one; then its chunk files, unless
another version has the same text; and last the entries that lead to it: the catalog's item and the day in the calendar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.catalog import BusyError, Catalog, Claim, StaleEventError
from opx.ingestion.corpus.chunk_files import chunk_file, version_files
from opx.ingestion.events import SIDECAR_SUFFIX, ObjectEvent
from opx.ingestion.pipeline import IngestionPipeline
from opx.lifecycle.report import PruneRun
from opx.lifecycle.retention.due import DueVersion
from opx.ports import Clock, ObjectStore
from opx.runtime.threads import Each

LEAVES_DAYS = 30
"""Days after which the catalog's item expires of a version whose removal was begun and never finished."""

BUSY = "another process is working on it"
NEWER = "a newer object waits to be ingested"
CAME_AGAIN = "its text has just been ingested again"
CLIENT_LEAVES = "its client is being removed"

OnForgotten = Callable[[DocumentKey, str], None]
"""Called with the key and category of a document that has no versions left."""


@dataclass(slots=True)
class _Tally:
    """Counts of a batch: removed versions by category, their chunks, and kept versions by reason."""

    removed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    chunks: int = 0


@dataclass(eq=False, kw_only=True)
class Removal:
    """Removes due versions, one batch at a time, on several threads."""

    store: ObjectStore
    catalog: Catalog
    calendar: Calendar
    pipeline: IngestionPipeline
    clock: Clock
    unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext
    threads: int = 1
    forgotten: OnForgotten = lambda *_: None

    def remove(self, due: Sequence[DueVersion], run: PruneRun) -> int:
        """Remove these versions; returns how many were kept for now, also in the report. Raises `StoreUnavailableError`."""
        tallies = Each(self.threads)(self._remove_some, self._slices(due))
        for tally in tallies:
            run.kept += tally.kept
            run.removed += tally.removed
            run.chunks += tally.chunks
        return sum(tally.kept.total() for tally in tallies)

    def _slices(self, due: Sequence[DueVersion]) -> list[list[DueVersion]]:
        """Versions per thread; those with the same text, and so the same chunk file, are together."""
        slices: dict[str, list[DueVersion]] = {}
        for one in due:
            text = stable_hash(one.entry.key.scope.key, one.entry.document_id)
            slices.setdefault(str(int(text, 16) % self.threads), []).append(one)
        return list(slices.values())

    def _remove_some(self, due: Sequence[DueVersion]) -> _Tally:
        tally = _Tally()
        withdrawn = self._withdrawn([one.entry for one in due if _is_current(one)], tally)
        others = [(one.entry, one.document) for one in due if one.document and not _is_current(one)]
        with self.unit_of_work():
            for entry, document in (*withdrawn, *others):
                if self._remove_rest(entry, document):
                    tally.removed[document.category] += 1
                    tally.chunks += document.chunk_count
                else:
                    tally.kept[CAME_AGAIN] += 1
        return tally

    def drop(self, entries: Iterable[CalendarEntry]) -> None:
        """Remove entries whose version is gone, with leftovers of an unfinished removal."""
        for entry in entries:
            file = chunk_file(entry.key, entry.document_id)
            if not self._same_text(entry) and not self._is_new(file):
                self._delete_files(entry.key, entry.document_id)
            self._forget_key(entry, set())
            self.calendar.drop(entry)

    # -- index and object

    def _withdrawn(
        self, entries: Sequence[CalendarEntry], tally: _Tally
    ) -> list[tuple[CalendarEntry, KnowledgeDocument]]:
        """Remove versions from the index; returns those that were, as the catalog has them now."""
        claims: list[tuple[CalendarEntry, Claim]] = []
        try:
            for entry in entries:
                claim = self._claim(entry, tally)
                if claim:
                    claims.append((entry, claim))
            left = [one for one in claims if self._without_object(one[1], tally)]
            gone_by = self.clock() + LEAVES_DAYS * 86400
            done = self.pipeline.remove([claim for _, claim in left], gone_by=gone_by) if left else []
        except StoreUnavailableError:
            for _, claim in claims:
                self.catalog.claims.release(claim, applied=True)
            raise
        tally.kept[BUSY] += done.count(False)
        gone = [entry for (entry, _), is_done in zip(left, done, strict=True) if is_done]
        return [(entry, document) for entry, (document, _) in self.catalog.leaving(gone).items()]

    def _claim(self, entry: CalendarEntry, tally: _Tally) -> Claim | None:
        object_key = entry.key.scope.prefix + entry.key.source
        try:
            claim = self.catalog.claim(entry.key, ObjectEvent(object_key, deleted=True, sequencer=""))
        except BusyError:
            tally.kept[BUSY] += 1
            return None
        except StaleEventError:
            tally.kept[CLIENT_LEAVES] += 1
            return None
        if (claim.current_id, int(claim.head.get("version", 0))) == (entry.document_id, entry.version):
            return claim
        self._keep_newer(claim, tally)
        return None

    def _without_object(self, claim: Claim, tally: _Tally) -> bool:
        """Remove the object; False if it has changed, as the new one must be ingested."""
        key = claim.event.key
        info = self.store.head(key)
        made_of_it = info is None or self.pipeline.is_of(str(claim.head.get("fingerprint", "")), info)
        if not made_of_it or (info and not self.store.delete(key, etag=info.etag)):
            self._keep_newer(claim, tally)
            return False
        if info and self.store.head(key + SIDECAR_SUFFIX):
            self.store.delete(key + SIDECAR_SUFFIX)
        return True

    def _keep_newer(self, claim: Claim, tally: _Tally) -> None:
        self.catalog.claims.release(claim, applied=True)
        tally.kept[NEWER] += 1

    # -- chunk files, catalog and calendar

    def _remove_rest(self, entry: CalendarEntry, document: KnowledgeDocument) -> bool:
        file = chunk_file(document.key, document.document_id)
        if not self._same_text(entry):
            if self._is_new(file):
                return False
            self._delete_files(document.key, document.document_id)
        self.catalog.remove_version(document)
        self._forget_key(entry, {(document.document_id, document.version)})
        self.calendar.drop(entry)
        return True

    def _delete_files(self, key: DocumentKey, document_id: str) -> None:
        for file in version_files(key, document_id):
            self.store.delete(file)

    def _forget_key(self, entry: CalendarEntry, removed: set[tuple[str, int]]) -> None:
        if self.catalog.forget_key(entry.key, removed):
            self.forgotten(entry.key, entry.category)

    def _same_text(self, entry: CalendarEntry) -> bool:
        """True if another version in the scope, of this document or of another one, has the same chunks."""
        mine = (entry.key.id, entry.version)
        found = (other for other in self.catalog.find(entry.document_id) if other.key.scope == entry.key.scope)
        return any((other.key.id, other.version) != mine for other in found)

    def _is_new(self, file: str) -> bool:
        """True if the writer of the chunk file may hold a lease, by the times of object listings. Listings of a
        single-process store have no times: no other process ingests there."""
        written = next((info.modified for info in self.store.list(file) if info.key == file), "")
        return written >= self.catalog.abandoned_before


def _is_current(found: DueVersion) -> bool:
    return found.document is not None and found.document.state is DocumentState.CURRENT
