"""What an entry says of its pattern, and the document that a pattern is searched as.

Counts are no part of the document: that a pattern worked again makes no new version of it and embeds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from opx.domain.ids import stable_hash
from opx.domain.learning import EntryType, Pattern, PatternOccurrence, StagingEntry
from opx.domain.record import replace
from opx.learning.pattern_rows import text_key

MAX_TITLE = 300
_MAX_QUOTED = 200
_MAX_TAG = 64
_ID = re.compile(r"(?:.*/)?([0-9a-f]{32})\.json\Z", re.DOTALL)


def pattern_id_of(source: str) -> str:
    """The id of the pattern that a source or location in the corpus is the document of; "" for any other."""
    match = _ID.match(source)
    return match[1] if match else ""


def problem_of(entry: StagingEntry) -> str:
    """What an entry says was wrong, or what was decided about; "" for a warning that doesn't say."""
    if entry.entry_type is EntryType.GATE_REJECTION:
        return f"Rejected at {entry.gate_type}{entry.human_feedback and f': {entry.human_feedback}'}"
    if entry.entry_type is EntryType.GATE_APPROVAL:
        return f"What is approved at {entry.gate_type}"
    return entry.failure_description


def solution_of(entry: StagingEntry) -> str:
    """What an entry says was done: several steps as a line each, which begins with its number. "" if it doesn't say."""
    if entry.entry_type is EntryType.GATE_REJECTION:
        return entry.revision_approach or (entry.human_feedback and f"Take into account: {entry.human_feedback}")
    if entry.entry_type is EntryType.GATE_APPROVAL:
        return entry.approved_approach
    if len(entry.solution_steps) < 2:
        return "".join(entry.solution_steps)
    return "\n".join(f"{number}. {step}" for number, step in enumerate(entry.solution_steps, start=1))


def key_of(entry: StagingEntry) -> str:
    """What the entry is found by word by word."""
    about = entry.gate_type or entry.technology
    return text_key(entry.entry_type, problem_of(entry), entry.error_message, solution_of(entry), about)


def seed_of(scope_key: str, entry: StagingEntry) -> Pattern:
    """The pattern that an entry begins, if there is none yet. What was tried in vain begins that of a solution, which
    failed so far."""
    tried = entry.entry_type is EntryType.WARNING
    return Pattern(
        pattern_id=stable_hash("pattern", scope_key, key_of(entry)),
        scope_key=scope_key,
        entry_type=EntryType.FAILURE_SOLUTION if tried else entry.entry_type,
        problem=problem_of(entry),
        solution=solution_of(entry),
        when_to_try=_when_to_try(entry),
        error_message=entry.error_message,
        agent_types=tuple(filter(None, [entry.agent_type])),
        task_types=tuple(filter(None, [entry.task_type])),
        technology=entry.technology,
        gate_type=entry.gate_type,
    )


def joined(seeds: Sequence[Pattern]) -> Pattern:
    """The first of them, with the agents, tasks and error of all."""
    errors = [seed.error_message for seed in seeds if seed.error_message]
    return replace(
        seeds[0],
        error_message=errors[0] if errors else "",
        agent_types=tuple(dict.fromkeys(one for seed in seeds for one in seed.agent_types)),
        task_types=tuple(dict.fromkeys(one for seed in seeds for one in seed.task_types)),
    )


def occurrence_of(entry: StagingEntry, reason: str) -> PatternOccurrence:
    """An entry as it is counted."""
    return PatternOccurrence(
        entry_id=entry.id,
        project_id=entry.project_id,
        worked=entry.worked,
        at=entry.timestamp,
        incident=entry.incident,
        reason=reason,
        key=key_of(entry),
    )


def record_of(pattern: Pattern) -> dict[str, Any]:
    """The pattern as a record of its category."""
    tags = {
        "technology": pattern.technology[:_MAX_TAG],
        "task_type": [one[:_MAX_TAG] for one in pattern.task_types],
        "agent_type": [one[:_MAX_TAG] for one in pattern.agent_types],
        "gate_type": pattern.gate_type[:_MAX_TAG],
    }
    record = {
        "title": _line(pattern.problem, MAX_TITLE),
        **_texts(pattern),
        **tags,
        "timestamp": pattern.first_seen,
        "embedded_at": pattern.embedded_at,
    }
    return {name: value for name, value in record.items() if value}


def _texts(pattern: Pattern) -> dict[str, str]:
    """What is searched, under the names of the category's schema."""
    if pattern.entry_type is EntryType.GATE_REJECTION:
        return {"human_feedback": pattern.problem, "revision_approach": pattern.solution}
    if pattern.entry_type is EntryType.GATE_APPROVAL:
        return {"failure_description": pattern.problem, "approved_approach": pattern.solution}
    return {
        "failure_description": pattern.problem,
        "error_message": pattern.error_message,
        "solution_steps": pattern.solution,
    }


def _when_to_try(entry: StagingEntry) -> str:
    """When the solution is worth a try, from what the entry says around it."""
    if entry.entry_type is EntryType.GATE_REJECTION:
        return f"Before {entry.gate_type} is asked for, and when it was rejected for such a reason"
    if entry.entry_type is EntryType.GATE_APPROVAL:
        return f"Before {entry.gate_type} is asked for"
    parts = [f"with {entry.technology}" if entry.technology else ""]
    parts.append(f"in {entry.task_type} tasks" if entry.task_type else "")
    parts.append(f"when the error is: {_line(entry.error_message, _MAX_QUOTED)}" if entry.error_message else "")
    said = ", ".join(filter(None, parts)) or "when the same problem occurs"
    return said[0].upper() + said[1:]


def _line(text: str, most: int) -> str:
    """On one line of so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
