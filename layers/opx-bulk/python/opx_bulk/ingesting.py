"""Stages of a job that ingests objects of the corpus which the catalog doesn't have as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager

from opx.domain.record import replace
from opx.errors import ObjectNotFoundError, OpxError, StoreUnavailableError, UnparsableDocumentError
from opx.ingestion.events import EventOutcome, ObjectEvent
from opx.ingestion.pipeline import CutBefore
from opx_bulk.applying import apply_objects
from opx_bulk.cuts import CutFile
from opx_bulk.files import CUTS, SHARDS, BulkFiles
from opx_bulk.job import BulkJob, BulkWork, ShardApplied, ShardPrepared
from opx_bulk.kinds import DocumentStages
from opx_bulk.listing import Listed, inventory, objects
from opx_bulk.preparing import prepare_objects

_S3 = "s3://"


class IngestStages(DocumentStages):
    """Documents are read in `prepare`, and go the ordinary path of ingestion in `apply`, with the vectors that are there."""

    def listed(self, work: BulkWork, after: str) -> Iterator[Listed]:
        if work.inventory:
            bucket, _, key = work.inventory.removeprefix(_S3).partition("/")
            return inventory(self._parts.storage.other_bucket(bucket), key, work.prefix, after)
        return objects(self._parts.store, work.prefix, after)

    def sample(self, line: dict[str, str], stack: ExitStack) -> Sequence[str] | EventOutcome:
        found = self._parts.ingestion.pipeline.cut(line["key"], stack)
        if isinstance(found, EventOutcome):
            return found
        return [chunk.text for chunk in found.chunks()] if found.is_embedded else []

    def names(self, files: BulkFiles, shard: int) -> Sequence[str]:
        return [str(row["key"]) for row in files.lines(files.name(SHARDS, shard))]

    def prepare(self, job: BulkJob, files: BulkFiles, shard: int, *, attempt: int, embed: bool) -> ShardPrepared:
        texts = self._needed_texts(job, embed=embed)
        return prepare_objects(files, shard, self._parts.ingestion.pipeline, texts, attempt=attempt)

    def apply(self, job: BulkJob, files: BulkFiles, shard: int) -> ShardApplied:
        """A shard that was not prepared is read here, and embedded on demand."""
        prepared, embedder = self._prepared(files, shard), self._embedder(job, files, shard)
        with self._cuts(files, shard) as cut_before:
            pipeline = self._parts.ingestion.pipeline_with(embedder, cut_before)
            applied = apply_objects(prepared, self._parts.ingestion.worker_with(pipeline))
        for failure in prepared.failures:
            self._failed(failure.object_key, UnparsableDocumentError(failure.reason))
        return replace(applied, embedded=embedder.embedded)

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

    def abandon(self, keys: Sequence[str], reason: str) -> None:
        for key in keys:
            self._failed(key, StoreUnavailableError(reason))

    def _failed(self, key: str, error: OpxError) -> None:
        """Adds an object to the failed items, from which it can be retried."""
        self._parts.corpus.failures.record(ObjectEvent(key, deleted=False, sequencer=""), error, 1)
