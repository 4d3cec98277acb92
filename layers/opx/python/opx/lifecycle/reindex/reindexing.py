"""Makes a new index while the old one answers, a step at a time: any step may be the last of a process, and is done again
by the next.

The new edition is noted first, so that whoever changes a document from then on notes its key in the edition's journal,
before the index changes. Then every document is put in, then what changed meanwhile, until hardly anything is left; the
two are compared; and one conditional write makes the new one the index that answers. What changed at the very moment of
that write is made up for under the catalog's claims. The old one is kept in step by a journal of its own, so that it can be
gone back to in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from opx.domain.times import iso_time
from opx.errors import InvalidInputError
from opx.ingestion.indexing.book import Edition, EditionState, IndexState
from opx.lifecycle.reindex.job import AFTER_THE_SWITCH, Job, Phase
from opx.lifecycle.reindex.making import Making, Progress
from opx.lifecycle.reindex.orders import Orders
from opx.lifecycle.reindex.steps import Steps


class Reindexer(Orders):
    """Has the steps taken. One at a time is at work, of whichever process."""

    def __init__(self, making: Making) -> None:
        super().__init__(making)
        self._steps = Steps(making)

    def status(self) -> tuple[IndexState, Job | None]:
        return self._making.editions.book.read(), self._making.jobs.read()

    @property
    def is_under_way(self) -> bool:
        """Whether there is anything to go on with."""
        last = self._making.jobs.read()
        return self._making.editions.book.read().target is not None or bool(last and last.phase in AFTER_THE_SWITCH)

    def force(self) -> None:
        """Switch although the checks said no."""
        job = self._held()
        job.force = True
        job.phase = Phase.CATCHING_UP if job.phase is Phase.REFUSED else job.phase
        self._making.jobs.release(job)

    def compare_again(self) -> None:
        """Look once more at what was refused, and at what was lacking; nothing if nothing was."""
        job = self._held()
        if job.phase is Phase.REFUSED:
            self._making.editions.journal.note(job.edition, job.lacking)
            job.phase, job.comparisons, job.lacking, job.lacking_count = Phase.CATCHING_UP, 0, [], 0
        self._making.jobs.release(job)

    def advance(self, stop: Callable[[], bool]) -> Progress:
        """Work until `stop` says so, or there is nothing to do now.

        Raises `InvalidInputError` if nothing is being made, `ReindexBusyError` if another is at it, and
        `StoreUnavailableError`; then it can be gone on with.
        """
        job = self._held()
        self._steps.begin()
        try:
            while not (job.phase in (Phase.DONE, Phase.REFUSED) or job.not_before > self._making.clock()):
                self._steps.take(job)
                self._making.jobs.save(job)
                if stop():
                    break
        finally:
            self._making.jobs.release(job)
        return Progress(job, max(0.0, job.not_before - self._making.clock()))

    def _held(self) -> Job:
        state = self._making.editions.book.read()
        last = self._making.jobs.read()
        name = state.target
        if name is None and last and last.phase in AFTER_THE_SWITCH:
            name = last.edition  # it is switched, and not yet done
        if name is None:
            raise InvalidInputError("no index is being made")
        edition = state.edition(name)
        assert edition is not None
        return self._making.jobs.hold(name, lambda: self._new_job(edition))

    def _new_job(self, edition: Edition) -> Job:
        now = self._making.clock()
        rollback = edition.state is EditionState.PREVIOUS
        job = Job(edition.name, began_at=iso_time(now), rollback=rollback)
        if rollback:
            job.phase = Phase.CATCHING_UP
        else:
            job.not_before = now + self._making.pace.start_seconds
        return job
