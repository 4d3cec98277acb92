"""Operations that read documents to act on them: a document part by part, and the procedure for an alert."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from msgspec import Meta, field

from opx.domain.documents import KnowledgeDocument
from opx.domain.handover import FilledCommand, NextCall, SectionView, StepView, call
from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_BUDGET, MIN_BUDGET, Band, QueryConfig
from opx.domain.record import Record, replace
from opx.domain.requests import Filled, FilledText, Request
from opx.domain.results import Answer
from opx.errors import DocumentNotFoundError, InvalidInputError, InvalidReferenceError
from opx.hygiene.untrusted import QUOTED, boundary, framed, one_line
from opx.operations.context import Context
from opx.operations.documents import find_by_id, find_document, old_step
from opx.operations.naming import document_of_name, document_titled, named_document, section_of_link
from opx.operations.paging import Notes, Paragraphs, noted
from opx.operations.registry import KNOWLEDGE, Tool, agent_tool, operation
from opx.operations.search import MAX_QUESTION, answered
from opx.retrieval.citations import harm_shown, next_line, with_warnings

if TYPE_CHECKING:
    from opx.domain.procedures import Outline, Section
    from opx.domain.results import RetrievalResult
    from opx.text.procedures.alerts import Alert
    from opx.text.procedures.layout import LayoutPart

DEFAULT_READING = 2000
MAX_NAME = 1000
_OTHERS = 4
"""Other documents listed with the procedure for an alert, and other steps listed with the shown one."""

DocumentName = Annotated[
    Filled,
    Meta(
        max_length=MAX_NAME,
        description="The document id, its path or address, its title, or a link that another document has to it.",
    ),
]
PartName = Annotated[
    str,
    Meta(
        max_length=300,
        description="The part: `outline`, `steps`, `step 4` (a number or a step id), the heading of a section, a role such "
        "as diagnosis, rollback or escalation, or `all`. Left out: all of it if that fits, else its beginning.",
    ),
]
Reading = Annotated[
    int,
    Meta(
        ge=MIN_BUDGET,
        le=MAX_BUDGET,
        description="Approximate number of tokens to return; `next` continues where it ends.",
    ),
]


class DocumentPart(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a document, within the token budget. `content` has whole blocks as written; `steps` are those of the
    part, for the outline all."""

    document_id: str
    title: str
    source: Annotated[str, Meta(description="The address that a person would open.")]
    category: str
    tier: str
    untrusted: bool
    version: int
    updated: str
    owner: str = ""
    review: Annotated[str, Meta(description="When its review is, or was, due, if that is set.")] = ""
    part: str
    content: Annotated[str, Meta(description="The text of the part.")] = ""
    sections: Annotated[tuple[SectionView, ...], Meta(description="The sections of the outline, in order.")] = ()
    steps: Annotated[tuple[StepView, ...], Meta(description="The steps of the part.")] = ()
    step_count: Annotated[int, Meta(description="Number of steps of the procedure.")] = 0
    warnings: Annotated[
        tuple[str, ...], Meta(description="Steps that were tried before without effect, or made things worse.")
    ] = ()
    notes: Notes = ()
    next: Annotated[tuple[NextCall, ...], Meta(description="Calls that continue.")] = ()


@dataclass(frozen=True, slots=True)
class PartAnswer(Paragraphs):
    """A part of a document as text for an agent. `names_harm`: a line lists the shown steps and commands that are
    destructive, cost money or notify people, unless the text states that itself."""

    part: DocumentPart
    names_harm: bool = True

    def record(self) -> DocumentPart:
        return self.part

    def _paragraphs(self) -> Iterator[str]:
        part = self.part
        yield from noted(part.notes, QUOTED if part.untrusted else "")
        yield "\n".join(self._head())
        if part.sections:
            outline = "\n".join(_outline_lines(part))
            yield framed(outline, boundary([outline])) if part.untrusted else outline
        if part.content:
            yield framed(part.content, boundary([part.content])) if part.untrusted else part.content
        harm = harm_shown(part.steps, untrusted=part.untrusted) if self.names_harm and part.content else ()
        yield "\n".join((*harm, *map(next_line, part.next), f"[Document ID: {part.document_id}]"))

    def _head(self) -> Iterator[str]:
        part = self.part
        yield f"Source: {one_line(part.title) if part.untrusted else part.title}"
        owner = f", owner {one_line(part.owner)}" if part.owner else ""
        review = f", to be reviewed by {part.review}" if part.review else ""
        yield f"Updated: {part.updated[:10]}, version {part.version}{owner}{review}"
        if part.untrusted:
            yield f"Untrusted: {part.tier}, from {one_line(part.source) or 'an unknown source'}"
            yield from (f"[Warning: {one_line(text)}]" for text in part.warnings)


def _outline_lines(part: DocumentPart) -> Iterator[str]:
    """Yields the sections, each with its steps."""
    steps = list(part.steps)
    for section in part.sections:
        indent = "  " * max(section.level - 1, 0)
        if section.heading:
            yield f"{indent}{one_line(section.heading)} ({section.kind}, about {section.tokens} tokens)"
        while steps and steps[0].section == section.heading:
            step = steps.pop(0)
            effect = f" [{step.effect}]" if step.is_classed else ""
            yield f"{indent}  step {step.name}: {one_line(step.title)}{effect}"


After = Annotated[int, Meta(ge=0, le=10**7, description="Position to continue from, as in `next`.")]


class ReadDocument(Request, frozen=True):
    document: DocumentName
    part: PartName = ""
    max_tokens: Reading = DEFAULT_READING
    after: After = 0


@operation(
    http="GET /reading",
    tool=Tool(
        KNOWLEDGE,
        "Read a document: its outline, a section, one step, all steps with their commands, or all of it. Use it after a "
        "search for what the search didn't show, before you act. Commands are exactly as the document has them.",
    ),
)
def read_document(context: Context, request: ReadDocument) -> PartAnswer:
    """Read a part of a document, in whole blocks.

    For a superseded version, the newer one is read, and a note states that. Raises `DocumentNotFoundError`, and
    `InvalidInputError` for an unknown part, which lists the existing ones.
    """
    document, notes = named_document(context, request.document)
    outline = context.system.questions.documents.outline_of(document)
    if notes and request.after:
        raise InvalidInputError(f"{notes[0]}: read it from its beginning, without `after`")
    old_id = request.document if notes else ""
    name, notes = _linked_section(request, outline, notes)
    part, more_notes = _part(context, document, outline, name, old_id)
    _check_after(part, request.after)
    units, following = _page(document, outline, part, request.max_tokens, request.after)
    view = _view(context, document, outline, part, units)
    return PartAnswer(replace(view, notes=(*notes, *more_notes), next=following))


def _linked_section(request: ReadDocument, outline: Outline, notes: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The requested part; without one, the section that the link ends with (`kafka-lag.md#verify`)."""
    anchor = "" if request.part else section_of_link(request.document)
    if not anchor:
        return request.part, notes
    section = _section_at(outline, anchor)
    if section is None:
        return "", (*notes, f"it has no section {anchor[:100]!r}: this is its beginning")
    return section.heading, notes


def _check_after(part: LayoutPart, after: int) -> None:
    if after and after >= len(part.units):
        raise InvalidInputError(f"after is {after}, and {part.name} has {len(part.units)} blocks")


def _page(
    document: KnowledgeDocument, outline: Outline, part: LayoutPart, room: int, after: int = 0
) -> tuple[list[int], tuple[NextCall, ...]]:
    """As many units of a part as fit, and the call that continues, if there are more."""
    from opx.text.procedures.layout import fitting

    units, reached = fitting(outline, part, room, after)
    if not reached:
        return units, ()
    why = f"the rest of {part.name}, {len(part.units) - reached} of {len(part.units)} blocks"
    return units, (call("read_document", why, document=document.document_id, part=part.name, after=reached),)


def _part(
    context: Context, document: KnowledgeDocument, outline: Outline, name: str, old_id: str
) -> tuple[LayoutPart, tuple[str, ...]]:
    """The part with this name, with a note where it is ambiguous. A step of an older version, by its id there or in the
    version with the id `old_id`, leads to the step that replaced it."""
    from opx.text.procedures.layout import part_named, steps_meant

    old = _step_there(context, old_id, name) if old_id else None
    if old is None:
        try:
            return part_named(outline, name), tuple(_ambiguous(outline, name, steps_meant(outline, name)))
        except InvalidInputError:
            old = old_step(context, document, name)
            if old is None:
                raise
    version, title = old
    number = _successor(outline, title)
    if not number:
        raise InvalidInputError(f"{name!r} was a step of version {version}; the current one has no such step: {title}")
    step = f"step {outline.step_names()[number]}"
    note = f"this is a step of version {version}: the current one has {step} in its place"
    return part_named(outline, f"#{number}"), (note,)


def _step_there(context: Context, document_id: str, name: str) -> tuple[int, str] | None:
    """The version and the title of the step with this name in the version with this id; None if there is none."""
    from opx.text.procedures.layout import steps_meant

    version = find_document(context, document_id.strip())
    outline = context.system.questions.documents.outline_of(version)
    numbers = steps_meant(outline, name)
    return (version.version, outline.steps[numbers[0] - 1].title) if numbers else None


def _ambiguous(outline: Outline, name: str, numbers: Sequence[int]) -> Iterator[str]:
    """A note for a name that matches several steps, of which the first is shown."""
    names = outline.step_names()
    shown, *others = [f"step {names[number]} ({_step_location(outline, number)})" for number in numbers] or [""]
    if others:
        yield f"{name!r} may mean {len(numbers)} steps: this is {shown}; there is also {', '.join(others[:_OTHERS])}"


def _step_location(outline: Outline, number: int) -> str:
    step = outline.steps[number - 1]
    heading = outline.sections[step.section].heading
    return f"{heading}: {step.title}" if heading else step.title


_SAME_STEP = 0.6
"""Minimum similarity of two titles, by difflib, for them to be of the same step."""


def _successor(outline: Outline, title: str) -> int:
    """The number of the step with the most similar title; 0 if none is similar."""
    import difflib

    titles = [step.title for step in outline.steps]
    found = difflib.get_close_matches(title, titles, n=1, cutoff=_SAME_STEP)
    return titles.index(found[0]) + 1 if found else 0


def _view(
    context: Context, document: KnowledgeDocument, outline: Outline, part: LayoutPart, units: Sequence[int]
) -> DocumentPart:
    from opx.text.procedures.layout import OUTLINE, laid_out, whole_steps

    handover = context.system.questions.handover(context.reader)
    content = laid_out(outline, units)
    whole = set(whole_steps(outline, units))
    touched = {outline.units[at].step for at in units}
    is_outline = part.name == OUTLINE
    steps = [step for step in outline.steps if is_outline or step.number in touched]
    warned = handover.warnings_in(document, content)
    trusted = document.tier is Tier.INTERNAL
    return DocumentPart(
        document_id=document.document_id,
        title=document.title,
        source=document.source_uri,
        category=document.category,
        tier=document.tier.value,
        untrusted=not trusted,
        version=document.version,
        updated=document.last_updated,
        owner=document.owner,
        review=document.review_by,
        part=part.name,
        content=with_warnings(content, [one.to_json() for one in warned]) if trusted else content,
        sections=tuple(_sections(outline)) if is_outline else (),
        steps=handover.steps(outline, steps, whole),
        step_count=len(outline.steps),
        warnings=tuple(one.text for one in warned),
    )


def _sections(outline: Outline) -> Iterator[SectionView]:
    tokens = [0] * len(outline.sections)
    for unit in outline.units:
        tokens[unit.section] += unit.tokens
    for section, count in zip(outline.sections, tokens, strict=True):
        yield SectionView(section.heading, section.level, section.kind, count)


# -- a whole document

DETAILS_TOKENS = 4000
"""Tokens of the text: with the metadata below Bedrock's limit for a function's reply."""


class GetDocumentDetails(Request, frozen=True):
    document_id: Annotated[FilledText, Meta(description="The document id, as in search results.")]


class DocumentDetails(KnowledgeDocument, frozen=True, kw_only=True):
    """A document with its text."""

    content: Annotated[str, Meta(description="Its text, or as much of it as fits into one reply.")] = ""
    next: Annotated[tuple[NextCall, ...], Meta(description="The call that continues, if there is more.")] = ()


@agent_tool(
    KNOWLEDGE,
    "Get a document by its id: its text, title, category, tags, author, version, when it was last updated and where it is. "
    "For a part of a long one, or one step, use read_document.",
)
def get_document_details(context: Context, request: GetDocumentDetails) -> DocumentDetails:
    """Get the newest version with this id that the caller may see, current ones first.

    Raises `DocumentNotFoundError`, the same for an unknown id and for a document of another scope.
    """
    from opx.text.procedures.layout import ALL, laid_out, part_named

    document = find_by_id(context, request.document_id)
    outline = context.system.questions.documents.outline_of(document)
    units, following = _page(document, outline, part_named(outline, ALL), DETAILS_TOKENS)
    content = laid_out(outline, units) if following else outline.text.strip("\n")
    facts = {name: getattr(document, name) for name in KnowledgeDocument.__struct_fields__}
    return DocumentDetails(**facts, content=content, next=following)


# -- the procedure for an alert


class FindProcedure(Request, frozen=True):
    """A blank alert is refused when it is read: msgspec 0.22 frees a pattern too often where a type is a union."""

    alert: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_QUESTION)] | dict[str, Any],
        Meta(
            description="The alert as it was sent (JSON, or a line with its labels), its name, the symptom in words, or a "
            "document's id, path or title."
        ),
    ]
    labels: Annotated[
        Annotated[str, Meta(max_length=20_000)] | dict[str, Any],
        Meta(description="Labels that fill placeholders of commands, as JSON or as `namespace=prod, pod=web-1`."),
    ] = ""
    max_tokens: Reading = DEFAULT_READING
    after: After = 0


class Procedure(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The procedure for an alert."""

    alert: Annotated[str, Meta(description="The parsed name of the alert.")]
    labels: dict[str, str] = field(default_factory=dict)
    found_by: Annotated[
        str, Meta(description="Reason for this procedure: the alert's runbook, its name, or a search.")
    ] = ""
    confidence: Annotated[float, Meta(description="Probability that it is the right one.")] = 0.0
    document: Annotated[
        DocumentPart | None,
        Meta(
            description="The procedure, as far as the budget goes. Its content has labels filled in, and lines of ours in "
            "brackets: what each step and command does. Its steps have no commands."
        ),
    ] = None
    commands: Annotated[tuple[FilledCommand, ...], Meta(description="Commands with labels filled in, in order.")] = ()
    others: Annotated[
        tuple[NextCall, ...], Meta(description="Other documents that may fit, and how to read them.")
    ] = ()
    receipt_id: Annotated[str, Meta(description="The record of the search, empty if there is none.")] = ""
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
            yield PartAnswer(found.document, names_harm=found.document.untrusted).text()
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
    return f"step {command.step} [{command.effect}]: {one_line(command.text)}{left}{differs}"


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
    from opx.text.procedures.alerts import is_broken_json, read_alert

    text, labels = _as_text("alert", request.alert), _as_text("labels", request.labels)
    if not text.strip():
        raise InvalidInputError("the alert is blank")
    alert = read_alert(text, labels)
    pages = _bound(context, alert)
    is_bound = any(one.sure for one in pages)
    named = None if is_bound else document_of_name(context, text)
    if named and named.notes and request.after:
        raise InvalidInputError(f"{named.notes[0]}: start again, without `after`")
    answer = Answer("", ()) if named else _searched(context, _question(alert, text))
    bound = {one.document_id: one for one in reversed(pages)}
    named = named or (None if is_bound else document_titled(context, text, answer))
    documents = list(dict.fromkeys((*(one.document_id for one in pages), *(one.document_id for one in answer.results))))
    confidences = {result.document_id: result.confidence for result in reversed(answer.results)}
    chosen = (named.document, named.outline) if named else _chosen(context, pages, documents)
    others = [one for one in documents if chosen is None or one != chosen[0].document_id][:_OTHERS]
    titles = {result.document_id: result.title for result in answer.results}
    procedure = Procedure(
        alert=named.document.title if named else alert.name,
        labels=alert.labels,
        others=tuple(call("read_document", titles.get(one, "bound to the alert"), document=one) for one in others)
        or _nearest(answer.best_rejected if chosen is None else None),
        receipt_id=answer.receipt_id,
        notes=(
            *answer.notes,
            *(one.text for one in answer.absent if not pages),
            *_doubts(pages),
            *(() if pages else _elsewhere(context, alert)),
            *(named.notes if named else ()),
            *alert.notes,
            *((_BROKEN_JSON,) if is_broken_json(text) else ()),
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
    return 1.0 if named or page else round(searched, 6)


def _as_text(name: str, given: str | dict[str, Any]) -> str:
    """A field that may also be given as a JSON object, as a string. Raises `InvalidInputError` if that is too long."""
    if isinstance(given, str):
        return given
    text = json.dumps(given, ensure_ascii=False)
    if len(text) > MAX_QUESTION:
        raise InvalidInputError(f"{name} may have at most {MAX_QUESTION:,} characters as JSON, not {len(text):,}")
    return text


def _procedure_view(
    context: Context,
    document: KnowledgeDocument,
    outline: Outline,
    request: FindProcedure,
    labels: Mapping[str, str],
) -> tuple[DocumentPart, tuple[FilledCommand, ...]]:
    """The steps of a document with labels filled into their commands, and the commands. Documents from outside are quoted
    unchanged."""
    from opx.text.procedures.alerts import assigned_in
    from opx.text.procedures.filling import filled_commands, with_commands
    from opx.text.procedures.layout import STEPS, part_named

    part = part_named(outline, STEPS)
    _check_after(part, request.after)
    units, following = _page(document, outline, part, request.max_tokens, request.after)
    given = {"labels": json.dumps(labels, ensure_ascii=False)} if labels else {}
    following = tuple(
        call("find_procedure", one.why, alert=document.document_id, after=one.arguments["after"], **given)
        for one in following
    )
    view = replace(_view(context, document, outline, part, units), next=following)
    assigned = assigned_in(command for step in outline.steps for command in step.commands)
    commands = tuple(one for step in view.steps for one in filled_commands(step, labels, assigned))
    if not view.untrusted:
        begins: dict[int, str] = {}
        for unit in (outline.units[at] for at in units):
            begins.setdefault(unit.step, outline.slice(unit).strip("\n").partition("\n")[0])
        content = with_commands(view.content, begins, view.steps, view.step_count, commands)
        view = replace(view, content=content)
    return replace(view, steps=tuple(replace(step, commands=()) for step in view.steps)), commands


def _nearest(result: RetrievalResult | None) -> tuple[NextCall, ...]:
    """A call that reads the nearest document where none was good enough."""
    if result is None or not result.document_id:
        return ()
    why = f"{result.title}, unlikely ({result.confidence:.2f})"
    return (call("read_document", why, document=result.document_id),)


_BROKEN_JSON = (
    "the alert begins like JSON and isn't valid JSON, so it was read as plain text: its labels may be missing"
)
RUNBOOKS = "runbooks"
_SEARCH = QueryConfig(min_confidence=Band.LIKELY.least, max_results=10, max_chunks_per_document=2, plain=True)


def _searched(context: Context, question: str) -> Answer:
    """An answer from runbooks; from all categories if none of them fits, or there is no such category."""
    if RUNBOOKS in {path.partition("/")[0] for path in context.system.installation.knowledge.categories}:
        answer = answered(context, question, replace(_SEARCH, categories=(RUNBOOKS,)))
        if answer.results:
            return answer
    return answered(context, question, _SEARCH)


def _question(alert: Alert, given: str) -> str:
    """The query for an alert: its name and text, without its labels."""
    return f"{alert.name}\n{alert.text}".strip()[:MAX_QUESTION] or given


@dataclass(frozen=True, slots=True)
class BoundPage:
    """A document that is bound to an alert. `location` is the address or the path that names it, if one does; `labels`
    are those that an alert must have for it. A `sure` one is used even if it has no steps; a `doubted` one is one of
    several that declare that they handle the alert, and its labels don't select one of them."""

    document_id: str
    title: str
    found_by: str
    location: str = ""
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sure: bool = True
    doubted: bool = False


def _bound(context: Context, alert: Alert) -> list[BoundPage]:
    """Documents that are bound to the alert: the runbook that it names itself, else those that its rules name, that have
    its name, and that declare that they handle it."""
    from opx.graph.bindings import BoundBy

    if alert.runbook:
        own: KnowledgeDocument | None
        try:
            own = named_document(context, alert.runbook)[0]
        except (DocumentNotFoundError, InvalidInputError):
            own = context.system.graph.runbooks(context.reader).at(alert.runbook)
        if own:
            return [BoundPage(own.document_id, own.title, "the runbook that the alert names", alert.runbook)]
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


_NAMED = "the document of this name"
_FOUND_BY = {
    "url": "the runbook that the alert's rule names",
    "title": "the runbook that is called like the alert",
    "page": "a runbook for an alert of this name",
}


def _doubts(pages: Sequence[BoundPage]) -> Iterator[str]:
    doubted = [one.title for one in pages if one.doubted]
    if len(doubted) > 1 and pages[0].doubted:
        yield f"several pages state that they are for this alert, and its labels don't select one: {'; '.join(doubted)}"


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
    section = _section_at(outline, anchor) if anchor else None
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


def _section_at(outline: Outline, anchor: str) -> Section | None:
    """The section with this anchor of an address."""
    wanted = _anchor(unquote(anchor))
    return next((one for one in outline.sections if _anchor(one.heading) == wanted), None)


def _anchor(heading: str) -> str:
    """A heading normalised to compare anchors of different renderers: without punctuation and spaces."""
    return "".join(filter(str.isalnum, heading)).casefold()


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
