"""The rows of the table of patterns.

Of a scope S there are these places:

- `S`: the head of each pattern that is shared in it (`entry` = its id): what it says, and how often it worked;
- `S|<pattern id>`: each entry that was counted for it (`entry` = the entry's id);
- `S|keys`: for what an entry says word by word (a hash of it), the pattern that it belongs to. Written before anything is
  counted, and never changed: whoever does it again decides the same;
- `S|fresh`: patterns of the last day, which a search may not find yet (`entry` = time and id). Written before a pattern is
  decided on, so that whoever comes next compares with it;
- `S|projects`: the projects that captured something in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict, fields

from opx.domain.ids import normalise, stable_hash
from opx.domain.learning import EntryType, Pattern, PatternOccurrence, StagingEntry
from opx.domain.record import replace, to_json
from opx.domain.scopes import Identity, Scope, scope_of_key
from opx.errors import InvalidScopeError, UnknownProjectError
from opx.ports import Item, Table

FRESH_SECONDS = 86_400


def heads_partition(scope_key: str) -> str:
    """Where the heads of a scope's patterns are."""
    return scope_key


def occurrences_partition(scope_key: str, pattern_id: str) -> str:
    """Where what was counted for a pattern is."""
    return f"{scope_key}|{pattern_id}"


def keys_partition(scope_key: str) -> str:
    """Where it is noted which pattern a text belongs to."""
    return f"{scope_key}|keys"


def fresh_partition(scope_key: str) -> str:
    """Where the patterns of the last day are."""
    return f"{scope_key}|fresh"


def projects_partition(scope_key: str) -> str:
    """Where the projects of a scope are."""
    return f"{scope_key}|projects"


def rows_of(table: Table, scope_key: str) -> Iterator[Item]:
    """Every row of a scope, a pattern's head after its occurrences: what is removed in this order can be found again
    until it is gone."""
    for place in (projects_partition(scope_key), fresh_partition(scope_key), keys_partition(scope_key)):
        yield from table.query(place)
    for head in table.query(heads_partition(scope_key)):
        yield from table.query(occurrences_partition(scope_key, str(head["entry"])))
        yield head


def text_key(entry_type: EntryType, problem: str, error: str, solution: str, about: str) -> str:
    """What a problem and its solution are found by word by word: upper and lower case and line breaks apart. `about` is
    the technology, or the gate. What was tried in vain is found as what worked is."""
    kind = EntryType.FAILURE_SOLUTION if entry_type is EntryType.WARNING else entry_type
    loose = [" ".join(normalise(text).casefold().split()) for text in (problem, error, about)]
    return stable_hash("pattern text", kind.value, loose, " ".join(normalise(solution).split()))


def head_row(pattern: Pattern) -> Item:
    """What the row of a head has of its pattern."""
    facts: Item = to_json(asdict(pattern))
    del facts["pattern_id"], facts["scope_key"]
    return {**facts, "place": heads_partition(pattern.scope_key), "entry": pattern.pattern_id}


def pattern_in(row: Item) -> Pattern:
    """The pattern of a head."""
    facts = {one.encode_name: row[one.name] for one in fields(Pattern) if one.name in row}
    return Pattern.from_json({**facts, "patternId": row["entry"], "scope": scope_of_key(row["place"]).key})


def occurrence_row(scope_key: str, pattern_id: str, fact: Item) -> Item:
    """The row of an occurrence, from what the head notes of it."""
    return {**fact, "place": occurrences_partition(scope_key, pattern_id), "entry": fact["entryId"]}


def key_row(scope_key: str, key: str, pattern_id: str) -> Item:
    """That a text belongs to a pattern."""
    return {"place": keys_partition(scope_key), "entry": key, "patternId": pattern_id}


def fresh_row(pattern: Pattern, at: str, expires: int) -> Item:
    """That a pattern is new, and what it says: its head may not be there yet."""
    return {
        "place": fresh_partition(pattern.scope_key),
        "entry": f"{at}#{pattern.pattern_id}",
        "pattern": head_row(pattern),
        "expiresAt": expires,
    }


def fresh_in(row: Item) -> Pattern:
    """The pattern of such a row, as it was when it was new."""
    return pattern_in(row["pattern"])


# -- projects


DEFAULT_PROJECT = "default"
"""Of who belongs to no project and names none."""

_NAMED = 20


class LearningProjects:
    """The projects of scopes. A project is a name within the scope in which its entries are."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._noted: set[tuple[str, str]] = set()

    def note(self, scope_key: str, project_id: str) -> None:
        """Know a project from now on."""
        if (scope_key, project_id) not in self._noted:
            self._table.put({"place": projects_partition(scope_key), "entry": project_id})
            self._noted.add((scope_key, project_id))

    def all(self, scope_key: str) -> Iterator[str]:
        """Those of a scope, by name."""
        return (str(row["entry"]) for row in self._table.query(projects_partition(scope_key)))

    def is_known(self, scope_key: str, project_id: str) -> bool:
        return self._table.get({"place": projects_partition(scope_key), "entry": project_id}) is not None


def project_of(identity: Identity, given: str) -> str:
    """The project that is meant: the one given, else the identity's own, else `default`.

    Raises `UnknownProjectError` where the identity belongs to another one, and `InvalidScopeError` for a malformed name.
    """
    if not isinstance(given, str):
        raise InvalidScopeError(f"project id must be a text, not {type(given).__name__}")
    if identity.project_id and given not in ("", identity.project_id):
        Scope(identity.client_id, project_id=given)
        raise UnknownProjectError(f"{given} is not your project; you work for {identity.project_id}")
    found = given or identity.project_id or DEFAULT_PROJECT
    Scope(identity.client_id or "any", project_id=found)  # refuses what can't be a name
    return found


def unknown_project(project_id: str, known: Iterator[str]) -> UnknownProjectError:
    """The error, which names those that are known."""
    names = [name for name, _ in zip(known, range(_NAMED + 1), strict=False)]
    listed = ", ".join(names[:_NAMED]) + (", and others" if len(names) > _NAMED else "")
    return UnknownProjectError(
        f"nothing was captured for a project {project_id!r}; there {'is' if len(names) == 1 else 'are'}: {listed}"
        if names
        else f"nothing was captured for a project {project_id!r}, nor for any other here; capture something first"
    )


# -- pattern documents


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
