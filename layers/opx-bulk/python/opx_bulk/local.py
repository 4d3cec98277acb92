"""Runs a job's stages on this machine: child processes read, chunk and embed shards on all cores, while this process applies
those that are ready, as the only one that writes to the stores."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import partial
from queue import SimpleQueue
from typing import Protocol, TypeVar

from opx.errors import BulkCancelledError, StoreUnavailableError
from opx.ports import WorkQueue
from opx.runtime.children import Child, ChildLostError, OpenState
from opx.runtime.deadlines import remaining
from opx_bulk.files import APPLIED, PREPARED
from opx_bulk.job import BulkReport
from opx_bulk.stages import BulkStages

log = logging.getLogger(__name__)

ATTEMPTS = 10
"""Attempts at preparing a shard whose process ends: each finds one more document at which it does."""

RETRIES = 5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0

R = TypeVar("R")
Progress = Callable[[str, int], None]
"""Receives the current step, and the number of documents that are settled."""


class HasStages(Protocol):
    """A system with stages of bulk jobs, as a child process opens it."""

    @property
    def stages(self) -> BulkStages: ...


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepares a shard in a child process."""

    job_id: str
    shard: int
    attempt: int

    def __call__(self, bulk: HasStages) -> None:
        bulk.stages.prepare(self.job_id, self.shard, attempt=self.attempt, embed=True)


@dataclass(eq=False)
class LocalRunner:
    """Runs jobs with `processes` child processes, which `opened` gives a system of the same home each; without any, this
    process does all of a shard when it applies it."""

    stages: BulkStages
    work: WorkQueue
    _: KW_ONLY
    opened: OpenState[HasStages] | None = None
    processes: int = 0
    progress: Progress = lambda _step, _count: None
    sleep: Callable[[float], None] = time.sleep

    def run(self, job_id: str) -> BulkReport:
        """Runs what is left of a job; may be called again after any interruption. Raises `BulkCancelledError` if the job was
        ended meanwhile, `BulkBusyError` while another process runs it, and `StoreUnavailableError`."""
        with self.work.exclusive_bulk(job_id):
            with self._building(job_id):
                self._again(partial(self.stages.list, job_id))
            shards = self.stages.shards(job_id)
            settled = set(self.stages.files(job_id).numbers(APPLIED))
            documents = sum(shard.documents for shard in shards if shard.number in settled)
            self.progress("listed", sum(shard.documents for shard in shards))
            sizes = {shard.number: shard.documents for shard in shards}
            for number in self._prepared(job_id, [number for number in sizes if number not in settled]):
                self._apply(job_id, number)
                documents += sizes[number]
                self.progress("settled", documents)
            with self._building(job_id):
                report = self._again(partial(self.stages.finish, job_id))
            assert report is not None
            return report

    def _building(self, job_id: str) -> AbstractContextManager[None]:
        return self.work.exclusive_reindex() if self.stages.kind_of(job_id).builds_index else nullcontext()

    def _apply(self, job_id: str, shard: int) -> None:
        def applied() -> bool:
            with self.work.exclusive() if self.stages.kind_of(job_id).applies_alone else nullcontext():
                self.stages.apply(job_id, shard)
            return True

        self._again(applied)

    def _again(self, stage: Callable[[], R]) -> R:
        """Calls a stage until it returns something, with pauses after temporary errors."""
        failed = 0
        while True:
            try:
                found = stage()
            except StoreUnavailableError as exc:
                waits = getattr(exc, "retry_after", 0.0)
                failed += not waits
                pause, left = min(_LONGEST_PAUSE, waits or _FIRST_PAUSE * 2.0**failed), remaining()
                if failed > RETRIES or (left is not None and left < pause):
                    raise
                self.progress(str(exc), 0)
                self.sleep(pause)
                continue
            if found:
                return found

    # -- preparing in child processes

    def _prepared(self, job_id: str, shards: Sequence[int]) -> Iterator[int]:
        """Shards as they are prepared; only a few more than there are processes wait to be applied."""
        if not (self.processes and self.opened):
            yield from shards
            return
        ready = set(self.stages.files(job_id).numbers(PREPARED))
        yield from (shard for shard in shards if shard in ready)
        left = deque(shard for shard in shards if shard not in ready)
        if not left:
            return
        children = _Children(self.opened, min(self.processes, len(left)))
        with ThreadPoolExecutor(self.processes, "bulk") as threads, children:  # the processes end first
            running: set[Future[int]] = set()
            try:
                while left or running:
                    while left and len(running) < 2 * self.processes:
                        running.add(threads.submit(self._prepare, children, job_id, left.popleft()))
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from [future.result() for future in done]
            finally:
                for future in running:
                    future.cancel()

    def _prepare(self, children: _Children, job_id: str, shard: int) -> int:
        """Prepares a shard in a child. One that can't be prepared is left to `apply`, or abandoned if processes end at it."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                children.call(Prepare(job_id, shard, attempt))
            except ChildLostError as exc:
                log.warning("preparing shard %d, attempt %d: %s", shard, attempt, exc)
            except StoreUnavailableError as exc:
                log.warning("shard %d is prepared when it is applied: %s", shard, exc)
                return shard
            else:
                return shard
        self.stages.abandon(job_id, shard, f"the process that read it ended {ATTEMPTS} times")
        return shard


class _Children(AbstractContextManager["_Children"]):
    """Child processes; one that is lost is replaced, until they are ended."""

    def __init__(self, opened: OpenState[HasStages], count: int) -> None:
        self._opened = opened
        self._idle: SimpleQueue[Child[HasStages]] = SimpleQueue()
        self._lock = threading.Lock()
        self._all = {Child(opened, "opx-bulk") for _ in range(count)}
        self._is_ended = False
        for child in self._all:
            self._idle.put(child)

    def call(self, work: Callable[[HasStages], R]) -> R:
        """Performs a call in the next idle child. Raises `ChildLostError`, its error, and `BulkCancelledError` when they were
        ended."""
        child = self._idle.get()
        try:
            return child.call(work)
        except ChildLostError:
            child = self._instead(child)
            raise
        finally:
            self._idle.put(child)

    def _instead(self, lost: Child[HasStages]) -> Child[HasStages]:
        with self._lock:
            if self._is_ended:
                raise BulkCancelledError("the processes were ended")
            lost.end()
            self._all.discard(lost)
            child = Child(self._opened, "opx-bulk")
            self._all.add(child)
            return child

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_ended = True
            for child in self._all:
                child.end()
