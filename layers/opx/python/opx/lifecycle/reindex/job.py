"""How far the making of an index is: one item, held by one worker at a time, from which any other can go on."""

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
from opx.errors import ConditionFailedError, EmbeddingError, IncompatibleIndexError, InvalidInputError, ReindexBusyError
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.indexing.book import Edition
from opx.ingestion.indexing.editions import Editions, IndexService
from opx.lifecycle.reindex.filling import Filler
from opx.ports import AnyOf, Clock, Embedder, Equals, KeyAbsent, LessThan, Table

SAMPLE = 50
"""Documents by which the new index is compared with the old one: those whose keys have the smallest hashes."""

MOST_LACKING = 200
"""Keys that are kept of documents without chunk files."""

_ENTRY = "job"


class ReindexPhase(StrEnum):
    """`WAITING` until all who know nothing of the new index are done; `SETTLING` after the switch."""

    WAITING = "waiting"
    BUILDING = "building"
    CATCHING_UP = "catching up"
    CHECKING = "checking"
    SWITCHING = "switching"
    SETTLING = "settling"
    DONE = "done"
    REFUSED = "refused"


AFTER_THE_SWITCH = (ReindexPhase.SWITCHING, ReindexPhase.SETTLING)
"""Of a job without a target: what is left to do."""


class ReindexJob(Draft, rename=None):
    """The work on one edition. `scope` and `after` are the last document that was put into it; `not_before` is when to go
    on (seconds since the epoch); `report` is what the checks found."""

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
    report: dict[str, Any] = field(default_factory=dict)

    def note_lacking(self, key_ids: list[str]) -> None:
        self.lacking_count += len(key_ids)
        self.lacking = [*self.lacking, *key_ids][:MOST_LACKING]

    def add_to_sample(self, key_ids: list[str]) -> None:
        """Any documents, but the same ones however often the work was interrupted."""
        self.sample = sorted({*self.sample, *key_ids}, key=lambda key: stable_hash("sample", key))[:SAMPLE]


class JobStore:
    """The item. Who holds it has a token, for so long as the lease goes; with `lease_seconds` of 0 whoever comes takes
    it, as a lock of the machine lets one in."""

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
        """The job on this edition, or a new one, held from now on. Raises `ReindexBusyError`."""
        item = self._table.get(self._key)
        goes_on = item and item["edition"] == edition and item["phase"] != ReindexPhase.DONE
        job = from_json(ReindexJob, item) if item and goes_on else make()
        self._token = token_hex(8)
        free = AnyOf((KeyAbsent(), Equals("leaseUntil", 0), LessThan("leaseUntil", self._clock() + 0.001)))
        self._put(job, free)
        return job

    def save(self, job: ReindexJob) -> None:
        """Raises `ReindexBusyError` if another worker has taken the job over."""
        self._put(job, Equals("token", self._token))

    def release(self, job: ReindexJob) -> None:
        self._put(job, Equals("token", self._token), lease=0)

    def _put(self, job: ReindexJob, condition: Any, *, lease: float | None = None) -> None:
        until = self._clock() + self._lease_seconds if lease is None else lease
        item = {**job.to_json(), "token": self._token, "leaseUntil": until}
        try:
            self._table.put({**self._key, **item}, condition=condition)
        except ConditionFailedError as exc:
            raise ReindexBusyError("another process, or function, is making the new index: see its status") from exc


# -- making


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the work is. `wait_seconds`: nothing is to be done until then."""

    job: ReindexJob
    wait_seconds: float = 0.0

    @property
    def finished(self) -> bool:
        return self.job.phase in (ReindexPhase.DONE, ReindexPhase.REFUSED)


@dataclass(frozen=True, slots=True)
class Pace:
    """`start_seconds` after which nobody is at work any more who began before the new index was noted; `settling_seconds`
    after which all that was written is found, and `pause_seconds` is for others to finish what they are at. `alone`: nobody
    is at work while it is switched, so that what seems to be under way was interrupted."""

    start_seconds: float = 0.0
    settling_seconds: float = 0.0
    pause_seconds: float = 1.0
    alone: bool = True


@dataclass(frozen=True, slots=True)
class Making:
    """`embedder` gives the model of an edition, `chunks` reads those of a version, `exclusive` keeps out who ingests
    documents, where that can be, and `switched` is called after a switch."""

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
        """Whether this program can use its index, and has its model. Raises `IndexUnavailableError`."""
        try:
            embedder = self.editions.open(edition).embedder
            self.indexes.check(replace(edition, model_id=embedder.model_id, dimension=embedder.dimension))
        except (EmbeddingError, IncompatibleIndexError, InvalidInputError):
            return False
        return True
