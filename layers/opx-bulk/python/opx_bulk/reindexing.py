"""Stages of a job that reads the catalog's documents into a new edition of the index, which then answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.record import replace
from opx.domain.scopes import scope_of_key
from opx.errors import BulkCancelledError, IndexWakingError
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.indexing.book import EditionState
from opx.ingestion.indexing.editions import OpenEdition
from opx.lifecycle.reindex.job import ReindexPhase
from opx.lifecycle.reindex.reindexing import CALIBRATE_IF_DUE, SEEN_EVERYWHERE
from opx.ports import Item
from opx_bulk.applying import apply_heads
from opx_bulk.files import SHARDS, BulkFiles
from opx_bulk.job import BulkJob, BulkReport, BulkWork, ShardApplied, ShardPrepared
from opx_bulk.kinds import DocumentStages
from opx_bulk.listing import Listed, heads
from opx_bulk.preparing import prepare_heads


class ReindexStages(DocumentStages):
    """Chunks are read from the chunk files; `finish` catches up with changes, compares both editions, and switches."""

    builds_index = True

    def listed(self, work: BulkWork, after: str) -> Iterator[Listed]:  # noqa: ARG002 - always all documents
        return heads(self._parts.keys, [scope.key for scope in self._parts.scopes()], after)

    def sample(self, line: dict[str, str], stack: ExitStack) -> Sequence[str]:  # noqa: ARG002 - nothing is left open
        return [chunk.text for chunk in self._chunks_of([line["documentKey"]])]

    def list(self, job: BulkJob, files: BulkFiles, stop: Callable[[], bool]) -> bool:
        """Makes the index first, once all writers know of the edition. Raises `IndexWakingError` until then."""
        progress = self._parts.reindexer().advance(lambda: False, bulk=job.job_id)
        if progress.wait_seconds:
            raise IndexWakingError("writers that began earlier have to end first", progress.wait_seconds)
        return super().list(job, files, stop)

    def names(self, files: BulkFiles, shard: int) -> Sequence[str]:
        return [str(row["documentKey"]) for row in files.lines(files.name(SHARDS, shard))]

    def prepare(self, job: BulkJob, files: BulkFiles, shard: int, *, attempt: int, embed: bool) -> ShardPrepared:  # noqa: ARG002
        return prepare_heads(files, shard, self._chunks_of, self._needed_texts(job, embed=embed))

    def _chunks_of(self, key_ids: Sequence[str]) -> Iterator[DocumentChunk]:
        """The chunks of the current versions of these documents, as they are embedded."""
        searched = self._parts.searched()
        for head in self._heads(key_ids):
            key = DocumentKey(scope_of_key(str(head["scope"])), str(head["source"]))
            document = self._parts.corpus.catalog.version(key, current_id(head))
            if document:
                yield from searched.read(document).chunks

    def _heads(self, key_ids: Sequence[str]) -> Sequence[Item]:
        wanted = [{"documentKey": key} for key in key_ids]
        found = {str(head["documentKey"]): head for head in self._parts.keys.get_many(wanted)}
        return [found[key] for key in key_ids if key in found and current_id(found[key])]

    def apply(self, job: BulkJob, files: BulkFiles, shard: int) -> ShardApplied:
        """A shard that was not prepared is embedded on demand."""
        prepared, embedder = self._prepared(files, shard), self._embedder(job, files, shard)
        edition = self._open_edition(job)
        filled, postponed = apply_heads(prepared, self._parts.filler(embedder), edition, self._heads(prepared.left))
        self._parts.indexing.editions.journal.note(edition.name, postponed)
        return replace(filled, embedded=embedder.embedded)

    def writing(self, job: BulkJob) -> AbstractContextManager[Any]:
        return self._parts.indexing.editions.bound(self._open_edition(job))

    def _open_edition(self, job: BulkJob) -> OpenEdition:
        edition = self._parts.indexing.editions.book.read().edition(job.edition)
        if edition is None or edition.state is EditionState.DISCARDED:
            raise BulkCancelledError(f"the index that the bulk job {job.job_id} builds was discarded")
        return self._parts.indexing.editions.open(edition)

    def finish(
        self, job: BulkJob, report: BulkReport, applied: Sequence[ShardApplied], stop: Callable[[], bool]
    ) -> bool:
        """Catches up, compares and switches to the edition of the job. Raises `IndexWakingError` while changes have to
        settle."""
        reindexer = self._parts.reindexer()
        known = reindexer.status()[1]
        if not (known and known.edition == job.edition and known.phase in (ReindexPhase.DONE, ReindexPhase.REFUSED)):
            lacking = [key for one in applied for key in one.lacking]
            sample = [key for one in applied for key in one.sample]
            counts = {"documents": report.ingested, "chunks": report.chunks}
            reindexer.loaded(job.job_id, **counts, lacking=lacking, sample=sample)
            progress = reindexer.advance(stop)
            if progress.wait_seconds and not progress.finished:
                raise IndexWakingError("changes of the index have to settle", progress.wait_seconds)
            if not progress.finished:
                return False
            known = progress.job
            rebuilds = self._parts.rebuilds()
            if rebuilds and known.phase is ReindexPhase.DONE:
                rebuilds.send(CALIBRATE_IF_DUE, delay_seconds=SEEN_EVERYWHERE)
        if known.phase is ReindexPhase.REFUSED:
            report.problems = list(known.report.get("problems", []))
        return True

    def cancel(self, job: BulkJob) -> None:
        """Discards the new index. Raises `InvalidInputError` if it answers already."""
        state = self._parts.indexing.editions.book.read() if job.edition else None
        edition = state.edition(job.edition) if state else None
        if edition and edition.state is EditionState.BUILDING:
            self._parts.reindexer().discard()
