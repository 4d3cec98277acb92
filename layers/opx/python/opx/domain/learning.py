"""What work taught: entries as they are captured, and the patterns that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from opx.domain.scopes import Scope, scope_of_key

CATEGORY = "learning/patterns"
"""Of the documents that patterns are searched as."""

WARNINGS = "learning/warnings"
"""Of the documents that warn of what was tried in vain, or made things worse."""


MAX_NAME, MAX_LINE, MAX_TEXT = 100, 500, 8_000
MAX_ERROR = 100_000
"""A stack trace is taken as it is; what tells it from others is at its ends."""
MAX_STEPS, MAX_STEPS_TEXT = 50, 20_000
"""Characters that a field of what is captured may have, and how many steps a solution."""


class EntryType(StrEnum):
    """What an entry tells of."""

    FAILURE_SOLUTION = "failure_solution"
    GATE_REJECTION = "gate_rejection"
    GATE_APPROVAL = "gate_approval"
    WARNING = "warning"


GATES = (EntryType.GATE_REJECTION, EntryType.GATE_APPROVAL)
"""What a person decided, which nobody has to verify."""


class Effect(StrEnum):
    """What came of something that was tried and didn't help."""

    NO_EFFECT = "no_effect"
    MADE_WORSE = "made_worse"


class EntryState(StrEnum):
    """How far an entry is. It waits until it is known whether it worked, is ready for the next checkpoint, and then taken
    in."""

    WAITING = "waiting"
    READY = "ready"
    TAKEN_IN = "taken_in"


class CheckpointType(StrEnum):
    """Why what was captured is taken in now. `phase completion` is `phase_completion`."""

    PHASE_COMPLETION = "phase_completion"
    PROJECT_COMPLETION = "project_completion"
    CANCELLATION = "cancellation"
    MANUAL = "manual"

    @classmethod
    def _missing_(cls, value: object) -> CheckpointType | None:
        name = "_".join(str(value).casefold().replace("-", " ").split())
        return next((kind for kind in cls if kind.value == name), None)


@dataclass(frozen=True, slots=True)
class StagingEntry:
    """Something that work taught, as it was captured.

    `scope` is whose it is. `success_verified` is None until it is known whether the solution worked. Of an entry that
    warns, `failure_description` is the problem, `solution_steps` what was tried, `effect` what came of it, and `reference`
    the key or source of the document that it was taken from. `remarks` say what was masked, and that there is nothing to
    learn yet. `pattern_id` is the pattern that it was counted for, once it is `embedded`. Times are ISO 8601 in UTC.
    """

    id: str
    entry_type: EntryType
    scope: Scope
    project_id: str
    timestamp: str
    agent_type: str = ""
    task_type: str = ""
    technology: str = ""
    failure_description: str = ""
    error_message: str = ""
    solution_steps: tuple[str, ...] = ()
    gate_type: str = ""
    human_feedback: str = ""
    revision_approach: str = ""
    approved_approach: str = ""
    success_verified: bool | None = None
    embedded: bool = False
    embedded_at: str = ""
    incident: str = ""
    effect: str = ""
    pattern_id: str = ""
    reference: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def state(self) -> EntryState:
        """How far it is."""
        if self.embedded:
            return EntryState.TAKEN_IN
        return EntryState.WAITING if self.success_verified is None else EntryState.READY

    @property
    def worked(self) -> bool:
        """Whether it counts for its pattern: what was seen to work, and what a person said."""
        return self.success_verified is True

    def to_json(self) -> dict[str, Any]:
        """The snake_case form that users know."""
        return {
            "id": self.id,
            "entry_type": self.entry_type.value,
            "scope": self.scope.key,
            "project_id": self.project_id,
            "agent_type": self.agent_type,
            "task_type": self.task_type,
            "technology": self.technology,
            "failure_description": self.failure_description,
            "error_message": self.error_message,
            "solution_steps": list(self.solution_steps),
            "gate_type": self.gate_type,
            "human_feedback": self.human_feedback,
            "revision_approach": self.revision_approach,
            "approved_approach": self.approved_approach,
            "success_verified": self.success_verified,
            "embedded": self.embedded,
            "timestamp": self.timestamp,
            "embedded_at": self.embedded_at,
            "incident": self.incident,
            "effect": self.effect,
            "pattern_id": self.pattern_id,
            "reference": self.reference,
            "state": self.state.value,
            "remarks": list(self.remarks),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StagingEntry:
        """The entry that `to_json` wrote. Fields that are missing have their defaults."""
        texts = ("agent_type", "task_type", "technology", "failure_description", "error_message", "gate_type")
        more = ("human_feedback", "revision_approach", "approved_approach", "embedded_at", "incident", "effect")
        last = ("pattern_id", "reference")
        return cls(
            id=data["id"],
            entry_type=EntryType(data["entry_type"]),
            scope=scope_of_key(data["scope"]),
            project_id=data["project_id"],
            timestamp=data["timestamp"],
            solution_steps=tuple(data.get("solution_steps", ())),
            success_verified=data.get("success_verified"),
            embedded=bool(data.get("embedded", False)),
            remarks=tuple(data.get("remarks", ())),
            **{name: str(data.get(name, "")) for name in (*texts, *more, *last)},
        )


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is known of a problem and a way to deal with it.

    `scope_key` is of those who share it. `projects` and `evidence` (ids of entries) are the latest, bounded; all evidence
    is in the occurrences. `first_seen` is of the first entry, `embedded_at` when the last one was taken in: ISO 8601, UTC.
    """

    pattern_id: str
    scope_key: str
    entry_type: EntryType
    problem: str
    solution: str
    when_to_try: str
    error_message: str = ""
    agent_types: tuple[str, ...] = ()
    task_types: tuple[str, ...] = ()
    technology: str = ""
    gate_type: str = ""
    success_count: int = 0
    failure_count: int = 0
    embedded_at: str = ""
    first_seen: str = ""
    projects: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The name of its document in the corpus, below its scope's folder."""
        return f"documents/{CATEGORY}/{self.pattern_id}.json"

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "patternId": self.pattern_id,
            "scope": self.scope_key,
            "entryType": self.entry_type.value,
            "problem": self.problem,
            "solution": self.solution,
            "whenToTry": self.when_to_try,
            "errorMessage": self.error_message,
            "agentTypes": list(self.agent_types),
            "taskTypes": list(self.task_types),
            "technology": self.technology,
            "gateType": self.gate_type,
            "successCount": self.success_count,
            "failureCount": self.failure_count,
            "embeddedAt": self.embedded_at,
            "firstSeen": self.first_seen,
            "projects": list(self.projects),
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class PatternOccurrence:
    """An entry that was counted for a pattern. `reason` says why: `key` if it says what the pattern says word by word,
    else `similarity`; `key` is what its own text is found by."""

    entry_id: str
    project_id: str
    worked: bool
    at: str
    incident: str = ""
    reason: str = ""
    key: str = ""

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "entryId": self.entry_id,
            "projectId": self.project_id,
            "worked": self.worked,
            "at": self.at,
            "incident": self.incident,
            "reason": self.reason,
            "key": self.key,
        }


@dataclass(frozen=True, slots=True)
class RAGPattern:
    """A pattern that answers a question. `similarity` is to the question, `confidence_bound` the lower bound of its
    success rate, both in [0, 1]; `score` is what it is ranked by. `warnings` are of what made things worse."""

    pattern_id: str
    problem: str
    solution: str
    when_to_try: str
    success_count: int
    failure_count: int
    similarity: float
    score: float
    confidence_bound: float
    entry_type: EntryType
    technology: str = ""
    document_id: str = ""
    warnings: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "patternId": self.pattern_id,
            "problem": self.problem,
            "solution": self.solution,
            "whenToTry": self.when_to_try,
            "successCount": self.success_count,
            "failureCount": self.failure_count,
            "similarity": self.similarity,
            "score": self.score,
            "confidenceBound": self.confidence_bound,
            "entryType": self.entry_type.value,
            "technology": self.technology,
            "documentId": self.document_id,
            "warnings": list(self.warnings),
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Refusal:
    """An entry that could not be taken in, and why."""

    entry_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class CheckpointReport:
    """What a checkpoint did. `waiting` are ids of entries of which nobody said yet whether they worked, or that have no
    solution which could."""

    project_id: str
    checkpoint_type: CheckpointType
    taken_in: int = 0
    patterns_new: int = 0
    patterns_confirmed: int = 0
    warnings: int = 0
    waiting: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = field(default=())
    took_ms: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "projectId": self.project_id,
            "checkpointType": self.checkpoint_type.value,
            "takenIn": self.taken_in,
            "patternsNew": self.patterns_new,
            "patternsConfirmed": self.patterns_confirmed,
            "warnings": self.warnings,
            "waiting": list(self.waiting),
            "refused": [{"entryId": one.entry_id, "reason": one.reason} for one in self.refused],
            "tookMs": round(self.took_ms, 1),
        }
