"""Compares corpus, catalog, chunk files, index, graph and calendar, and repairs differences; a thorough run reads every
file.

It lists the corpus once, and merges catalog and index, both in the order of scopes and keys, so that memory is bounded by
a few documents; a large corpus is compared in several processes at once. Other processes may write meanwhile. It may be
interrupted at any time and run again. Repairs use the normal path: the pipeline, which claims the document, ingests it again
or withdraws it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from opx.domain.documents import KnowledgeDocument
from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus_writer import metadata_text
from opx.ingestion.events import ObjectEvent, Result
from opx.ingestion.files import OBJECT_METADATA
from opx.ports import DocumentChange, Tables, WorkQueue
from opx.ports.tables import KEYS, LIFECYCLE
from opx_assurance.consistency.catalog_rows import KeyRows
from opx_assurance.consistency.comparing import SegmentKind
from opx_assurance.consistency.differences import REMOVALS, UNREPAIRED, Problem, ReconcileReport, StoreFinding
from opx_assurance.consistency.store_checks import CheckedDocuments, ComparedStores, StoreChecks, scope_of
from opx_assurance.consistency.version_files import metadata_of, restore_outline

MOST_REMOVED = 0.2
"""Largest share of one kind of item that a repair removes; more indicates a lost store, to be restored from its backup."""

AT_LEAST = 20
"""Number of removals that is always allowed."""

Progress = Callable[[str, int], None]
"""Called with the kind of item compared and the count so far."""


@dataclass(eq=False)
class Reconciler:
    """Compares stores and repairs differences."""

    tables: Tables
    checks: StoreChecks
    repairs: Repairs
    progress: Progress
    _: KW_ONLY
    compared: Callable[[], Iterator[CheckedDocuments]]

    def run(self, *, repair: bool = False, max_share: float = MOST_REMOVED, remove: bool = True) -> ReconcileReport:
        """Compare, and with `repair` repair everything but removals of more than `max_share` of a kind, and without
        `remove` all but removals.

        Where functions ingest, documents are only enqueued (`waiting`), and a later run verifies the result. A thorough run
        that finds a damaged database or index ends with that, and compares nothing. Raises
        `StoreUnavailableError`: then run it again.
        """
        report = ReconcileReport()
        removals: list[StoreFinding] = []
        damaged = list(self.checks.damaged_files())
        report.add(damaged)
        if any(one.problem is Problem.STORE_DAMAGED for one in damaged):
            return report  # what is read from a damaged file can't be compared
        for checked in self.compared():
            self._count(checked, report)
            if repair:
                removals.extend(one for one in checked.found if one.problem in REMOVALS)
                self._repair([one for one in checked.found if one.problem not in REMOVALS], report)
        if repair:
            self._repair(damaged, report)
            if remove:
                self._remove(removals, report, max_share)
            report.waiting, failed = self.repairs.work()
            report.repaired -= failed
            if not (failed or report.failed or report.waiting or report.held_back):
                from opx_assurance.archive.importing import give_up

                report.given_up = give_up(self.tables.table(LIFECYCLE))
        return report

    def _count(self, checked: CheckedDocuments, report: ReconcileReport) -> None:
        report.in_flight += checked.in_flight
        report.failed += checked.failed
        report.add(checked.found)
        for name, number in checked.compared.items():
            setattr(report, name, getattr(report, name) + number)
        for name in SegmentKind:
            if checked.compared[name]:
                self.progress(name, getattr(report, name))

    # -- repairing

    def _repair(self, found: Iterable[StoreFinding], report: ReconcileReport) -> None:
        wanted = [difference for difference in found if difference.problem not in UNREPAIRED]
        self.repairs.make(wanted)
        report.repaired += len(wanted)

    def _remove(self, removals: Sequence[StoreFinding], report: ReconcileReport, max_share: float) -> None:
        totals = {
            Problem.OBJECT_MISSING: report.documents,
            Problem.INDEX_UNKNOWN: report.index_documents,
            Problem.CHUNK_FILE_UNKNOWN: report.chunk_files,
            Problem.OUTLINE_UNKNOWN: report.outlines,
        }
        for problem in REMOVALS:
            found = [difference for difference in removals if difference.problem is problem]
            if len(found) > max(AT_LEAST, max_share * totals[problem]):
                report.held_back += len(found)
            else:
                self._repair(found, report)


# -- repairs


_ENQUEUED_ONLY = (
    Problem.NOT_TAKEN_IN,
    Problem.CHANGED,
    Problem.INTERRUPTED,
    Problem.OBJECT_MISSING,
    Problem.METADATA_DAMAGED,
)
"""Problems for which an event is enough: the pipeline sees the difference itself."""


class Repairs:
    """Repairs stores. Work for the pipeline is enqueued as events of object changes."""

    def __init__(
        self, stores: ComparedStores, checks: StoreChecks, graph: Graph, ingestion: Ingestion, work: WorkQueue
    ) -> None:
        self._tables = stores.tables
        self._corpus = stores.corpus
        self._indexing = stores.indexing
        self._checks = checks
        self._graph = graph
        self._ingestion = ingestion
        self._work = work
        self._enqueued: Counter[str] = Counter()
        """Objects with enqueued events, with the number of differences of each."""

    def make(self, differences: Sequence[StoreFinding]) -> None:
        """Repair these differences, or enqueue them for `work`."""
        again: dict[str, StoreFinding] = {}
        for difference in differences:
            match difference.problem:
                case Problem.CALENDAR_MISSING:
                    self._complete_calendar(difference)
                case Problem.INDEX_UNKNOWN:
                    self._remove_unknown(difference)
                case Problem.CHUNK_FILE_UNKNOWN | Problem.OUTLINE_UNKNOWN:
                    self._delete_file(difference)
                case Problem.OLD_OUTLINE_DAMAGED:
                    self._make_outline(difference)
                case _:
                    if difference.problem is Problem.METADATA_DAMAGED:
                        self._describe_again(difference)
                    if difference.problem is Problem.ROW_DAMAGED:
                        self._mend_rows(difference)
                    if not difference.object_key:  # nothing names its document: its object is new to the catalog then
                        continue
                    self._mark_unfinished(difference)
                    again[difference.object_key] = difference
                    self._enqueued[difference.object_key] += 1
        with self._tables.unit_of_work():
            for object_key in again:
                self._enqueue(object_key)

    def work(self) -> tuple[int, int]:
        """Process the enqueued events here. Returns the number of documents left to functions, where those ingest, and the
        number of differences of documents that failed."""
        if self._ingestion.drain is None:
            return len(self._enqueued), 0
        last = {outcome.object_key: outcome.result for outcome in self._ingestion.drain.run()}
        failed = (self._enqueued[object_key] for object_key, result in last.items() if result is Result.FAILED)
        return 0, sum(failed)

    def _mark_unfinished(self, difference: StoreFinding) -> None:
        """Mark the document as unfinished, so that it is ingested although its object is unchanged."""
        if difference.problem not in _ENQUEUED_ONLY and difference.key:
            self._corpus.catalog.claims.note_unfinished(difference.key, difference.document_id)

    def _enqueue(self, object_key: str) -> None:
        """Enqueue an event without a sequencer, as nothing changed: the pipeline reads the present state."""
        is_gone = self._corpus.store.head(object_key) is None
        self._work.queue.send(ObjectEvent(object_key, is_gone, "").to_json())

    def _mend_rows(self, difference: StoreFinding) -> None:
        with self._work.exclusive(), self._tables.unit_of_work():
            KeyRows(self._tables).mend(difference.key_id)

    def _complete_calendar(self, difference: StoreFinding) -> None:
        if difference.key is None:
            return
        for document in self._corpus.catalog.versions(difference.key):
            if document.document_id == difference.document_id:
                self._corpus.calendar.complete(document)

    def _make_outline(self, difference: StoreFinding) -> None:
        """Make the outline of a version from its chunks. One of earlier rules is removed: it is made when it is read."""
        document = self._version(difference)
        if document is not None:
            restore_outline(self._corpus.store, document, self._ingestion.effects_of)

    def _describe_again(self, difference: StoreFinding) -> None:
        """Put the object again, with the metadata of its current version."""
        key, store = difference.object_key, self._corpus.store
        document = self._version(difference)
        metadata = {OBJECT_METADATA: metadata_text(metadata_of(document))} if document else {}
        with store.open(key) as stream:
            store.put(key, stream, metadata=metadata)

    def _version(self, difference: StoreFinding) -> KnowledgeDocument | None:
        key = difference.key
        return self._corpus.catalog.version(key, difference.document_id) if key and difference.document_id else None

    def _remove_unknown(self, difference: StoreFinding) -> None:
        """Remove entries of a key that the catalog doesn't know. Such a key can't be claimed: other writers are locked out
        where possible, and if the key appeared meanwhile, its document is ingested again."""
        key = {"documentKey": difference.key_id}
        with self._work.exclusive():
            references = self._indexing.index.references(difference.key_id)
            if self._tables.table(KEYS).get(key) is not None:
                return
            self._indexing.written_index.apply([DocumentChange(difference.key_id, "", superseded=references)])
            self._graph.store.remove(difference.key_id, scope_of(difference))
        head = self._tables.table(KEYS).get(key)
        if head is not None:
            self._enqueue(f"{scope_of(difference).prefix}{head['source']}")

    def _delete_file(self, difference: StoreFinding) -> None:
        """Delete a file after checking its age in a fresh listing: another process may have just written it."""
        with self._work.exclusive():
            listed = self._corpus.store.list(difference.object_key)
            infos = [info for info in listed if info.key == difference.object_key]
            if self._checks.version_files(infos).found:
                self._corpus.store.delete(difference.object_key)
