"""Rows of the table of patterns, and the conversion of entries to patterns and their documents.

A scope S has these partitions:

- `S`: the head of each pattern that is shared in it (`entry` = its id): its content and its counts;
- `S|<pattern id>`: each entry that was counted for it (`entry` = the entry's id);
- `S|keys`: the pattern id by a hash of an entry's exact words. Written before anything is counted, and never changed: a
  retry decides the same;
- `S|fresh`: patterns of the last day, which a search may not find yet (`entry` = time and id). Written before a pattern is
  decided on, so that the next checkpoint compares with it;
- `S|lock`: the process that is about to create a pattern;
- `S|projects`: the projects with captured entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict, fields

from opx.domain.ids import normalise, shortened, stable_hash
from opx.domain.learning import GATES, EntryType, Pattern, PatternOccurrence, StagingEntry
from opx.domain.record import replace, to_json
from opx.domain.scopes import Identity, Scope, scope_of_key
from opx.errors import InvalidScopeError, UnknownProjectError
from opx.learning.review_topics import topic_of
from opx.ports import Item, Table

FRESH_SECONDS = 86_400

MERGED_INTO = "mergedInto"
"""Attribute of a head: the id of the pattern that it was merged into."""


def heads_partition(scope_key: str) -> str:
    """Partition key of the heads of a scope's patterns."""
    return scope_key


def occurrences_partition(scope_key: str, pattern_id: str) -> str:
    """Partition key of the occurrences of a pattern."""
    return f"{scope_key}|{pattern_id}"


def keys_partition(scope_key: str) -> str:
    """Partition key of the pattern ids by key."""
    return f"{scope_key}|keys"


def fresh_partition(scope_key: str) -> str:
    """Partition key of the patterns of the last day."""
    return f"{scope_key}|fresh"


def lock_partition(scope_key: str) -> str:
    """Partition key of the lock of a scope."""
    return f"{scope_key}|lock"


def projects_partition(scope_key: str) -> str:
    """Partition key of a scope's projects."""
    return f"{scope_key}|projects"


def rows_of(table: Table, scope_key: str) -> Iterator[Item]:
    """All rows of a scope, a pattern's head after its occurrences: an interrupted removal in this order finds the
    remaining rows again."""
    for partition in (projects_partition, fresh_partition, lock_partition, keys_partition):
        yield from table.query(partition(scope_key))
    for head in table.query(heads_partition(scope_key)):
        yield from table.query(occurrences_partition(scope_key, str(head["entry"])))
        yield head


def text_key(entry_type: EntryType, problem: str, error: str, solution: str, about: str) -> str:
    """Hash of the exact words of a problem and its solution, regardless of line breaks and, but for the solution, of case.
    `about` is the gate; the same words under another technology are the same pattern. A warning has the key of the same
    solution that worked."""
    kind = EntryType.FAILURE_SOLUTION if entry_type is EntryType.WARNING else entry_type
    loose = [" ".join(normalise(text).casefold().split()) for text in (problem, error, about)]
    return stable_hash("pattern text", kind.value, loose, " ".join(normalise(solution).split()))


def head_row(pattern: Pattern) -> Item:
    """The pattern's part of a head row; one in use is written as earlier versions did."""
    facts: Item = to_json(asdict(pattern))
    del facts["pattern_id"], facts["scope_key"]
    if not pattern.retired:
        del facts["retired"]
    return {**facts, "place": heads_partition(pattern.scope_key), "entry": pattern.pattern_id}


def pattern_in(row: Item) -> Pattern:
    """The pattern of a head row."""
    facts = {one.encode_name: row[one.name] for one in fields(Pattern) if one.name in row}
    return Pattern.from_json({**facts, "patternId": row["entry"], "scope": scope_of_key(row["place"]).key})


def occurrence_row(scope_key: str, pattern_id: str, fact: Item) -> Item:
    """The row of an occurrence, from its JSON in the head."""
    return {**fact, "place": occurrences_partition(scope_key, pattern_id), "entry": fact["entryId"]}


def key_row(scope_key: str, key: str, pattern_id: str) -> Item:
    """Row that assigns a key to a pattern."""
    return {"place": keys_partition(scope_key), "entry": key, "patternId": pattern_id}


def fresh_row(pattern: Pattern, at: str, expires: int) -> Item:
    """Row of a new pattern with its content: its head may not exist yet."""
    return {
        "place": fresh_partition(pattern.scope_key),
        "entry": f"{at}#{pattern.pattern_id}",
        "pattern": head_row(pattern),
        "expiresAt": expires,
    }


def fresh_in(row: Item) -> Pattern:
    """The pattern of a fresh row, as it was when it was new."""
    return pattern_in(row["pattern"])


# -- projects


DEFAULT_PROJECT = "default"
"""Project of entries whose identity belongs to no project and names none."""

_NAMED = 20


class LearningProjects:
    """Registry of projects by scope. A project is a name within the scope of its entries."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._noted: set[tuple[str, str]] = set()

    def note(self, scope_key: str, project_id: str) -> None:
        """Registers a project."""
        if (scope_key, project_id) not in self._noted:
            self._table.put({"place": projects_partition(scope_key), "entry": project_id})
            self._noted.add((scope_key, project_id))

    def all(self, scope_key: str) -> Iterator[str]:
        """The projects of a scope, by name."""
        return (str(row["entry"]) for row in self._table.query(projects_partition(scope_key)))

    def is_known(self, scope_key: str, project_id: str) -> bool:
        return self._table.get({"place": projects_partition(scope_key), "entry": project_id}) is not None


def project_of(identity: Identity, given: str) -> str:
    """The given project, else the identity's own, else `default`.

    Raises `UnknownProjectError` where the identity belongs to another one, and `InvalidScopeError` for a malformed name.
    """
    if not isinstance(given, str):
        raise InvalidScopeError(f"project id must be a string, not {type(given).__name__}")
    if identity.project_id and given not in ("", identity.project_id):
        Scope(identity.client_id, project_id=given)
        raise UnknownProjectError(f"{given} is not your project; you work for {identity.project_id}")
    found = given or identity.project_id or DEFAULT_PROJECT
    Scope(identity.client_id or "any", project_id=found)  # refuses malformed names
    return found


def unknown_project(project_id: str, known: Iterator[str]) -> UnknownProjectError:
    """The error for an unknown project, which names the known ones."""
    names = [name for name, _ in zip(known, range(_NAMED + 1), strict=False)]
    listed = ", ".join(names[:_NAMED]) + (", and others" if len(names) > _NAMED else "")
    return UnknownProjectError(
        f"nothing was captured for a project {project_id!r}; there {'is' if len(names) == 1 else 'are'}: {listed}"
        if names
        else f"nothing was captured for a project {project_id!r}, nor for any other here; capture something first"
    )


# -- pattern documents


REJECTED = ", and when it was rejected for such a reason"
"""End of the sentence for when to try what a person required."""

MAX_TITLE = 300
_MAX_QUOTED = 200
_MAX_TAG = 64
_ID = re.compile(r"(?:.*/)?([0-9a-f]{32})\.json\Z", re.DOTALL)


def pattern_id_of(source: str) -> str:
    """Pattern id in the source or object key of a pattern's document; "" for any other document."""
    match = _ID.match(source)
    return match[1] if match else ""


def problem_of(entry: StagingEntry) -> str:
    """The problem of an entry, or the subject of its decision; "" for a warning without one."""
    if entry.entry_type is EntryType.GATE_REJECTION:
        return f"Rejected at {entry.gate_type}{entry.human_feedback and f': {entry.human_feedback}'}"
    if entry.entry_type is EntryType.GATE_APPROVAL:
        return f"What is approved at {entry.gate_type}"
    return entry.failure_description


def solution_of(entry: StagingEntry) -> str:
    """The solution of an entry; several steps as numbered lines. "" if it has none."""
    if entry.entry_type is EntryType.GATE_REJECTION:
        return entry.revision_approach or (entry.human_feedback and f"Take into account: {entry.human_feedback}")
    if entry.entry_type is EntryType.GATE_APPROVAL:
        return entry.approved_approach
    if len(entry.solution_steps) < 2:
        return "".join(entry.solution_steps)
    return "\n".join(f"{number}. {step}" for number, step in enumerate(entry.solution_steps, start=1))


def key_of(entry: StagingEntry) -> str:
    """The `text_key` of an entry."""
    return text_key(entry.entry_type, problem_of(entry), entry.error_message, solution_of(entry), entry.gate_type)


def seed_of(scope_key: str, entry: StagingEntry) -> Pattern:
    """The new pattern of an entry without one. A warning begins the pattern of a solution that has only failed so
    far."""
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
    """The first seed, with the agents, tasks and technologies of all and the first error message."""
    errors = [seed.error_message for seed in seeds if seed.error_message]
    return replace(
        seeds[0],
        error_message=errors[0] if errors else "",
        agent_types=tuple(dict.fromkeys(one for seed in seeds for one in seed.agent_types)),
        task_types=tuple(dict.fromkeys(one for seed in seeds for one in seed.task_types)),
        technologies=tuple(dict.fromkeys(one for seed in seeds for one in seed.technologies)),
    )


def occurrence_of(entry: StagingEntry, reason: str) -> PatternOccurrence:
    """The occurrence that an entry is counted as."""
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
    """The pattern's document: a record of the category of patterns."""
    tags = {
        "technology": [one[:_MAX_TAG] for one in pattern.technologies],
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
    """Searched fields under the names of the category's schema."""
    if pattern.entry_type is EntryType.GATE_REJECTION:
        return {
            "human_feedback": pattern.problem,
            "revision_approach": pattern.solution,
            "when_to_try": pattern.when_to_try,
        }
    if pattern.entry_type is EntryType.GATE_APPROVAL:
        return {
            "failure_description": pattern.problem,
            "approved_approach": pattern.solution,
            "when_to_try": pattern.when_to_try,
        }
    return {
        "failure_description": pattern.problem,
        "error_message": pattern.error_message,
        "solution_steps": pattern.solution,
    }


def _when_to_try(entry: StagingEntry) -> str:
    """A sentence for when to try the solution, from the entry's gate, technology, task and error."""
    if entry.entry_type in GATES:
        topic = topic_of(f"{entry.human_feedback or entry.approved_approach}\n{solution_of(entry)}")
        work = f" for such work: {topic.work}" if topic else ""
        rejected = entry.entry_type is EntryType.GATE_REJECTION
        return f"Before {entry.gate_type} is requested{work}" + (REJECTED if rejected else "")
    parts = [f"with {entry.technology}" if entry.technology else ""]
    parts.append(f"in {entry.task_type} tasks" if entry.task_type else "")
    parts.append(f"when the error is: {_line(entry.error_message, _MAX_QUOTED)}" if entry.error_message else "")
    phrase = ", ".join(filter(None, parts)) or "when the same problem occurs"
    return phrase[0].upper() + phrase[1:]


def _line(text: str, most: int) -> str:
    """The text on one line of at most `most` characters."""
    return shortened(" ".join(text.split()), most)
