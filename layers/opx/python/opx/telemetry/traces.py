"""Looks into the failing and the slowest requests that went through a service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opx.ports import Clock
from opx.ports.telemetry import Trace, TraceStore, TraceSummary
from opx.telemetry.rules import TelemetryRules
from opx.telemetry.trace_parts import Part, parts_of

MOST_SUMMARIES = 2000
MOST_TRACES = 50
_FOR_LISTING = 0.5
"""The part of the time after which no more traces are listed: the rest is for looking into them."""


@dataclass(frozen=True, slots=True)
class TraceAnswer:
    """`found` traces went through the service, `looked_into` of them were read. `partial`: not all that should be."""

    service: str
    start: int
    end: int
    found: int = 0
    looked_into: int = 0
    slowest: tuple[Part, ...] = ()
    failing: tuple[Part, ...] = ()
    partial: bool = False
    notes: tuple[str, ...] = ()


class TraceAnalysis:
    """Lists traces, and reads those that are worth it."""

    def __init__(self, store: TraceStore, rules: TelemetryRules, *, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._clock = clock

    def answer(self, service: str, minutes: int = 60, limit: int = 5) -> TraceAnswer:
        """Raises `InvalidInputError` for what may not be asked, `StoreUnavailableError`."""
        self._rules.check_service(service)
        self._rules.check_minutes(minutes)
        begun = self._clock()
        start, end = int(begun) - 60 * minutes, int(begun)
        until = begun + _FOR_LISTING * self._rules.seconds
        found = self._store.find(service, start=start, end=end, deadline=until, most=MOST_SUMMARIES)
        wanted = _worth_reading(found.summaries)
        traces = self._read(wanted, begun + self._rules.seconds)
        parts = parts_of(traces)
        notes = _notes(len(found.summaries), found.complete, len(wanted), len(traces))
        return TraceAnswer(
            service,
            start,
            end,
            len(found.summaries),
            len(traces),
            _slowest(parts, limit),
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
    """Half of them at most for having failed, the slowest first in both halves; the rest goes to the slowest."""
    slowest = sorted(summaries, key=lambda one: (-one.seconds, one.trace_id))
    failed = [one.trace_id for one in slowest if one.failed]
    wanted = dict.fromkeys((*failed[: MOST_TRACES // 2], *(one.trace_id for one in slowest)))
    return list(wanted)[:MOST_TRACES]


def _slowest(parts: Sequence[Part], limit: int) -> tuple[Part, ...]:
    return tuple(sorted(parts, key=lambda part: (-part.own_seconds, part.service, part.name))[:limit])


def _failing(parts: Sequence[Part], limit: int) -> tuple[Part, ...]:
    failing = [part for part in parts if part.failures]
    failing.sort(key=lambda part: (-part.faults, -part.failures, part.service, part.name))
    return tuple(failing[:limit])


def _notes(found: int, complete: bool, wanted: int, read: int) -> list[str]:
    notes = []
    if not found:
        notes.append("no trace went through this service in that time, or none was kept: tracing may be sampled or off")
    if not complete:
        notes.append(f"only the newest {found:,} traces were looked at; ask for less time")
    if wanted < found:
        notes.append(f"of {found:,} traces the {wanted} that failed or took longest were chosen: times are not typical")
    if read < wanted:
        notes.append(f"only {read} of {wanted} traces could be read")
    return notes
