"""Where the time of requests goes, and where they fail: the parts of traces, added up.

Segments are as "AWS X-Ray segment documents" (AWS X-Ray Developer Guide) has them: a service's work on a request, with
subsegments for what it calls. What a downstream service says of itself is a segment whose parent is the subsegment of
the call, so that the call's own time is what neither of its own parts nor that segment took.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opx.hygiene.secrets import mask
from opx.ports.telemetry import Trace

MOST_PIECES = 20_000
"""Of one trace: what is beyond is left out."""
MOST_EXAMPLES = 3
MOST_EXCEPTIONS = 3
_EXCEPTION_CHARACTERS = 200
_NAME_CHARACTERS = 250

Document = Mapping[str, Any]


@dataclass(slots=True)
class Part:
    """One kind of piece: `name` is that of the call, empty for a service's work itself. Times in seconds."""

    service: str
    name: str
    calls: int = 0
    own_seconds: float = 0.0
    longest_seconds: float = 0.0
    errors: int = 0
    faults: int = 0
    throttles: int = 0
    exceptions: dict[str, None] = field(default_factory=dict)
    _slow: dict[str, float] = field(default_factory=dict)
    _failed: dict[str, None] = field(default_factory=dict)

    @property
    def failures(self) -> int:
        return self.errors + self.faults + self.throttles

    @property
    def trace_ids(self) -> tuple[str, ...]:
        """Examples: failed ones first, then the slowest."""
        slow = sorted(self._slow, key=lambda trace_id: (-self._slow[trace_id], trace_id))
        return tuple(dict.fromkeys((*self._failed, *slow)))[:MOST_EXAMPLES]

    def add(self, piece: _Piece, own: float) -> None:
        document, trace_id = piece.document, piece.trace_id
        self.calls += 1
        self.own_seconds += own
        self.longest_seconds = max(self.longest_seconds, own)
        self._slow[trace_id] = max(self._slow.get(trace_id, 0.0), own)
        self.throttles += (throttled := document.get("throttle") is True)
        self.faults += (faulted := document.get("fault") is True)
        self.errors += (failed := document.get("error") is True and not throttled)
        if throttled or faulted or failed:
            self._failed[trace_id] = None
            for text in _exceptions(document):
                if len(self.exceptions) < MOST_EXCEPTIONS:
                    self.exceptions[text] = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A segment or subsegment with what it belongs to. `children` are pieces that it waited for."""

    trace_id: str
    service: str
    name: str
    document: Document
    children: Sequence[Document]


def parts_of(traces: Iterable[Trace]) -> list[Part]:
    """The parts of all these traces, in no order that matters."""
    parts: dict[tuple[str, str], Part] = {}
    for trace in traces:
        for piece in _pieces(trace):
            key = (piece.service, piece.name)
            part = parts.setdefault(key, Part(*key))
            part.add(piece, _own_seconds(piece))
    return list(parts.values())


def _pieces(trace: Trace) -> Iterator[_Piece]:
    """Every piece that has begun and ended, without what X-Ray inferred: that is the call once more."""
    segments = [segment for segment in trace.segments if not segment.get("inferred")]
    called: dict[str, list[Document]] = {}
    for segment in segments:
        called.setdefault(str(segment.get("parent_id") or ""), []).append(segment)
    waiting = [(segment, _text(segment.get("name")), "") for segment in segments]
    for _ in range(MOST_PIECES):
        if not waiting:
            return
        document, service, name = waiting.pop()
        below = [each for each in document.get("subsegments") or () if isinstance(each, Mapping)]
        waiting += [(each, service, _call_name(each)) for each in below]
        if _span(document):
            identifier = str(document.get("id") or "")
            children = (*below, *(called.get(identifier, ()) if identifier else ()))
            yield _Piece(trace.trace_id, service, name, document, children)


def _call_name(document: Document) -> str:
    """`DynamoDB GetItem` for a call of AWS, else the name that the program gave it."""
    aws = document.get("aws")
    operation = _text(aws.get("operation")) if isinstance(aws, Mapping) else ""
    return f"{_text(document.get('name'))} {operation}".strip()


def _own_seconds(piece: _Piece) -> float:
    """How long it took without the time in which a child was at work, however many were at once."""
    start, end = _span(piece.document) or (0.0, 0.0)
    covered, until = 0.0, start
    for child_start, child_end in sorted(filter(None, map(_span, piece.children))):
        begins, ends = max(child_start, until), min(child_end, end)
        if ends > begins:
            covered += ends - begins
            until = ends
    return max(end - start - covered, 0.0)


def _span(document: Document) -> tuple[float, float] | None:
    """None for what hasn't ended, and for what never can have been."""
    start, end = _seconds(document.get("start_time")), _seconds(document.get("end_time"))
    return (start, end) if 0 <= start <= end else None


def _seconds(value: Any) -> float:
    """Not a number for what is none: no comparison with it holds."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _exceptions(document: Document) -> Iterator[str]:
    """Type and first line of what was raised here, with secrets masked. A cause may be the id of another's."""
    cause = document.get("cause")
    raised = cause.get("exceptions") if isinstance(cause, Mapping) else None
    for exception in raised if isinstance(raised, list) else ():
        if isinstance(exception, Mapping):
            first = (_text(exception.get("message"), 10_000).splitlines() or [""])[0]
            told = ": ".join(filter(None, (_text(exception.get("type")), mask(first)[0])))
            if told:
                yield told[:_EXCEPTION_CHARACTERS]


def _text(value: Any, most: int = _NAME_CHARACTERS) -> str:
    return value[:most].strip() if isinstance(value, str) else ""
