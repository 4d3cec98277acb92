"""Reads documents by id within a reader's scopes, and expands results by their surrounding text."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from opx.domain.documents import DocumentChunk, DocumentState, KnowledgeDocument
from opx.domain.ids import ID_LENGTH, iso_time
from opx.domain.procedures import KnownEffects, Outline
from opx.domain.queries import Expand
from opx.domain.record import replace
from opx.domain.results import RetrievalResult
from opx.domain.scopes import Reader
from opx.errors import DocumentNotFoundError, ObjectNotFoundError, StoreUnavailableError
from opx.ingestion.corpus.capability import Corpus
from opx.retrieval.judging import expired_since
from opx.retrieval.query_language import ParsedQuery
from opx.retrieval.stages import Found
from opx.runtime.knowledge_file import Installation

log = logging.getLogger(__name__)


_ID = re.compile(r"[0-9a-f]+\Z")


class ReadableDocuments:
    """Reads documents that haven't expired."""

    def __init__(self, installation: Installation, corpus: Corpus) -> None:
        self._installation = installation
        self._corpus = corpus

    def expired_since(self, document: KnowledgeDocument) -> str:
        """The day since when a document is expired; "" if it isn't."""
        return expired_since(document, self._installation.knowledge, iso_time(self._installation.clock()))

    def find(self, reader: Reader, document_id: str) -> KnowledgeDocument:
        """The document with this full id: a current one, else the newest version. Raises `DocumentNotFoundError`, also for
        an invalid id, without a look-up."""
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

    def outline(
        self, reader: Reader, document_id: str, known: KnownEffects | None = None
    ) -> tuple[KnowledgeDocument, Outline]:
        """The document with this full id, and its outline. Raises `DocumentNotFoundError`, also if its text is gone."""
        document = self.find(reader, document_id.lower())
        return document, self.outline_of(document, known)

    def outline_of(self, document: KnowledgeDocument, known: KnownEffects | None = None) -> Outline:
        """The outline of a version; the effects stored with it are added to `known`. Raises `DocumentNotFoundError` if its
        text is gone."""
        from opx.ingestion.corpus.chunk_files import read_outline

        try:
            return read_outline(self._corpus.store, document.key, document.document_id, document.title, known)
        except ObjectNotFoundError:
            raise DocumentNotFoundError(f"the text of {document.document_id} is gone: ingest it again") from None


# -- expansion


MAX_CHARACTERS = 30_000
"""Characters of an expanded result; longer ones are cut at chunks, around the found one."""

UNREADABLE = "some results could not be expanded: their documents' texts were not readable"

ChunksOf = Callable[[str], Iterable[DocumentChunk]]
"""Returns the chunks of the document with an id, if visible to the reader. Raises `DocumentNotFoundError`."""


class Expander:
    """Expands results by the text around them, if requested."""

    name = "expand"

    def __init__(self, chunks_of: ChunksOf) -> None:
        self._chunks_of = chunks_of

    def apply(self, query: ParsedQuery, found: Found) -> Found:
        if query.config.expand is not Expand.NONE:
            with query.timed(self.name):
                found.results, notes = self.expanded(found.results, query.config.expand)
            for note in notes:
                query.note(note)
        return found

    def expanded(
        self, results: Sequence[RetrievalResult], expand: Expand
    ) -> tuple[tuple[RetrievalResult, ...], tuple[str, ...]]:
        """Expands the results, one for each section or document, at the best one's rank; and returns notes.

        `metadata.expanded` states the extent of the text (`of`), its chunks (`chunkIds`) and if it was `cut`.
        """
        documents: dict[str, list[DocumentChunk] | None] = {}
        kept: list[RetrievalResult] = []
        covered: set[str] = set()
        for result in results:
            name, chunk_id = result.document_id, str(result.metadata.get("chunkId", ""))
            if chunk_id in covered:
                continue
            if name not in documents:
                documents[name] = self._read(name) if name else None
            chunks = documents[name]
            more = _around(result, chunks, expand) if chunks else result
            covered.update(more.metadata.get("expanded", {}).get("chunkIds", ()))
            kept.append(more)
        unread = any(name and chunks is None for name, chunks in documents.items())
        return tuple(kept), ((UNREADABLE,) if unread else ())

    def _read(self, document_id: str) -> list[DocumentChunk] | None:
        try:
            return list(self._chunks_of(document_id))
        except (DocumentNotFoundError, StoreUnavailableError):
            log.warning("the chunks of document %s can't be read", document_id, exc_info=True)
            return None


def _around(result: RetrievalResult, chunks: Sequence[DocumentChunk], expand: Expand) -> RetrievalResult:
    at = next((n for n, chunk in enumerate(chunks) if chunk.chunk_id == result.metadata.get("chunkId")), None)
    if at is None:
        return result
    first, last = _section(chunks, at) if expand is Expand.SECTION else (0, len(chunks) - 1)
    low, high = _fitting(chunks, at, first, last)
    pieces = chunks[low : high + 1]
    about: dict[str, Any] = {
        "of": expand.value,
        "chunkIds": [chunk.chunk_id for chunk in pieces],
        "cut": (low, high) != (first, last),
    }
    return replace(result, content=joined(pieces), metadata={**result.metadata, "expanded": about})


def _section(chunks: Sequence[DocumentChunk], at: int) -> tuple[int, int]:
    """The first and last neighbour with the same section path."""
    path = chunks[at].section
    first = last = at
    while first > 0 and chunks[first - 1].section == path:
        first -= 1
    while last + 1 < len(chunks) and chunks[last + 1].section == path:
        last += 1
    return first, last


def _fitting(chunks: Sequence[DocumentChunk], at: int, first: int, last: int) -> tuple[int, int]:
    """Extends the range by neighbours on alternating sides, as many as fit in `MAX_CHARACTERS`."""
    low = high = at
    size = len(chunks[at].content)
    grown = True
    while grown:
        grown = False
        for step in (1, -1):
            following = high + 1 if step == 1 else low - 1
            if not first <= following <= last or size + len(chunks[following].content) > MAX_CHARACTERS:
                continue
            size += len(chunks[following].content)
            low, high = min(low, following), max(high, following)
            grown = True
    return low, high


def joined(chunks: Sequence[DocumentChunk]) -> str:
    """Joins chunks in order. Overlaps are included once; an empty line replaces a gap."""
    text, end = "", 0
    for chunk in chunks:
        shared = end - chunk.start if text else 0
        if shared < 0:
            text += "\n\n"
        text += chunk.content[max(shared, 0) :]
        end = max(end, chunk.end)
    return text
