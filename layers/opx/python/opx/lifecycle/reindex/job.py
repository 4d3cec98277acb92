"""Stores the state of a reindex job: one item, leased by one worker at a time, from which any other can resume."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from secrets import token_hex
from typing import Any

from msgspec import field

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.ids import stable_hash
from opx.domain.record import Draft, from_json, replace
from opx.domain.scopes import Scope
from opx.errors import EmbeddingError, IncompatibleIndexError, InvalidInputError, ReindexBusyError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import is_leased
from opx.ingestion.indexing.book import Edition
from opx.ingestion.indexing.editions import Editions, IndexService
from opx.lifecycle.reindex.filling import Filler
from opx.ports import AnyOf, Clock, Condition, Embedder, Equals, KeyAbsent, LessThan, Table
from opx.ports.tables import put_if

SAMPLE = 50
"""Size of the sample for comparing both indexes: the documents whose keys have the smallest hashes."""

MOST_LACKING = 200
"""Limit of recorded keys of documents without chunk files."""

_ENTRY = "job"


class ReindexPhase(StrEnum):
    """Phase of a job. `WAITING` until writers that don't know the new edition are done; `SETTLING` after the switch."""

    WAITING = "waiting"
    BUILDING = "building"
    CATCHING_UP = "catching up"
    CHECKING = "checking"
    SWITCHING = "switching"
    SETTLING = "settling"
    DONE = "done"
    REFUSED = "refused"


AFTER_THE_SWITCH = (ReindexPhase.SWITCHING, ReindexPhase.SETTLING)
"""Phases of an unfinished job whose edition is active already."""


class ReindexJob(Draft, rename=None):
    """Progress of the work on one edition. `scope` and `after` are the cursor of the last document added; `not_before` is
    the earliest time to resume (seconds since the epoch); `report` is the result of the comparison. `bulk`: the bulk job
    that adds the documents, and without which nobody goes on."""

    edition: str
    phase: ReindexPhase = ReindexPhase.WAITING
    scope: str = ""
    after: str = ""
    documents: int = 0
    chunks: int = 0
    renewed: int = 0
    lacking: list[str] = field(default_factory=list)
    lacking_count: int = 0
    sample: list[str] = field(default_factory=list)
    began_at: str = ""
    not_before: float = 0
    rounds: int = 0
    comparisons: int = 0
    force: bool = False
    rollback: bool = False
    bulk: str = ""
    report: dict[str, Any] = field(default_factory=dict)

    def note_lacking(self, key_ids: list[str]) -> None:
        self.lacking_count += len(key_ids)
        self.lacking = [*self.lacking, *key_ids][:MOST_LACKING]

    def add_to_sample(self, key_ids: list[str]) -> None:
        """Add to the sample, which is arbitrary but the same however often the work is interrupted."""
        self.sample = smallest_hashes({*self.sample, *key_ids})


def smallest_hashes(key_ids: Iterable[str]) -> list[str]:
    """The sample of these keys."""
    return sorted(key_ids, key=lambda key: stable_hash("sample", key))[:SAMPLE]


class JobStore:
    """Stores the job. Its holder has a token until the lease expires; with `lease_seconds` of 0 the next caller takes over,
    as a lock of the machine admits one at a time."""

    def __init__(self, table: Table, subject: str, *, clock: Clock, lease_seconds: float) -> None:
        self._table = table
        self._key = {"subject": subject, "entry": _ENTRY}
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._token = ""

    def read(self) -> ReindexJob | None:
        item = self._table.get(self._key)
        return from_json(ReindexJob, item) if item else None

    def hold(self, edition: str, make: Callable[[], ReindexJob]) -> ReindexJob:
        """Lease the job on this edition, or a new one of `make`. Raises `ReindexBusyError`."""
        item = self._table.get(self._key)
        is_same = item and item["edition"] == edition and item["phase"] != ReindexPhase.DONE
        job = from_json(ReindexJob, item) if item and is_same else make()
        self._token = token_hex(8)
        expired = LessThan("leaseUntil", self._clock() + 0.001)
        free: tuple[Condition, ...] = (KeyAbsent(), Equals("leaseUntil", 0), expired)
        if item and not is_leased(float(item.get("leaseUntil", 0)), self._clock(), self._lease_seconds):
            free = (*free, Equals("token", str(item.get("token", ""))))
        self._put(job, AnyOf(free))
        return job

    def save(self, job: ReindexJob) -> None:
        """Raises `ReindexBusyError` if another worker has taken the job over."""
        self._put(job, Equals("token", self._token))

    def release(self, job: ReindexJob) -> None:
        self._put(job, Equals("token", self._token), lease=0)

    def _put(self, job: ReindexJob, condition: Any, *, lease: float | None = None) -> None:
        until = self._clock() + self._lease_seconds if lease is None else lease
        item = {**job.to_json(), "token": self._token, "leaseUntil": until}
        if not put_if(self._table, {**self._key, **item}, condition):
            raise ReindexBusyError("another process, or function, is building the new index: see its status")


# -- dependencies and progress


@dataclass(frozen=True, slots=True)
class Progress:
    """State of the job. `wait_seconds`: time until there is more to do."""

    job: ReindexJob
    wait_seconds: float = 0.0

    @property
    def finished(self) -> bool:
        return self.job.phase in (ReindexPhase.DONE, ReindexPhase.REFUSED)


@dataclass(frozen=True, slots=True)
class Pace:
    """Waiting times. `start_seconds`: until all writers that began before the new edition was recorded are done;
    `settling_seconds`: until all writes are visible; `pause_seconds`: for others to finish their documents. `alone`: nobody
    else writes during the switch, so that unfinished changes were interrupted."""

    start_seconds: float = 0.0
    settling_seconds: float = 0.0
    pause_seconds: float = 1.0
    alone: bool = True


@dataclass(frozen=True, slots=True)
class ReindexParts:
    """Dependencies of reindexing. `embedder` returns the model of an edition, `chunks` reads those of a version,
    `exclusive` locks out ingestion where possible, and `switched` is called after a switch."""

    editions: Editions
    jobs: JobStore
    indexes: IndexService
    embedder: Callable[[Edition], Embedder]
    filler: Filler
    catalog: Catalog
    keys: Table
    chunks: Callable[[DocumentKey, str], Iterator[DocumentChunk]]
    scopes: Callable[[], Iterable[Scope]]
    categories: Callable[[], Sequence[str]]
    clock: Clock
    pace: Pace
    exclusive: Callable[[], AbstractContextManager[Any]]
    switched: Callable[[], None]

    def is_readable(self, edition: Edition) -> bool:
        """True if this program can use the edition's index and has its model. Raises `IndexUnavailableError`."""
        try:
            embedder = self.editions.open(edition).embedder
            self.indexes.check(replace(edition, model_id=embedder.model_id, dimension=embedder.dimension))
        except (EmbeddingError, IncompatibleIndexError, InvalidInputError):
            return False
        return True
