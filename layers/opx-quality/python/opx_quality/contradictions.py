"""Documents that contradict each other: pairs of passages, for people who keep the knowledge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Ageing, Category, Tier
from opx.domain.policy import Action
from opx.domain.queries import CATEGORY
from opx.domain.record import Record, about
from opx.domain.requests import FilledText, Request, Text
from opx.errors import DocumentNotFoundError, InvalidInputError
from opx.operations.context import Context
from opx.operations.documents import find_by_id
from opx.operations.paging import After, Limit, Next, fitting, read_token, token
from opx.operations.registry import operation
from opx.records.dismissals import Dismissals
from opx.runtime.deadlines import remaining
from opx_quality.comparing import SimilarDocument, described, to_be_compared

if TYPE_CHECKING:
    from opx_quality.contradicting.finding import Contradiction, StatedDocument
    from opx_quality.contradicting.statements import Statement

SPARE_SECONDS = 8.0
"""Time left for the comparison and the reply when reading stops before the end of a request."""
MAX_PASSAGE = 1200
_BATCH = 64

MAX_REASON = 1000

ContradictionId = Annotated[FilledText, about("The id of a contradiction, as in the list.")]


class ListContradictions(Request, frozen=True):
    category: Annotated[
        Text, about(f"{CATEGORY} Left out: all that are written here, kept permanently, and searched.")
    ] = ""
    limit: Limit = 50
    after: After = ""


class ContradictingPassage(SimilarDocument, frozen=True):
    """One side of a contradiction. `statement` is the sentence or command, `passage` the block of text that it is in."""

    reviewed_at: str
    section: str
    statement: str
    passage: str


class DocumentContradiction(Record, frozen=True):
    """Two statements of current documents of which at most one can be right. The first document is the one that was updated
    later."""

    contradiction_id: str
    kind: Annotated[str, about("`value`, `command` or `instruction`.")]
    about: Annotated[str, about("What differs: what is measured, an option, or an action.")]
    reason: Annotated[str, about("Why they contradict each other, in words.")]
    first: ContradictingPassage
    second: ContradictingPassage


class Contradictions(Record, frozen=True, omit_defaults=True):
    contradictions: tuple[DocumentContradiction, ...]
    compared: Annotated[int, about("Number of documents that were compared.")]
    dismissed: Annotated[int, about("Number of contradictions that were marked as none.")] = 0
    more: Annotated[bool, about("True if there are more documents: name a category.")] = False
    next: Next = ""


@operation(http="GET /contradictions")
def list_contradictions(context: Context, request: ListContradictions) -> Contradictions:
    """List pairs of current documents that state different values, commands or instructions for the same thing.

    Found without a language model: the same words about the same subject, but for one value. Compares up to 2,000 documents
    that the caller may see, as many as can be read in time. Raises `UnknownCategoryError`, and `InvalidInputError` for an
    invalid `after`.
    """
    position = read_token(request.after, 1)
    documents, more = _documents(context, request.category)
    read = _Reading(context, documents)
    found = {one.contradiction_id: one for one in read.contradictions()}
    dismissed = _dismissals(context).ids(context.reader.visible)
    shown = sorted((one for one in found if one not in dismissed), key=lambda one: _order(found[one]))
    rest = (found[one] for one in shown if not position or _order(found[one]) > position[0])
    page, has_more = fitting(rest, request.limit)
    return Contradictions(
        page,
        compared=read.count,
        dismissed=len(dismissed & found.keys()),
        more=more or read.count < len(documents),
        next=token(_order(page[-1])) if has_more else "",
    )


class DismissContradiction(Request, frozen=True):
    contradiction_id: ContradictionId
    because: Annotated[str, about("Why it is none.", max_length=MAX_REASON)] = ""
    undo: Annotated[bool, about("Show it again.")] = False


class ContradictionDismissed(Record, frozen=True):
    contradiction_id: str
    dismissed: bool
    by: str


@operation(http="POST /contradictions/{contradictionId}/dismissal", action=Action.CURATE)
def dismiss_contradiction(context: Context, request: DismissContradiction) -> ContradictionDismissed:
    """Mark a contradiction as none: readers of the caller's scope don't see it until one of the documents changes.

    Raises `DocumentNotFoundError` for a document that changed or that the caller may not see, and `InvalidInputError` if the
    two documents don't contradict each other in this.
    """
    marks = _dismissals(context)
    if request.undo:
        marks.remove(context.scope, request.contradiction_id)
        return ContradictionDismissed(request.contradiction_id, False, context.author)
    documents = [find_by_id(context, one) for one in _document_ids(request.contradiction_id)]
    if any(one.state is not DocumentState.CURRENT for one in documents):
        raise DocumentNotFoundError("one of the two documents was changed since: list the contradictions again")
    ids = {one.contradiction_id for one in _Reading(context, documents).contradictions()}
    if request.contradiction_id not in ids:
        raise InvalidInputError(f"the documents of {request.contradiction_id} don't contradict each other in this")
    marks.put(context.scope, request.contradiction_id, by=context.author, because=request.because)
    return ContradictionDismissed(request.contradiction_id, True, context.author)


def _dismissals(context: Context) -> Dismissals:
    return Dismissals.of(context.system.tables, context.system.corpus.clients, context.system.clock)


def _order(one: DocumentContradiction) -> str:
    return f"{one.first.title.casefold()}\x00{one.contradiction_id}"


# -- reading


def _documents(context: Context, category: str) -> tuple[list[KnowledgeDocument], bool]:
    """The documents to be compared, and true if there are more."""
    model = context.system.installation.knowledge
    paths = model.within(category) if category else [one.path for one in model.categories.values() if _instructs(one)]
    return to_be_compared(context, sorted(paths))


def _instructs(category: Category) -> bool:
    """True for categories of pages that hold until they are changed. Incidents, changes and postmortems record what was, and
    differ by right; pages from outside aren't mended here."""
    is_kept = category.retention == "permanent" and category.ages_by is Ageing.EDIT
    return category.tier is Tier.INTERNAL and is_kept and bool(category.embed)


class _Page(Struct, frozen=True):
    document: KnowledgeDocument
    stated: StatedDocument
    passages: dict[tuple[int, int], str]
    sections: tuple[str, ...]


class _Reading:
    """Documents with their statements. `count` is the number of those that were read in time."""

    def __init__(self, context: Context, documents: Sequence[KnowledgeDocument]) -> None:
        self._context = context
        self._pages = [one for one in _read(context, documents) if one is not None]
        self.count = len(self._pages)

    def contradictions(self) -> Iterator[DocumentContradiction]:
        from opx_quality.contradicting.finding import contradictions

        pages = {one.stated.number: one for one in self._pages}
        for found in contradictions([one.stated for one in self._pages]):
            yield _shown(found, pages[found.first], pages[found.second])


def _read(context: Context, documents: Sequence[KnowledgeDocument]) -> Iterator[_Page | None]:
    with ThreadPoolExecutor(context.system.storage.read_threads) as pool:
        for begin in range(0, len(documents), _BATCH):
            left = remaining()
            if left is not None and left < SPARE_SECONDS:
                return
            numbered = enumerate(documents[begin : begin + _BATCH], begin)
            yield from pool.map(lambda one: _page(context, *one), numbered)
            context.progress(f"{min(begin + _BATCH, len(documents))} of {len(documents)} documents read", begin)


def _page(context: Context, number: int, document: KnowledgeDocument) -> _Page | None:
    from opx_quality.contradicting.finding import StatedDocument, Subject
    from opx_quality.contradicting.statements import statements_of

    try:
        outline = context.system.questions.documents.outline_of(document)
    except DocumentNotFoundError:  # it is being removed, or repaired
        return None
    effects = context.system.questions.effects
    found = tuple(statements_of(outline, lambda text, language: effects.classify(text, language).effect == "read"))
    passages = {(one.start, one.end): outline.text[one.start : one.end][:MAX_PASSAGE].strip() for one in found}
    subject = Subject.of(document.title, outline.alerts, document.services)
    sections = tuple(" › ".join(section.path) for section in outline.sections)
    return _Page(document, StatedDocument(number, subject, found), passages, sections)


# -- showing


def _shown(found: Contradiction, first: _Page, second: _Page) -> DocumentContradiction:
    sides = [(first, found.one), (second, found.other)]
    sides.sort(key=lambda one: (one[0].document.last_updated, one[0].document.document_id), reverse=True)
    left, right = (_passage(page, statement) for page, statement in sides)
    return DocumentContradiction(
        _contradiction_id(found, first.document, second.document),
        found.one.kind.value,
        found.about,
        _REASONS[found.one.kind.value].format(found.about),
        left,
        right,
    )


_REASONS = {
    "value": "The same words about the same subject, with another {}.",
    "command": "The same command for the same subject, with another {}.",
    "instruction": "One says to {} it, the other not to.",
}


def _passage(page: _Page, statement: Statement) -> ContradictingPassage:
    document = page.document
    return ContradictingPassage(
        **described(document),
        reviewed_at=document.reviewed_at,
        section=page.sections[statement.section],
        statement=statement.text,
        passage=page.passages[statement.start, statement.end],
    )


def _contradiction_id(found: Contradiction, first: KnowledgeDocument, second: KnowledgeDocument) -> str:
    """The ids of both documents, which change with their text, and a hash of what differs: a mark on it ends by itself."""
    sides = sorted((one.document_id, statement.text) for one, statement in ((first, found.one), (second, found.other)))
    hashed = stable_hash("contradiction", found.about, *(text for _, text in sides))[:8]
    return f"{sides[0][0]}-{sides[1][0]}-{hashed}"


def _document_ids(contradiction_id: str) -> tuple[str, str]:
    parts = contradiction_id.split("-")
    if len(parts) != 3:
        raise InvalidInputError(f"{contradiction_id[:100]!r} is not the id of a contradiction")
    return parts[0], parts[1]
