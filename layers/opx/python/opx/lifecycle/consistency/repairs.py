"""Has differences between stores put right, by those who change them anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.ingestion.events import ObjectEvent
from opx.ingestion.outcomes import Result
from opx.lifecycle.consistency.differences import Finding, Problem
from opx.lifecycle.consistency.store_checks import ComparedStores, StoreChecks, scope_of
from opx.ports import DocumentChange, WorkQueue
from opx.ports.tables_specs import KEYS

_ANNOUNCED = (Problem.NOT_TAKEN_IN, Problem.CHANGED, Problem.INTERRUPTED, Problem.OBJECT_MISSING)
"""The pipeline sees by itself what is to be done."""


class Repairs:
    """Repairs stores. What the pipeline is to do is announced, in the way in which changes of objects are."""

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
        self._asked: Counter[str] = Counter()
        """Objects that were announced, with how many differences each had."""

    def make(self, differences: Sequence[Finding]) -> None:
        """Repair these, or have it done by `work`."""
        again: dict[str, Finding] = {}
        for difference in differences:
            match difference.problem:
                case Problem.CALENDAR_MISSING:
                    self._enter(difference)
                case Problem.INDEX_UNKNOWN:
                    self._take_out(difference)
                case Problem.CHUNK_FILE_UNKNOWN | Problem.OUTLINE_UNKNOWN:
                    self._delete_file(difference)
                case _:
                    self._note(difference)
                    again[difference.object_key] = difference
                    self._asked[difference.object_key] += 1
        with self._tables.unit_of_work():
            for object_key in again:
                self._announce(object_key)

    def work(self) -> tuple[int, int]:
        """Do here what was announced. How many documents are left to functions, where they do it; and how many differences
        are of documents that could not be taken in."""
        if self._ingestion.drain is None:
            return len(self._asked), 0
        last = {outcome.object_key: outcome.result for outcome in self._ingestion.drain.run()}
        failed = (self._asked[object_key] for object_key, result in last.items() if result is Result.FAILED)
        return 0, sum(failed)

    def _note(self, difference: Finding) -> None:
        """Have the document done again although its object is as it was."""
        if difference.problem not in _ANNOUNCED and difference.key:
            self._corpus.catalog.note_unfinished(difference.key, difference.document_id)

    def _announce(self, object_key: str) -> None:
        """Without a sequencer, as it is no news: the pipeline reads what is there."""
        is_gone = self._corpus.store.head(object_key) is None
        self._work.queue.send(ObjectEvent(object_key, is_gone, "").to_json())

    def _enter(self, difference: Finding) -> None:
        if difference.key is None:
            return
        for document in self._corpus.catalog.versions(difference.key):
            if document.document_id == difference.document_id:
                self._corpus.calendar.complete(document)

    def _take_out(self, difference: Finding) -> None:
        """Nobody can claim a key that isn't known: what was seen is taken out while nobody else writes, as far as that
        can be had, and if the key came up meanwhile it is done again."""
        key = {"documentKey": difference.key_id}
        with self._work.exclusive():
            references = self._indexing.index.references(difference.key_id)
            if self._tables.table(KEYS).get(key) is not None:
                return
            self._indexing.written_index.apply([DocumentChange(difference.key_id, "", superseded=references)])
            self._graph.store.remove(difference.key_id, scope_of(difference))
        head = self._tables.table(KEYS).get(key)
        if head is not None:
            self._announce(f"{scope_of(difference).prefix}{head['source']}")

    def _delete_file(self, difference: Finding) -> None:
        """As a listing shows it, which says how old it is: somebody may just have written it."""
        with self._work.exclusive():
            listed = self._corpus.store.list(difference.object_key)
            infos = [info for info in listed if info.key == difference.object_key]
            if self._checks.version_files(infos).found:
                self._corpus.store.delete(difference.object_key)
