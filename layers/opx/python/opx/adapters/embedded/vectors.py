"""Finds the nearest rows of the vector files by their high bytes, and scores exactly only those that may be among them.

A record has the length of what its row adds to the high bytes. That bounds the row's product with a query (Cauchy-Schwarz),
so that the result is that of scoring every row: a row is left out only if enough entries are certainly nearer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
from msgspec import Struct, field

from opx.adapters.embedded.vector_files import Floats, Numbers, Records, quantised

_BLOCK = 8_192
"""Records scored at a time: their bounds are computed while they are in the processor's cache."""

_FEW_ROWS = 1_024
"""Rows up to which all are scored exactly: it takes less time than to find those that need it."""

_BRIDGED = 128
"""Rows between two runs up to which scoring them, too, costs less than another call."""

_SCAN, _CALL, _GATHER = 0.02, 6.0, 0.09
"""Microseconds for a row that is scored where it lies, for a call, and for a row that is copied first."""

_MOST_ROWS = 0.5
"""Share of the rows from which all are scored, for the next runs of the same question, too."""

_SURVIVORS = 2_048
"""Rows more than were left that are added until those that are out of reach are removed."""

_SLACK = 1e-5
"""Added to bounds, for rounding in single precision."""


class LatestBounds:
    """The bounds of the first records for the latest question. Threads may share it."""

    def __init__(self) -> None:
        self._kept: tuple[bytes, Floats, Floats] | None = None

    def of(self, query: Floats) -> tuple[Floats, Floats] | None:
        """Middles and margins, if this is the question."""
        kept = self._kept
        return kept[1:] if kept is not None and kept[0] == query.tobytes() else None

    def keep(self, query: Floats, middles: Floats, margins: Floats) -> None:
        self._kept = query.tobytes(), middles, margins


class VectorRows(Protocol):
    """Rows by their slots: the records of all, and the vectors of some."""

    @property
    def records(self) -> Records: ...

    def vectors(self, slots: Numbers) -> Floats: ...


class NearestRows(Struct, frozen=True):
    """Finds the nearest of the rows of one state."""

    rows: VectorRows
    latest: LatestBounds = field(default_factory=LatestBounds)

    def nearest(
        self, runs: tuple[Numbers, Numbers], query: Floats, wanted: int, holders: Callable[[Numbers], Numbers]
    ) -> tuple[Numbers, Floats]:
        """Slots with their exact products with the query, ascending. They contain the nearest row of each of the `wanted`
        nearest entries, and of those that tie with the last of them.

        `runs` are the starts and ends of runs of slots that may be found, ascending; `holders` returns the entries of
        ascending slots.
        """
        if int((runs[1] - runs[0]).sum()) <= _FEW_ROWS:
            slots = _slots_in(*runs)
            return slots, self._products(slots, query)
        runs = _joined(*runs)
        found = _Survivors(wanted, holders)
        for part, middles, margins in self._bounds(runs, query):
            found.add(part, middles, margins, runs)
        slots, middles, margins = found.settled()
        first = np.sort(np.argsort(-middles)[: 2 * wanted])
        scores = np.full(len(slots), -np.inf, np.float32)
        scores[first] = self._products(slots[first], query)
        near = middles + margins >= _level(slots[first], scores[first], wanted, holders) - _SLACK
        rest = np.flatnonzero(near & np.isneginf(scores))
        scores[rest] = self._products(slots[rest], query)
        return slots[near], scores[near]

    def _bounds(self, runs: tuple[Numbers, Numbers], query: Floats) -> Iterator[tuple[Numbers | int, Floats, Floats]]:
        """The bounds of the records of these runs, part by part, each with the slots as `_parts` has them. A question
        searches one tier after the other with the same vector: bounds of most rows are kept for the next tier."""
        before, end = self.latest.of(query), int(runs[1][-1])
        encoded = _Query(query)
        if before is not None:
            if end > len(before[0]):  # and not beyond the runs: later rows may not be committed yet
                more = encoded.bounds(self.rows.records[len(before[0]) : end])
                before = np.append(before[0], more[0]), np.append(before[1], more[1])
                self.latest.keep(query, *before)
            slots = _slots_in(*runs)
            yield from _growing(slots, before[0][slots], before[1][slots])
        elif (runs[1] - runs[0]).sum() < _MOST_ROWS * len(self.rows.records):
            for where, records in _parts(self.rows.records, *runs):
                yield where, *encoded.bounds(records)
        else:
            middles, margins = np.empty((2, end), np.float32)
            for at, records in _spans(self.rows.records, [0], [end]):
                part = slice(at, at + len(records))
                middles[part], margins[part] = encoded.bounds(records)
            self.latest.keep(query, middles, margins)
            yield from _growing(0, middles, margins)

    def _products(self, slots: Numbers, query: Floats) -> Floats:
        """The products of the rows at these slots with the query. Copies a few thousand rows at a time."""
        scores = np.empty(len(slots), np.float32)
        for at in range(0, len(slots), _BLOCK):
            scores[at : at + _BLOCK] = products(self.rows.vectors(slots[at : at + _BLOCK]), query)
        return scores


def products(rows: Floats, query: Floats) -> Floats:
    """The products of rows with a query. simsimd takes half of numpy's time for it, and leaves no threads of BLAS waiting."""
    from simsimd import cdist

    if not len(rows):
        return np.empty(0, np.float32)
    found: Floats = np.asarray(cdist(query[None], rows, "dot", out_dtype="float32"))[0]
    return found


class _Query:
    """A query in codes, and the lengths from which the bounds of a product follow."""

    def __init__(self, query: Floats) -> None:
        record = quantised(query[None])["record"]
        self._codes = record["codes"]
        self._step = record["step"][0]
        self._length = float(np.linalg.norm(query))
        self._error = float(np.linalg.norm(query - self._codes[0] * self._step))

    def bounds(self, records: Records) -> tuple[Floats, Floats]:
        """Products with the records, and the margins that exact products with their rows may differ from them.

        With a query q = q' + d and a row r = r' + e, of which q' and r' are in codes, q·r - q'·r' = d·r' + q·e. The lengths
        of d, r', q and e bound it.
        """
        from simsimd import cdist

        middles: Floats = np.asarray(cdist(self._codes, records["codes"], "dot", out_dtype="float32"))[0]
        middles *= records["step"]
        middles *= self._step
        margins: Floats = np.multiply(records["error"], np.float32(self._length))
        margins += records["length"] * np.float32(self._error + _SLACK * self._length)
        margins += _SLACK
        return middles, margins


class _Survivors:
    """The rows that may be among the nearest, of those added so far, in the order of their slots."""

    def __init__(self, wanted: int, holders: Callable[[Numbers], Numbers]) -> None:
        self._wanted = wanted
        self._holders = holders
        self._floor = -np.inf
        self._parts: list[tuple[Numbers, Floats, Floats]] = []
        self._count = self._enough = 0

    def add(self, slots: Numbers | int, middles: Floats, margins: Floats, runs: tuple[Numbers, Numbers]) -> None:
        """Adds scored rows: at these slots, or from a slot on, where only those in the runs count."""
        near = np.flatnonzero(middles + margins >= self._floor)
        if isinstance(slots, int):
            starts, ends = runs
            run = np.searchsorted(starts, near + slots, side="right") - 1
            near = near[(run >= 0) & (near + slots < ends[run])]
            chosen = near + slots
        else:
            chosen = slots[near]
        self._parts.append((chosen, middles[near], margins[near]))
        self._count += len(chosen)
        if self._count > self._enough:
            self._count = len(self.settled()[0])
            self._enough = 2 * self._count + _SURVIVORS

    def settled(self) -> tuple[Numbers, Floats, Floats]:
        """Slots, middles and margins of the rows that may still be among the nearest."""
        if self._enough and len(self._parts) == 1:
            return self._parts[0]  # nothing was added since
        slots, middles, margins = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        self._floor = max(self._floor, _level(slots, middles - margins, self._wanted, self._holders))
        stay = middles + margins >= self._floor
        self._parts = [(slots[stay], middles[stay], margins[stay])]
        return self._parts[0]


def _level(slots: Numbers, scores: Floats, wanted: int, holders: Callable[[Numbers], Numbers]) -> float:
    """The score of the last of the `wanted` best entries, if there are so many. `slots` ascend."""
    scores = best_of_each(holders(slots), scores)[1]
    return float(np.partition(scores, -wanted)[-wanted]) if len(scores) >= wanted else -np.inf


def best_of_each(entries: Numbers, scores: Floats) -> tuple[Numbers, Floats]:
    """Each entry once, with the best of its scores. `entries` ascend."""
    if not len(entries):
        return entries, scores
    is_first = np.ones(len(entries), np.bool_)
    np.not_equal(entries[1:], entries[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    return entries[firsts], np.maximum.reduceat(scores, firsts)


def _joined(starts: Numbers, ends: Numbers, gap: int = 0) -> tuple[Numbers, Numbers]:
    """Runs, of which those with up to `gap` slots between them are one."""
    apart = np.flatnonzero(starts[1:] - ends[:-1] > gap)
    return starts[np.append(0, apart + 1)], ends[np.append(apart, len(ends) - 1)]


def _parts(records: Records, starts: Numbers, ends: Numbers) -> Iterator[tuple[Numbers | int, Records]]:
    """Records that contain those of the runs, part by part: where they lie with the first one's slot, or copies with the
    slots of each, by what takes less time."""
    firsts, lasts = _joined(starts, ends, _BRIDGED)
    counts = ends - starts
    in_place = _SCAN * int((lasts - firsts).sum()) + _CALL * len(firsts)
    if in_place <= (_SCAN + _GATHER) * int(counts.sum()):
        yield from _spans(records, firsts.tolist(), lasts.tolist())
        return
    slots = _slots_in(starts, ends)
    opaque = records.view(np.dtype((np.void, records.dtype.itemsize)))  # copied as bytes, not field by field
    for at in range(0, len(slots), _BLOCK):
        chosen = slots[at : at + _BLOCK]
        yield chosen, opaque[chosen].view(records.dtype)


def _growing(slots: Numbers | int, middles: Floats, margins: Floats) -> Iterator[tuple[Numbers | int, Floats, Floats]]:
    """Scored rows part by part, each twice as long as the one before: what is near among the first leaves little of the
    others."""
    at, size = 0, _BLOCK
    while at < len(middles):
        part = slice(at, at + size)
        yield slots + at if isinstance(slots, int) else slots[part], middles[part], margins[part]
        at, size = at + size, 2 * size


def _slots_in(starts: Numbers, ends: Numbers) -> Numbers:
    """The slots of runs."""
    counts = ends - starts
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(int(counts.sum()))


def _spans(records: Records, firsts: list[int], lasts: list[int]) -> Iterator[tuple[int, Records]]:
    for first, last in zip(firsts, lasts, strict=True):
        for at in range(first, last, _BLOCK):
            yield at, records[at : min(at + _BLOCK, last)]
