"""Reads documents by id, as far as a reader may see them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.ids import ID_LENGTH
from opx.domain.scopes import Reader
from opx.domain.times import iso_time
from opx.errors import DocumentNotFoundError, ObjectNotFoundError
from opx.retrieval.judging import expired_since
from opx.runtime.installation import Installation

if TYPE_CHECKING:
    from opx.domain.documents import DocumentChunk
    from opx.domain.procedures import Outline
    from opx.ingestion.corpus.capability import Corpus

_ID = re.compile(r"[0-9a-f]+\Z")


class ReadableDocuments:
    """Documents that haven't expired."""

    def __init__(self, installation: Installation, corpus: Corpus) -> None:
        self._installation = installation
        self._corpus = corpus

    def expired_since(self, document: KnowledgeDocument) -> str:
        """The day from which on a document is not to be shown, if that has come; "" for one that may be."""
        return expired_since(document, self._installation.knowledge, iso_time(self._installation.clock()))

    def find(self, reader: Reader, document_id: str) -> KnowledgeDocument:
        """The document with this full id: a current one, else the newest version. Raises `DocumentNotFoundError`, also for
        what is no id, which isn't looked up."""
        is_id = len(document_id) == ID_LENGTH and _ID.match(document_id)
        found = [one for one in self._corpus.catalog.find(document_id) if reader.may_see(one.scope)] if is_id else []
        if not found:
            raise DocumentNotFoundError(f"no document with this id: {document_id}")
        days = {document.key.id: self.expired_since(document) for document in found}
        found = [document for document in found if not days[document.key.id]]
        if not found:
            raise DocumentNotFoundError(f"document {document_id} expired on {max(days.values())}, and is being removed")
        return max(found, key=lambda one: (one.state is DocumentState.CURRENT, one.version))

    def chunks(self, reader: Reader, document_id: str) -> Iterator[DocumentChunk]:
        """The chunks of the document with this full id, in order. Raises `DocumentNotFoundError`, also while it iterates if
        the chunks are gone."""
        from opx.ingestion.corpus.chunk_files import read_chunks

        document = self.find(reader, document_id.lower())
        try:
            yield from read_chunks(self._corpus.store, document.key, document.document_id)
        except ObjectNotFoundError:
            raise DocumentNotFoundError(f"the chunks of {document.document_id} are gone: ingest it again") from None

    def outline(self, reader: Reader, document_id: str) -> tuple[KnowledgeDocument, Outline]:
        """The document with this full id, and its outline. Raises `DocumentNotFoundError`, also if its text is gone."""
        document = self.find(reader, document_id.lower())
        return document, self.outline_of(document)

    def outline_of(self, document: KnowledgeDocument) -> Outline:
        """The outline of a version. Raises `DocumentNotFoundError` if its text is gone."""
        from opx.ingestion.corpus.chunk_files import read_outline

        try:
            return read_outline(self._corpus.store, document.key, document.document_id, document.title)
        except ObjectNotFoundError:
            raise DocumentNotFoundError(f"the text of {document.document_id} is gone: ingest it again") from None
