"""Removes versions of documents that are due, so that whatever interrupts it, the next run goes on.

The object goes first, and only while it is what the version was made of: from then on nothing can bring the document back.
Then it leaves index, graph and copies as any deleted document does; then its chunks go, unless another version has the
same text; and last what finds it: the catalog's item, and the day in the calendar.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import iso_time, stable_hash
from opx.errors import StoreUnavailableError
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.catalog import BusyError, Catalog, Claim, StaleEventError
from opx.ingestion.corpus.chunk_files import chunk_file, version_files
from opx.ingestion.events import SIDECAR_SUFFIX, ObjectEvent
from opx.lifecycle.retention.due import DueVersion
from opx.ports import Clock, ObjectStore
from opx.runtime.threads import Each

if TYPE_CHECKING:
    from opx.ingestion.pipeline import IngestionPipeline
    from opx.lifecycle.report import PruneRun

LEAVES_DAYS = 30
"""After which the catalog's item of a version goes by itself whose removal was begun and never finished."""

JUST_NOW_SECONDS = 3600.0
"""A file of chunks that was written since may be that of a document which the catalog is about to get."""

BUSY = "somebody is at work on it"
NEWER = "a newer object waits to be taken in"
CAME_AGAIN = "its text has just come in again"
CLIENT_LEAVES = "its client is being removed"

Forgotten = Callable[[DocumentKey, str], None]
"""Told of a document, and of its category, of which nothing is left."""


@dataclass(slots=True)
class _Tally:
    """What became of some versions: those that went by category, and their chunks; those that stay, by why."""

    removed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    chunks: int = 0


class Removal:
    """Removes due versions; for one batch at a time, of which several threads do some each."""

    def __init__(
        self,
        *,
        store: ObjectStore,
        catalog: Catalog,
        calendar: Calendar,
        pipeline: IngestionPipeline,
        clock: Clock,
        unit_of_work: Callable[[], AbstractContextManager[Any]] = nullcontext,
        threads: int = 1,
        forgotten: Forgotten = lambda *_: None,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._calendar = calendar
        self._pipeline = pipeline
        self._clock = clock
        self._unit_of_work = unit_of_work
        self._threads = threads
        self._each = Each(threads)
        self._forgotten = forgotten

    def remove(self, due: Sequence[DueVersion], run: PruneRun) -> int:
        """Remove these versions; how many had to stay for now, which the report says. Raises `StoreUnavailableError`."""
        tallies = self._each(self._remove_some, self._slices(due))
        for tally in tallies:
            run.kept += tally.kept
            run.removed += tally.removed
            run.chunks += tally.chunks
        return sum(tally.kept.total() for tally in tallies)

    def _slices(self, due: Sequence[DueVersion]) -> list[list[DueVersion]]:
        """For each thread some; what has one text, and so one file of chunks, is together."""
        slices: dict[str, list[DueVersion]] = {}
        for one in due:
            text = stable_hash(one.entry.key.scope.key, one.entry.document_id)
            slices.setdefault(str(int(text, 16) % self._threads), []).append(one)
        return list(slices.values())

    def _remove_some(self, due: Sequence[DueVersion]) -> _Tally:
        tally = _Tally()
        withdrawn = self._withdrawn([one.entry for one in due if _is_current(one)], tally)
        others = [(one.entry, one.document) for one in due if one.document and not _is_current(one)]
        with self._unit_of_work():
            for entry, document in (*withdrawn, *others):
                if self._remove_rest(entry, document):
                    tally.removed[document.category] += 1
                    tally.chunks += document.chunk_count
                else:
                    tally.kept[CAME_AGAIN] += 1
        return tally

    def drop(self, entries: Iterable[CalendarEntry]) -> None:
        """Remove entries whose version is gone, with what an unfinished removal may have left of it."""
        for entry in entries:
            file = chunk_file(entry.key, entry.document_id)
            if not self._same_text(entry) and not self._is_new(file):
                self._delete_files(entry.key, entry.document_id)
            self._forget_key(entry, set())
            self._calendar.drop(entry)

    # -- out of the index

    def _withdrawn(
        self, entries: Sequence[CalendarEntry], tally: _Tally
    ) -> list[tuple[CalendarEntry, KnowledgeDocument]]:
        """The versions that have left the index, as the catalog has them now."""
        claims: list[tuple[CalendarEntry, Claim]] = []
        try:
            for entry in entries:
                claim = self._claim(entry, tally)
                if claim:
                    claims.append((entry, claim))
            left = [one for one in claims if self._without_object(one[1], tally)]
            gone_by = self._clock() + LEAVES_DAYS * 86400
            done = self._pipeline.remove([claim for _, claim in left], gone_by=gone_by) if left else []
        except StoreUnavailableError:
            for _, claim in claims:
                self._catalog.release(claim, applied=True)
            raise
        tally.kept[BUSY] += done.count(False)
        gone = [entry for (entry, _), is_done in zip(left, done, strict=True) if is_done]
        return [(entry, document) for entry, (document, _) in self._catalog.leaving(gone).items()]

    def _claim(self, entry: CalendarEntry, tally: _Tally) -> Claim | None:
        object_key = entry.key.scope.prefix + entry.key.source
        try:
            claim = self._catalog.claim(entry.key, ObjectEvent(object_key, deleted=True, sequencer=""))
        except BusyError:
            tally.kept[BUSY] += 1
            return None
        except StaleEventError:
            tally.kept[CLIENT_LEAVES] += 1
            return None
        if (claim.current_id, int(claim.head.get("version", 0))) == (entry.document_id, entry.version):
            return claim
        self._leave(claim, tally)
        return None

    def _without_object(self, claim: Claim, tally: _Tally) -> bool:
        """Remove the object, unless it is another one by now: that is to be taken in."""
        key = claim.event.key
        info = self._store.head(key)
        made_of_it = info is None or self._pipeline.is_of(str(claim.head.get("fingerprint", "")), info)
        if not made_of_it or (info and not self._store.delete(key, etag=info.etag)):
            self._leave(claim, tally)
            return False
        if info and self._store.head(key + SIDECAR_SUFFIX):
            self._store.delete(key + SIDECAR_SUFFIX)
        return True

    def _leave(self, claim: Claim, tally: _Tally) -> None:
        self._catalog.release(claim, applied=True)
        tally.kept[NEWER] += 1

    # -- the rest of it

    def _remove_rest(self, entry: CalendarEntry, document: KnowledgeDocument) -> bool:
        file = chunk_file(document.key, document.document_id)
        if not self._same_text(entry):
            if self._is_new(file):
                return False
            self._delete_files(document.key, document.document_id)
        self._catalog.remove_version(document)
        self._forget_key(entry, {(document.document_id, document.version)})
        self._calendar.drop(entry)
        return True

    def _delete_files(self, key: DocumentKey, document_id: str) -> None:
        for file in version_files(key, document_id):
            self._store.delete(file)

    def _forget_key(self, entry: CalendarEntry, removed: set[tuple[str, int]]) -> None:
        if self._catalog.forget_key(entry.key, removed):
            self._forgotten(entry.key, entry.category)

    def _same_text(self, entry: CalendarEntry) -> bool:
        """Whether another version in the scope, of this document or of another one, has the same chunks."""
        mine = (entry.key.id, entry.version)
        found = (other for other in self._catalog.find(entry.document_id) if other.key.scope == entry.key.scope)
        return any((other.key.id, other.version) != mine for other in found)

    def _is_new(self, file: str) -> bool:
        """Where many take documents in: whether the chunks were written a short time ago, which listings tell. Elsewhere
        nobody is at work now."""
        written = next((info.modified for info in self._store.list(file) if info.key == file), "")
        return bool(written) and iso_time(self._clock() - JUST_NOW_SECONDS) < written <= iso_time(self._clock() + 60)


def _is_current(found: DueVersion) -> bool:
    return found.document is not None and found.document.state is DocumentState.CURRENT
