"""Operations that read a document: part by part within a token budget, and as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote

from opx.domain.documents import KnowledgeDocument
from opx.domain.handover import NextCall, SectionView, StepView, call
from opx.domain.queries import MAX_BUDGET, MIN_BUDGET
from opx.domain.record import Record, about, like, replace
from opx.domain.requests import Filled, FilledText, Request
from opx.errors import InvalidInputError
from opx.hygiene.untrusted import QUOTED, boundary, framed, one_line, origin
from opx.operations.context import Context
from opx.operations.documents import find_by_id, find_document, old_step
from opx.operations.naming import named_document, section_of_link
from opx.operations.paging import Notes, Paragraphs, noted
from opx.operations.registry import KNOWLEDGE, Tool, agent_tool, operation
from opx.retrieval.citations import harm_shown, next_line, with_warnings

if TYPE_CHECKING:
    from opx.domain.procedures import Outline, Section
    from opx.text.procedures.layout import LayoutPart

DEFAULT_READING = 2000
MAX_NAME = 1000
_OTHERS = 4
"""Other steps listed with the shown one."""

DocumentName = Annotated[
    Filled,
    about(
        "The document id, its path or address, its title, or a link that another document has to it.",
        max_length=MAX_NAME,
    ),
]
PartName = Annotated[
    str,
    about(
        "The part: `outline`, `steps`, `step 4` (a number or a step id), the heading of a section, a role such "
        "as diagnosis, rollback or escalation, or `all`. Left out: all of it if that fits, else its beginning.",
        max_length=300,
    ),
]
Reading = Annotated[
    int, about("Approximate number of tokens to return; `next` continues where it ends.", ge=MIN_BUDGET, le=MAX_BUDGET)
]


class DocumentPart(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A part of a document, within the token budget. `content` has whole blocks as written; `steps` are those of the
    part, for the outline all."""

    document_id: str
    title: str
    source: Annotated[str, about("The address that a person would open.")]
    category: str
    tier: str
    untrusted: bool
    version: int
    updated: str
    owner: str = ""
    review: Annotated[str, about("When its review is, or was, due, if that is set.")] = ""
    part: str
    content: Annotated[str, about("The text of the part.")] = ""
    sections: Annotated[tuple[SectionView, ...], about("The sections of the outline, in order.")] = ()
    steps: Annotated[tuple[StepView, ...], about("The steps of the part.")] = ()
    step_count: Annotated[int, about("Number of steps of the procedure.")] = 0
    warnings: Annotated[
        tuple[str, ...], about("Steps that were tried before without effect, or made things worse.")
    ] = ()
    notes: Notes = ()
    next: Annotated[tuple[NextCall, ...], about("Calls that continue.")] = ()


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
        owner = f", owner {one_line(part.owner)}" if part.owner and not part.untrusted else ""
        review = f", to be reviewed by {part.review}" if part.review else ""
        yield f"Updated: {part.updated[:10]}, version {part.version}{owner}{review}"
        if part.untrusted:
            yield f"Untrusted: {origin(part.tier, part.category)}, from {one_line(part.source) or 'an unknown source'}"
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


After = Annotated[int, about("Position to continue from, as in `next`.", ge=0, le=10**7)]


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
    context.system.corpus.uses.note_document(document)
    outline = context.system.questions.documents.outline_of(document)
    if notes and request.after:
        raise InvalidInputError(f"{notes[0]}: read it from its beginning, without `after`")
    old_id = request.document if notes else ""
    name, notes = _linked_section(request, outline, notes)
    part, more_notes = _part(context, document, outline, name, old_id)
    check_after(part, request.after)
    units, following = units_within(document, outline, part, request.max_tokens, request.after)
    view = part_view(context, document, outline, part, units)
    return PartAnswer(replace(view, notes=(*notes, *more_notes), next=following))


def _linked_section(request: ReadDocument, outline: Outline, notes: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The requested part; without one, the section that the link ends with (`kafka-lag.md#verify`)."""
    anchor = "" if request.part else section_of_link(request.document)
    if not anchor:
        return request.part, notes
    section = section_at(outline, anchor)
    if section is None:
        return "", (*notes, f"it has no section {anchor[:100]!r}: this is its beginning")
    return section.heading, notes


def check_after(part: LayoutPart, after: int) -> None:
    if after and after >= len(part.units):
        raise InvalidInputError(f"after is {after}, and {part.name} has {len(part.units)} blocks")


def units_within(
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


def part_view(
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
    trusted = not document.untrusted
    return like(
        DocumentPart,
        document,
        source=document.source_uri,
        tier=document.tier.value,
        updated=document.last_updated,
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


def section_at(outline: Outline, anchor: str) -> Section | None:
    """The section with this anchor of an address."""
    wanted = _anchor(unquote(anchor))
    return next((one for one in outline.sections if _anchor(one.heading) == wanted), None)


def _anchor(heading: str) -> str:
    """A heading normalised to compare anchors of different renderers: without punctuation and spaces."""
    return "".join(filter(str.isalnum, heading)).casefold()


# -- a whole document

DETAILS_TOKENS = 4000
"""Tokens of the text: with the metadata below Bedrock's limit for a function's reply."""


class GetDocumentDetails(Request, frozen=True):
    document_id: Annotated[FilledText, about("The document id, as in search results.")]


class DocumentDetails(KnowledgeDocument, frozen=True, kw_only=True):
    """A document with its text."""

    content: Annotated[str, about("Its text, or as much of it as fits into one reply.")] = ""
    next: Annotated[tuple[NextCall, ...], about("The call that continues, if there is more.")] = ()


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
    units, following = units_within(document, outline, part_named(outline, ALL), DETAILS_TOKENS)
    content = laid_out(outline, units) if following else outline.text.strip("\n")
    return like(DocumentDetails, document, content=content, next=following)
