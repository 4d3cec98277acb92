"""When a source is pulled: by its schedule, soon again if it failed, and with a little of its own delay."""

from __future__ import annotations

from datetime import datetime

from opx.domain.ids import stable_hash
from opx.domain.sources import SourceDefinition
from opx.sources.schedules import next_time
from opx.sources.states import PullState

MAX_RETRIES = 3
"""Of a pull that failed, before its next scheduled time."""

FIRST_PAUSE_SECONDS = 60.0
JITTER_SECONDS = 60


def due_at(definition: SourceDefinition, state: PullState) -> float | None:
    """When the source is to be pulled next, in seconds since the epoch; None if only by hand.

    At once if it never was or if its last pull stopped half-way; when it says or after a pause that doubles if it
    failed, up to three times; else at the first scheduled time after the last attempt, and up to a minute later, so
    that not all sources start together.
    """
    if not (definition.schedule and definition.enabled):
        return None
    if not state.last_attempt:
        return 0.0
    tried = datetime.fromisoformat(state.last_attempt).timestamp()
    if state.error and state.failures <= MAX_RETRIES:
        return tried + retry_delay(state, tried)
    if state.run and not state.error:
        return tried
    return next_time(definition.schedule, definition.time_zone, tried) + _jitter(definition.source_id)


def retry_delay(state: PullState, now: float) -> float:
    """Seconds until a pull that failed is tried again: what the source asked for, or a minute, two, four."""
    return max(state.retry_at - now, FIRST_PAUSE_SECONDS * 2.0 ** min(max(0, state.failures - 1), 10))


def _jitter(source_id: str) -> int:
    return int(stable_hash("jitter", source_id), 16) % JITTER_SECONDS
