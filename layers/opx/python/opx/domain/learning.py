"""Captured entries (fixes, failures, decisions), the patterns they become, and checkpoint reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import field

from opx.domain.knowledge import PATTERNS_CATEGORY
from opx.domain.queries import Band, band_of
from opx.domain.record import Record, about, derive

MAX_NAME, MAX_LINE, MAX_TEXT = 100, 500, 8_000
MAX_ERROR = 100_000
"""Characters of a stack trace; its distinctive parts are at its ends."""
MAX_STEPS, MAX_STEPS_TEXT = 50, 20_000
"""Characters that a field of what is captured may have, and how many steps a solution."""

DEFAULT_RESULTS, MAX_RESULTS = 5, 20
"""Patterns returned for a task."""


class EntryType(StrEnum):
    """Kinds of captured entries."""

    FAILURE_SOLUTION = "failure_solution"
    GATE_REJECTION = "gate_rejection"
    GATE_APPROVAL = "gate_approval"
    WARNING = "warning"


GATES = (EntryType.GATE_REJECTION, EntryType.GATE_APPROVAL)
"""Decisions of a person, which need no verification."""


class TriedEffect(StrEnum):
    """Outcome of an attempt that didn't help."""

    NO_EFFECT = "no_effect"
    MADE_WORSE = "made_worse"

    @property
    def phrase(self) -> str:
        """As the end of a sentence."""
        return "made things worse" if self is TriedEffect.MADE_WORSE else "had no effect"


class EntryState(StrEnum):
    """State of an entry: it waits for verification, is ready for the next checkpoint, and is then embedded."""

    WAITING = "waiting"
    READY = "ready"
    TAKEN_IN = "taken_in"


class CheckpointType(StrEnum):
    """Trigger of a checkpoint. `phase completion` is `phase_completion`."""

    PHASE_COMPLETION = "phase_completion"
    PROJECT_COMPLETION = "project_completion"
    CANCELLATION = "cancellation"
    MANUAL = "manual"

    @classmethod
    def _missing_(cls, value: object) -> CheckpointType | None:
        name = "_".join(str(value).casefold().replace("-", " ").split()).removesuffix("_trigger")
        return next((kind for kind in cls if kind.value == name), None)


Evidence = Annotated[tuple[str, ...], about("Ids of entries that it was learned from; of many, the latest.")]


class StagingEntry(Record, frozen=True, kw_only=True, rename=None):
    """An entry as it was captured. Its JSON has the snake_case names that users know.

    `scope_key` is its owner. `success_verified` is None until the solution is verified. Of an entry that warns,
    `failure_description` is the problem, `solution_steps` what was tried, `effect` the outcome, and `reference` the key
    or source of the document with these steps. `remarks` list what was masked, and that there is nothing to learn yet.
    `pattern_id` is the pattern that it was counted for, once it is `embedded`. Times are ISO 8601 in UTC.
    """

    id: str
    entry_type: EntryType
    scope_key: str = field(name="scope")
    project_id: str
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
    success_verified: Annotated[bool | None, about("Null until it is verified.")] = None
    embedded: Annotated[bool, about("True once a checkpoint has processed it.")] = False
    timestamp: str
    embedded_at: str = ""
    incident: str = ""
    effect: str = ""
    pattern_id: str = ""
    reference: str = ""
    state: EntryState = EntryState.WAITING
    remarks: Annotated[tuple[str, ...], about("Parts that were masked, or are missing for learning from it.")] = ()

    def __post_init__(self) -> None:
        waits = EntryState.WAITING if self.success_verified is None else EntryState.READY
        derive(self, state=EntryState.TAKEN_IN if self.embedded else waits)

    @property
    def worked(self) -> bool:
        """True if it counts for its pattern: verified solutions, and decisions of a person."""
        return self.success_verified is True


class Pattern(Record, frozen=True):
    """A generalised problem with its solution and counts of success and failure.

    `scope_key` is the scope that shares it. `projects` and `evidence` (ids of entries) are the latest, bounded; all
    evidence is in the occurrences. `first_seen` is of the first entry, `embedded_at` when the last one was counted: ISO
    8601, UTC.
    """

    pattern_id: str
    scope_key: Annotated[str, about("The scope that shares it.")] = field(name="scope")
    entry_type: EntryType
    problem: str
    solution: str
    when_to_try: str
    error_message: str = ""
    agent_types: tuple[str, ...] = ()
    task_types: tuple[str, ...] = ()
    technology: Annotated[str, about("The first of its technologies.")] = ""
    technologies: Annotated[tuple[str, ...], about("The technologies that it was captured for.")] = ()
    gate_type: str = ""
    success_count: int = 0
    failure_count: int = 0
    embedded_at: Annotated[str, about("When it was last seen to work or to fail.")] = ""
    first_seen: str = ""
    projects: tuple[str, ...] = ()
    evidence: Evidence = ()
    merged: Annotated[tuple[str, ...], about("Ids of patterns that were merged into it.")] = ()
    retired: Annotated[str, about("The reason why no query returns it any more; empty for a pattern in use.")] = ""

    def __post_init__(self) -> None:
        known = self.technologies or tuple(filter(None, (self.technology,)))
        derive(self, technologies=known, technology=next(iter(known), ""))

    @property
    def source(self) -> str:
        """The name of its document in the corpus, below its scope's folder."""
        return f"documents/{PATTERNS_CATEGORY}/{self.pattern_id}.json"


class PatternOccurrence(Record, frozen=True):
    """An entry that was counted for a pattern. `reason` is `key` if its text equals the pattern's, else `similarity`;
    `key` is the lookup key of its own text."""

    entry_id: str
    project_id: str
    worked: bool
    at: str
    incident: str = ""
    reason: Annotated[str, about("Reason for counting it: the same text (key), or similarity.")] = ""
    key: Annotated[str, about("Lookup key of its text.")] = ""


class PatternView(Record, frozen=True):
    """A pattern and the entries that were counted for it."""

    pattern: Pattern
    occurrences: tuple[PatternOccurrence, ...]
    more: Annotated[bool, about("True if there are more occurrences than these.")] = False


class PatternChange(Record, frozen=True):
    """A merge of two patterns, or a split. `changed` is False if it was done before."""

    pattern: Pattern
    other: Annotated[Pattern | None, about("The pattern that was split off; null after a merge.")] = None
    other_id: Annotated[str, about("The pattern that was merged, or split off.")] = ""
    changed: bool = True


class RAGPattern(Record, frozen=True):
    """A pattern that answers a question. `similarity` is the probability that it is about the question, `band` its range;
    `confidence_bound` is the lower bound of its success rate, in [0, 1]; `score` gives the ranking. `warnings` are attempts
    that made things worse or had no effect."""

    pattern_id: str
    problem: str
    solution: str
    when_to_try: str
    success_count: int
    failure_count: int
    similarity: Annotated[float, about("To the question, from 0 to 1.")]
    score: Annotated[float, about("Gives the order.")]
    confidence_bound: Annotated[float, about("Lower bound of its success rate, from 0 to 1.")]
    entry_type: EntryType
    technology: str = ""
    technologies: tuple[str, ...] = ()
    gate_type: str = ""
    band: Annotated[Band, about("Range of the similarity: sure, likely or weak.")] = Band.WEAK
    document_id: str = ""
    warnings: Annotated[tuple[str, ...], about("Similar attempts that made things worse or had no effect.")] = ()
    evidence: Evidence = ()

    def __post_init__(self) -> None:
        derive(self, band=band_of(self.similarity))


class StepWarning(Record, frozen=True):
    """A warning about a step that was tried before, with its worst effect. `step`, `incidents` and `problem` are words of the
    one who reported it: `text` quotes them. `line` is its line in the passage (from 0),
    None where the document as a whole is meant; `document_id` is that of the warning."""

    step: str
    effect: TriedEffect
    incidents: tuple[str, ...]
    problem: str
    times: int
    line: int | None
    text: Annotated[
        str,
        about('Such as `tried in INC-7, made things worse: "restart the primary" (a note: "replication lag")`.'),
    ] = ""
    document_id: str = ""

    def __post_init__(self) -> None:
        named = [f'"{name}"' if " " in name else name for name in self.incidents]
        where = f"tried in {', '.join(named)}" if named else "tried before"
        often = f" ({self.times:,} times)" if self.times > max(len(self.incidents), 1) else ""
        note = f' (a note: "{self.problem}")' if self.problem else ""
        derive(self, text=f'{where}{often}, {self.effect.phrase}: "{self.step}"{note}')


class Refusal(Record, frozen=True):
    """An entry that a checkpoint could not process."""

    entry_id: str
    reason: str


class CheckpointReport(Record, frozen=True):
    """The result of a checkpoint run. `waiting` are ids of entries that are not verified yet, or have no solution to
    verify; `took_ms` has one decimal."""

    project_id: str
    checkpoint_type: CheckpointType
    taken_in: int = 0
    patterns_new: int = 0
    patterns_confirmed: int = 0
    warnings: int = 0
    waiting: Annotated[tuple[str, ...], about("Entries that are not verified yet, or have no solution.")] = ()
    refused: tuple[Refusal, ...] = ()
    took_ms: float = 0.0

    def __post_init__(self) -> None:
        derive(self, took_ms=round(self.took_ms, 1))
