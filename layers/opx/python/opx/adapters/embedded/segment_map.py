"""Holds the live segments of the embedded index in memory, as arrays with a row per segment, not per chunk: a filter over
100,000 chunks takes well under a millisecond.

The arrays only grow. A map of a later state shares them with the maps before it: it appends what was added, and has a mask of
its own of what is live. So following a commit takes time for what it changed, whatever the size of the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from opx.adapters.embedded.segments import SPREAD, SegmentRow, SharedFields
from opx.ports import SearchFilter

Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.intp]

_DEAD_KEPT = 10_000
"""Dead segments in the arrays beyond the number of live ones, after which all are read anew."""

_BLOCK = 20_000
"""Rows that are in memory as objects while all are read."""

_NO_DAY = np.iinfo(np.int64).min


class SegmentMap:
    """An immutable view of all live segments. Their entries, and dead ones between them, are numbered in the order of their
    slots."""

    def __init__(self, rows: Iterable[SegmentRow]) -> None:
        """`rows` in the order of their slots."""
        arrays, remaining = _Arrays(), iter(rows)
        while block := list(islice(remaining, _BLOCK)):
            arrays.add(block)
        self._show(arrays, np.ones(arrays.counts.count, np.bool_))

    def _show(self, arrays: _Arrays, live: Mask) -> None:
        self._arrays = arrays
        self._live = live
        self._entries = arrays.segment_of.count
        self.counts: Numbers = arrays.counts.first(len(live))
        self.live = int(self.counts[live].sum())
        self.live_slots = int(arrays.slots_of.first(len(live))[live].sum())
        self.slots = arrays.slots

    def after(self, added: Sequence[SegmentRow], removed: Iterable[int]) -> SegmentMap | None:
        """The map after a commit that added and removed these segments. None if reading all costs less from now on, as most
        of the arrays is dead, or if another map continues this one already."""
        dead = len(self._live) - np.count_nonzero(self._live)
        if dead > len(self._live) - dead + _DEAD_KEPT:
            return None
        with self._arrays.growing:
            if self._arrays.counts.count != len(self._live):
                return None
            self._arrays.add(added)
            live = np.append(self._live, np.ones(len(added), np.bool_))
            live[[at for segment in removed if (at := self._arrays.by_id.get(segment)) is not None]] = False
            later = SegmentMap.__new__(SegmentMap)
            later._show(self._arrays, live)
            return later

    def holds(self, segment_id: int) -> bool:
        """True if the segment is live."""
        return self.is_among(segment_id, self._live)

    def shared(self, segment_id: int) -> SharedFields:
        """The fields that the chunks of the live segment with this id share."""
        arrays, at = self._arrays, self._arrays.by_id[segment_id]
        return SharedFields(
            arrays.scopes.value(at),
            arrays.tiers.value(at),
            arrays.languages.value(at),
            arrays.services.value(at),
            arrays.document_ids.value(at),
            arrays.categories.value(at),
            arrays.tags.value(at),
        )

    def is_among(self, segment_id: int, allowed: Mask) -> bool:
        """True if the segment is live and allowed."""
        index = self._arrays.by_id.get(segment_id)
        return index is not None and index < len(allowed) and bool(allowed[index])

    def are_among(self, segment_ids: Sequence[int], allowed: Mask) -> Mask:
        """Mask of the segments that are live and allowed."""
        places = np.fromiter(map(self._arrays.by_id.get, segment_ids, repeat(-1)), np.intp, len(segment_ids))
        known = (places >= 0) & (places < len(allowed))
        return known & allowed[np.where(known, places, 0)]

    def allowed(self, where: SearchFilter) -> Mask:
        """Mask of the segments that are live and pass the filter, shape (segments,)."""
        arrays, count = self._arrays, len(self._live)
        mask = self._live & arrays.scopes.any_of(where.scopes, count)
        for column, wanted in (
            (arrays.categories, where.categories),
            (arrays.tiers, where.tiers),
            (arrays.languages, where.languages),
            (arrays.document_ids, where.document_ids),
            (arrays.tags, where.tags),
            (arrays.tags, where.also_tags),
            (arrays.services, where.resources),
            (arrays.services, where.also_resources),
        ):
            if wanted:
                mask &= column.any_of(wanted, count)
        if where.updated_from is not None or where.updated_before is not None:
            mask &= _within(arrays.days.first(count), where.updated_from, where.updated_before)
        return mask

    def live_in(self, scopes: Sequence[str]) -> int:
        """Counts live entries of the scopes."""
        return int(self.counts[self._live & self._arrays.scopes.any_of(scopes, len(self._live))].sum())

    def share(self, allowed: Mask) -> float:
        """Share of the live entries that are in allowed segments."""
        return float(self.counts[allowed].sum()) / self.live if self.live else 0.0

    def entries_at(self, locations: Iterable[tuple[int, int]], allowed: Mask) -> Numbers:
        """The entries at those locations that are in allowed segments, ascending."""
        known, starts = self._arrays.by_id, self._arrays.starts.first(len(self._live))
        found = (
            starts[known[segment]] + position for segment, position in locations if self.is_among(segment, allowed)
        )
        return np.sort(np.fromiter(found, dtype=np.intp))

    def runs_of(self, allowed: Mask) -> tuple[Numbers, Numbers]:
        """The first slot of each allowed segment, and the end of its slots, ascending."""
        chosen = np.flatnonzero(allowed)
        firsts = self._arrays.first_slots_of.first(self._entries)[self._arrays.starts.first(len(self._live))[chosen]]
        return firsts, firsts + self._arrays.slots_of.first(len(self._live))[chosen]

    def runs_at(self, entries: Numbers) -> tuple[Numbers, Numbers]:
        """The first slot of each of these entries, and the end of its slots."""
        firsts = self._arrays.first_slots_of.first(self._entries)[entries]
        return firsts, firsts + self._arrays.slot_counts.first(self._entries)[entries]

    def holders(self, slots: Numbers) -> Numbers:
        """The entries that these slots belong to, for slots of live entries."""
        return np.searchsorted(self._arrays.first_slots_of.first(self._entries), slots, side="right") - 1

    def locations(self, entries: Iterable[int]) -> list[tuple[int, int]]:
        """Segment id and position within it of each entry."""
        wanted = np.fromiter(entries, dtype=np.intp)
        segments = self._arrays.segment_of.first(self._entries)[wanted]
        positions = wanted - self._arrays.starts.first(len(self._live))[segments]
        return list(zip(self._arrays.ids.first(len(self._live))[segments].tolist(), positions.tolist(), strict=True))


class _Growing:
    """Numbers of which earlier ones never change: what `first` returned stays as it is while more are added."""

    def __init__(self, kind: npt.DTypeLike) -> None:
        self._numbers: npt.NDArray[Any] = np.empty(0, kind)
        self.count = 0

    def extend(self, numbers: npt.ArrayLike) -> None:
        added = np.asarray(numbers, self._numbers.dtype)
        count = self.count + len(added)
        if count > len(self._numbers):
            room = np.empty(count + (count // 4 if self.count else 0), self._numbers.dtype)
            room[: self.count] = self._numbers[: self.count]
            self._numbers = room
        self._numbers[self.count : count] = added
        self.count = count

    def first(self, count: int) -> npt.NDArray[Any]:
        return self._numbers[:count]

    def at(self, index: int) -> Any:
        return self._numbers.item(index)


class _Column:
    """The values of one attribute, as small numbers. With `joined`, a value is several, joined by newlines."""

    def __init__(self, *, joined: bool = False) -> None:
        self._joined = joined
        self._codes: dict[str, int] = {}
        self._values: list[str] = []
        self._having: dict[str, list[int]] = {}
        self._numbers = _Growing(np.int32)

    def extend(self, values: Sequence[str]) -> None:
        for value in dict.fromkeys(values):
            if value not in self._codes:
                self._add(value)
        self._numbers.extend(np.fromiter(map(self._codes.__getitem__, values), np.int32, len(values)))

    def _add(self, value: str) -> None:
        code = len(self._values)
        self._values.append(value)
        self._codes[value] = code
        for part in value.split("\n") if self._joined and value else ():
            self._having.setdefault(part, []).append(code)

    def value(self, index: int) -> str:
        code: int = self._numbers.at(index)
        return self._values[code]

    def any_of(self, wanted: Iterable[str], count: int) -> Mask:
        """Mask of those of the first rows that have one of the values."""
        codes: list[int] = []
        for value in wanted:
            if self._joined:
                codes += self._having.get(value, ())
            elif value in self._codes:
                codes.append(self._codes[value])
        table = np.zeros(len(self._codes), np.bool_)  # after the look-ups: meanwhile codes may be added
        table[codes] = True
        mask: Mask = table[self._numbers.first(count)]
        return mask


class _Arrays:
    """The rows of segments and of entries, which several maps share. Only one thread adds at a time."""

    def __init__(self) -> None:
        self.growing = Lock()
        self.by_id: dict[int, int] = {}
        self.ids = _Growing(np.int64)
        self.scopes, self.categories, self.tiers = _Column(), _Column(), _Column()
        self.languages, self.document_ids = _Column(), _Column()
        self.tags, self.services = _Column(joined=True), _Column(joined=True)
        self.days = _Growing(np.int64)
        self.counts = _Growing(np.intp)
        self.slots_of = _Growing(np.intp)
        self.starts = _Growing(np.intp)
        self.segment_of = _Growing(np.int32)
        self.first_slots_of = _Growing(np.intp)
        self.slot_counts = _Growing(SPREAD)
        self.slots = 0

    def add(self, rows: Sequence[SegmentRow]) -> None:
        """Appends segments, in the order of their slots. What readers depend on first is added last."""
        if not rows:
            return
        before, entries = self.ids.count, self.segment_of.count
        counts = np.fromiter((row.count for row in rows), dtype=np.intp, count=len(rows))
        self._add_entries(rows, counts, before)
        self.starts.extend(np.cumsum(counts) - counts + entries)
        self.scopes.extend([row.scope for row in rows])
        self.categories.extend([row.category for row in rows])
        self.tiers.extend([row.tier for row in rows])
        self.languages.extend([row.language for row in rows])
        self.document_ids.extend([row.document_id for row in rows])
        self.tags.extend([row.tags for row in rows])
        self.services.extend([row.services for row in rows])
        self.days.extend([_NO_DAY if row.updated_day is None else row.updated_day for row in rows])
        self.slots_of.extend([row.slots for row in rows])
        self.slots = max(self.slots, *(row.first_slot + row.slots for row in rows))
        self.ids.extend([row.id for row in rows])
        self.by_id.update((row.id, before + at) for at, row in enumerate(rows))
        self.counts.extend(counts)

    def _add_entries(self, rows: Sequence[SegmentRow], counts: Numbers, before: int) -> None:
        ones = np.ones(int(counts.max()), SPREAD).tobytes()
        spread = b"".join(row.spread or ones[: row.count * SPREAD.itemsize] for row in rows)
        each = np.frombuffer(spread, SPREAD)
        self.slot_counts.extend(each)
        starts = np.cumsum(counts) - counts
        firsts = np.fromiter((row.first_slot for row in rows), dtype=np.intp, count=len(rows))
        ahead = np.cumsum(each, dtype=np.intp) - each
        self.first_slots_of.extend(ahead + np.repeat(firsts - ahead[starts], counts))
        self.segment_of.extend(np.repeat(np.arange(before, before + len(rows), dtype=np.int32), counts))


def _within(days: npt.NDArray[np.int64], first: int | None, end: int | None) -> Mask:
    """Mask of days from the first on and before the end; None is no bound."""
    mask: Mask = days != _NO_DAY
    if first is not None:
        mask &= days >= first
    if end is not None:
        mask &= days < end
    return mask
