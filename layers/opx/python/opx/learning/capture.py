"""Captures entries: validated, cleaned, and staged until a checkpoint processes them. Nothing is embedded here.

The id of an entry is a hash of its content and its occurrence (an incident, a run, an event). Without an occurrence, the
same content of the same project within a day is the same entry, whichever clock dated it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.domain.ids import day_number, day_text, iso_time, stable_hash
from opx.domain.learning import GATES, EntryState, EntryType, StagingEntry
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.corpus.clients import ClientRegistry, removed_error
from opx.learning.fields import checked, cleaned_line, effect_of
from opx.learning.pattern_rows import LearningProjects, project_of, solution_of
from opx.learning.staging import Staging, first
from opx.ports import Clock

MAX_LISTED = 1000
NO_SOLUTION = "no solution to learn: capture it again with what was done about it"
ARGUMENTS = {
    EntryType.FAILURE_SOLUTION: (
        "project_id agent_type task_type failure_description error_message solution_steps technology success_verified "
        "occurrence incident"
    ),
    EntryType.GATE_REJECTION: (
        "project_id gate_type human_feedback revision_approach agent_type task_type technology occurrence incident"
    ),
    EntryType.GATE_APPROVAL: (
        "project_id gate_type approved_approach agent_type task_type technology occurrence incident"
    ),
    EntryType.WARNING: (
        "project_id agent_type tried effect incident problem reference technology task_type occurrence"
    ),
}
"""Arguments of each type of entry."""

_ABOUT = ("agent_type", "task_type", "technology", "incident")
_OF_NO_FIELD = ("project_id", "occurrence", "success_verified")
_FIELD_OF = {"tried": "solution_steps", "problem": "failure_description"}
_VERIFIED = {EntryType.GATE_REJECTION: True, EntryType.GATE_APPROVAL: True, EntryType.WARNING: False}
_DAY = 86_400
_ATTEMPTS = 10


@dataclass(eq=False)
class KnowledgeCaptureService:
    """Captures entries for one identity, in its own scope; `capture` returns the id of the entry.

    It raises `InvalidInputError`, naming the field, for values that the type of entry doesn't allow, `UnknownProjectError`
    for a project that isn't the identity's, and `ClientRemovedError`. The same occurrence captured again is the same entry.
    Secrets are masked.
    """

    identity: Identity
    staging: Staging
    projects: LearningProjects
    clients: ClientRegistry
    clock: Clock

    @property
    def scope(self) -> Scope:
        """Owner of the entries."""
        return Scope(self.identity.client_id, project_id=self.identity.project_id)

    def capture(self, entry_type: EntryType, given: Mapping[str, Any]) -> str:
        """Captures an entry of a type with its arguments of `ARGUMENTS`, missing ones empty.

        A failure with its solution waits for `verify`, unless it is captured with `success_verified`; without steps it
        records the failure alone, and stays waiting. A decision at a gate is the feedback of a person and the revision, or
        the approach that was approved. A warning is of steps that had no effect (`no_effect`) or made things worse.
        """
        takes = ARGUMENTS[entry_type].split()
        for name in given:
            if name not in takes:
                raise InvalidInputError(f"{name!r} doesn't go with {entry_type}; there are: {', '.join(takes)}")
        success_verified = given.get("success_verified", False)
        if not isinstance(success_verified, bool):
            raise InvalidInputError("success_verified must be true or false")
        own = [name for name in takes if name not in (*_ABOUT, *_OF_NO_FIELD)]
        fields = {_FIELD_OF.get(name, name): given.get(name, "") for name in (*own, *_ABOUT)}
        verified = _VERIFIED.get(entry_type, success_verified or None)
        return self._capture(entry_type, given.get("project_id", ""), fields, given.get("occurrence", ""), verified)

    def verify(self, entry_id: str, worked: bool, effect: str = "", incident: str = "") -> StagingEntry:
        """Records whether a solution worked, and if not, its effect. Returns the updated entry.

        The same verdict again changes nothing. Raises `EntryNotFoundError`, and `InvalidInputError` where the opposite was
        recorded before: a later use is another occurrence, which is captured and verified by itself.
        """
        if not isinstance(worked, bool):
            raise InvalidInputError("worked must be true or false")
        if effect and worked:
            raise InvalidInputError("effect is allowed only with worked=false: leave it out, or set worked to false")
        named_effect = effect_of(effect).value if effect else ""
        named = cleaned_line("incident", incident, 100)
        for _ in range(_ATTEMPTS):
            found = self.entry(entry_id)
            changed = _judged(found, worked, named_effect, named)
            if changed == found or self.staging.change(changed, found):
                return changed
        raise StoreUnavailableError(f"{entry_id} is being changed by other writers; try again")

    def entry(self, entry_id: str) -> StagingEntry:
        """An entry of the identity's own scope. Raises `EntryNotFoundError`."""
        return self.staging.get(self.scope.key, str(entry_id))

    def entries(self, state: str = "", limit: int = 50, after: str = "", project_id: str = "") -> list[StagingEntry]:
        """Entries of the identity's own scope, the newest first: of one state or project if they are given,
        and `after` the entry of that id. Raises `InvalidInputError`, and `EntryNotFoundError` for an unknown `after`."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LISTED:
            raise InvalidInputError(f"limit must be a whole number from 1 to {MAX_LISTED}")
        wanted = _state(state)
        own = project_id or self.identity.project_id
        projects = [project_of(self.identity, own)] if own else list(self.projects.all(self.scope.key))
        last = self.entry(after) if after else None
        return first(self.staging.entries(self.scope.key, projects, wanted, after=last), limit)

    def _capture(
        self, entry_type: EntryType, project_id: str, given: Mapping[str, Any], occurrence: str, verified: bool | None
    ) -> str:
        found = checked(entry_type, given)
        project = project_of(self.identity, project_id)
        named = cleaned_line("occurrence", occurrence)
        if not self.clients.admit(self.scope):
            raise removed_error(self.scope.client_id)
        entry = StagingEntry(
            id="",
            entry_type=entry_type,
            scope_key=self.scope.key,
            project_id=project,
            timestamp=iso_time(self.clock()),
            success_verified=verified,
            remarks=found.remarks,
            **found.values,
        )
        entry = _as_captured(entry)
        self.projects.note(self.scope.key, project)
        return self._kept(entry, named)

    def _kept(self, entry: StagingEntry, occurrence: str) -> str:
        """Stores the entry unless it exists; returns its id."""
        ids = (
            [_id_of(entry, occurrence)] if occurrence else [_id_of(entry, day) for day in _days_around(entry.timestamp)]
        )
        for known in self.staging.get_many(ids):
            if occurrence or _is_within_a_day(known, self.clock()):
                return self._captured_again(known, entry)
        new = replace(entry, id=ids[0])
        if self.staging.add(new):
            return new.id
        return self._captured_again(self.staging.get(entry.scope_key, new.id), entry)

    def _captured_again(self, known: StagingEntry, entry: StagingEntry) -> str:
        """Verifies the known entry if it waits and the new capture is verified; returns its id."""
        if known.state is EntryState.WAITING and entry.worked:
            self.verify(known.id, True)
        return known.id


def _state(name: str) -> EntryState | None:
    try:
        return EntryState(name) if name else None
    except ValueError as exc:
        raise InvalidInputError(f"unknown state {name[:60]!r}; there are: {', '.join(EntryState)}") from exc


def _id_of(entry: StagingEntry, occurrence: str) -> str:
    """Id of an entry: a hash of its content, regardless of line breaks and spaces, and its occurrence."""
    content = [
        entry.failure_description,
        entry.error_message,
        *entry.solution_steps,
        entry.gate_type,
        entry.human_feedback,
    ]
    content += [
        entry.revision_approach,
        entry.approved_approach,
        entry.effect if entry.entry_type is EntryType.WARNING else "",
    ]
    content += [entry.reference, entry.agent_type, entry.task_type, entry.technology, entry.incident]
    texts = [" ".join(text.split()) for text in content]
    return stable_hash("staging", entry.scope_key, entry.project_id, entry.entry_type.value, texts, occurrence)


def _days_around(timestamp: str) -> list[str]:
    """The day of a time, then the days before and after: a clock may be ahead or behind."""
    today = day_number(timestamp) or 0
    return [day_text(day) for day in (today, today - 1, today + 1)]


def _is_within_a_day(known: StagingEntry, now: float) -> bool:
    """True if the entry was captured within a day before or after now."""
    return iso_time(now - _DAY) < known.timestamp < iso_time(now + _DAY)


def _as_captured(entry: StagingEntry) -> StagingEntry:
    """Returns the new entry, as waiting if it has no solution yet. Raises `InvalidInputError` for a failure that is captured
    as solved without a solution."""
    if solution_of(entry):
        return entry
    if entry.worked and entry.entry_type is EntryType.FAILURE_SOLUTION:
        raise InvalidInputError(f"an entry captured as successful has {NO_SOLUTION}, as solution_steps")
    return replace(entry, success_verified=None, remarks=(*entry.remarks, NO_SOLUTION))


def _judged(found: StagingEntry, worked: bool, effect: str, incident: str) -> StagingEntry:
    """The entry with the verdict. Raises `InvalidInputError` if it has another verdict already, or nothing to verify."""
    if found.entry_type in GATES or found.entry_type is EntryType.WARNING:
        raise InvalidInputError(f"{found.id} is a {found.entry_type}: only a solution is verified")
    if not solution_of(found):
        raise InvalidInputError(f"{found.id} has {NO_SOLUTION}")
    if found.success_verified is None:
        return replace(found, success_verified=worked, effect=effect, incident=incident or found.incident)
    if found.success_verified is not worked or (effect and found.effect not in ("", effect)):
        verdict = "worked" if found.worked else f"not worked{found.effect and f' ({found.effect})'}"
        raise InvalidInputError(
            f"{found.id} was already verified to have {verdict}; capture what happened since as another occurrence, "
            "and verify that"
        )
    return replace(found, effect=effect) if effect and not found.embedded else found
