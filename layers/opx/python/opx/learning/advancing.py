"""A pattern after more of what was captured was counted for it."""

from __future__ import annotations

from collections.abc import Sequence

from opx.domain.learning import Pattern, PatternOccurrence
from opx.domain.record import replace
from opx.domain.times import day_number

MOST_KEPT = 20
"""Projects, kinds of agents and tasks, and ids of evidence that a head names: the latest. All are in the occurrences."""

REFRESH_DAYS = 30
"""After which a pattern that is confirmed has its document put again, so that it is kept as long as it is in use."""


def advanced(known: Pattern, new: Sequence[PatternOccurrence], seed: Pattern, now: str) -> Pattern:
    """The pattern with these occurrences, which say what `seed` says of agents, tasks and errors."""
    worked = sum(one.worked for one in new)
    return replace(
        known,
        error_message=known.error_message or seed.error_message,
        agent_types=_latest(known.agent_types, seed.agent_types),
        task_types=_latest(known.task_types, seed.task_types),
        success_count=known.success_count + worked,
        failure_count=known.failure_count + len(new) - worked,
        embedded_at=max(now, known.embedded_at),
        first_seen=min(filter(None, (known.first_seen, *(one.at for one in new)))),
        projects=_latest(known.projects, [one.project_id for one in new]),
        evidence=_latest(known.evidence, [one.entry_id for one in new]),
    )


def _latest(known: Sequence[str], new: Sequence[str]) -> tuple[str, ...]:
    """Each once, the newest last."""
    fresh = tuple(dict.fromkeys(one for one in new if one))
    return (*(one for one in known if one not in fresh), *fresh)[-MOST_KEPT:]


def is_due(documented: str, known: Pattern | None, pattern: Pattern) -> bool:
    """Whether the pattern's document has to be put: for the first time, with new tags, or since it may grow old."""
    if not documented or known is None:
        return True
    if {*known.agent_types, *known.task_types} != {*pattern.agent_types, *pattern.task_types}:
        return True
    now, then = day_number(pattern.embedded_at), day_number(documented)
    return now is None or then is None or now - then > REFRESH_DAYS
