"""Makes a new index while the old one answers, a step at a time: any step may be the last of a process, and is done again
by the next.

The new edition is noted first, so that whoever changes a document from then on notes its key in the edition's journal,
before the index changes. Then every document is put in, then what changed meanwhile, until hardly anything is left; the
two are compared; and one conditional write makes the new one the index that answers. What changed at the very moment of
that write is made up for under the catalog's claims. The old one is kept in step by a journal of its own, so that it can be
gone back to in the same way.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import islice
from secrets import token_hex
from typing import Any, Protocol

from opx.domain.documents import DocumentChunk, DocumentKey, KnowledgeDocument
from opx.domain.scopes import Scope, scope_of_key
from opx.domain.times import iso_time
from opx.errors import IncompatibleIndexError, InvalidInputError
from opx.ingestion.catalog import BusyError, Catalog, StaleEventError
from opx.ingestion.claims import current_id
from opx.ingestion.events import ObjectEvent
from opx.lifecycle.reindex.book import Edition, EditionState, IndexState
from opx.lifecycle.reindex.checks import compare
from opx.lifecycle.reindex.editions import EditionParts, Editions, OpenEdition
from opx.lifecycle.reindex.filling import Filler
from opx.lifecycle.reindex.job import Job, JobStore, Phase
from opx.ports import Clock, Item, KeyRange, Table

log = logging.getLogger(__name__)

DOCUMENTS_A_STEP = 100
CHANGES_A_STEP = 100
FEW_CHANGES = 20
"""Left in the journal, after which it is switched: the rest is made up for at once."""

MOST_ROUNDS = 20
"""Of catching up with those who change documents faster than that, before it is switched all the same."""

SETTLING_ROUNDS = 60


class NewIndexParts(EditionParts, Protocol):
    """What each backend does about indexes as a whole."""

    def make_edition(self, edition: Edition) -> None:
        """Make its index, unless it is there. Raises `IndexUnavailableError`."""

    def remove_edition(self, edition: Edition) -> None:
        """Remove its index; nothing if there is none. Raises `IndexUnavailableError`."""

    def check_edition(self, edition: Edition) -> None:
        """See that this program can use it. Raises `IncompatibleIndexError` and `IndexUnavailableError`."""


_SWITCHED = (Phase.SWITCHING, Phase.SETTLING)
"""Of a job without a target: what is left to do after the switch."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where the work is. `wait_seconds`: nothing is to be done until then."""

    job: Job
    wait_seconds: float = 0.0

    @property
    def finished(self) -> bool:
        return self.job.phase in (Phase.DONE, Phase.REFUSED)


@dataclass(frozen=True, slots=True)
class Pace:
    """`start_seconds` after which nobody is at work any more who began before the new index was noted; `settling_seconds`
    after which all that was written is found, and `pause_seconds` is for others to finish what they are at. `alone`: nobody
    is at work while it is switched, so that what seems to be under way was interrupted."""

    start_seconds: float = 0.0
    settling_seconds: float = 0.0
    pause_seconds: float = 1.0
    alone: bool = True


class Reindexer:
    """The steps. One at a time is at work, of whichever process."""

    def __init__(
        self,
        *,
        editions: Editions,
        jobs: JobStore,
        parts: NewIndexParts,
        filler: Filler,
        catalog: Catalog,
        keys: Table,
        chunks: Callable[[DocumentKey, str], Iterator[DocumentChunk]],
        scopes: Callable[[], Iterable[Scope]],
        categories: Callable[[], Sequence[str]],
        own_identity: str,
        clock: Clock,
        pace: Pace,
        exclusive: Callable[[], AbstractContextManager[Any]],
        switched: Callable[[], None],
    ) -> None:
        self._editions = editions
        self._jobs = jobs
        self._parts = parts
        self._filler = filler
        self._catalog = catalog
        self._keys = keys
        self._chunks = chunks
        self._scopes = scopes
        self._categories = categories
        self._own_identity = own_identity
        self._clock = clock
        self._pace = pace
        self._exclusive = exclusive
        self._switched = switched
        self._under_way: set[str] = set()

    # -- what people ask for

    def start(self, *, model: str = "", model_path: str = "", dimension: int = 0) -> Edition:
        """Begin to make an index for this model, or again for the one that answers now; or go on with what was begun.

        Raises `InvalidInputError` for a model that isn't there, and while another index is in the way; `EmbeddingError`
        for one that can't be called.
        """
        state = self._editions.book.read()
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
        with self._exclusive():
            return self._begin(wanted)

    def _wanted(self, state: IndexState, model: str, model_path: str, dimension: int) -> Edition:
        given = bool(model or model_path)
        wanted = Edition(
            name=f"{iso_time(self._clock())[:10].replace('-', '')}-{token_hex(3)}",
            model=model if given else state.active.model,
            model_path=model_path if given else state.active.model_path,
            dimension=dimension,
            state=EditionState.BUILDING,
            made_at=iso_time(self._clock()),
        )
        embedder = self._parts.edition_embedder(wanted)
        size = len(embedder.embed_query("Is this model there?"))
        if dimension and size != dimension:
            raise InvalidInputError(f"{embedder.model_id} has vectors of {size} numbers, not {dimension}")
        return replace(wanted, model_id=embedder.model_id, dimension=size)

    def _begin(self, wanted: Edition) -> Edition:
        state = self._editions.book.read()
        active = self._known(state.active)
        if active.state is EditionState.ACTIVE:
            wanted = replace(wanted, lineage=active.lineage, ancestor=active.ancestor)
        state = replace(state, active=replace(active, state=EditionState.ACTIVE), target=wanted.name)
        self._editions.book.write(state.with_edition(wanted))
        log.info("a new index %s is made for %s", wanted.name, wanted.model_id)
        return wanted

    def _known(self, active: Edition) -> Edition:
        """The edition that answers, with all that is to be kept of it; `UNREADABLE` if this program can't use it."""
        opened = self._editions.open(active)
        model_id, dimension = opened.embedder.model_id, opened.embedder.dimension
        try:
            self._parts.check_edition(replace(active, model_id=model_id, dimension=dimension))
        except IncompatibleIndexError:
            return replace(active, state=EditionState.UNREADABLE)
        with self._editions.bound(opened):
            lineage = self._editions.lineage() or model_id
            ancestor = self._editions.identity(self._own_identity)
        facts = {"model_id": model_id, "dimension": dimension, "lineage": lineage, "ancestor": ancestor}
        return replace(active, **facts, incarnation=opened.incarnation)  # type: ignore[arg-type]

    def roll_back(self) -> Edition:
        """Begin to go back to the index that answered before. Raises `InvalidInputError` if there is none."""
        state = self._editions.book.read()
        previous = state.of_state(EditionState.PREVIOUS)
        if state.target is not None:
            raise InvalidInputError(
                "an index is being made: finish that first, or give it up with `opx reindex --discard`"
            )
        if previous is None:
            raise InvalidInputError(
                "there is no earlier index to go back to: `opx reindex --status` lists what there is"
            )
        self._editions.book.write(replace(state, target=previous.name))
        return previous

    def discard(self) -> list[Edition]:
        """Remove every index that doesn't answer, one that is being made included. Raises `ReindexBusyError`."""
        state = self._editions.book.read()
        gone = [one for one in state.others if one.state is not EditionState.DISCARDED]
        left = state.active.switched_at + self._pace.start_seconds - self._clock()
        if gone and left > 0:
            raise InvalidInputError(
                f"the index that answered before may still be asked for {left:.0f} s: try again then"
            )
        others = tuple(replace(one, state=EditionState.DISCARDED) for one in state.others)
        if gone:
            self._jobs.hold(state.target or "", lambda: Job(state.target or "", Phase.DONE))
            state = self._editions.book.write(replace(state, others=others, target=None))
        for edition in state.others:  # those of an interrupted attempt included
            self._parts.remove_edition(edition)
            self._editions.journal.clear(edition.name)
        if gone:
            self._jobs.release(Job(state.active.name, Phase.DONE))
        return gone

    def status(self) -> tuple[IndexState, Job | None]:
        return self._editions.book.read(), self._jobs.read()

    @property
    def is_under_way(self) -> bool:
        """Whether there is anything to go on with."""
        last = self._jobs.read()
        return self._editions.book.read().target is not None or bool(last and last.phase in _SWITCHED)

    def force(self) -> None:
        """Switch although the checks said no."""
        job = self._held()
        job.force = True
        job.phase = Phase.CATCHING_UP if job.phase is Phase.REFUSED else job.phase
        self._jobs.release(job)

    # -- the steps

    def advance(self, stop: Callable[[], bool], *, again: bool = False) -> Progress:
        """Work until `stop` says so, or there is nothing to do now. `again`: compare anew what was refused.

        Raises `InvalidInputError` if nothing is being made, `ReindexBusyError` if another is at it, and
        `StoreUnavailableError`; then it can be gone on with.
        """
        job = self._held()
        self._under_way.clear()
        if again and job.phase is Phase.REFUSED:
            job.phase = Phase.CATCHING_UP
        try:
            while not (job.phase in (Phase.DONE, Phase.REFUSED) or job.not_before > self._clock()):
                self._step(job)
                self._jobs.save(job)
                if stop():
                    break
        finally:
            self._jobs.release(job)
        return Progress(job, max(0.0, job.not_before - self._clock()))

    def _held(self) -> Job:
        state = self._editions.book.read()
        last = self._jobs.read()
        name = state.target
        if name is None and last and last.phase in _SWITCHED:
            name = last.edition  # it is switched, and not yet done
        if name is None:
            raise InvalidInputError("no index is being made")
        edition = state.edition(name)
        assert edition is not None
        return self._jobs.hold(name, lambda: self._new_job(edition))

    def _new_job(self, edition: Edition) -> Job:
        now = self._clock()
        rollback = edition.state is EditionState.PREVIOUS
        job = Job(edition.name, began_at=iso_time(now), rollback=rollback)
        if rollback:
            job.phase = Phase.CATCHING_UP
        else:
            job.not_before = now + self._pace.start_seconds
        return job

    def _step(self, job: Job) -> None:
        steps = {
            Phase.WAITING: self._make,
            Phase.BUILDING: self._build,
            Phase.CATCHING_UP: self._catch_up,
            Phase.CHECKING: self._check,
            Phase.SWITCHING: self._switch,
            Phase.SETTLING: self._settle,
        }
        steps[job.phase](job)

    def _target(self, job: Job) -> OpenEdition:
        edition = self._editions.book.read().edition(job.edition)
        assert edition is not None
        return self._editions.open(edition)

    def _make(self, job: Job) -> None:
        self._parts.make_edition(self._target(job).edition)
        job.phase = Phase.BUILDING

    def _build(self, job: Job) -> None:
        heads = list(islice(self._heads(job.scope, job.after), DOCUMENTS_A_STEP))
        if heads:
            filled = self._filler.fill(self._target(job), [head for head in heads if current_id(head)])
            job.documents += filled.documents
            job.chunks += filled.chunks
            job.note_lacking(filled.lacking)
            job.add_to_sample([head["documentKey"] for head in heads if current_id(head)])
            job.scope, job.after = heads[-1]["scope"], heads[-1]["documentKey"]
        if len(heads) < DOCUMENTS_A_STEP:
            job.phase = Phase.CATCHING_UP

    def _heads(self, scope: str, after: str) -> Iterator[Item]:
        """Items of document keys behind this one, scope by scope. Those of a scope that is new meanwhile are in the
        journal."""
        for key in sorted(each.key for each in self._scopes()):
            if key >= scope:
                where = KeyRange(low=after + "\0") if key == scope and after else None
                yield from self._keys.query(key, index="scope-index", where=where)

    def _catch_up(self, job: Job) -> None:
        """Make up for some changes. When nothing is left but what is under way, and that is little, go on."""
        if self._renew_some(job):
            return
        left = len(self._under_way)
        self._under_way.clear()
        job.rounds += 1
        if left > FEW_CHANGES and job.rounds < MOST_ROUNDS:
            job.not_before = self._clock() + self._pace.pause_seconds
            return
        job.rounds = 0
        job.phase = Phase.SWITCHING if job.rollback else Phase.CHECKING
        job.not_before = 0 if job.rollback else self._clock() + self._pace.settling_seconds

    def _renew_some(self, job: Job, most: int = CHANGES_A_STEP) -> int:
        """Make up for so many of the changes in the journal, but for those that are under way; how many it looked at."""
        edition, journal = self._target(job), self._editions.journal
        rows = journal.read(edition.name, most, skip=self._under_way)
        for key_id, mark in rows:
            head = self._keys.get({"documentKey": key_id})
            if head and head.get("writing"):
                self._under_way.add(key_id)
                continue
            filled = self._filler.renew(edition, key_id, head, since=edition.edition.made_at)
            job.renewed += 1
            job.note_lacking(filled.lacking)
            if not journal.drop(edition.name, key_id, mark):
                self._under_way.add(key_id)
        return len(rows)

    def _check(self, job: Job) -> None:
        state = self._editions.book.read()
        readable = self._is_readable(state.active)
        report = self._compared(job, state) if readable else {"problems": []}
        if not readable:
            report["note"] = "the old index can't be read by this program: there is nothing to compare with"
        if job.lacking_count:
            report["problems"].append(
                f"{job.lacking_count:,} documents have no chunk file: `opx reconcile --repair` takes them in again"
            )
        job.report = report
        job.phase = Phase.REFUSED if report["problems"] and not job.force else Phase.SWITCHING

    def _is_readable(self, active: Edition) -> bool:
        try:
            self._parts.check_edition(active)
        except IncompatibleIndexError:
            return False
        return True

    def _compared(self, job: Job, state: IndexState) -> dict[str, Any]:
        report = compare(
            self._editions.open(state.active),
            self._target(job),
            scopes=[scope.key for scope in self._scopes()],
            categories=self._categories(),
            sample=list(self._sampled(job)),
            chunks=lambda document: self._chunks(document.key, document.document_id),
        )
        return report.to_json()

    def _sampled(self, job: Job) -> Iterator[KnowledgeDocument]:
        for key_id in job.sample:
            head = self._keys.get({"documentKey": key_id}) or {}
            if current_id(head):
                key = DocumentKey(scope_of_key(head["scope"]), head["source"])
                document = self._catalog.version(key, current_id(head))
                if document:
                    yield document

    def _switch(self, job: Job) -> None:
        """Where others can be kept out for a moment, nothing is left to make up for afterwards."""
        if self._editions.book.read().active.name != job.edition and self._renew_some(job) > FEW_CHANGES:
            return  # more came while the two were compared: those first, without keeping anybody out
        self._under_way.clear()
        with self._exclusive():
            state = self._editions.book.read()
            if state.active.name != job.edition:
                while self._pace.alone and self._renew_some(job):
                    pass
                self._editions.book.write(self._exchanged(state, job))
        self._switched()
        job.phase = Phase.SETTLING
        job.rounds = 0

    def _exchanged(self, state: IndexState, job: Job) -> IndexState:
        new = state.edition(job.edition)
        assert new is not None
        readable = self._is_readable(state.active)
        was = EditionState.PREVIOUS if readable else EditionState.UNREADABLE
        incarnation = self._editions.open(new).incarnation
        new = replace(new, state=EditionState.ACTIVE, switched_at=self._clock(), incarnation=incarnation)
        old = replace(state.active, state=was)
        others = tuple(one for one in state.others if one.name != new.name)
        return IndexState(state.revision, new, (*others, old))

    def _settle(self, job: Job) -> None:
        """Make up for what others changed while it was switched. It answers now, so that each is claimed."""
        edition, journal = self._target(job), self._editions.journal
        busy = 0
        for key_id, mark in journal.read(edition.name, CHANGES_A_STEP):
            if self._renew_claimed(edition, key_id):
                job.renewed += 1
                journal.drop(edition.name, key_id, mark)
            else:
                busy += 1
        job.rounds += 1
        if not journal.count(edition.name, 1):
            job.phase = Phase.DONE
        elif job.rounds >= SETTLING_ROUNDS or (busy and self._pace.alone):
            # What is left was interrupted: it is taken in again, into the index that answers now.
            job.phase = Phase.DONE
        elif busy:
            job.not_before = self._clock() + self._pace.pause_seconds

    def _renew_claimed(self, edition: OpenEdition, key_id: str) -> bool:
        head = self._keys.get({"documentKey": key_id})
        if head is None:
            self._filler.renew(edition, key_id, None, since=edition.edition.made_at)
            return True
        if head.get("writing"):
            return False
        key = DocumentKey(scope_of_key(head["scope"]), head["source"])
        try:
            claim = self._catalog.claim(
                key, ObjectEvent(f"{key.scope.prefix}{key.source}", deleted=False, sequencer="")
            )
        except (BusyError, StaleEventError):
            return False
        try:
            self._filler.renew(edition, key_id, claim.head, since=edition.edition.made_at)
        finally:
            held = self._catalog.release(claim, applied=True)
        return held
