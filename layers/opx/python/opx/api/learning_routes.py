"""The routes about what work taught, and what came of acting upon documents.

Entries have the field names of the staging table, in requests and replies; everything else is in camelCase.
"""

from __future__ import annotations

from opx.api.declarations import Function, Route, TokenScope, text_field
from opx.api.fields import Field, Kind
from opx.domain.learning import DEFAULT_RESULTS, MAX_RESULTS, MAX_STEPS, CheckpointType, Effect, EntryState, EntryType
from opx.domain.outcomes import OutcomeResult
from opx.learning.given import FIELDS, TYPE_FIELD, GivenField

MAX_TASK = 20_000
MAX_PATTERNS, MAX_ENTRIES = 500, 500
_NAME = 100
_WRITERS = (TokenScope.WRITE, TokenScope.ADMIN)


def _given(field: GivenField) -> Field:
    """Bounded here too, so that the OpenAPI document tells the limits."""
    if field.flag:
        return Field(field.name, Kind.FLAG, field.about)
    most = MAX_STEPS if field.several else None
    return text_field(field.name, field.about, field.maximum, repeated=field.several, most=most, choices=field.choices)


def _limit(default: int, most: int) -> Field:
    return Field("limit", Kind.WHOLE, "How many at most.", default=default, minimum=1, maximum=most)


def _whole_text(name: str, about: str) -> Field:
    return text_field(name, about, MAX_TASK, required=True, minimum=1)


_AGENT = text_field("agentType", "Only what an agent of this type learned.", _NAME)
_TASK_TYPE = text_field("taskType", "Only of tasks of this type.", _NAME)
_TASK = (
    _whole_text("taskDescription", "What is to be done, in plain words."),
    _AGENT,
    _TASK_TYPE,
    text_field("technology", "Only about this technology.", _NAME),
)

LEARNING_READING = (
    Route(
        name="learning_entries",
        method="GET",
        path="/learning/entries",
        function=Function.RETRIEVE,
        about="What was captured in the caller's own scope, the newest first.",
        query=(
            text_field("state", "Only those in this state.", choices=tuple(EntryState)),
            text_field("projectId", "Only those of this project.", _NAME),
            _limit(50, MAX_ENTRIES),
            text_field("after", "The id of the last entry of the page before."),
        ),
    ),
    Route(
        name="patterns",
        method="GET",
        path="/learning/patterns",
        function=Function.RETRIEVE,
        about="Patterns that the caller may see, the last taken in first; for orchestrators.",
        query=(_limit(100, MAX_PATTERNS),),
    ),
    Route(
        name="pattern",
        method="GET",
        path="/learning/patterns/{patternId}",
        function=Function.RETRIEVE,
        about="A pattern with the entries that were counted for it; for orchestrators.",
    ),
    Route(
        name="patterns_for_task",
        method="POST",
        path="/learning/patterns/task",
        function=Function.RETRIEVE,
        about="What helps with a task, the best first; for orchestrators.",
        body=(
            *_TASK,
            Field(
                "maxResults",
                Kind.WHOLE,
                "How many at most.",
                default=DEFAULT_RESULTS,
                minimum=1,
                maximum=MAX_RESULTS,
            ),
        ),
    ),
    Route(
        name="patterns_for_failure",
        method="POST",
        path="/learning/patterns/failure",
        function=Function.RETRIEVE,
        about="What helped against a failure, the best three; for orchestrators.",
        body=(
            _whole_text("failureDescription", "What went wrong, in plain words."),
            text_field("errorMessage", "The error, copied as it was.", MAX_TASK),
            _AGENT,
            _TASK_TYPE,
        ),
    ),
    Route(
        name="task_context",
        method="POST",
        path="/learning/context",
        function=Function.RETRIEVE,
        about="What was learned for a task, as a text for the prompt of the agent that does it; for orchestrators.",
        body=_TASK,
    ),
    Route(
        name="document_outcomes",
        method="GET",
        path="/documents/{documentId}/outcomes",
        function=Function.RETRIEVE,
        about="What came of acting upon a document, as far as it was told in the caller's scope.",
    ),
)

LEARNING_WRITING = (
    Route(
        name="capture_entry",
        method="POST",
        path="/learning/entries",
        function=Function.MANAGE,
        about="Capture what work taught. It is kept until a checkpoint takes it in; the same again is the same entry.",
        body=(
            text_field(TYPE_FIELD, "What it tells of.", required=True, choices=tuple(EntryType)),
            *map(_given, FIELDS.values()),
        ),
        scopes=_WRITERS,
        status=201,
    ),
    Route(
        name="verify_entry",
        method="POST",
        path="/learning/entries/{entryId}/verification",
        function=Function.MANAGE,
        about="Say whether what an entry tells of worked.",
        body=(
            Field("worked", Kind.FLAG, "Whether it was seen to work.", required=True),
            text_field("effect", "What came of it, if it didn't.", choices=tuple(Effect)),
            text_field("incident", "The incident's id.", _NAME),
        ),
        scopes=_WRITERS,
    ),
    Route(
        name="checkpoint",
        method="POST",
        path="/learning/checkpoints",
        function=Function.MANAGE,
        about="Have taken in what was captured for a project. It is worked on afterwards.",
        body=(
            text_field("projectId", "The project; the caller's own, if it is left out.", _NAME),
            text_field(
                "checkpointType",
                "Why now.",
                default=CheckpointType.MANUAL.value,
                choices=tuple(CheckpointType),
            ),
        ),
        scopes=_WRITERS,
        status=202,
    ),
    Route(
        name="record_outcome",
        method="POST",
        path="/outcomes",
        function=Function.MANAGE,
        about="Tell what came of acting upon a document that was found. Told again, it counts once.",
        body=(
            text_field("receiptId", "The receipt of the answer that had it.", required=True, minimum=1),
            text_field("documentId", "The document, or the beginning of its id.", required=True, minimum=1),
            text_field("result", "What came of it.", required=True, choices=tuple(OutcomeResult)),
            text_field("section", "The section that was acted upon, as results give it.", 500),
            text_field("step", "The step that was acted upon, as the document has it.", 1_000),
            text_field("incident", "The incident's id.", _NAME),
            text_field("note", "What else is to be known.", 2_000),
            text_field("occurrence", "Names this occurrence, where an answer was acted upon more than once.", 200),
        ),
        scopes=_WRITERS,
        status=201,
    ),
)
