"""Operations of learning: capture and verify entries, process checkpoints, and store evidence of agents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, structs
from msgspec.structs import asdict

from opx.domain.evidence import (
    CONCLUSION,
    OBSERVATIONS,
    SERVICES,
    SOURCES,
    TAGS,
    Addresses,
    Evidence,
    Services,
    Tags,
    Texts,
)
from opx.domain.learning import (
    MAX_ERROR,
    MAX_LINE,
    MAX_NAME,
    MAX_STEPS,
    MAX_STEPS_TEXT,
    MAX_TEXT,
    CheckpointReport,
    CheckpointType,
    EntryState,
    EntryType,
    StagingEntry,
    TriedEffect,
)
from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, FilledText, Request, Text
from opx.operations.context import Context
from opx.operations.corpus import manager_of
from opx.operations.paging import Paragraphs, fitting, noted
from opx.operations.registry import LEARNING, Function, agent_tool, operation

MAX_ENTRIES = 500

Name = Annotated[str, Meta(max_length=MAX_NAME)]
LongText = Annotated[str, Meta(max_length=MAX_TEXT)]
Line = Annotated[str, Meta(max_length=MAX_LINE)]
ErrorText = Annotated[str, Meta(max_length=MAX_ERROR)]
ProjectId = Annotated[str, Meta(max_length=64)]
StepText = Annotated[str, Meta(max_length=MAX_STEPS_TEXT)]
Steps = Annotated[tuple[StepText, ...], Meta(max_length=MAX_STEPS)]


class ListEntries(Request, frozen=True):
    state: Annotated[EntryState | None, about("Only those in this state.")] = None
    project_id: Annotated[Text, about("Only those of this project.")] = ""
    limit: Annotated[int, about("How many at most.", ge=1, le=MAX_ENTRIES)] = 50
    after: Annotated[Text, about("The id of the last entry of the previous page.")] = ""


class EntryPage(Record, frozen=True, omit_defaults=True):
    entries: tuple[StagingEntry, ...]
    next: Annotated[str, about("`after` of the next page.")] = ""


@operation(http="GET /learning/entries", action=Action.READ_RECORDS)
def list_entries(context: Context, request: ListEntries) -> EntryPage:
    """List entries captured in the caller's own scope, the newest first.

    Raises `EntryNotFoundError` for an unknown `after`, and `UnknownProjectError`.
    """
    captured = context.system.learning.capture(context.identity)
    entries = captured.entries(request.state or "", request.limit + 1, request.after, request.project_id)
    found, more = fitting(entries, request.limit)
    return EntryPage(found, found[-1].id if more else "")


class CaptureEntry(Request, frozen=True, rename=None):
    """An entry with the field names of the staging table. A field that doesn't go with the type is refused."""

    entry_type: Annotated[EntryType, about("Kind of the entry.")]
    project_id: Annotated[
        ProjectId | None, about("The project that it was learned in; the caller's own, if the caller has one.")
    ] = None
    agent_type: Annotated[Name | None, about("Kind of agent, such as backend_developer.")] = None
    task_type: Annotated[Name | None, about("Kind of task, such as api_implementation.")] = None
    technology: Annotated[Name | None, about("What it is about, such as postgresql.")] = None
    failure_description: Annotated[LongText | None, about("The failure, in plain words.")] = None
    error_message: Annotated[ErrorText | None, about("The error message, copied verbatim.")] = None
    solution_steps: Annotated[Steps | None, about("The solution, one entry per step.")] = None
    success_verified: Annotated[bool | None, about("True if a person or a check saw that it works.")] = None
    gate_type: Annotated[Name | None, about("The review, such as security_review.")] = None
    human_feedback: Annotated[LongText | None, about("The feedback of the person who rejected it.")] = None
    revision_approach: Annotated[LongText | None, about("The revision made for it.")] = None
    approved_approach: Annotated[LongText | None, about("The approach that was approved at the first attempt.")] = None
    tried: Annotated[StepText | None, about("The step that was tried, and didn't help.")] = None
    effect: Annotated[TriedEffect | None, about("The effect of the step.")] = None
    problem: Annotated[LongText | None, about("The problem that it was tried for.")] = None
    reference: Annotated[Line | None, about("The document that the step is from: its key or source.")] = None
    incident: Annotated[Name | None, about("The incident's id.")] = None
    occurrence: Annotated[
        Line | None, about("Stable id of this occurrence, such as a run's id: captured again, it is the same entry.")
    ] = None

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are set, without the type."""
        return {name: value for name, value in asdict(self).items() if name != "entry_type" and value is not None}


class CapturedEntry(Record, frozen=True):
    id: str
    state: Annotated[EntryState, about("Waiting to be verified, ready for a checkpoint, or processed.")]
    note: Annotated[str, about("The next step of the entry.")]


@operation(http="POST /learning/entries", function=Function.MANAGE, status=201, action=Action.WRITE)
def capture_entry(context: Context, request: CaptureEntry) -> CapturedEntry:
    """Capture an entry: a fix, a failure, a decision. It is stored until a checkpoint processes it; repeats are the same
    entry.

    Raises `InvalidInputError` that names the field which is missing or doesn't go with the type, and
    `UnknownProjectError` for another client's project.
    """
    captured = context.system.learning.capture(context.identity)
    entry = captured.entry(captured.capture(request.entry_type, request.given))
    return CapturedEntry(entry.id, entry.state, _note(entry))


def _note(entry: StagingEntry) -> str:
    """The next step of a captured entry."""
    from opx.learning.pattern_rows import solution_of

    if entry.state is not EntryState.WAITING:
        return _NEXT[entry.state]
    if not solution_of(entry):
        return "Kept; nothing can be learned from it until it is captured again with a solution, feedback or approach."
    return f"Kept; told to nobody until verified: opx learn verify {entry.id} --worked"


class VerifyEntry(Request, frozen=True):
    entry_id: Annotated[FilledText, about("The id of an entry, as returned when it was captured.")]
    worked: Annotated[bool, about("True if it was seen to work.")]
    effect: Annotated[TriedEffect | None, about("The effect of the solution, if it didn't work.")] = None
    incident: Annotated[Text, about("The incident's id.")] = ""


@operation(http="POST /learning/entries/{entryId}/verification", function=Function.MANAGE, action=Action.WRITE)
def verify_entry(context: Context, request: VerifyEntry) -> StagingEntry:
    """Record if the solution of an entry worked.

    Raises `EntryNotFoundError`, and `InvalidInputError` if the opposite was recorded before.
    """
    captured = context.system.learning.capture(context.identity)
    return captured.verify(request.entry_id, request.worked, request.effect or "", request.incident)


# -- checkpoints


class ProcessCheckpoint(Request, frozen=True):
    project_id: Annotated[Text, about("The project; the caller's own, if it is left out.")] = ""
    checkpoint_type: Annotated[CheckpointType, about("Reason of the checkpoint.")] = CheckpointType.MANUAL


class Checkpoint(Record, frozen=True, omit_defaults=True):
    asked: Annotated[bool, about("True if another function processes it asynchronously.")]
    report: CheckpointReport | None = None


@operation(http="POST /learning/checkpoints", function=Function.MANAGE, status=202, action=Action.WRITE)
def process_checkpoint(context: Context, request: ProcessCheckpoint) -> Checkpoint:
    """Process the entries captured for a project: turn verified ones into patterns. On AWS a function does
    it; elsewhere it is done at once.

    Raises `UnknownProjectError` where it is processed synchronously.
    """
    requests = context.system.ports.functions.checkpoints
    if requests is None:
        checkpoints = context.system.learning.checkpoints(context.identity)
        return Checkpoint(False, checkpoints.process_checkpoint(request.project_id, request.checkpoint_type))
    from opx.learning.fields import checkpoint_message

    project = request.project_id or context.identity.project_id
    requests.send(checkpoint_message(context.scope, project, request.checkpoint_type))
    return Checkpoint(True)


# -- agents' tools: scope, project and kind of agent follow from the call and are not parameters

FilledLongText = Annotated[Filled, Meta(max_length=MAX_TEXT)]
GateType = Annotated[FilledText, about("The review, such as security_review.")]
Incident = Annotated[Text, about("The incident's id.")]

_NEXT = {
    EntryState.WAITING: "It waits until verify_solution records whether it worked.",
    EntryState.READY: "The next checkpoint of the project processes it.",
    EntryState.TAKEN_IN: "A checkpoint has processed it already.",
}
Notes = Annotated[tuple[str, ...], about("Parts that were masked or left out.")]


class KeptEntry(Record, frozen=True):
    entry_id: Annotated[str, about("The id for verify_solution.")]
    state: Annotated[EntryState, about("Waiting to be verified, ready for the next checkpoint, or already processed.")]
    notes: Notes


@dataclass(frozen=True, slots=True)
class EntryAnswer(Paragraphs):
    """A captured entry. Its text is known to the agent that sent it, and isn't repeated."""

    entry: StagingEntry

    def _paragraphs(self) -> Iterator[str]:
        yield "\n".join((f"Entry ID: {self.entry.id}", _NEXT[self.entry.state], *noted(self.entry.remarks)))

    def record(self) -> KeptEntry:
        return KeptEntry(self.entry.id, self.entry.state, self.entry.remarks)


class SolutionResult(StrEnum):
    """Result of a captured solution."""

    WORKED = "worked"
    FAILED = "failed"
    NO_EFFECT = TriedEffect.NO_EFFECT.value
    MADE_WORSE = TriedEffect.MADE_WORSE.value


class CaptureFailureSolution(Request, frozen=True):
    failure_description: Annotated[FilledLongText, about("The failure, in plain words.")]
    solution_steps: Annotated[Filled, about("The solution, one step per line.", max_length=MAX_STEPS_TEXT)]
    error_message: Annotated[ErrorText, about("The error message, copied verbatim.")] = ""
    task_type: Annotated[Text, about("Kind of task, such as deployment.")] = ""
    technology: Annotated[Text, about("What it is about, such as postgresql or kubernetes.")] = ""


@agent_tool(
    LEARNING,
    "Record a failure and its solution, so that other projects find them. Use it once the failure is "
    "understood and something was done. Others get it only after verify_solution has recorded that it worked.",
    opt_in=True,
    writes=True,
)
def capture_failure_solution(context: Context, request: CaptureFailureSolution) -> EntryAnswer:
    """Capture a failure and its solution."""
    steps = tuple(filter(None, map(str.strip, request.solution_steps.splitlines())))
    return _kept(context, EntryType.FAILURE_SOLUTION, {**asdict(request), "solution_steps": steps})


class VerifySolution(Request, frozen=True):
    entry_id: Annotated[FilledText, about("The id returned by capture_failure_solution.")]
    result: Annotated[SolutionResult, about("The effect of the step.")]
    incident: Incident = ""


@agent_tool(
    LEARNING,
    "Record the outcome of a captured solution: it worked, failed, had no effect or made things worse. Record that it "
    "worked only if you or a check saw it.",
    opt_in=True,
    writes=True,
)
def verify_solution(context: Context, request: VerifySolution) -> EntryAnswer:
    """Record the result of a captured solution."""
    result = request.result
    effect = "" if result in (SolutionResult.WORKED, SolutionResult.FAILED) else result.value
    captured = context.system.learning.capture(context.identity)
    return EntryAnswer(captured.verify(request.entry_id, result is SolutionResult.WORKED, effect, request.incident))


class CaptureGateRejection(Request, frozen=True):
    gate_type: GateType
    human_feedback: Annotated[FilledLongText, about("The feedback of the person.")]
    revision_approach: Annotated[LongText, about("The change made for it.")] = ""


@agent_tool(
    LEARNING,
    "Record a rejection at a review: the person's reason, and the changes that followed.",
    opt_in=True,
    writes=True,
)
def capture_gate_rejection(context: Context, request: CaptureGateRejection) -> EntryAnswer:
    """Capture a rejection at a review."""
    return _kept(context, EntryType.GATE_REJECTION, asdict(request))


class CaptureGateApproval(Request, frozen=True):
    gate_type: GateType
    approved_approach: Annotated[FilledLongText, about("The approach that was approved.")]


@agent_tool(
    LEARNING, "Record an approach that a person approved at a review at the first attempt.", opt_in=True, writes=True
)
def capture_gate_approval(context: Context, request: CaptureGateApproval) -> EntryAnswer:
    """Capture an approval at a review."""
    return _kept(context, EntryType.GATE_APPROVAL, asdict(request))


class CaptureWarning(Request, frozen=True):
    tried: Annotated[FilledLongText, about("The step that was tried, quoted if it is from a document.")]
    effect: Annotated[TriedEffect, about("The effect of the step.")]
    problem: Annotated[LongText, about("The problem that it was tried for.")] = ""
    reference: Annotated[Line, about("The source of the document that it is from.")] = ""
    incident: Incident = ""


@agent_tool(
    LEARNING,
    "Record a step that had no effect or made things worse. The warning is shown to others before that step, in every "
    "document that has it.",
    opt_in=True,
    writes=True,
)
def capture_warning(context: Context, request: CaptureWarning) -> EntryAnswer:
    """Capture a step that didn't help."""
    return _kept(context, EntryType.WARNING, asdict(request))


def _kept(context: Context, entry_type: EntryType, given: dict[str, Any]) -> EntryAnswer:
    """Captures an entry for the calling agent in its own project, and returns it."""
    captured = context.system.learning.capture(context.identity)
    entry_id = captured.capture(entry_type, {**given, "agent_type": context.caller.agent})
    return EntryAnswer(captured.entry(entry_id))


# -- evidence


class PutEvidence(Evidence, Request, frozen=True, kw_only=True, rename=None):
    """Evidence as it is sent: the fields of the record, with lists."""

    conclusion: Annotated[Texts, CONCLUSION] = ()
    observations: Annotated[Texts, OBSERVATIONS] = ()
    services: Annotated[Services, SERVICES] = ()
    tags: Annotated[Tags, TAGS] = ()
    sources: Annotated[Addresses, SOURCES] = ()

    @classmethod
    def of(cls, evidence: Evidence) -> PutEvidence:
        """The request that sends this evidence."""
        return cls(**structs.asdict(evidence))


class StoredEvidence(Record, frozen=True):
    object_key: Annotated[str, about("The object that waits to be ingested.")]


@operation(http="POST /evidence", function=Function.MANAGE, status=202, action=Action.WRITE)
def put_evidence(context: Context, request: PutEvidence) -> StoredEvidence:
    """Ingest the evidence of an agent's work; rules select its category. It is stored at once;
    ingestion follows.

    Raises `InvalidInputError` that names a field that the evidence's category requires.
    """
    from opx.ingestion import evidence

    system = context.system
    manager = manager_of(context)
    return StoredEvidence(evidence.put_evidence(manager, system.store, system.ingestion.evidence_rules, request))
