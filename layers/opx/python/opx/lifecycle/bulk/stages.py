"""The stages of bulk jobs: each a function of a job, and of a shard or a group of shards, wherever it runs.

    list      turns, until it returns `True`             → shards/NNNNN.jsonl, shards.json
    prepare   a call for each shard                      → prepared/NNNNN.json, with cuts, and texts or vectors
    group     one call, where there are batch jobs       → groups.json
    embed     calls for each group, until it is ended    → batches/NNNNN.json
    apply     a call for each shard                      → applied/NNNNN.json
    finish    turns, until it returns a report           → report.json

A stage may be called again at any time, also while it is running: it returns the result that it has stored, or does its
work again, with the same result. It raises `StoreUnavailableError` (`ThrottledError` and `IndexWakingError` with the seconds
to wait) when it has to be called again, and `BulkCancelledError` when the job was ended; then its runner stops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.record import Record, from_json, replace
from opx.domain.scopes import scope_of_key
from opx.errors import (
    BulkCancelledError,
    IndexWakingError,
    ObjectNotFoundError,
    StoreUnavailableError,
    UnparsableDocumentError,
)
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import ObjectEvent
from opx.ingestion.indexing.book import EditionState
from opx.ingestion.indexing.editions import OpenEdition
from opx.ingestion.pipeline import CutBefore
from opx.lifecycle.bulk.applying import apply_heads, apply_objects
from opx.lifecycle.bulk.cuts import CutFile
from opx.lifecycle.bulk.embedding import GroupEmbedding, GroupEmbeddings, ShardGroup, group_shards
from opx.lifecycle.bulk.ending import JobEnds
from opx.lifecycle.bulk.files import (
    APPLIED,
    CUTS,
    FOUND,
    GROUPS,
    MANIFEST,
    PREPARED,
    READING,
    SHARDS,
    TEXTS,
    VECTORS,
    BulkFiles,
)
from opx.lifecycle.bulk.job import (
    BulkFailure,
    BulkJob,
    BulkKind,
    BulkReport,
    BulkStage,
    BulkWork,
    Shard,
    ShardApplied,
    ShardPrepared,
)
from opx.lifecycle.bulk.listing import (
    LOCAL_SHARD_DOCUMENTS,
    SHARD_DOCUMENTS,
    Listed,
    heads,
    inventory,
    list_documents,
    objects,
)
from opx.lifecycle.bulk.parts import StageParts
from opx.lifecycle.bulk.planning import BulkPlan, PlanCount, Sampler, estimate, estimate_comparison
from opx.lifecycle.bulk.preparing import NeededTexts, prepare_heads, prepare_objects
from opx.lifecycle.bulk.reconciling import apply_segment, compare_segment, list_segments
from opx.lifecycle.bulk.vectors import PreparedEmbedder, VectorFile, batch_vectors, json_lines, read_vectors
from opx.ports import Item
from opx.runtime.threads import cores

_S3 = "s3://"


class BulkStages:
    """Runs stages. One instance may serve several threads."""

    def __init__(self, parts: StageParts) -> None:
        self._parts = parts

    def files(self, job_id: str) -> BulkFiles:
        return BulkFiles(self._parts.store, job_id)

    def builds_index(self, job_id: str) -> bool:
        """True if the job builds an index, which one process of a machine may do at a time."""
        return self._parts.jobs.get(job_id).work.kind is BulkKind.REINDEX

    def reconciles(self, job_id: str) -> bool:
        """True if the job compares the stores: its repairs lock others out where they have to."""
        return self._parts.jobs.get(job_id).work.kind is BulkKind.RECONCILE

    # -- list

    def list(self, job_id: str, stop: Callable[[], bool] = lambda: False) -> bool:
        """Lists the documents of the job until `stop` returns True; returns True when all are listed."""
        job = self._parts.jobs.running(job_id)
        files = self.files(job_id)
        if job.work.kind is BulkKind.REINDEX:
            self._await_edition(job)
        if job.work.kind is BulkKind.RECONCILE:
            list_segments(files, self._parts.comparison(job.work))
        elif not list_documents(files, lambda after: self._listed(job.work, after), stop, self._most):
            return False
        shards = self.shards(job_id)

        def listed(found: BulkJob) -> None:
            found.shards = len(shards)
            found.documents = sum(shard.documents for shard in shards)
            found.bytes = sum(shard.bytes for shard in shards)
            found.stage = BulkStage.PREPARE if found.stage is BulkStage.LIST else found.stage

        self._parts.jobs.update(job_id, listed)
        return True

    @property
    def _most(self) -> int:
        return LOCAL_SHARD_DOCUMENTS if self._parts.tables.in_folder else SHARD_DOCUMENTS

    def _await_edition(self, job: BulkJob) -> None:
        """Makes the index of the job's edition, once all writers know of it. Raises `IndexWakingError` until then."""
        progress = self._parts.reindexer().advance(lambda: False, bulk=job.job_id)
        if progress.wait_seconds:
            raise IndexWakingError("writers that began earlier have to end first", progress.wait_seconds)

    def _listed(self, work: BulkWork, after: str) -> Iterator[Listed]:
        if work.kind is BulkKind.REINDEX:
            return heads(self._parts.keys, [scope.key for scope in self._parts.scopes()], after)
        if work.inventory:
            bucket, _, key = work.inventory.removeprefix(_S3).partition("/")
            return inventory(self._parts.storage.other_bucket(bucket), key, work.prefix, after)
        return objects(self._parts.store, work.prefix, after)

    def shards(self, job_id: str) -> Sequence[Shard]:
        """The shards of a job, once it is listed."""
        return [from_json(Shard, row) for row in self.files(job_id).get_list(MANIFEST) or ()]

    def plan(self, work: BulkWork, known: PlanCount, stop: Callable[[], bool] = lambda: False) -> BulkPlan:
        """Estimates work by the documents behind those of `known`, listed until `stop` returns True."""
        parts = self._parts
        if work.kind is BulkKind.RECONCILE:
            here = cores() if parts.tables.in_folder else 0
            return estimate_comparison(work, parts.comparison(work).documents(), cores=here)
        batch_or_cores = 0 if parts.batch(work.model, work.dimension) else cores()
        sampler = Sampler(
            parts.ingestion.pipeline, self._chunks_of, parts.indexing.document_embedder, times=batch_or_cores > 0
        )
        count = sampler.count(self._listed(work, known.after), known, stop)
        return estimate(work, count, model_id=parts.indexing.document_embedder.model_id, cores=batch_or_cores)

    # -- prepare

    def prepare(self, job_id: str, shard: int, *, attempt: int = 1, embed: bool = False) -> ShardPrepared:
        """Reads and chunks a shard's documents; nothing but files of the job is written. The texts that need vectors are
        written for batch jobs, or with `embed` embedded at once. `attempt` counts the calls for this shard: from the second
        on, a document at which the process ends is found, and left out of the next attempt."""
        job, files = self._parts.jobs.running(job_id), self.files(job_id)
        found = files.get(PREPARED, shard, ShardPrepared)
        if found is None:
            with self._edition_of(job):
                found = self._prepared(job, files, shard, attempt=attempt, embed=embed)
            self._keep(job_id, PREPARED, shard, found)
            files.delete(shard, [READING])
        return found

    def _prepared(self, job: BulkJob, files: BulkFiles, shard: int, *, attempt: int, embed: bool) -> ShardPrepared:
        if job.work.kind is BulkKind.RECONCILE:
            return compare_segment(files, shard, self._parts.comparison(job.work))
        embedder = self._parts.indexing.document_embedder
        batch = self._parts.batch_of(job)
        usable = batch if batch and batch.model_id == embedder.model_id and not embed else None
        texts = NeededTexts(embedder, usable, embed=embed)
        if job.work.kind is BulkKind.REINDEX:
            return prepare_heads(files, shard, self._chunks_of, texts)
        return prepare_objects(files, shard, self._parts.ingestion.pipeline, texts, attempt=attempt)

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

    # -- embed

    def group(self, job_id: str) -> Sequence[ShardGroup]:
        """Groups the prepared shards into batch jobs; no groups where the model has none."""
        job, files = self._parts.jobs.running(job_id), self.files(job_id)
        batch = self._parts.batch_of(job)
        if files.get_list(GROUPS) is None:
            shards = self.shards(job_id) if batch else ()
            prepared = (files.get(PREPARED, shard.number, ShardPrepared) for shard in shards)
            known = [one for one in prepared if one]
            files.put_list(GROUPS, list(group_shards(known, batch.limits)) if batch else [])
        self._parts.jobs.update(job_id, lambda found: found.enter(BulkStage.EMBED))
        return [from_json(ShardGroup, row) for row in self.files(job.job_id).get_list(GROUPS) or ()]

    def embed(self, job_id: str, group: int) -> GroupEmbedding:
        """Starts the batch job of a group, or looks at it; ended if `is_ended`, else call it again after
        `embedding.POLL_SECONDS`."""
        batch = self._parts.batch_of(self._parts.jobs.running(job_id))
        assert batch is not None
        return GroupEmbeddings(self.files(job_id), batch).step(group)

    # -- apply

    def apply(self, job_id: str, shard: int) -> ShardApplied:
        """Applies a shard's documents by the ordinary path, with the vectors that are there. A shard that was not prepared is
        read here, and embedded on demand."""
        job, files = self._parts.jobs.running(job_id), self.files(job_id)
        found = files.get(APPLIED, shard, ShardApplied)
        if found is None:
            with self._edition_of(job):
                found = self._applied(job, files, shard)
            self._keep(job_id, APPLIED, shard, found)
            files.delete(shard, [CUTS, TEXTS, VECTORS])
        return found

    def _applied(self, job: BulkJob, files: BulkFiles, shard: int) -> ShardApplied:
        if job.work.kind is BulkKind.RECONCILE:
            return self._reconciled(job, files, shard)
        is_reindex = job.work.kind is BulkKind.REINDEX
        prepared = files.get(PREPARED, shard, ShardPrepared) or _unprepared(files, shard)
        embedder = PreparedEmbedder(self._parts.indexing.document_embedder, keeps=self._parts.tables.in_folder)
        embedder.load(self._vectors(job, files, shard))
        if is_reindex:
            edition = self._open_edition(job)
            filled, postponed = apply_heads(prepared, self._parts.filler(embedder), edition, self._heads(prepared.left))
            self._parts.indexing.editions.journal.note(edition.name, postponed)
            return replace(filled, embedded=embedder.embedded)
        with self._cuts(files, shard) as cut_before:
            pipeline = self._parts.ingestion.pipeline_with(embedder, cut_before)
            applied = apply_objects(prepared, self._parts.ingestion.worker_with(pipeline))
        for failure in prepared.failures:
            event = ObjectEvent(failure.object_key, deleted=False, sequencer="")
            self._parts.corpus.failures.record(event, UnparsableDocumentError(failure.reason), 1)
        return replace(applied, embedded=embedder.embedded)

    def _reconciled(self, job: BulkJob, files: BulkFiles, shard: int) -> ShardApplied:
        if files.read(files.name(FOUND, shard)) is None:
            compare_segment(files, shard, self._parts.comparison(job.work))
        repairs = self._parts.repairs(job.work) if job.work.repair else None
        return apply_segment(files, self.shards(job.job_id)[shard], repairs)

    def _vectors(self, job: BulkJob, files: BulkFiles, shard: int) -> Iterator[VectorFile]:
        """The vectors of a shard's texts, from its own file and from the output of a batch job."""
        data = files.read(files.name(VECTORS, shard))
        if data is not None:
            yield read_vectors(data)
        batch = self._parts.batch_of(job)
        output = GroupEmbeddings(files, batch).outputs_of(shard) if batch else ""
        if batch and output:
            dimension = self._parts.indexing.document_embedder.dimension
            try:
                with self._parts.store.open(output) as stream:
                    yield batch_vectors(batch, dimension, json_lines(stream))
            except ObjectNotFoundError:
                return

    @contextmanager
    def _cuts(self, files: BulkFiles, shard: int) -> Iterator[CutBefore]:
        """Finds the documents of a shard that were read before."""
        try:
            stream = files.store.open(files.name(CUTS, shard))
        except ObjectNotFoundError:
            yield lambda _key, _fingerprint, _stack: None
            return
        with stream, closing(CutFile(stream, self._parts.installation.knowledge.category)) as cuts:
            yield cuts.get

    def abandon(self, job_id: str, shard: int, reason: str) -> ShardApplied:
        """Ends a shard that can't be applied: its documents are failed, for this reason, and are in the list of failed items,
        from which they can be retried."""
        job, files = self._parts.jobs.running(job_id), self.files(job_id)
        found = files.get(APPLIED, shard, ShardApplied)
        if found:
            return found
        keys = list(map(_named, files.lines(files.name(SHARDS, shard))))
        failures = tuple(BulkFailure(key, reason) for key in keys)
        if job.work.kind is BulkKind.INGEST:
            for key in keys:
                event = ObjectEvent(key, deleted=False, sequencer="")
                self._parts.corpus.failures.record(event, StoreUnavailableError(reason), 1)
        found = ShardApplied(shard=shard, documents=len(keys), failed=len(keys), failures=failures)
        self._keep(job_id, APPLIED, shard, found)
        return found

    # -- ends

    def finish(self, job_id: str, stop: Callable[[], bool] = lambda: False) -> BulkReport | None:
        """Compares the counts of the job, and has a new index answer; works until `stop` returns True, and returns the report
        when all is done, else None. Raises `IndexWakingError` while changes have to settle."""
        return JobEnds(self._parts).finish(job_id, self.shards(job_id), stop)

    def cancel(self, job_id: str) -> BulkJob:
        """Ends a job: its batch jobs are stopped, a new index is discarded, and its files are removed, but for the report of
        what was done. Documents that were ingested stay. Doing so again removes what stages that were running left. Raises
        `InvalidInputError` for a new index that answers already."""
        return JobEnds(self._parts).cancel(job_id, self.shards(job_id))

    # -- shared

    def _keep(self, job_id: str, kind: str, shard: int, found: Record) -> None:
        """Stores a result; nothing of a job that was ended meanwhile. Raises `BulkCancelledError`."""
        files = self.files(job_id)
        files.put(kind, shard, found)
        try:
            self._parts.jobs.running(job_id)
        except BulkCancelledError:
            files.delete(shard, [kind, CUTS, TEXTS, VECTORS, READING])
            raise

    def _open_edition(self, job: BulkJob) -> OpenEdition:
        edition = self._parts.indexing.editions.book.read().edition(job.edition)
        if edition is None or edition.state is EditionState.DISCARDED:
            raise BulkCancelledError(f"the index that the bulk job {job.job_id} builds was discarded")
        return self._parts.indexing.editions.open(edition)

    def _edition_of(self, job: BulkJob) -> AbstractContextManager[Any]:
        """Binds index and embedder to the edition that the job builds, within the block."""
        if job.work.kind is BulkKind.REINDEX:
            return self._parts.indexing.editions.bound(self._open_edition(job))
        return self._parts.indexing.writers.writing()


def _unprepared(files: BulkFiles, shard: int) -> ShardPrepared:
    rows = files.lines(files.name(SHARDS, shard))
    return ShardPrepared(shard=shard, left=tuple(map(_named, rows)))


def _named(row: Mapping[str, Any]) -> str:
    """Name of a line of a shard: of an object, a document, or a segment of the stores."""
    name = row.get("key") or row.get("documentKey")
    return str(name or f"{row['kind']} behind {row['low'] or 'none'} up to {row['high'] or 'the last'}")
