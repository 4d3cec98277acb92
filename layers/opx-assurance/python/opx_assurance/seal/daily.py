"""Seals once a day, in one run on a machine, and in several runs where functions have limited time.

Each leaf is compared with the last seal as it is read. What was altered without an ingestion must be looked at first, as a
new seal would hide it: the old one stays, and the next run says so again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Annotated

from opx.domain.ids import iso_time
from opx.domain.record import Record, about, replace
from opx.errors import TooLargeError
from opx.lifecycle.costs import MOST_SEALED
from opx.ports import Clock
from opx.runtime.metrics import Metric, Report
from opx_assurance.seal.contents import DOCUMENTS_PART, LeafBatch
from opx_assurance.seal.records import Hashes, Seal, SealProgress
from opx_assurance.seal.sealing import ALTERED, MOST_NAMED, SealDifference, Sealing, is_lasting

log = logging.getLogger(__name__)

_MOST_DOUBTS = 300
"""Of those that are described again at the end: a name has up to 1 KB, and they are kept in one item of 400 KB."""


_ACCEPTED = "accepted"
"""In place of the root of the seal that a seal in the making is compared with."""


class SealOutcome(StrEnum):
    SEALED = "sealed"
    DONE = "done"
    """It was sealed today already."""
    ALTERED = "altered"
    UNFINISHED = "unfinished"


class DaySeal(Record, frozen=True):
    """Result of a run. `seal` is the new one, or the one of before that stays."""

    outcome: SealOutcome
    items: Annotated[int, about("Leaves that were read for the seal.")] = 0
    count: Annotated[int, about("Items that were altered and not ingested since.")] = 0
    altered: Annotated[tuple[SealDifference, ...], about("The first hundred of them.")] = ()
    seal: Seal | None = None

    def lines(self) -> Iterator[str]:
        """Lines for the operator."""
        if self.outcome is SealOutcome.ALTERED:
            yield (
                f"seal: {self.count:,} items were altered and not ingested since, such as {self.altered[0].name}: "
                "`opx seal --verify` lists them, and `opx seal` accepts them"
            )
        if self.outcome is SealOutcome.SEALED and self.seal:
            yield f"sealed: root {self.seal.root}" + ("" if self.seal.signature else ", not signed")

    def report(self, report: Report) -> None:
        """Reports the number of altered items, once all were compared, and logs their names."""
        for one in self.altered:
            log.error("altered since the last seal, and not ingested: %s %s", one.part, one.name)
        for line in self.lines():
            log.info(line)
        if self.outcome is not SealOutcome.UNFINISHED:
            report(Metric.SEAL_CONTRADICTIONS, float(self.count))


class DailySealing:
    """Makes the seal of a day. `waiting` returns the keys of changed objects that are announced and not yet ingested."""

    def __init__(self, sealing: Sealing, waiting: Callable[[], frozenset[str]], clock: Clock) -> None:
        self._sealing = sealing
        self._store = sealing.store
        self._contents = sealing.contents
        self._waiting = waiting
        self._clock = clock

    def run(self, *, seconds: float = float("inf"), accept: bool = False) -> DaySeal:
        """Seals for so long; the next run goes on. Nothing is done on a day that has a seal. With `accept`, what was altered
        is sealed as it is, also over a seal of another key; the runs that go on with it need not be called so.

        Raises `AlteredSealError` and `UntrustedSealError` for a last seal that was altered or is not signed by this key,
        `InvalidInputError` for a key that can't be used, `TooLargeError` for more than `MOST_SEALED` in limited time, and
        `StoreUnavailableError`.
        """
        end, now = self._clock() + seconds, iso_time(self._clock())
        begun = self._store.progress()
        accept = accept or (begun is not None and begun.before == _ACCEPTED)
        last = None if accept else self._sealing.trusted_last()
        if last and last.at[:10] == now[:10]:
            self._store.forget()
            return DaySeal(SealOutcome.DONE, seal=last)
        root = _ACCEPTED if accept else last.root if last else ""
        progress = begun if begun and begun.before == root else SealProgress(now, root)
        before = self._store.leaves(last) if last else {}
        for batch in self._contents.batches(progress.position):
            if last:
                self._compare(batch, before, last, progress)
            progress.add(batch.leaves, batch.position)
            if seconds < float("inf") and progress.count > MOST_SEALED:
                self._store.forget()
                raise TooLargeError(
                    f"more than {MOST_SEALED:,} items: `opx seal` has no limit, or shorten OPX_AUDIT_DAYS"
                )
            if self._clock() >= end:
                self._store.keep(progress)
                log.info("%d items are read for the seal: the next run goes on", progress.count)
                return DaySeal(SealOutcome.UNFINISHED, progress.count, seal=last)
        return self._finished(last, progress)

    def _compare(self, batch: LeafBatch, before: Hashes, last: Seal, progress: SealProgress) -> None:
        for leaf in batch.leaves:
            known = before.get(leaf.part, {}).get(leaf.id)
            if known is None or known == leaf.hash.hex() or not is_lasting(leaf.part):
                continue
            found = self._sealing.described(last, SealDifference(leaf.part, ALTERED, leaf.name), leaf.id)
            if found.is_unexplained:
                progress.doubted += 1
                if len(progress.doubts) < _MOST_DOUBTS:
                    progress.doubts.append([leaf.part, leaf.id, leaf.name])

    def _finished(self, last: Seal | None, progress: SealProgress) -> DaySeal:
        altered = list(self._still_altered(last, progress)) if last else []
        count = len(altered) + progress.doubted - len(progress.doubts)
        if count:
            self._store.forget()
            return DaySeal(SealOutcome.ALTERED, progress.count, count, tuple(altered[:MOST_NAMED]), last)
        sealed = self._sealing.sign(progress.at, progress.hashes)
        self._store.forget()
        return DaySeal(SealOutcome.SEALED, progress.count, seal=sealed)

    def _still_altered(self, last: Seal, progress: SealProgress) -> Iterator[SealDifference]:
        """Doubts that no ingestion of the meantime explains, nor one that is still to come."""
        waiting = self._waiting() if progress.doubts else frozenset()
        for part, leaf, name in progress.doubts:
            found = self._sealing.described(last, SealDifference(part, ALTERED, name), leaf)
            if found.is_unexplained and not (part == DOCUMENTS_PART and name in waiting):
                yield replace(found, name=found.name or leaf)
