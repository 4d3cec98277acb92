"""Builds a new index while the old one answers, in short steps: a process may end after any step, and the next process
resumes with it.

The new edition is recorded first; from then on every writer adds the key of a changed document to the edition's journal
before it changes the index. Then every document is added, then the changes of the journal, until hardly any are left; both
indexes are compared; and one conditional write makes the new edition the active one. Changes at the moment of that write
are applied under the catalog's claims. The old edition has a journal of its own, so that a rollback works the same way.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from math import ceil
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.errors import EmbeddingError, IndexWakingError, InvalidInputError, ReindexBusyError, ThrottledError
from opx.ingestion.corpus.claims import CLOCKS_DIFFER
from opx.ingestion.indexing.book import Edition, EditionState, IndexState
from opx.lifecycle.reindex.job import AFTER_THE_SWITCH, Progress, ReindexJob, ReindexParts, ReindexPhase
from opx.lifecycle.reindex.steps import Steps
from opx.ports import Queue
from opx.runtime.machine import path_here

if TYPE_CHECKING:
    from opx.retrieval.calibration.calibrating import Calibrator


# -- start, rollback and discard


log = logging.getLogger(__name__)


class EditionRequests:
    """Records requests to build, roll back or discard editions, without doing the steps."""

    def __init__(self, parts: ReindexParts) -> None:
        self._parts = parts

    def start(self, *, model: str = "", model_path: str = "", dimension: int = 0, collection: str = "") -> Edition:
        """Begin to build an index for this model and in this collection, or again for the model and in the collection of the
        active one; or resume the one that was begun.

        Raises `InvalidInputError` for a missing model or collection, and while another edition prevents it;
        `EmbeddingError` for a model that can't be called.
        """
        state = self._parts.editions.book.read()
        begun = state.edition(state.target) if state.target is not None else None
        wanted = self._wanted(state, model, model_path, dimension)
        wanted = replace(wanted, collection=self._wanted_collection(state, collection))
        if begun:
            same = (begun.model_id, begun.dimension) == (wanted.model_id, wanted.dimension)
            elsewhere = bool(collection) and begun.collection != collection
            if elsewhere or ((model or model_path) and not same):
                raise InvalidInputError(
                    f"an index for {begun.model_id}{_in(begun.collection)} is being built: let `opx reindex` finish it, or "
                    "discard it with `opx reindex --discard`"
                )
            return begun
        if state.of_state(EditionState.PREVIOUS, EditionState.UNREADABLE):
            raise InvalidInputError(
                "the previous index is still kept: go back to it with `opx reindex --rollback`, or "
                "remove it with `opx reindex --discard`"
            )
        with self._parts.exclusive():
            return self._begin(wanted)

    def _wanted(self, state: IndexState, model: str, model_path: str, dimension: int) -> Edition:
        given = bool(model or model_path)
        wanted = Edition(
            name=f"{iso_time(self._parts.clock())[:10].replace('-', '')}-{token_hex(3)}",
            model=model if given else state.active.model,
            model_path=_everywhere(model_path) if given else state.active.model_path,
            dimension=dimension,
            state=EditionState.BUILDING,
            made_at=iso_time(self._parts.clock()),
        )
        embedder = self._parts.embedder(wanted)
        size = len(embedder.embed_query("Is this model there?"))
        if dimension and size != dimension:
            raise InvalidInputError(f"{embedder.model_id} has vectors of {size} numbers, not {dimension}")
        return replace(wanted, model_id=embedder.model_id, dimension=size)

    def _wanted_collection(self, state: IndexState, collection: str) -> str:
        """Name of the collection of a new edition, "" where the service has none."""
        known = self._parts.indexes.collections
        if collection and collection not in known:
            raise InvalidInputError(
                f"there is no search collection {collection!r} here; there is "
                + (f"{' and '.join(known)}" if known else "one index service, without collections")
                + ": docs/rebuild.md, 'Another collection', describes how to deploy one"
            )
        return collection or state.active.collection or next(iter(known), "")

    def _begin(self, wanted: Edition) -> Edition:
        state = self._parts.editions.book.read()
        active = self._known(state.active)
        if active.state is EditionState.ACTIVE:
            wanted = replace(wanted, lineage=active.lineage, ancestor=active.ancestor)
        state = replace(state, active=replace(active, state=EditionState.ACTIVE), target=wanted.name)
        self._parts.editions.book.write(state.with_edition(wanted))
        log.info("building a new index %s for %s%s", wanted.name, wanted.model_id, _in(wanted.collection))
        return wanted

    def _known(self, active: Edition) -> Edition:
        """The active edition with all attributes to record; `UNREADABLE` if this program can't use it."""
        if not self._parts.is_readable(active):
            return replace(active, state=EditionState.UNREADABLE)
        opened = self._parts.editions.open(active)
        model_id, dimension = opened.embedder.model_id, opened.embedder.dimension
        with self._parts.editions.bound(opened):
            lineage = self._parts.editions.lineage() or model_id
            ancestor = self._parts.editions.identity(self._parts.indexes.own_name)
        attributes = {"model_id": model_id, "dimension": dimension, "lineage": lineage, "ancestor": ancestor}
        return replace(active, **attributes, incarnation=opened.incarnation)

    def roll_back(self) -> Edition:
        """Begin to go back to the previous index. Raises `InvalidInputError` if there is none, or it is unusable."""
        state = self._parts.editions.book.read()
        previous = state.of_state(EditionState.PREVIOUS)
        if state.target is not None:
            raise InvalidInputError(
                "an index is being built: finish it first, or discard it with `opx reindex --discard`"
            )
        if previous is None:
            raise InvalidInputError(
                "there is no previous index to go back to: `opx reindex --status` lists all indexes"
            )
        if not self._parts.is_readable(previous):
            raise InvalidInputError(
                f"the previous index for {previous.model_id} can't be used any more, or its model is gone: remove it with "
                "`opx reindex --discard`"
            )
        self._parts.editions.book.write(replace(state, target=previous.name))
        return previous

    def discard(self) -> list[Edition]:
        """Remove every index but the active one, including one being built. Raises `ReindexBusyError`."""
        state = self._parts.editions.book.read()
        last = self._parts.jobs.read()
        if state.target is None and last and last.phase in AFTER_THE_SWITCH:
            raise InvalidInputError(
                "the index was switched, and some changes are still to be applied: finish that with `opx reindex`"
            )
        gone = [one for one in state.others if one.state is not EditionState.DISCARDED]
        left = state.active.switched_at + self._parts.pace.start_seconds - self._parts.clock()
        if gone and left > 0:
            raise InvalidInputError(f"the previous index may still receive queries for {left:.0f} s: try again then")
        others = tuple(replace(one, state=EditionState.DISCARDED) for one in state.others)
        if gone:
            self._parts.jobs.hold(state.target or "", lambda: ReindexJob(state.target or "", ReindexPhase.DONE))
            state = self._parts.editions.book.write(replace(state, others=others, target=None))
        for edition in state.others:  # those of an interrupted attempt included
            self._parts.indexes.remove(edition)
            self._parts.editions.journal.clear(edition.name)
        if gone:
            self._parts.jobs.release(ReindexJob(state.active.name, ReindexPhase.DONE))
        return gone


def _in(collection: str) -> str:
    return f" in the collection {collection}" if collection else ""


def _everywhere(folder: str) -> str:
    """Absolute path of a folder, independent of the working directory."""
    return str(path_here(folder, "model_path").absolute()) if folder else ""


# -- messages


GO_ON = json.dumps({"do": "go on"})
CALIBRATE = json.dumps({"do": "calibrate"})
CALIBRATE_IF_DUE = json.dumps({"do": "calibrate", "ifDue": True})
SEEN_EVERYWHERE = 180
"""Seconds after which every function queries the new index."""

LONGEST_DELAY = 900
"""Seconds that a message of SQS can be delayed."""

_COMMANDS = ("reindex", "go on", "force", "rollback", "discard")


def calibrate_on_message(body: str, calibrator: Callable[[], Calibrator]) -> bool:
    """Calibrate if a message requests it, `{"do": "calibrate", "ifDue": false}`; returns True if so.

    A corpus or a model that can't be calibrated on is logged. Raises `StoreUnavailableError`: then retry the message.
    """
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict) or message.get("do") != "calibrate":
        return False
    from opx.retrieval.calibration.calibrating import calibrate_if_due, outcome_line

    try:
        found = calibrator()
        line = calibrate_if_due(found) if message.get("ifDue") else outcome_line(found.run())
    except (EmbeddingError, InvalidInputError) as exc:
        line = f"not calibrated: {exc}"
    log.info("%s", line or "no calibration is due")
    return True


def handle_message(
    body: str, reindexer: Reindexer, rebuilds: Queue | None, *, stop: Callable[[], bool]
) -> Progress | None:
    """Execute the command of a message: `{"do": "reindex", "model": ..., "dimension": ..., "collection": ...}`, `go on`,
    `force`, `rollback` or `discard`. Until the job is finished, another message to `rebuilds` continues it, also after calls
    that were throttled; None if there is no job to continue, or if it has to wait.

    Raises `InvalidInputError` for a malformed message or an impossible command.
    """
    message = _read(body)
    wanted = message["do"]
    if wanted == "go on":
        return _resume(reindexer, rebuilds, stop)
    if wanted == "discard":
        reindexer.discard()
        return None
    chosen = {name: str(message.get(name, "")) for name in ("model", "collection")}
    if wanted == "reindex" and (any(chosen.values()) or not reindexer.is_under_way):
        reindexer.start(**chosen, dimension=int(message.get("dimension", 0)))
    elif wanted == "rollback":
        reindexer.roll_back()
    elif wanted == "force":
        reindexer.force()
    if wanted == "reindex":
        reindexer.compare_again()
    return _advance(reindexer, rebuilds, stop)


def _resume(reindexer: Reindexer, rebuilds: Queue | None, stop: Callable[[], bool]) -> Progress | None:
    """Continue the job. A message may be delivered twice: then another worker holds the job, or it is done."""
    if not reindexer.is_under_way:
        return None
    try:
        return _advance(reindexer, rebuilds, stop)
    except ReindexBusyError as exc:
        log.info("%s", exc)
        return None


def _advance(reindexer: Reindexer, rebuilds: Queue | None, stop: Callable[[], bool]) -> Progress | None:
    try:
        progress = reindexer.advance(stop)
    except (IndexWakingError, ThrottledError) as exc:
        if rebuilds is None:
            raise
        log.info("reindexing goes on in %.0f s: %s", exc.retry_after, exc)
        rebuilds.send(GO_ON, delay_seconds=min(ceil(exc.retry_after), LONGEST_DELAY))
        return None
    if progress.finished:
        log.info("reindexing is %s: %s", progress.job.phase, progress.job.report)
        if rebuilds and progress.job.phase is ReindexPhase.DONE:
            rebuilds.send(CALIBRATE_IF_DUE, delay_seconds=SEEN_EVERYWHERE)
    elif rebuilds:
        rebuilds.send(GO_ON, delay_seconds=min(ceil(progress.wait_seconds), LONGEST_DELAY))
    return progress


def _read(body: str) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"the message is not JSON: {exc}") from exc
    if not isinstance(message, dict) or message.get("do") not in _COMMANDS:
        raise InvalidInputError(f'the message must be {{"do": ...}} with one of {", ".join(_COMMANDS)}')
    dimension = message.get("dimension", 0)
    if not isinstance(dimension, int) or isinstance(dimension, bool) or dimension < 0:
        raise InvalidInputError(f"dimension must be a whole number, not {dimension!r}")
    return message


# -- reindexing


class Reindexer(EditionRequests):
    """Runs the steps of reindexing; one worker at a time, in any process."""

    def __init__(self, parts: ReindexParts) -> None:
        super().__init__(parts)
        self._steps = Steps(parts)

    def status(self) -> tuple[IndexState, ReindexJob | None]:
        return self._parts.editions.book.read(), self._parts.jobs.read()

    @property
    def is_under_way(self) -> bool:
        """True if there is an unfinished job."""
        last = self._parts.jobs.read()
        return self._parts.editions.book.read().target is not None or bool(last and last.phase in AFTER_THE_SWITCH)

    def force(self) -> None:
        """Switch although the comparison failed."""
        job = self._held()
        job.force = True
        job.phase = ReindexPhase.CATCHING_UP if job.phase is ReindexPhase.REFUSED else job.phase
        self._parts.jobs.release(job)

    def compare_again(self) -> None:
        """Repeat a refused comparison, after adding the lacking documents again; no-op if none was refused."""
        job = self._held()
        if job.phase is ReindexPhase.REFUSED:
            self._parts.editions.journal.note(job.edition, job.lacking)
            job.phase, job.comparisons, job.lacking, job.lacking_count = ReindexPhase.CATCHING_UP, 0, [], 0
        self._parts.jobs.release(job)

    # -- documents that a bulk job adds

    def leave_to(self, bulk: str) -> None:
        """Leaves the documents of an edition that was just begun to a bulk job, which calls `advance` until the edition is
        `BUILDING`, and `loaded` afterwards."""
        job = self._held()
        job.bulk = bulk
        self._parts.jobs.release(job)

    def loaded(self, bulk: str, *, documents: int, chunks: int, lacking: list[str], sample: list[str]) -> None:
        """Records the documents that a bulk job has added: anyone may advance the job from now on. No-op when repeated."""
        job = self._held(bulk)
        if job.phase is ReindexPhase.BUILDING:
            job.documents, job.chunks, job.phase, job.bulk = documents, chunks, ReindexPhase.CATCHING_UP, ""
            job.note_lacking(lacking)
            job.add_to_sample(sample)
        self._parts.jobs.release(job)

    def advance(self, stop: Callable[[], bool], *, bulk: str = "") -> Progress:
        """Work until `stop` returns True, or there is nothing to do now. Only the bulk job that an edition is left to may
        advance it.

        Raises `InvalidInputError` without a job, `ReindexBusyError` if another worker holds it, and
        `StoreUnavailableError`; then it can be resumed.
        """
        job = self._held(bulk)
        self._steps.begin()
        try:
            while not (self._is_over(job) or self._wait(job)):
                self._steps.take(job)
                self._parts.jobs.save(job)
                if stop():
                    break
        finally:
            self._parts.jobs.release(job)
        return Progress(job, self._wait(job))

    def _is_over(self, job: ReindexJob) -> bool:
        """True if there is no step to do: none is left, or a bulk job adds the documents."""
        is_ended = job.phase in (ReindexPhase.DONE, ReindexPhase.REFUSED)
        return is_ended or (bool(job.bulk) and job.phase is ReindexPhase.BUILDING)

    def _wait(self, job: ReindexJob) -> float:
        """Seconds until there is more to do; 0 if that is further off than any wait, as the clock went back."""
        pace, left = self._parts.pace, job.not_before - self._parts.clock()
        longest = max(pace.start_seconds, pace.pause_seconds, pace.settling_seconds) + CLOCKS_DIFFER
        return left if 0 < left <= longest else 0.0

    def _held(self, bulk: str = "") -> ReindexJob:
        state = self._parts.editions.book.read()
        last = self._parts.jobs.read()
        name = state.target
        if name is None and last and last.phase in AFTER_THE_SWITCH:
            name = last.edition  # switched, and not yet settled
        if name is None:
            raise InvalidInputError("no index is being built")
        edition = state.edition(name)
        assert edition is not None
        job = self._parts.jobs.hold(name, lambda: self._new_job(edition))
        if job.bulk not in ("", bulk):
            self._parts.jobs.release(job)
            raise ReindexBusyError(
                f"the bulk job {job.bulk} builds the index: see `opx bulk status`, and `opx bulk cancel`"
            )
        return job

    def _new_job(self, edition: Edition) -> ReindexJob:
        now = self._parts.clock()
        rollback = edition.state is EditionState.PREVIOUS
        job = ReindexJob(edition.name, began_at=iso_time(now), rollback=rollback)
        if rollback:
            job.phase = ReindexPhase.CATCHING_UP
        else:
            job.not_before = now + self._parts.pace.start_seconds
        return job
