"""Operation that finds the procedure for an alert."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, field

from opx.domain.documents import KnowledgeDocument
from opx.domain.handover import FilledCommand, NextCall, call
from opx.domain.knowledge import Tier
from opx.domain.queries import Band, QueryConfig
from opx.domain.record import Record, about, replace
from opx.domain.requests import Request
from opx.domain.resources import identity_in, kind_of_field
from opx.domain.results import Answer
from opx.errors import DocumentNotFoundError, InvalidInputError, InvalidReferenceError
from opx.hygiene.untrusted import one_line, origin, quoted
from opx.operations import reading
from opx.operations.context import Context
from opx.operations.naming import document_of_name, document_titled, named_document
from opx.operations.paging import Notes, Paragraphs, noted
from opx.operations.registry import KNOWLEDGE, Tool, operation
from opx.operations.search import MAX_QUESTION, run_search
from opx.retrieval.citations import next_line

if TYPE_CHECKING:
    from opx.domain.procedures import Outline
    from opx.domain.results import RetrievalResult
    from opx.text.procedures.alerts import Alert

_OTHERS = 4
"""Other documents listed with the procedure for an alert."""


class FindProcedure(Request, frozen=True):
    """A blank alert is refused when it is read: msgspec 0.22 frees a pattern too often where a type is a union."""

    alert: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION)] | dict[str, Any],
        about(
            "The alert as it was sent (JSON, or a line with its labels), its name, the symptom in words, or a "
            "document's id, path or title."
        ),
    ]
    labels: Annotated[
        Annotated[str, Meta(max_length=20_000)] | dict[str, Any],
        about("Labels that fill placeholders of commands, as JSON or as `namespace=prod, pod=web-1`."),
    ] = ""
    max_tokens: reading.Reading = reading.DEFAULT_READING
    after: reading.After = 0


class Procedure(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The procedure for an alert."""

    alert: Annotated[str, about("The parsed name of the alert.")]
    labels: dict[str, str] = field(default_factory=dict)
    found_by: Annotated[str, about("Reason for this procedure: the alert's runbook, its name, or a search.")] = ""
    confidence: Annotated[float, about("Probability that it is the right one.")] = 0.0
    document: Annotated[
        reading.DocumentPart | None,
        about(
            "The procedure, as far as the budget goes. Its content has labels filled in, and lines of ours in "
            "brackets: what each step and command does. Its steps have no commands."
        ),
    ] = None
    commands: Annotated[tuple[FilledCommand, ...], about("Commands with labels filled in, in order.")] = ()
    others: Annotated[tuple[NextCall, ...], about("Other documents that may fit, and how to read them.")] = ()
    receipt_id: Annotated[str, about("The record of the search, empty if there is none.")] = ""
    notes: Notes = ()


@dataclass(frozen=True, slots=True)
class ProcedureAnswer(Paragraphs):
    """The procedure for an alert as text for an agent."""

    procedure: Procedure

    def record(self) -> Procedure:
        return self.procedure

    def _paragraphs(self) -> Iterator[str]:
        found = self.procedure
        yield from noted(found.notes)
        if found.document is None:
            yield f"No procedure was found for {one_line(found.alert)}."
        else:
            yield f"Procedure for {one_line(found.alert)} ({found.found_by}, confidence {found.confidence:.2f})"
            yield reading.PartAnswer(found.document, names_harm=found.document.untrusted).text()
            if found.document.untrusted and found.commands:
                yield "Its commands with the alert's labels filled in:\n" + "\n".join(
                    map(_command_line, found.commands)
                )
        if found.others:
            yield "Others that may fit:\n" + "\n".join(map(next_line, found.others))
        if found.receipt_id:
            yield f"[Receipt ID: {found.receipt_id}]"


def _command_line(command: FilledCommand) -> str:
    left = f"   # still to be filled in: {one_line(', '.join(command.placeholders))}" if command.placeholders else ""
    differs = "".join(f"   # the example has {one_line(one)}" for one in command.differs)
    return f"step {command.step} [{command.harm}]: {one_line(command.text)}{left}{differs}"


@operation(
    http="POST /procedures",
    tool=Tool(
        KNOWLEDGE,
        "Get the procedure for an alert: preconditions, all steps with their commands and what each does (read, reversible, "
        "destructive ...), warnings, verification and rollback. Paste the alert as it came; its labels fill the commands' "
        "placeholders. Nothing is executed.",
    ),
)
def find_procedure(context: Context, request: FindProcedure) -> ProcedureAnswer:
    """Find the procedure for an alert: by the runbook that it names, by its name, or by a search for its text."""
    from opx.text.procedures.alerts import json_error, read_alert

    text, labels = _as_text("alert", request.alert), _as_text("labels", request.labels)
    if not text.strip():
        raise InvalidInputError("the alert is blank")
    alert = read_alert(text, labels)
    own = _own_runbook(context, alert)
    pages = _bound(context, alert, own)
    is_bound = any(one.sure for one in pages)
    named = None if is_bound else document_of_name(context, text)
    if named and named.notes and request.after:
        raise InvalidInputError(f"{named.notes[0]}: start again, without `after`")
    if named and named.document.is_report:
        return ProcedureAnswer(_no_procedure(named.document, alert.labels))
    answer = Answer("", ()) if named else _searched(context, *_question(alert, text))
    bound = {one.document_id: one for one in reversed(pages)}
    named = named or (None if is_bound else document_titled(context, text, answer))
    found = [one.document_id for one in answer.results if not one.is_report]
    is_unplaced = not identity_in(alert.labels)
    declared = [one.document_id for one in pages if one.sure or is_unplaced]
    documents = list(dict.fromkeys((*declared, *found, *(one.document_id for one in pages))))
    confidences = {result.document_id: result.confidence for result in reversed(answer.results)}
    chosen = (named.document, named.outline) if named else _chosen(context, pages, documents)
    others = [one for one in documents if chosen is None or one != chosen[0].document_id][:_OTHERS]
    titles = {result.document_id: result.title for result in answer.results}
    procedure = Procedure(
        alert=named.document.title if named else alert.name,
        labels=alert.labels,
        others=tuple(call("read_document", titles.get(one, "bound to the alert"), document=one) for one in others)
        or _nearest((*answer.results, *answer.unconfirmed) if chosen is None else ()),
        receipt_id=answer.receipt_id,
        notes=(
            *answer.notes,
            *(one.text for one in answer.absent if not pages),
            *_doubts(pages),
            *_stated(own, pages),
            *(() if pages or own else _elsewhere(context, alert)),
            *(named.notes if named else ()),
            *alert.notes,
            *((_BROKEN_JSON.format(error),) if (error := json_error(text)) else ()),
        ),
    )
    if chosen is None:
        return ProcedureAnswer(procedure)
    document, outline = chosen
    page = bound.get(document.document_id)
    view, commands = _procedure_view(context, document, outline, request, alert.labels)
    found_by = page.found_by if page else "found by a search"
    return ProcedureAnswer(
        replace(
            procedure,
            found_by=_NAMED if named else found_by,
            notes=(*procedure.notes, *(_location_notes(page, pages, outline) if page else ())),
            confidence=_confidence(named, page, confidences.get(document.document_id, 0.0)),
            document=view,
            commands=commands,
        )
    )


def _confidence(named: object, page: BoundPage | None, searched: float) -> float:
    if page and page.doubted and not named:
        from opx.retrieval.identifiers import NOT_ABOUT

        return NOT_ABOUT
    return 1.0 if named or (page and not page.untrusted) else round(searched, 6)


def _as_text(name: str, given: str | dict[str, Any]) -> str:
    """A field that may also be given as a JSON object, as a string. Raises `InvalidInputError` if that is too long."""
    if isinstance(given, str):
        return given
    text = json.dumps(given, ensure_ascii=False)
    if len(text) > MAX_QUESTION:
        raise InvalidInputError(f"{name} may have at most {MAX_QUESTION:,} characters as JSON, not {len(text):,}")
    return text


def _procedure_view(
    context: Context, document: KnowledgeDocument, outline: Outline, request: FindProcedure, labels: Mapping[str, str]
) -> tuple[reading.DocumentPart, tuple[FilledCommand, ...]]:
    """The steps of a document with labels filled into their commands, and the commands. Documents from outside are quoted
    unchanged."""
    from opx.text.procedures.alerts import assigned_in
    from opx.text.procedures.filling import filled_commands, with_commands
    from opx.text.procedures.layout import STEPS, part_named

    part = part_named(outline, STEPS)
    reading.check_after(part, request.after)
    units, following = reading.units_within(document, outline, part, request.max_tokens, request.after)
    given = {"labels": json.dumps(labels, ensure_ascii=False)} if labels else {}
    following = tuple(
        call("find_procedure", one.why, alert=document.document_id, after=one.arguments["after"], **given)
        for one in following
    )
    view = replace(reading.part_view(context, document, outline, part, units), next=following)
    assigned = assigned_in(command for step in outline.steps for command in step.commands)
    commands = tuple(one for step in view.steps for one in filled_commands(step, labels, assigned))
    if not view.untrusted:
        begins: dict[int, str] = {}
        for unit in (outline.units[at] for at in units):
            begins.setdefault(unit.step, outline.slice(unit).strip("\n").partition("\n")[0])
        content = with_commands(view.content, begins, view.steps, view.step_count, commands)
        view = replace(view, content=content)
    return replace(view, steps=tuple(replace(step, commands=()) for step in view.steps)), commands


def _nearest(results: Sequence[RetrievalResult]) -> tuple[NextCall, ...]:
    """A call that reads the nearest document where none was good enough, or only reports were."""
    nearest = next(iter(results), None)
    if nearest is None or not nearest.document_id:
        return ()
    named = _report_named(nearest.title, nearest.category) if nearest.is_report else f"{nearest.title}, unlikely"
    return (call("read_document", f"{named} ({nearest.confidence:.2f})", document=nearest.document_id),)


def _report_named(title: str, category: str) -> str:
    return f"{quoted(title)}, {origin(Tier.INTERNAL, category)}: no procedure"


def _no_procedure(document: KnowledgeDocument, labels: Mapping[str, str]) -> Procedure:
    """The reply for the name of a report."""
    why = _report_named(document.title, document.category)
    others = (call("read_document", why, document=document.document_id),)
    return Procedure(alert=quoted(document.title), labels=dict(labels), others=others, notes=(f"this is {why}",))


_BROKEN_JSON = (
    "the alert begins like JSON and isn't valid JSON ({}), so it was read as plain text: its labels may be missing"
)
RUNBOOKS = "runbooks"
_SEARCH = QueryConfig(min_confidence=Band.LIKELY.least, max_results=10, max_chunks_per_document=2)


def _searched(context: Context, question: str, plain: bool) -> Answer:
    """An answer from runbooks; from all categories but reports if none of them fits, or there is no such category; else from
    reports, to name the nearest. One without a good answer counts once among the gaps."""
    knowledge = context.system.installation.knowledge
    instructions = tuple(sorted(knowledge.categories.keys() - knowledge.reports))
    runbooks = [(RUNBOOKS,)] if any(path.partition("/")[0] == RUNBOOKS for path in instructions) else []
    searches = [replace(_SEARCH, categories=one, plain=plain) for one in (*runbooks, instructions, ())]
    answer = run_search(context, question, searches[0])
    for config in searches[1:]:
        answer = answer if answer.results else run_search(context, question, config, gaps=False)
    return answer


def _question(alert: Alert, given: str) -> tuple[str, bool]:
    """The query for an alert, and true if all of it is words: its name and text. With labels that name a resource, it is the
    alert as JSON, which the search reads as one."""
    labels = {name: value for name, value in alert.labels.items() if kind_of_field(name)}
    if not labels:
        return f"{alert.name}\n{alert.text}".strip()[:MAX_QUESTION] or given, True
    sent = {"labels": {**labels, "alertname": alert.name}, "annotations": {"description": alert.text}}
    return json.dumps(sent, ensure_ascii=False), False


@dataclass(frozen=True, slots=True)
class BoundPage:
    """A document that is bound to an alert. `location` is the address or the path that names it, if one does; `labels`
    are those of its rule that the alert lacks. A `sure` one is used even if it has no steps; a `doubted` one is one of
    several that declare that they handle the alert, and its labels don't select one of them. An `untrusted` one comes from
    outside, and only the alert names it."""

    document_id: str
    title: str
    found_by: str
    location: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sure: bool = True
    doubted: bool = False
    untrusted: bool = False


def _bound(context: Context, alert: Alert, own: KnowledgeDocument | None) -> list[BoundPage]:
    """Documents that are bound to the alert: the runbook that it names itself, then those that its rules name, that have its
    name, and that declare that they handle it. A page from outside that only the alert names comes last: who may set its
    labels may name any."""
    bound = _bound_by_others(context, alert)
    if own is None or own.is_report:
        return bound
    page = BoundPage(own.document_id, own.title, OWN_RUNBOOK, alert.runbook, untrusted=own.untrusted)
    others = [one for one in bound if one.document_id != page.document_id]
    if own.untrusted and len(others) < len(bound):
        return bound
    return [*others, page] if own.untrusted else [page, *others]


def _own_runbook(context: Context, alert: Alert) -> KnowledgeDocument | None:
    """The document that the alert itself names as its runbook."""
    if not alert.runbook:
        return None
    try:
        return named_document(context, alert.runbook)[0]
    except (DocumentNotFoundError, InvalidInputError):
        return context.system.graph.runbooks(context.reader).at(alert.runbook)


def _bound_by_others(context: Context, alert: Alert) -> list[BoundPage]:
    """Documents that rules of the alert name, that have its name, and that declare that they handle it."""
    from opx.graph.bindings import BoundBy

    try:
        key = context.system.graph.seen_by(context.identity).resolve(f"alert:{alert.name}")
    except InvalidReferenceError:
        return []
    pages = context.system.graph.bindings(context.reader, [key], alert.labels).pages()[key]
    claiming = {one.document.document_id: one.document for one in pages if one.by is BoundBy.PAGE}
    fits = _label_fits(claiming.values(), alert) if len(claiming) > 1 else {}
    certain = [one for one in pages if one.by is not BoundBy.PAGE and one.fits]
    declared = sorted(
        (one for one in pages if one.by is BoundBy.PAGE), key=lambda one: -fits.get(one.document.document_id, 0)
    )
    ranked = [*certain, *declared, *(one for one in pages if not one.fits)]
    return [
        BoundPage(
            document_id=one.document.document_id,
            title=one.document.title,
            found_by=_FOUND_BY[one.by] if one.fits else "a runbook that the alert's rule names for other labels",
            location=one.rule.location if one.rule else "",
            labels=one.rule.missing(alert.labels) if one.rule else {},
            sure=one.fits and one.by is not BoundBy.PAGE,
            doubted=len(claiming) > 1 and one.by is BoundBy.PAGE and fits.get(one.document.document_id, 0) < 1,
        )
        for one in ranked[:_OTHERS]
    ]


def _label_fits(documents: Iterable[KnowledgeDocument], alert: Alert) -> dict[str, int]:
    from opx.retrieval.identifiers import Applicability, label_fits

    applicabilities = {
        one.document_id: Applicability(one.title, one.source, one.tags, one.services) for one in documents
    }
    return label_fits(applicabilities, alert.labels)


OWN_RUNBOOK = "the runbook that the alert names"
_NAMED = "the document of this name"
_FOUND_BY = {
    "url": "the runbook that the alert's rule names",
    "title": "the runbook with the alert's name",
    "page": "a runbook for an alert of this name",
}


def _doubts(pages: Sequence[BoundPage]) -> Iterator[str]:
    doubted = [one.title for one in pages if one.doubted]
    if len(doubted) > 1 and pages[0].doubted:
        yield f"several pages state that they are for this alert, and its labels don't select one: {'; '.join(doubted)}"


def _stated(own: KnowledgeDocument | None, pages: Sequence[BoundPage]) -> Iterator[str]:
    """Notes on the runbook that the alert names itself (`own`), if it is untrusted, or isn't the one that is bound to alerts
    of this name."""
    if own and own.untrusted:
        what = (
            _report_named(own.title, own.category)
            if own.is_report
            else f"{quoted(own.title)}, from outside ({own.tier})"
        )
        yield f"CAUTION: the alert itself names as its runbook {what}. Who sets an alert's labels can name any page"
    elif own and (others := [one for one in pages if one.sure and one.document_id != own.document_id]):
        yield f"the alert names its runbook itself; {others[0].found_by} is another: {others[0].title}"


def _elsewhere(context: Context, alert: Alert) -> Iterator[str]:
    """A note on the runbook's address that an alert or its rule names, if it isn't in the corpus."""
    location = alert.runbook
    if not location:
        try:
            key = context.system.graph.seen_by(context.identity).resolve(f"alert:{alert.name}")
        except InvalidReferenceError:
            return
        location = context.system.graph.bindings(context.reader, [key]).location_of(key)
    if location:
        yield f"its runbook isn't here: {one_line(location)}"


def _location_notes(page: BoundPage, pages: Sequence[BoundPage], outline: Outline) -> Iterator[str]:
    """Notes on the section in the page's address, and on other runbooks that rules of the alert name for labels that it
    may have."""
    anchor = page.location.partition("#")[2]
    section = reading.section_at(outline, anchor) if anchor else None
    if section:
        yield f"its address names the section {section.heading!r}: begin there"
    others = [one for one in pages if one.labels and one is not page]
    named = [
        f"{', '.join(f'{name}={text}' for name, text in one.labels.items())}: {one.title}" for one in (page, *others)
    ]
    if page.labels and others:
        yield f"its rules name several runbooks, by labels that this alert doesn't have: {'; '.join(named)}"
    elif others:
        yield f"a rule names another runbook for {'; for '.join(named[1:])}"


def _chosen(
    context: Context, bound: Sequence[BoundPage], documents: Sequence[str]
) -> tuple[KnowledgeDocument, Outline] | None:
    """The document to use: the sure one, else the first that has steps."""
    sure = [one.document_id for one in bound[:1] if one.sure]
    return _first_with_steps(context, sure) or _first_with_steps(context, documents)


def _first_with_steps(context: Context, documents: Sequence[str]) -> tuple[KnowledgeDocument, Outline] | None:
    """Returns the first document that has steps, else the first that can be read."""
    first: tuple[KnowledgeDocument, Outline] | None = None
    for document_id in documents[:_OTHERS]:
        try:
            found = context.system.questions.documents.outline(context.reader, document_id)
        except DocumentNotFoundError:
            continue
        if found[1].steps:
            return found
        first = first or found
    return first
