"""What makes an entry the same as another, and what may be said of it later."""

from __future__ import annotations

from opx.domain.ids import stable_hash
from opx.domain.learning import GATES, EntryType, StagingEntry
from opx.domain.record import replace
from opx.domain.times import day_number, day_text, iso_time
from opx.errors import InvalidInputError
from opx.learning.pattern_documents import solution_of

NO_SOLUTION = "no solution to learn: capture it again with what was done about it"

_DAY = 86_400


def id_of(entry: StagingEntry, occurrence: str) -> str:
    """The id of what an entry says of an occurrence; of the same words on another line, too."""
    said = [
        entry.failure_description,
        entry.error_message,
        *entry.solution_steps,
        entry.gate_type,
        entry.human_feedback,
    ]
    said += [
        entry.revision_approach,
        entry.approved_approach,
        entry.effect if entry.entry_type is EntryType.WARNING else "",
    ]
    said += [entry.reference, entry.agent_type, entry.task_type, entry.technology, entry.incident]
    texts = [" ".join(text.split()) for text in said]
    return stable_hash("staging", entry.scope_key, entry.project_id, entry.entry_type.value, texts, occurrence)


def days_around(timestamp: str) -> list[str]:
    """The day of a time, then those beside it: a clock may be ahead or behind."""
    today = day_number(timestamp) or 0
    return [day_text(day) for day in (today, today - 1, today + 1)]


def is_within_a_day(known: StagingEntry, now: float) -> bool:
    """Whether it was captured within a day of now, before or after it."""
    return iso_time(now - _DAY) < known.timestamp < iso_time(now + _DAY)


def as_captured(entry: StagingEntry) -> StagingEntry:
    """A new entry, which waits where it has nothing to learn yet. Raises `InvalidInputError` for one of which it is said
    that this worked."""
    if solution_of(entry):
        return entry
    if entry.worked and entry.entry_type is EntryType.FAILURE_SOLUTION:
        raise InvalidInputError(f"what is said to have worked has {NO_SOLUTION}, as solution_steps")
    return replace(entry, success_verified=None, remarks=(*entry.remarks, NO_SOLUTION))


def judged(found: StagingEntry, worked: bool, effect: str, incident: str) -> StagingEntry:
    """The entry with the verdict. Raises `InvalidInputError` where there is another already, and nothing to verify."""
    if found.entry_type in GATES or found.entry_type is EntryType.WARNING:
        raise InvalidInputError(f"{found.id} is a {found.entry_type}: only a solution is verified")
    if not solution_of(found):
        raise InvalidInputError(f"{found.id} has {NO_SOLUTION}")
    if found.success_verified is None:
        return replace(found, success_verified=worked, effect=effect, incident=incident or found.incident)
    if found.success_verified is not worked or (effect and found.effect not in ("", effect)):
        said = "worked" if found.worked else f"did not work{found.effect and f' ({found.effect})'}"
        raise InvalidInputError(
            f"{found.id} is known to have {said.replace('did not work', 'not worked')} already; capture what happened "
            "since as another occurrence, and verify that"
        )
    return replace(found, effect=effect) if effect and not found.embedded else found
