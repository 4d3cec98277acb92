"""Makes a new index while the old one answers, a step at a time: any step may be the last of a process, and is done again
by the next.

The new edition is noted first, so that whoever changes a document from then on notes its key in the edition's journal,
before the index changes. Then every document is put in, then what changed meanwhile, until hardly anything is left; the
two are compared; and one conditional write makes the new one the index that answers. What changed at the very moment of
that write is made up for under the catalog's claims. The old one is kept in step by a journal of its own, so that it can be
gone back to in the same way.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from math import ceil
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.errors import EmbeddingError, InvalidInputError, ReindexBusyError
from opx.ingestion.indexing.book import Edition, EditionState, IndexState
from opx.lifecycle.reindex.job import AFTER_THE_SWITCH, Making, Progress, ReindexJob, ReindexPhase
from opx.lifecycle.reindex.steps import Steps
from opx.ports import Queue

if TYPE_CHECKING:
    from opx.retrieval.calibration.calibrating import Calibrator


# -- orders


log = logging.getLogger(__name__)


class Orders:
    """Notes what is to be done; the steps are others'."""

    def __init__(self, making: Making) -> None:
        self._making = making

    def start(self, *, model: str = "", model_path: str = "", dimension: int = 0) -> Edition:
        """Begin to make an index for this model, or again for the one that answers now; or go on with what was begun.

        Raises `InvalidInputError` for a model that isn't there, and while another index is in the way; `EmbeddingError`
        for one that can't be called.
        """
        state = self._making.editions.book.read()
        begun = state.edition(state.target) if state.target is not None else None
        wanted = self._wanted(state, model, model_path, dimension)
        if begun:
            same = (begun.model_id, begun.dimension) == (wanted.model_id, wanted.dimension)
            if (model or model_path) and not same:
                raise InvalidInputError(
                    f"an index for {begun.model_id} is being made: let `opx reindex` finish it, or give it up with "
                    "`opx reindex --discard`"
                )
            return begun
        if state.of_state(EditionState.PREVIOUS, EditionState.UNREADABLE):
            raise InvalidInputError(
                "the index that answered before this one is still kept: go back to it with `opx reindex --rollback`, or "
                "remove it with `opx reindex --discard`"
            )
        with self._making.exclusive():
            return self._begin(wanted)

    def _wanted(self, state: IndexState, model: str, model_path: str, dimension: int) -> Edition:
        given = bool(model or model_path)
        wanted = Edition(
            name=f"{iso_time(self._making.clock())[:10].replace('-', '')}-{token_hex(3)}",
            model=model if given else state.active.model,
            model_path=_everywhere(model_path) if given else state.active.model_path,
            dimension=dimension,
            state=EditionState.BUILDING,
            made_at=iso_time(self._making.clock()),
        )
        embedder = self._making.embedder(wanted)
        size = len(embedder.embed_query("Is this model there?"))
        if dimension and size != dimension:
            raise InvalidInputError(f"{embedder.model_id} has vectors of {size} numbers, not {dimension}")
        return replace(wanted, model_id=embedder.model_id, dimension=size)

    def _begin(self, wanted: Edition) -> Edition:
        state = self._making.editions.book.read()
        active = self._known(state.active)
        if active.state is EditionState.ACTIVE:
            wanted = replace(wanted, lineage=active.lineage, ancestor=active.ancestor)
        state = replace(state, active=replace(active, state=EditionState.ACTIVE), target=wanted.name)
        self._making.editions.book.write(state.with_edition(wanted))
        log.info("a new index %s is made for %s", wanted.name, wanted.model_id)
        return wanted

    def _known(self, active: Edition) -> Edition:
        """The edition that answers, with all that is to be kept of it; `UNREADABLE` if this program can't use it."""
        if not self._making.is_readable(active):
            return replace(active, state=EditionState.UNREADABLE)
        opened = self._making.editions.open(active)
        model_id, dimension = opened.embedder.model_id, opened.embedder.dimension
        with self._making.editions.bound(opened):
            lineage = self._making.editions.lineage() or model_id
            ancestor = self._making.editions.identity(self._making.indexes.own_name)
        facts = {"model_id": model_id, "dimension": dimension, "lineage": lineage, "ancestor": ancestor}
        return replace(active, **facts, incarnation=opened.incarnation)

    def roll_back(self) -> Edition:
        """Begin to go back to the index that answered before. Raises `InvalidInputError` if there is none, or it can't be
        used any more."""
        state = self._making.editions.book.read()
        previous = state.of_state(EditionState.PREVIOUS)
        if state.target is not None:
            raise InvalidInputError(
                "an index is being made: finish that first, or give it up with `opx reindex --discard`"
            )
        if previous is None:
            raise InvalidInputError(
                "there is no earlier index to go back to: `opx reindex --status` lists what there is"
            )
        if not self._making.is_readable(previous):
            raise InvalidInputError(
                f"the earlier index for {previous.model_id} can't be used any more, or its model is gone: remove it with "
                "`opx reindex --discard`"
            )
        self._making.editions.book.write(replace(state, target=previous.name))
        return previous

    def discard(self) -> list[Edition]:
        """Remove every index that doesn't answer, one that is being made included. Raises `ReindexBusyError`."""
        state = self._making.editions.book.read()
        last = self._making.jobs.read()
        if state.target is None and last and last.phase in AFTER_THE_SWITCH:
            raise InvalidInputError(
                "it was switched, and something is left to make up for: finish that with `opx reindex`"
            )
        gone = [one for one in state.others if one.state is not EditionState.DISCARDED]
        left = state.active.switched_at + self._making.pace.start_seconds - self._making.clock()
        if gone and left > 0:
            raise InvalidInputError(
                f"the index that answered before may still be asked for {left:.0f} s: try again then"
            )
        others = tuple(replace(one, state=EditionState.DISCARDED) for one in state.others)
        if gone:
            self._making.jobs.hold(state.target or "", lambda: ReindexJob(state.target or "", ReindexPhase.DONE))
            state = self._making.editions.book.write(replace(state, others=others, target=None))
        for edition in state.others:  # those of an interrupted attempt included
            self._making.indexes.remove(edition)
            self._making.editions.journal.clear(edition.name)
        if gone:
            self._making.jobs.release(ReindexJob(state.active.name, ReindexPhase.DONE))
        return gone


def _everywhere(folder: str) -> str:
    """The name of a folder by which it is found wherever a process was started."""
    return str(Path(folder).expanduser().absolute()) if folder else ""


# -- asked


GO_ON = json.dumps({"do": "go on"})
CALIBRATE = json.dumps({"do": "calibrate"})
CALIBRATE_IF_DUE = json.dumps({"do": "calibrate", "ifDue": True})
SEEN_EVERYWHERE = 180
"""Seconds after which every function asks the new index."""

LONGEST_DELAY = 900
"""Seconds that a message of SQS can be delayed."""

_DONE = ("reindex", "go on", "force", "rollback", "discard")


def calibrate_as_asked(body: str, calibrator: Callable[[], Calibrator]) -> bool:
    """Calibrate if a message asks for that, `{"do": "calibrate", "ifDue": false}`; whether it did.

    A corpus or a model that can't be calibrated on is logged. Raises `StoreUnavailableError`: then it is to be asked again.
    """
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(asked, dict) or asked.get("do") != "calibrate":
        return False
    from opx.retrieval.calibration.calibrating import calibrate_if_due, outcome_line

    try:
        found = calibrator()
        line = calibrate_if_due(found) if asked.get("ifDue") else outcome_line(found.run())
    except (EmbeddingError, InvalidInputError) as exc:
        line = f"not calibrated: {exc}"
    log.info("%s", line or "no calibration is due")
    return True


def take_turn(body: str, reindexer: Reindexer, rebuilds: Queue | None, *, stop: Callable[[], bool]) -> Progress | None:
    """Do what a message asks for: `{"do": "reindex", "model": ..., "dimension": ...}`, `go on`, `force`, `rollback` or
    `discard`. Until it is finished, another message to `rebuilds` goes on with it; None if there is nothing to go on with.

    Raises `InvalidInputError` for a message that isn't understood or can't be done.
    """
    asked = _read(body)
    wanted = asked["do"]
    if wanted == "go on":
        return _gone_on(reindexer, rebuilds, stop)
    if wanted == "discard":
        reindexer.discard()
        return None
    if wanted == "reindex" and (asked.get("model") or not reindexer.is_under_way):
        reindexer.start(model=str(asked.get("model", "")), dimension=int(asked.get("dimension", 0)))
    elif wanted == "rollback":
        reindexer.roll_back()
    elif wanted == "force":
        reindexer.force()
    if wanted == "reindex":
        reindexer.compare_again()
    return _worked(reindexer, rebuilds, stop)


def _gone_on(reindexer: Reindexer, rebuilds: Queue | None, stop: Callable[[], bool]) -> Progress | None:
    """A message may come twice: then another has the work in hand, and goes on with it, or it is done."""
    if not reindexer.is_under_way:
        return None
    try:
        return _worked(reindexer, rebuilds, stop)
    except ReindexBusyError as exc:
        log.info("%s", exc)
        return None


def _worked(reindexer: Reindexer, rebuilds: Queue | None, stop: Callable[[], bool]) -> Progress:
    progress = reindexer.advance(stop)
    if progress.finished:
        log.info("the new index is %s: %s", progress.job.phase, progress.job.report)
        if rebuilds and progress.job.phase is ReindexPhase.DONE:
            rebuilds.send(CALIBRATE_IF_DUE, delay_seconds=SEEN_EVERYWHERE)
    elif rebuilds:
        rebuilds.send(GO_ON, delay_seconds=min(ceil(progress.wait_seconds), LONGEST_DELAY))
    return progress


def _read(body: str) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"the message is not JSON: {exc}") from exc
    if not isinstance(asked, dict) or asked.get("do") not in _DONE:
        raise InvalidInputError(f'the message must be {{"do": ...}} with one of {", ".join(_DONE)}')
    dimension = asked.get("dimension", 0)
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 0:
        raise InvalidInputError(f"dimension must be a whole number, not {dimension!r}")
    return asked


# -- reindexing


class Reindexer(Orders):
    """Has the steps taken. One at a time is at work, of whichever process."""

    def __init__(self, making: Making) -> None:
        super().__init__(making)
        self._steps = Steps(making)

    def status(self) -> tuple[IndexState, ReindexJob | None]:
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
        job.phase = ReindexPhase.CATCHING_UP if job.phase is ReindexPhase.REFUSED else job.phase
        self._making.jobs.release(job)

    def compare_again(self) -> None:
        """Look once more at what was refused, and at what was lacking; nothing if nothing was."""
        job = self._held()
        if job.phase is ReindexPhase.REFUSED:
            self._making.editions.journal.note(job.edition, job.lacking)
            job.phase, job.comparisons, job.lacking, job.lacking_count = ReindexPhase.CATCHING_UP, 0, [], 0
        self._making.jobs.release(job)

    def advance(self, stop: Callable[[], bool]) -> Progress:
        """Work until `stop` says so, or there is nothing to do now.

        Raises `InvalidInputError` if nothing is being made, `ReindexBusyError` if another is at it, and
        `StoreUnavailableError`; then it can be gone on with.
        """
        job = self._held()
        self._steps.begin()
        try:
            while not (job.phase in (ReindexPhase.DONE, ReindexPhase.REFUSED) or job.not_before > self._making.clock()):
                self._steps.take(job)
                self._making.jobs.save(job)
                if stop():
                    break
        finally:
            self._making.jobs.release(job)
        return Progress(job, max(0.0, job.not_before - self._making.clock()))

    def _held(self) -> ReindexJob:
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

    def _new_job(self, edition: Edition) -> ReindexJob:
        now = self._making.clock()
        rollback = edition.state is EditionState.PREVIOUS
        job = ReindexJob(edition.name, began_at=iso_time(now), rollback=rollback)
        if rollback:
            job.phase = ReindexPhase.CATCHING_UP
        else:
            job.not_before = now + self._making.pace.start_seconds
        return job
