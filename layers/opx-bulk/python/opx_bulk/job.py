"""Stores the state of bulk jobs: an item a job, and one that reserves the target that a job changes."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from secrets import token_hex

from msgspec import field

from opx.domain.ids import iso_time
from opx.domain.record import Draft, Record, from_json
from opx.errors import (
    BulkBusyError,
    BulkCancelledError,
    BulkJobNotFoundError,
    StoreUnavailableError,
)
from opx.ports import Clock, Equals, Item, KeyAbsent, KeyRange, Table
from opx.ports.tables import put_if
from opx_assurance.consistency.differences import ReconcileReport

SUBJECT, _TARGETS = "bulk", "bulk targets"
_WRITES = 5


class BulkKind(StrEnum):
    """`INGEST`: objects of the corpus that the catalog doesn't have as they are. `REINDEX`: the catalog's documents, into a
    new edition of the index. `RECONCILE`: all stores, compared with one another."""

    INGEST = "ingest"
    REINDEX = "reindex"
    RECONCILE = "reconcile"


class BulkStage(StrEnum):
    """Stages of a job, in their order, and its ends."""

    LIST = "list"
    PREPARE = "prepare"
    EMBED = "embed"
    APPLY = "apply"
    FINISH = "finish"
    DONE = "done"
    REFUSED = "refused"
    CANCELLED = "cancelled"


ENDED = (BulkStage.DONE, BulkStage.REFUSED, BulkStage.CANCELLED)


class BulkWork(Record, frozen=True, kw_only=True):
    """The work of a job. `prefix` limits an ingestion to objects whose key begins so; `inventory` is the address of an S3
    Inventory manifest, `s3://BUCKET/KEY`, that is read instead of a listing. `repair` and `thorough` are as those of
    `reconcile`, the others as those of `reindex`."""

    kind: BulkKind
    prefix: str = ""
    inventory: str = ""
    model: str = ""
    model_path: str = ""
    dimension: int = 0
    collection: str = ""
    repair: bool = False
    thorough: bool = False


class BulkJob(Draft, kw_only=True):
    """A job with the stage that it is in. `edition` is the one that it builds; `execution` is the id of the runner's.
    `shards` is their number, known after listing. `problem` is the reason why it stopped."""

    job_id: str
    work: BulkWork
    stage: BulkStage = BulkStage.LIST
    started_at: str = ""
    started_by: str = ""
    ended_at: str = ""
    edition: str = ""
    execution: str = ""
    documents: int = 0
    bytes: int = 0
    shards: int = 0
    problem: str = ""
    cancelling: bool = False

    @property
    def is_ended(self) -> bool:
        return self.stage in ENDED

    def enter(self, stage: BulkStage) -> None:
        """Goes on to a stage, unless the job is further already."""
        stages = list(BulkStage)
        self.stage = max(self.stage, stage, key=stages.index)


class Shard(Record, frozen=True):
    """A part of a job's documents."""

    number: int
    documents: int
    bytes: int


class BulkFailure(Record, frozen=True):
    """A document that was not ingested, with the reason."""

    object_key: str
    reason: str


class ShardPrepared(Record, frozen=True, kw_only=True):
    """Result of preparing a shard. `left` are the keys that are to be applied, in order; the others are unchanged, or are
    failures. `texts`, `tokens` (estimated) and `bytes` are those of its file of texts without a vector."""

    shard: int
    left: tuple[str, ...]
    unchanged: int = 0
    failures: tuple[BulkFailure, ...] = ()
    texts: int = 0
    tokens: int = 0
    bytes: int = 0


class ShardApplied(Record, frozen=True, kw_only=True):
    """Result of a shard: one outcome per document. `embedded` texts had no vector before. A reindexed document counts as
    ingested; `lacking` ones have no chunk file."""

    shard: int
    documents: int = 0
    ingested: int = 0
    unchanged: int = 0
    skipped: int = 0
    deleted: int = 0
    failed: int = 0
    chunks: int = 0
    embedded: int = 0
    failures: tuple[BulkFailure, ...] = ()
    lacking: tuple[str, ...] = ()
    sample: tuple[str, ...] = ()


class BulkReport(Draft):
    """Outcome of a job: documents by result, with the failed ones and their reasons (the first `MOST_FAILURES`).
    `unsettled` listed documents have no outcome: 0 unless a result was lost. `problems` keep a new index from answering.
    `reconciled` is what was found by comparing the stores."""

    job_id: str
    documents: int = 0
    ingested: int = 0
    unchanged: int = 0
    skipped: int = 0
    deleted: int = 0
    failed: int = 0
    chunks: int = 0
    embedded: int = 0
    unsettled: int = 0
    failures: list[BulkFailure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0
    reconciled: ReconcileReport | None = None


class BulkJobs:
    """Jobs by id. A target has one job at a time."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def begin(self, work: BulkWork, by: str) -> BulkJob:
        """Adds a job and reserves its target. Raises `BulkBusyError` that names the job that has it."""
        now = self._clock()
        name = f"{iso_time(now)[:19].replace('-', '').replace(':', '')}-{token_hex(3)}"
        job = BulkJob(job_id=name, work=work, started_at=iso_time(now), started_by=by)
        self._table.put(_item(job), condition=KeyAbsent())
        try:
            self._reserve(job)
        except BulkBusyError:
            self._table.delete(_key(job.job_id))
            raise
        return job

    def _reserve(self, job: BulkJob) -> None:
        key = {"subject": _TARGETS, "entry": job.work.kind.value}
        held = self._table.get(key)
        other = self.unfinished(job.work.kind)
        if other:
            raise BulkBusyError(_BUSY.format(other.job_id))
        condition = Equals("job", str(held["job"])) if held else KeyAbsent()
        if not put_if(self._table, {**key, "job": job.job_id}, condition):
            raise BulkBusyError("another bulk job began at the same moment: `opx bulk status` shows it")

    def get(self, job_id: str) -> BulkJob:
        """Raises `BulkJobNotFoundError`."""
        item = self._table.get(_key(job_id))
        if item is None:
            raise BulkJobNotFoundError(f"no bulk job {job_id}: `opx bulk status` lists them")
        return from_json(BulkJob, item)

    def running(self, job_id: str) -> BulkJob:
        """The job if it goes on. Raises `BulkCancelledError` otherwise, and `BulkJobNotFoundError`."""
        job = self.get(job_id)
        if job.is_ended or job.cancelling:
            raise BulkCancelledError(f"the bulk job {job_id} was ended")
        return job

    def unfinished(self, kind: BulkKind) -> BulkJob | None:
        """The job that has the target of this kind of work; None if it is free."""
        job = self.last(kind)
        return job if job and not job.is_ended else None

    def last(self, kind: BulkKind) -> BulkJob | None:
        """The job of this kind of work that began last; None if there is none."""
        held = self._table.get({"subject": _TARGETS, "entry": kind.value})
        item = self._table.get(_key(str(held["job"]))) if held else None
        return from_json(BulkJob, item) if item else None

    def all(self, *, limit: int, before: str = "") -> list[BulkJob]:
        """Jobs, the newest first; those before this id."""
        where = KeyRange(high=before) if before else None
        found = self._table.query(SUBJECT, where=where, reverse=True, limit=limit + bool(before))
        return [from_json(BulkJob, item) for item in found if item["entry"] != before][:limit]

    def update(self, job_id: str, change: Callable[[BulkJob], None], *, ended: bool = False) -> BulkJob:
        """Changes a job; `ended`: also one that was cancelled. Raises `BulkCancelledError` and `BulkJobNotFoundError`."""
        for _ in range(_WRITES):
            item = self._table.get(_key(job_id))
            job = self.get(job_id) if ended else self.running(job_id)
            revision = int((item or {}).get("revision", 0))
            change(job)
            if put_if(self._table, _item(job, revision + 1), Equals("revision", revision)):
                return job
        raise StoreUnavailableError(f"the bulk job {job_id} is being changed by others")


_BUSY = "the bulk job {} is not ended: `opx bulk status` shows it, `opx bulk start` goes on, `opx bulk cancel` ends it"


def _key(job_id: str) -> dict[str, str]:
    return {"subject": SUBJECT, "entry": job_id}


def _item(job: BulkJob, revision: int = 0) -> Item:
    return {**_key(job.job_id), **job.to_json(), "revision": revision}
