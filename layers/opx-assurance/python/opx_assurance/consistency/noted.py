"""Notes the segments that `opx reconcile` has compared, so that an interrupted comparison goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import field

from opx.domain.record import Record, from_json
from opx.ports import Clock, ObjectStore
from opx.ports.objects import read_object
from opx_assurance.consistency.comparing import WHOLE, StoreSegment
from opx_assurance.consistency.differences import StoreFinding
from opx_assurance.consistency.store_checks import CheckedDocuments

NOTED_SECONDS = 86_400.0
"""Time after which an interrupted comparison begins anew. Until then its findings are as good as new ones: each repair looks
at the present state."""

_FOLDERS = {False: "bulk/reconcile/found/", True: "bulk/reconcile-thorough/found/"}
_SEGMENTS = "segments.json"

CompareSegments = Callable[[Sequence[StoreSegment]], Iterator[tuple[StoreSegment, CheckedDocuments]]]
"""Yields segments with their findings, in any order."""


class SegmentFound(Record, frozen=True, kw_only=True):
    """Findings of a segment, with the numbers of compared items by their names in the report."""

    found: tuple[StoreFinding, ...] = ()
    compared: dict[str, int] = field(default_factory=dict)
    in_flight: int = 0
    failed: int = 0

    @classmethod
    def of(cls, checked: CheckedDocuments) -> SegmentFound:
        found, compared = tuple(checked.found), dict(checked.compared)
        return cls(found=found, compared=compared, in_flight=checked.in_flight, failed=checked.failed)

    @property
    def checked(self) -> CheckedDocuments:
        return CheckedDocuments(list(self.found), Counter(self.compared), self.in_flight, self.failed)


class _Noted(Record, frozen=True):
    """The segments of a comparison, and the time when it began."""

    began: float
    segments: tuple[StoreSegment, ...]


class NotedSegments:
    """The segments of the comparison that was interrupted last, with what was found in some of them."""

    def __init__(self, store: ObjectStore, clock: Clock, *, thorough: bool) -> None:
        self._store = store
        self._clock = clock
        self._folder = _FOLDERS[thorough]

    def begin(self, cut: Callable[[], Sequence[StoreSegment]]) -> Sequence[StoreSegment]:
        """The segments of the interrupted comparison, or of a new one, which `cut` makes."""
        data = read_object(self._store, self._folder + _SEGMENTS)
        known = from_json(_Noted, json.loads(data)) if data else None
        if known and self._clock() - known.began < NOTED_SECONDS:
            return known.segments
        self._clear()
        made = _Noted(self._clock(), tuple(cut()))
        if len(made.segments) > len(WHOLE):
            self._store.put(self._folder + _SEGMENTS, msgspec.json.encode(made))
        return made.segments

    def compared(self, segments: Sequence[StoreSegment], compare: CompareSegments) -> Iterator[CheckedDocuments]:
        """Findings of all segments, known ones first; `compare` is called with the others."""
        known: set[StoreSegment] = set()
        names = {segment: f"{self._folder}{number:05}.json" for number, segment in enumerate(segments)}
        for segment, name in names.items():
            data = read_object(self._store, name)
            if data:
                known.add(segment)
                yield from_json(SegmentFound, json.loads(data)).checked
        for segment, checked in compare([one for one in segments if one not in known]):
            self._store.put(names[segment], msgspec.json.encode(SegmentFound.of(checked)))
            yield checked
        self._clear()

    def _clear(self) -> None:
        self._store.delete_many([info.key for info in self._store.list(self._folder)])
