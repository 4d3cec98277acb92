"""Operations on outcomes: record the result of acting upon a document, and read a document's counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from opx.domain.documents import KnowledgeDocument
from opx.domain.outcomes import (
    MAX_NOTE,
    MAX_OCCURRENCE,
    MAX_SECTION,
    MAX_STEP,
    Counted,
    DocumentOutcomes,
    OutcomeReport,
    OutcomeResult,
)
from opx.domain.policy import Action
from opx.domain.procedures import Outline
from opx.domain.record import Record, about, replace
from opx.domain.requests import FilledText, Request, Text
from opx.domain.scopes import Identity
from opx.errors import DocumentNotFoundError, InvalidInputError
from opx.hygiene.untrusted import one_line
from opx.operations.context import Context
from opx.operations.documents import DocumentId, find_by_id, old_step
from opx.operations.paging import Paragraphs
from opx.operations.registry import LEARNING, Function, agent_tool, operation

_STEPS_NAMED = 20
Step = Annotated[str, Meta(max_length=MAX_STEP)]
Occurrence = Annotated[str, Meta(max_length=MAX_OCCURRENCE)]
Incident = Annotated[Text, about("The incident's id.")]
Result = Annotated[OutcomeResult, about("The result.")]


class RecordOutcome(Request, frozen=True):
    receipt_id: Annotated[
        FilledText, about("The id of the answer's receipt, or its first 6 or more digits; `last` is the newest.")
    ]
    result: Result
    document_id: Annotated[
        Text, about("The document: the beginning of its id, or its rank in the answer. Left out: the first.")
    ] = ""
    section: Annotated[str, about("The section that was acted upon, as in results.", max_length=MAX_SECTION)] = ""
    step: Annotated[Step, about("The step that was acted upon: its number, its id, or its words.")] = ""
    incident: Incident = ""
    note: Annotated[str, about("A note, such as how it was reported.", max_length=MAX_NOTE)] = ""
    occurrence: Annotated[Occurrence, about("Id of this occurrence, if an answer was acted upon more than once.")] = ""


@operation(http="POST /outcomes", function=Function.MANAGE, status=201, action=Action.WRITE)
def record_outcome(context: Context, request: RecordOutcome) -> OutcomeReport:
    """Record the outcome of acting upon a found document. Repeated reports count once.

    Raises `ReceiptNotFoundError`, `DocumentNotFoundError` for a removed document, and `InvalidInputError` for one that
    the receipt doesn't name, or a step that its document doesn't have.
    """
    return _recorded(context, context.identity, request)


def _recorded(context: Context, identity: Identity, request: RecordOutcome | ReportOutcome) -> OutcomeReport:
    outcomes = context.system.learning.outcomes(identity)
    if request.step.strip():
        document = outcomes.returned(request.receipt_id, request.document_id)
        request = replace(request, step=_checked_step(context, document, request.step.strip()))
    return outcomes.record(**asdict(request))


def _checked_step(context: Context, document: KnowledgeDocument, given: str) -> str:
    """A step in the document's words: the title of the step with this number or id, also an id in another version; else
    the given text, if it matches a line or command of the document. Raises `InvalidInputError` for a step that a document
    with steps doesn't have."""
    from opx.learning.tried_steps import StepFinder, steps_of, terms_of
    from opx.text.procedures.layout import steps_meant

    try:
        outline = context.system.questions.documents.outline_of(document)
    except DocumentNotFoundError:  # its text is gone, and the outcome still counts
        return given
    if not outline.steps:
        return given
    names = outline.step_names()
    meant = steps_meant(outline, given)
    if len(meant) > 1:
        raise InvalidInputError(f"{given[:200]!r} may mean {len(meant)} steps: {_named(outline, names, meant)}")
    if meant:
        return outline.steps[meant[0] - 1].title
    finder = StepFinder([terms_of(given)])
    if any(finder.found(terms_of(one.text)) for one in steps_of(outline.text)):
        return given
    if old := old_step(context, document, given):
        return old[1]
    known = _named(outline, names, list(names)[:_STEPS_NAMED])
    raise InvalidInputError(f"{document.title!r} has no step {given[:200]!r}; its steps are: {known}")


def _named(outline: Outline, names: Mapping[int, str], numbers: Sequence[int]) -> str:
    return "; ".join(f"{names[number]} {outline.steps[number - 1].title}" for number in numbers)


class GetDocumentOutcomes(Request, frozen=True):
    document_id: DocumentId


@operation(http="GET /documents/{documentId}/outcomes")
def get_document_outcomes(context: Context, request: GetDocumentOutcomes) -> DocumentOutcomes:
    """Get the outcomes of a document that were recorded in the caller's scope.

    Raises `DocumentNotFoundError`, also for an expired document.
    """
    document = find_by_id(context, request.document_id)
    return context.system.learning.outcomes(context.identity).standing(document.document_id)


# -- tools of agents


class CountedOutcome(Record, frozen=True):
    outcome_id: str
    document_id: str
    counted: Annotated[Counted, about("new, known if it was reported before, or corrected.")]
    explanation: Annotated[str, about("Outcomes of the document, such as `4 of 5 resolved`.")]
    warning_id: Annotated[str, about("The entry that warns of steps that made things worse; empty without one.")]


@dataclass(frozen=True, slots=True)
class OutcomeAnswer(Paragraphs):
    """A counted outcome as text for an agent."""

    report: OutcomeReport

    def _paragraphs(self) -> Iterator[str]:
        report = self.report
        warned = "\nA warning will be shown before the step, once the project has its next checkpoint."
        yield (
            f"Outcome {report.counted}: {report.result.value} for {one_line(report.title)}.\n"
            f"Known of the document: {report.standing.explanation}.{warned if report.warning_id else ''}"
        )

    def record(self) -> CountedOutcome:
        report = self.report
        return CountedOutcome(
            report.outcome_id, report.document_id, report.counted, report.standing.explanation, report.warning_id
        )


class ReportOutcome(Request, frozen=True):
    receipt_id: Annotated[FilledText, about("The receipt of the answer with the document, as the search returned it.")]
    document_id: Annotated[FilledText, about("The document's id, as the search returned it.")]
    result: Result
    step: Annotated[Step, about("The step that was decisive: its number, its id, or its words.")] = ""
    incident: Incident = ""


@agent_tool(
    LEARNING,
    "Report the outcome of following a document that a search found: it resolved the problem, had no effect, or made "
    "things worse. Documents that helped rank higher afterwards.",
    opt_in=True,
    writes=True,
)
def report_outcome(context: Context, request: ReportOutcome) -> OutcomeAnswer:
    """Record an outcome of a document that a search returned. Its principal is the agent, not the session."""
    agent = replace(context.identity, principal=context.caller.agent or context.identity.principal)
    return OutcomeAnswer(_recorded(context, agent, request))
