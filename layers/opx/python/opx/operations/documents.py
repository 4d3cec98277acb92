"""Operations that read documents: lists, versions, chunks, categories and differences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated

from msgspec import Meta

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.ids import ID_LENGTH, beginning_so, iso_time
from opx.domain.knowledge import Category, KnowledgeModel
from opx.domain.queries import CATEGORY
from opx.domain.record import Record, about
from opx.domain.requests import Request, Text
from opx.domain.versions import VersionDiff
from opx.errors import DocumentNotFoundError, InvalidInputError, ObjectNotFoundError
from opx.operations.context import Context
from opx.operations.paging import MAX_PAGE, After, Limit, Next, fitting, page_of, read_token
from opx.operations.registry import operation

_ID = re.compile(r"[0-9a-f]+\Z")
_MOST = 10**9

Count = Annotated[int, Meta(ge=0, le=_MOST)]
VersionNumber = Annotated[int, Meta(ge=1, le=_MOST)]
DocumentId = Annotated[Text, about("The document id, as in results.")]
IdBeginning = Annotated[str, about("The document id, or a unique prefix of it.", max_length=1000)]


class ListDocuments(Request, frozen=True):
    category: Annotated[Text, about(CATEGORY)] = ""
    all_versions: Annotated[bool, about("Also superseded and deleted versions.")] = False
    expired: Annotated[bool, about("Also documents past their retention that are not removed yet.")] = False
    limit: Limit = MAX_PAGE
    after: After = ""


class DocumentPage(Record, frozen=True, omit_defaults=True):
    documents: tuple[KnowledgeDocument, ...]
    next: Next = ""


@operation(http="GET /documents")
def list_documents(context: Context, request: ListDocuments) -> DocumentPage:
    """List documents, by category, the last updated first.

    Raises `UnknownCategoryError`, and `InvalidInputError` for an invalid `after`.
    """
    position = read_token(request.after, 3)
    model = context.system.installation.knowledge
    paths = model.within(request.category) if request.category else sorted(model.categories)
    documents, following = page_of(
        _visible(context, paths, position[:2], current_only=not request.all_versions, expired=request.expired),
        order=lambda document: (document.category, document.last_updated),
        name=lambda document: f"{document.document_id} {document.key.id} {document.version:08d}",
        limit=request.limit,
        after=position,
    )
    return DocumentPage(documents, following)


class GetDocument(Request, frozen=True):
    document_id: IdBeginning
    after: Annotated[Count, about("`next` of the previous page: the number of versions to skip.")] = 0


class DocumentVersions(Record, frozen=True, omit_defaults=True):
    """A document and the versions of its key that the caller may see, the newest first."""

    document: KnowledgeDocument
    versions: tuple[KnowledgeDocument, ...]
    next: Annotated[int, about("Value of `after` for more versions; absent if there are none.")] = 0


@operation(http="GET /documents/{documentId}")
def get_document(context: Context, request: GetDocument) -> DocumentVersions:
    """Get a document and its versions; a prefix of the id is enough.

    A current document is preferred to an old one with the same text. Raises `DocumentNotFoundError`, and
    `InvalidInputError` for a malformed id and for an ambiguous prefix.
    """
    found = find_document(context, request.document_id)
    context.system.corpus.uses.note_document(found)
    versions, more = fitting(islice(versions_of(context, found), request.after, None))
    return DocumentVersions(found, versions, request.after + len(versions) if more else 0)


class ReadChunks(Request, frozen=True):
    document_id: DocumentId
    after: Annotated[Count, about("`next` of the previous page: the number of chunks to skip.")] = 0


class ChunkPage(Record, frozen=True, omit_defaults=True):
    chunks: tuple[DocumentChunk, ...]
    next: Annotated[int, about("Value of `after` for the next page; absent on the last.")] = 0


@operation(http="GET /documents/{documentId}/chunks")
def read_chunks(context: Context, request: ReadChunks) -> ChunkPage:
    """Read the text of a document in its chunks.

    Needs neither the index nor the embedding model. Raises `DocumentNotFoundError`, also if the chunks are gone.
    """
    chunks = islice(context.system.questions.documents.chunks(context.reader, request.document_id), request.after, None)
    found, more = fitting(chunks)
    return ChunkPage(found, request.after + len(found) if more else 0)


class ListCategories(Request, frozen=True):
    pass


class Categories(Record, frozen=True):
    categories: tuple[Category, ...]
    default_category: str

    def model(self) -> KnowledgeModel:
        """The categories as a model with lookups."""
        return KnowledgeModel({one.path: one for one in self.categories}, self.default_category)


@operation(http="GET /categories")
def list_categories(context: Context, request: ListCategories) -> Categories:  # noqa: ARG001 - as all operations
    """List the categories of knowledge."""
    model = context.system.installation.knowledge
    return Categories(tuple(model.categories[path] for path in sorted(model.categories)), model.default_category)


class DiffDocument(Request, frozen=True, rename={"before": "from", "after": "to", "document_id": "documentId"}):
    document_id: IdBeginning
    before: Annotated[
        VersionNumber | None, about("The version to compare with; left out, the predecessor of the other.")
    ] = None
    after: Annotated[VersionNumber | None, about("The later version; left out, the one with this document id.")] = None


@operation(http="GET /documents/{documentId}/diff")
def diff_document(context: Context, request: DiffDocument) -> VersionDiff:
    """Compare two versions of a document: metadata, steps, and lines.

    Raises `DocumentNotFoundError`, also if the text of a version is gone, and `InvalidInputError` without a version to
    compare with.
    """
    from opx.lifecycle.versions.differences import difference
    from opx.lifecycle.versions.step_differences import outline_changes

    document = find_document(context, request.document_id)
    versions = tuple(versions_of(context, document))
    new = numbered(versions, request.after) if request.after else document
    old = numbered(versions, request.before) if request.before else _before(versions, new)
    check_not_expired(context, old, new)
    texts = _text(context, old), _text(context, new)
    outlines = map(context.system.questions.documents.outline_of, (old, new))
    return difference(old, new, texts, outline_changes(*outlines))


# -- lookups shared with other operations


def find_document(context: Context, wanted: str) -> KnowledgeDocument:
    """The document with this id, or the only one whose id has this prefix (ignoring case): a current one, else a
    superseded or deleted version."""
    text = checked_id(wanted)
    return find_by_id(context, text) if len(text) == ID_LENGTH else _by_beginning(context, wanted)


def checked_id(wanted: str) -> str:
    """A document id or a prefix of one, in its canonical form. Raises `InvalidInputError` for anything else."""
    text = wanted.strip().lower()
    if not _ID.match(text) or len(text) > ID_LENGTH:
        raise InvalidInputError(
            f"{wanted!r} is not a document id: expected 32 hexadecimal digits, or the first few of them"
        )
    return text


def find_by_id(context: Context, document_id: str) -> KnowledgeDocument:
    """The document with this full id: a current one, else the newest version. Raises `DocumentNotFoundError`, also for a
    malformed id, which isn't looked up."""
    return context.system.questions.documents.find(context.reader, document_id)


def _by_beginning(context: Context, wanted: str) -> KnowledgeDocument:
    categories = sorted(context.system.installation.knowledge.categories)
    for current_only in (True, False):
        each = {one.document_id: one for one in _visible(context, categories, current_only=current_only)}
        found = beginning_so(wanted, each.values(), lambda one: f"{one.document_id}  {one.title}", kind="document ids")
        if found is not None:
            return found if current_only else find_by_id(context, found.document_id)
    raise DocumentNotFoundError(f"no document has an id that begins with {wanted}")


def current_documents(context: Context) -> Iterator[KnowledgeDocument]:
    """The current documents that the caller may see, by category."""
    return _visible(context, sorted(context.system.installation.knowledge.categories))


def stored_documents(context: Context) -> Iterator[KnowledgeDocument]:
    """The current documents that the caller may see, by category, expired ones that are not removed yet included."""
    return _visible(context, sorted(context.system.installation.knowledge.categories), expired=True)


def documents_within(context: Context, categories: Sequence[str]) -> Iterator[KnowledgeDocument]:
    """The current documents of these categories (sorted) that the caller may see."""
    return _visible(context, categories)


def _visible(
    context: Context,
    categories: Sequence[str],
    begin: tuple[str, ...] = (),
    *,
    current_only: bool = True,
    expired: bool = False,
) -> Iterator[KnowledgeDocument]:
    scopes = context.reader.visible
    found = context.system.corpus.catalog.visible(scopes, categories=categories, current_only=current_only, begin=begin)
    return (one for one in found if expired or not current_only or not expired_since(context, one))


def expired_since(context: Context, document: KnowledgeDocument) -> str:
    """The day since when a document is expired, "" if it isn't."""
    from opx.retrieval import judging

    return judging.expired_since(document, context.system.installation.knowledge, iso_time(context.system.clock()))


def check_not_expired(context: Context, *documents: KnowledgeDocument) -> None:
    """Raises `DocumentNotFoundError` for an expired version."""
    for document in documents:
        if day := expired_since(context, document):
            name = f"version {document.version} of {document.source}"
            raise DocumentNotFoundError(f"{name} expired on {day}, and is being removed")


def versions_of(context: Context, document: KnowledgeDocument) -> Iterator[KnowledgeDocument]:
    """All versions of a document's key that the caller may see, the newest first."""
    return (one for one in context.system.corpus.catalog.versions(document.key) if context.reader.may_see(one.scope))


def _text(context: Context, document: KnowledgeDocument) -> str:
    from opx.ingestion.corpus.chunk_files import joined_text
    from opx.ingestion.corpus.chunk_files import read_chunks as stored_chunks

    try:
        return "".join(joined_text(stored_chunks(context.system.store, document.key, document.document_id)))
    except ObjectNotFoundError:
        message = f"the text of version {document.version} of {document.source} is gone"
        raise DocumentNotFoundError(message) from None


def numbered(versions: Sequence[KnowledgeDocument], number: int) -> KnowledgeDocument:
    """The version with this number. Raises `DocumentNotFoundError` that lists the existing ones."""
    found = next((one for one in versions if one.version == number), None)
    if found is None:
        there = ", ".join(str(one.version) for one in reversed(versions[:20]))
        raise DocumentNotFoundError(f"the document has no version {number}; its versions: {there}")
    return found


def _before(versions: Sequence[KnowledgeDocument], version: KnowledgeDocument) -> KnowledgeDocument:
    """The version that it superseded. `versions` are the newest first."""
    found = next((one for one in versions if one.version < version.version), None)
    if found is None:
        raise InvalidInputError(
            f"version {version.version} is the first one that is kept: there is none to compare with"
        )
    return found


def old_step(context: Context, document: KnowledgeDocument, name: str) -> tuple[int, str] | None:
    """The version and the title of a step of an older version, None if there is none."""
    from opx.text.procedures.layout import steps_meant

    documents = context.system.questions.documents
    for version in versions_of(context, document):
        if version.document_id == document.document_id:
            continue
        try:
            outline = documents.outline_of(version)
        except DocumentNotFoundError:
            continue
        if numbers := steps_meant(outline, name):
            return version.version, outline.steps[numbers[0] - 1].title
    return None
