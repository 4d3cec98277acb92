"""Finds the nearest rows of a large vector file through a copy of them in 8-bit integers, and scores exactly only those that
may be among them.

A record of the copy has a row's components as multiples of a step, and the length of what rounding has left out. That bounds
the row's product with a query (Cauchy-Schwarz), so that the result is that of scoring every row: a row is left out only if
enough entries are certainly nearer. The copy is derived from the vector file, beside which it lies; the index notes how many
records are up to date.
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from opx.adapters.embedded.durable_files import private, sync_file, sync_folder
from opx.domain.record import replace

log = logging.getLogger(__name__)

QUANTISED_FROM = 50_000
"""Rows of the vector file from which there is a copy. With fewer, the exact product of all takes a few milliseconds."""

RECORDS = "records"
"""The property of the index that notes how many rows have records."""

_ROOM = 16_384
"""Records by which the file grows: its end is sparse, so that a reader's map stays valid while records are added."""

_BLOCK = 8_192
"""Records scored at a time: their bounds are computed while they are in the processor's cache."""

_BRIDGED = 128
"""Rows between two runs up to which scoring them, too, costs less than another call."""

_SCAN, _CALL, _GATHER = 0.02, 6.0, 0.09
"""Microseconds for a row that is scored where it lies, for a call, and for a row that is copied first."""

_MOST_ROWS = 0.5
"""Share of the rows from which all are scored, for the next runs of the same question, too."""

_SURVIVORS = 2_048
"""Rows more than were left that are added until those that are out of reach are removed."""

_SAMPLES = 16
_SLACK = 1e-5
"""Added to bounds, for rounding in single precision."""

_CODES = 127

Records = npt.NDArray[np.void]
Rows = npt.NDArray[np.float32]
Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.intp]


def record_of(dimension: int) -> np.dtype[np.void]:
    """The fields of a record: a row is `codes * step` of length `length`, and what differs from it has length `error`."""
    width = -(-dimension // 4) * 4
    return np.dtype(
        {
            "names": ["codes", "step", "length", "error"],
            "formats": [(np.int8, (dimension,)), "<f4", "<f4", "<f4"],
            "offsets": [0, width, width + 4, width + 8],
            "itemsize": width + 12,
        }
    )


def quantised(rows: Rows) -> Records:
    """The records of rows."""
    records = np.zeros(len(rows), record_of(rows.shape[1]))
    step = np.abs(rows).max(axis=1) / _CODES
    codes = np.rint(rows / np.where(step > 0, step, 1)[:, None])
    kept = codes * step[:, None]
    records["codes"] = codes
    records["step"] = step
    records["length"] = np.linalg.norm(kept, axis=1)
    records["error"] = np.linalg.norm(rows - kept, axis=1)
    return records


def records_path(vectors: Path) -> Path:
    """The copy that belongs to a vector file."""
    return vectors.with_suffix(".i8")


# -- writing


class RecordWriter:
    """Keeps the copy of a vector file up to date. `upto` is the number of records that are, as noted by `note`."""

    def __init__(self, vectors: Path, dimension: int, noted: str, read: Callable[[int], Rows]) -> None:
        """`read` returns the first rows of the vector file."""
        self._vectors = vectors
        self._path = records_path(vectors)
        self._record = record_of(dimension)
        self._read = read
        self._file: Any = None
        self._upto = self._checked(_noted(noted, vectors))

    def _checked(self, noted: int) -> int:
        """The number of records that are there and agree with their rows."""
        there = min(noted, self._path.stat().st_size // self._record.itemsize if self._path.is_file() else 0)
        if not there:
            return 0
        records = np.memmap(self._path, self._record, mode="r", shape=(there,)).view(np.ndarray)
        return there if _agree(records, self._read(there)) else 0

    @property
    def note(self) -> str:
        """Name of the vector file and the number of its rows that have records; empty if none has."""
        return f"{self._vectors.name} {self._upto}" if self._upto else ""

    def write(self, slot: int, rows: Rows) -> None:
        """Writes the records of rows that were just written at `slot`, and of earlier ones that have none."""
        if not self._upto and slot + len(rows) < QUANTISED_FROM:
            return
        self.cover(slot)
        self._put(slot, rows)

    def cover(self, slots: int) -> None:
        """Writes the records of the first rows that have none."""
        earlier = self._read(slots) if self._upto < slots else None
        while earlier is not None and self._upto < slots:
            self._put(self._upto, earlier[self._upto : min(self._upto + _BLOCK, slots)])

    def _put(self, slot: int, rows: Rows) -> None:
        if self._file is None:
            new = not self._path.exists()
            self._file = os.fdopen(private(str(self._path), os.O_RDWR | (os.O_CREAT if new else 0)), "r+b")
            if new:
                sync_folder(self._path.parent)
        size = self._record.itemsize
        self._upto = slot + len(rows)
        room = -(-self._upto // _ROOM) * _ROOM * size
        if os.fstat(self._file.fileno()).st_size < room:
            os.ftruncate(self._file.fileno(), room)
        self._file.seek(slot * size)
        self._file.write(quantised(rows).tobytes())

    def sync(self) -> None:
        """Returns when all records written are on disk."""
        if self._file is not None:
            sync_file(self._file)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _noted(note: str, vectors: Path) -> int:
    """The number of records up to date of this vector file."""
    name, _, count = note.rpartition(" ")
    return int(count) if name == vectors.name else 0


def _agree(records: Records, rows: Rows) -> bool:
    """True if records all over the file are those of the rows: the copy of another index's rows, or one cut short and
    filled up, is not used."""
    sample = np.unique(np.linspace(0, len(records) - 1, _SAMPLES).astype(np.intp))
    return bool((records[sample] == quantised(rows[sample])).all())


def lacks_records(vectors: Path, note: str, slots: int) -> bool:
    """True if the first rows of a vector file are many, and not all have records."""
    return slots >= QUANTISED_FROM and not (_noted(note, vectors) >= slots and records_path(vectors).is_file())


def wrong_records(vectors: Path, note: str, rows: Rows, runs: Iterable[tuple[int, int]]) -> int:
    """The number of rows in these runs of slots whose records are not theirs; 0 if readers don't use the copy. Lengths may
    differ as much as those of another processor's arithmetic, which bounds allow for."""
    if _noted(note, vectors) < len(rows) or not records_path(vectors).is_file():
        return 0
    record = record_of(rows.shape[1])
    with records_path(vectors).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size // record.itemsize < max(len(rows), 1):
            return 0
        records = _mapped(file.fileno(), size, record)
    spans = ((at, min(at + _BLOCK, end)) for start, end in runs for at in range(start, end, _BLOCK))
    return sum(_differing(records[start:end], quantised(rows[start:end])) for start, end in spans)


def _differing(records: Records, wanted: Records) -> int:
    same = (records["codes"] == wanted["codes"]).all(axis=1) & (records["step"] == wanted["step"])
    for name in ("length", "error"):
        same &= np.isclose(records[name], wanted[name], rtol=_SLACK, atol=_SLACK)
    return int((~same).sum())


# -- reading


class RowFile:
    """Reads single rows of a vector file. A read takes half of the time of a fault in a map, and the process doesn't come to
    map all of the file."""

    def __init__(self, path: Path, dimension: int) -> None:
        self._path = path
        self._dimension = dimension
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    @property
    def identity(self) -> tuple[int, int]:
        status = os.fstat(self._file)
        return status.st_dev, status.st_ino

    def __call__(self, slots: Numbers) -> Rows:
        """The rows at these slots. Raises `OSError` if the file has been cut short."""
        size = 4 * self._dimension
        read = b"".join([os.pread(self._file, size, at) for at in (slots * size).tolist()])
        if len(read) != size * len(slots):
            raise OSError(f"{self._path} has been cut short")
        return np.frombuffer(read, "<f4").reshape(-1, self._dimension)


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


class LatestProducts:
    """The products of all rows of one state with the latest question, which searches one tier after the other. Threads may
    share it."""

    def __init__(self) -> None:
        self._kept: tuple[bytes, Floats] | None = None

    def of(self, rows: Rows, query: Floats) -> Floats:
        """The products of the rows, always the same ones, with the question."""
        kept, name = self._kept, query.tobytes()
        if kept is None or kept[0] != name:
            kept = self._kept = name, products(rows, query)
        return kept[1]


class QuantisedRows(Struct, frozen=True):
    """The records of a vector file, mapped: processes share them. `rows` returns rows by their slots; `identity` is that of
    both files."""

    records: Records
    rows: Callable[[Numbers], Rows]
    identity: tuple[int, ...] = ()
    latest: LatestBounds = field(default_factory=LatestBounds)

    def nearest(
        self, runs: tuple[Numbers, Numbers], query: Floats, wanted: int, holders: Callable[[Numbers], Numbers]
    ) -> tuple[Numbers, Floats]:
        """Slots with their exact products with the query, ascending. They contain the nearest row of each of the `wanted`
        nearest entries, and of those that tie with the last of them.

        `runs` are the starts and ends of runs of slots that may be found, ascending; `holders` returns the entries of
        ascending slots.
        """
        if not len(runs[0]):
            return np.empty(0, np.intp), np.empty(0, np.float32)
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
                more = encoded.bounds(self.records[len(before[0]) : end])
                before = np.append(before[0], more[0]), np.append(before[1], more[1])
                self.latest.keep(query, *before)
            slots = _slots_in(*runs)
            yield from _growing(slots, before[0][slots], before[1][slots])
        elif (runs[1] - runs[0]).sum() < _MOST_ROWS * len(self.records):
            for where, records in _parts(self.records, *runs):
                yield where, *encoded.bounds(records)
        else:
            middles, margins = np.empty((2, end), np.float32)
            for at, records in _spans(self.records, [0], [end]):
                part = slice(at, at + len(records))
                middles[part], margins[part] = encoded.bounds(records)
            self.latest.keep(query, middles, margins)
            yield from _growing(0, middles, margins)

    def _products(self, slots: Numbers, query: Floats) -> Floats:
        """The products of the rows at these slots with the query. Copies a few thousand rows at a time."""
        scores = np.empty(len(slots), np.float32)
        for at in range(0, len(slots), _BLOCK):
            scores[at : at + _BLOCK] = products(self.rows(slots[at : at + _BLOCK]), query)
        return scores


def quantised_rows(vectors: Path, note: str, rows: Rows, known: QuantisedRows | None = None) -> QuantisedRows | None:
    """The records of the rows of a vector file; None for few rows, and if records are missing or not those of the rows.
    `known`, those of an earlier state, are used on if they are in the same file."""
    if len(rows) < max(QUANTISED_FROM, 1) or _noted(note, vectors) < len(rows):
        return None
    single = RowFile(vectors, rows.shape[1])
    try:
        with records_path(vectors).open("rb") as file:
            status = os.fstat(file.fileno())
            identity = (*single.identity, status.st_dev, status.st_ino)
            if known is not None and known.identity == identity and len(known.records) >= len(rows):
                return replace(known, latest=LatestBounds())  # what is in the file may be another home's
            records = _mapped(file.fileno(), status.st_size, record_of(rows.shape[1]))
    except (OSError, ValueError):
        records = np.empty(0, record_of(rows.shape[1]))
    if len(records) < len(rows) or not _agree(records[: len(rows)], rows):
        log.warning("%s has not the records of %s: all vectors are scored", records_path(vectors), vectors)
        return None
    return QuantisedRows(records, single, identity)


def _mapped(file: int, size: int, record: np.dtype[np.void]) -> Records:
    return np.frombuffer(mmap.mmap(file, size // record.itemsize * record.itemsize, access=mmap.ACCESS_READ), record)


def products(rows: Rows, query: Floats) -> Floats:
    """The products of rows with a query. simsimd takes half of numpy's time for it, and leaves no threads of BLAS waiting."""
    from simsimd import cdist

    if not len(rows):
        return np.empty(0, np.float32)
    found: Floats = np.asarray(cdist(query[None], rows, "dot", out_dtype="float32"))[0]
    return found


class _Query:
    """A query in codes, and the lengths from which the bounds of a product follow."""

    def __init__(self, query: Floats) -> None:
        self._record = quantised(query[None])[0]
        self._codes = self._record["codes"][None]
        self._length = float(np.linalg.norm(query))

    def bounds(self, records: Records) -> tuple[Floats, Floats]:
        """Products with the records, and the margins that exact products with their rows may differ from them.

        With a query q = q' + d and a row r = r' + e, of which q' and r' are in codes, q·r - q'·r' = d·r' + q·e. The lengths
        of d, r', q and e bound it.
        """
        from simsimd import cdist

        middles: Floats = np.asarray(cdist(self._codes, records["codes"], "dot", out_dtype="float32"))[0]
        middles *= records["step"]
        middles *= self._record["step"]
        margins: Floats = np.multiply(records["error"], np.float32(self._length))
        margins += records["length"] * (self._record["error"] + _SLACK * self._length)
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
    firsts = np.concatenate(([0], np.flatnonzero(np.diff(entries)) + 1))
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
