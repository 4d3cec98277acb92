"""What people ask for: a new index, the way back, and that what doesn't answer is removed."""

from __future__ import annotations

import logging
from pathlib import Path
from secrets import token_hex

from opx.domain.record import replace
from opx.domain.times import iso_time
from opx.errors import InvalidInputError
from opx.ingestion.indexing.book import Edition, EditionState, IndexState
from opx.lifecycle.reindex.job import AFTER_THE_SWITCH, Job, Phase
from opx.lifecycle.reindex.making import Making

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
            self._making.jobs.hold(state.target or "", lambda: Job(state.target or "", Phase.DONE))
            state = self._making.editions.book.write(replace(state, others=others, target=None))
        for edition in state.others:  # those of an interrupted attempt included
            self._making.indexes.remove(edition)
            self._making.editions.journal.clear(edition.name)
        if gone:
            self._making.jobs.release(Job(state.active.name, Phase.DONE))
        return gone


def _everywhere(folder: str) -> str:
    """The name of a folder by which it is found wherever a process was started."""
    return str(Path(folder).expanduser().absolute()) if folder else ""
