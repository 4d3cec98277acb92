"""Finding documents by id or tag for the reader, and putting a version's text together again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentChunk, DocumentState, KnowledgeDocument
from opx.domain.ids import ID_LENGTH
from opx.domain.scopes import Identity, Reader
from opx.errors import DocumentNotFoundError, InvalidInputError, ObjectNotFoundError

if TYPE_CHECKING:
    from opx.bootstrap import Services

_ID = re.compile(r"[0-9a-f]+\Z")
_CANDIDATES_NAMED = 5


def reader_of_installation(services: Services) -> Reader:
    """What the configured client and project may see."""
    return services.projects.reader(Identity(services.settings.client_id, services.settings.project_id))


def visible_documents(
    services: Services, *, category: str = "", all_versions: bool = False
) -> Iterator[KnowledgeDocument]:
    """Documents that the reader may see, by category, the last updated first. Raises `UnknownCategoryError`."""
    reader = reader_of_installation(services)
    model = services.knowledge
    for path in model.within(category) if category else sorted(model.categories):
        for document in services.catalog.in_category(path, current_only=not all_versions):
            if reader.may_see(document.key.scope):
                yield document


def find_document(services: Services, wanted: str) -> KnowledgeDocument:
    """The document with this id, or the only current one whose id begins so.

    The same text may be there under several sources: a current one comes before an old one. Raises
    `DocumentNotFoundError`, or `InvalidInputError` for what can't be an id and for a beginning that several share.
    """
    text = wanted.strip().lower()
    if not _ID.match(text) or len(text) > ID_LENGTH:
        raise InvalidInputError(f"{wanted!r} is no document id: 32 hexadecimal digits, or the first few of them")
    if len(text) == ID_LENGTH:
        return _by_id(services, text)
    found = {d.document_id: d for d in visible_documents(services) if d.document_id.startswith(text)}
    if len(found) > 1:
        names = "".join(f"\n  {d.document_id}  {d.title}" for d in list(found.values())[:_CANDIDATES_NAMED])
        raise InvalidInputError(f"{wanted} is the beginning of {len(found)} document ids:{names}")
    if not found:
        raise DocumentNotFoundError(f"no current document has an id that begins with {wanted}")
    return next(iter(found.values()))


def _by_id(services: Services, document_id: str) -> KnowledgeDocument:
    reader = reader_of_installation(services)
    found = [d for d in services.catalog.find(document_id) if reader.may_see(d.key.scope)]
    if not found:
        raise DocumentNotFoundError(f"no document {document_id}")
    return max(found, key=lambda d: (d.state is DocumentState.CURRENT, d.version))


def stored_chunks(services: Services, document: KnowledgeDocument) -> Iterator[DocumentChunk]:
    """The chunks of a version, current or not. Read from the corpus: neither the index nor the model is needed."""
    from opx.ingestion.chunk_files import read_chunks

    try:
        yield from read_chunks(services.store, document.key, document.document_id)
    except ObjectNotFoundError:
        raise DocumentNotFoundError(f"the chunks of {document.document_id} are gone: ingest it again") from None


def joined_text(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """The document's text, in pieces: chunks overlap, their offsets say by how much."""
    written = 0
    for chunk in chunks:
        if chunk.end > written:
            yield chunk.content[max(0, written - chunk.start) :]
            written = chunk.end
