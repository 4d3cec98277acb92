"""Analyses traces of a service's failing and slowest requests: own time and failures of each part.

Segments follow "AWS X-Ray segment documents" (AWS X-Ray Developer Guide): a service's work on a request, with
subsegments for its calls. A downstream service reports its work as a segment whose parent is the subsegment of the
call, so that the call's own time excludes both its own parts and that segment.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opx.hygiene.secrets import mask
from opx.ports import Clock
from opx.ports.telemetry import Trace, TraceStore, TraceSummary
from opx_telemetry.rules import TelemetryRules

MOST_SUMMARIES = 2000
MOST_TRACES = 50
_FOR_LISTING = 0.5
"""Share of the time limit for listing traces: the rest is for reading them."""

MOST_PIECES = 20_000
"""Segments and subsegments of one trace: those beyond are left out."""
MOST_EXAMPLES = 3
MOST_EXCEPTIONS = 3
_EXCEPTION_CHARACTERS = 200
_NAME_CHARACTERS = 250

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """Analysis of a service's traces: `found` were listed, `looked_into` were read. `partial`: fewer than intended."""

    service: str
    start: int
    end: int
    found: int = 0
    looked_into: int = 0
    slowest: tuple[TimedPart, ...] = ()
    failing: tuple[TimedPart, ...] = ()
    partial: bool = False
    notes: tuple[str, ...] = ()


class TraceAnalysis:
    """Lists the traces of a service, and reads the failed and slowest ones."""

    def __init__(self, store: TraceStore, rules: TelemetryRules, *, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock

    def answer(self, service: str, minutes: int = 60, limit: int = 5) -> TraceAnswer:
        """Analyses traces. Raises `InvalidInputError` for what may not be queried, and `StoreUnavailableError`."""
        self._rules.check_service(service)
        self._rules.check_minutes(minutes)
        begun = self._clock()
        start, end = int(begun) - 60 * minutes, int(begun)
        until = begun + _FOR_LISTING * self._rules.seconds
        found = self._store.find(service, start=start, end=end, deadline=until, most=MOST_SUMMARIES)
        wanted = _worth_reading(found.summaries)
        traces = self._read(wanted, begun + self._rules.seconds)
        parts = sorted(parts_of(traces), key=lambda part: (-part.own_seconds, part.service, part.name))
        notes = _notes(len(found.summaries), found.complete, len(wanted), len(traces))
        return TraceAnswer(
            service,
            start,
            end,
            len(found.summaries),
            len(traces),
            tuple(parts[:limit]),
            _failing(parts, limit),
            not found.complete or len(traces) < len(wanted),
            tuple(notes),
        )

    def _read(self, trace_ids: Sequence[str], deadline: float) -> list[Trace]:
        traces: list[Trace] = []
        for first in range(0, len(trace_ids), self._store.batch):
            if self._clock() >= deadline:
                break
            traces += self._store.traces(trace_ids[first : first + self._store.batch])
        return traces


def _worth_reading(summaries: Sequence[TraceSummary]) -> list[str]:
    """Selects the traces to read: failed ones for at most half of them, then the slowest; the slowest first in both."""
    slowest = sorted(summaries, key=lambda one: (-one.seconds, one.trace_id))
    failed = [one.trace_id for one in slowest if one.failed]
    wanted = dict.fromkeys((*failed[: MOST_TRACES // 2], *(one.trace_id for one in slowest)))
    return list(wanted)[:MOST_TRACES]


def _failing(parts: Sequence[TimedPart], limit: int) -> tuple[TimedPart, ...]:
    failing = [part for part in parts if part.failures]
    failing.sort(key=lambda part: (-part.faults, -part.failures, part.service, part.name))
    return tuple(failing[:limit])


def _notes(found: int, complete: bool, wanted: int, read: int) -> list[str]:
    notes = []
    if not found:
        notes.append("no trace went through this service in that time, or none was kept: tracing may be sampled or off")
    if not complete:
        notes.append(f"only the newest {found:,} traces were looked at; query a shorter time range")
    if wanted < found:
        notes.append(f"of {found:,} traces the {wanted} that failed or took longest were chosen: times are not typical")
    if read < wanted:
        notes.append(f"only {read} of {wanted} traces could be read")
    return notes


@dataclass(slots=True)
class TimedPart:
    """Totals of one kind of segment or call: `name` is the call's, empty for a service's own work. Times in seconds."""

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
        """Ids of example traces: failed ones first, then the slowest."""
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
    """A segment or subsegment with its trace and service. `children` are its
    subsegments and the segments of the services that it called."""

    trace_id: str
    service: str
    name: str
    document: Document
    children: Sequence[Document]


def parts_of(traces: Iterable[Trace]) -> list[TimedPart]:
    """Returns the parts of all these traces, unordered."""
    parts: dict[tuple[str, str], TimedPart] = {}
    for trace in traces:
        for piece in _pieces(trace):
            key = (piece.service, piece.name)
            part = parts.setdefault(key, TimedPart(*key))
            part.add(piece, _own_seconds(piece))
    return list(parts.values())


def _pieces(trace: Trace) -> Iterator[_Piece]:
    """Yields every segment and subsegment that has ended, without those that X-Ray inferred: they repeat the call."""
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
    """Returns `DynamoDB GetItem` for a call of AWS, else the name in the document."""
    aws = document.get("aws")
    operation = _text(aws.get("operation")) if isinstance(aws, Mapping) else ""
    return f"{_text(document.get('name'))} {operation}".strip()


def _own_seconds(piece: _Piece) -> float:
    """Seconds of a piece outside its children's; children that ran at once count once."""
    start, end = _span(piece.document) or (0.0, 0.0)
    covered, until = 0.0, start
    for child_start, child_end in sorted(filter(None, map(_span, piece.children))):
        begins, ends = max(child_start, until), min(child_end, end)
        if ends > begins:
            covered += ends - begins
            until = ends
    return max(end - start - covered, 0.0)


def _span(document: Document) -> tuple[float, float] | None:
    """Returns start and end in seconds; None for a segment that hasn't ended or has invalid times."""
    start, end = _seconds(document.get("start_time")), _seconds(document.get("end_time"))
    return (start, end) if 0 <= start <= end else None


def _seconds(value: Any) -> float:
    """Returns the number, or NaN for a value that is none: no comparison with it holds."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def _exceptions(document: Document) -> Iterator[str]:
    """Yields type and first line of each exception, with secrets masked. A cause may also be the id of another segment's."""
    cause = document.get("cause")
    raised = cause.get("exceptions") if isinstance(cause, Mapping) else None
    for exception in raised if isinstance(raised, list) else ():
        if isinstance(exception, Mapping):
            first = (_text(exception.get("message"), 10_000).splitlines() or [""])[0]
            text = ": ".join(filter(None, (_text(exception.get("type")), mask(first)[0])))
            if text:
                yield text[:_EXCEPTION_CHARACTERS]


def _text(value: Any, most: int = _NAME_CHARACTERS) -> str:
    return value[:most].strip() if isinstance(value, str) else ""
