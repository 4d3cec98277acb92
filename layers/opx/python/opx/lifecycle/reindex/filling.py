"""Fills an edition of the index with the current versions of documents, from their chunk files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from opx.domain.documents import (
    ChunkMetadata,
    DocumentChunk,
    DocumentKey,
    KnowledgeDocument,
    RemarkKind,
    is_kept_out,
)
from opx.domain.ids import entry_id
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.domain.scopes import scope_of_key
from opx.errors import UnknownCategoryError
from opx.hygiene.cleaning import Cleaner
from opx.hygiene.instructions import FLAG
from opx.ingestion.contexts import ContextWriter
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.indexing.editions import Editions, OpenEdition
from opx.ingestion.prepared import as_indexed
from opx.ports import Clock, DocumentChange, Embedder, IndexEntry, Item, Vectors
from opx.runtime.threads import Each

EMBED_AT_ONCE = 128

ReadChunks = Callable[[DocumentKey, str], Iterator[DocumentChunk]]


@dataclass(slots=True)
class FillCounts:
    """Counts of documents and chunks written to an edition; `lacking` are keys of documents without chunk files,
    `postponed` those of documents of which an interrupted write may not be visible yet."""

    documents: int = 0
    chunks: int = 0
    lacking: list[str] = field(default_factory=list)
    postponed: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SearchedDocument:
    """A version with the chunks that an index has of it."""

    document: KnowledgeDocument
    chunks: Sequence[DocumentChunk]

    def indexed(self) -> Iterator[IndexedChunk]:
        """Its chunks as an index has them."""
        flagged = _flagged(self)
        for chunk in self.chunks:
            yield as_indexed(chunk, self.document, (FLAG,) if chunk.chunk_id in flagged else ())


@dataclass(eq=False)
class SearchedDocuments:
    """Reads the chunks of versions from their files, in the form in which they are searched."""

    read_chunks: ReadChunks
    knowledge: KnowledgeModel
    contexts: ContextWriter | None = None

    def read(self, document: KnowledgeDocument) -> SearchedDocument:
        """A version with its chunks; none if it isn't searched, or if its file is gone. Raises `StoreUnavailableError`."""
        on_file = self.read_chunks(document.key, document.document_id) if self.is_searched(document) else ()
        chunks = [replace(one, metadata=ChunkMetadata.of(document)) for one in on_file]
        if self.contexts and chunks:
            kept = self.contexts.kept(document, chunks)
            chunks = [replace(one, context=kept[one.chunk_id]) if one.chunk_id in kept else one for one in chunks]
        return SearchedDocument(document, chunks)

    def is_searched(self, document: KnowledgeDocument) -> bool:
        """True unless its category isn't searched, or it is held back."""
        try:
            return bool(self.knowledge.category(document.category).embed) and not is_kept_out(document)
        except UnknownCategoryError:
            return True


@dataclass(eq=False, kw_only=True)
class Filler:
    """Writes current versions to the index of one edition only: not to graph or copies, and of the catalog only to the
    references of that edition, where its index assigns them. A write is visible after `settling_seconds`."""

    catalog: Catalog
    read_chunks: ReadChunks
    documents: SearchedDocuments
    embedder: Embedder
    editions: Editions
    clock: Clock
    settling_seconds: float = 0.0
    threads: int = 1

    def fill(self, edition: OpenEdition, heads: Sequence[Item]) -> FillCounts:
        """Add the current version of each key to an index without entries of it, but for those of an interrupted attempt.
        Raises `StoreUnavailableError`."""
        filled = FillCounts()
        searched = [one for one in self._read(heads, filled) if one.chunks]
        if edition.index.derives_ids:
            self._add(edition, [(one, []) for one in searched])
            return filled
        stored = [(one, self._assigned(edition, one.document.key.id)) for one in searched]
        filled.postponed = [one.document.key.id for one, references in stored if references is None]
        self._add(edition, [(one, references) for one, references in stored if references is not None])
        return filled

    def _add(self, edition: OpenEdition, documents: Sequence[tuple[SearchedDocument, list[str]]]) -> None:
        """Add documents, each in place of these references."""
        if not documents:
            return
        with self.editions.bound(edition):
            vectors = self._vectors(chunk for one, _ in documents for chunk in one.chunks)
            changes = (
                DocumentChange(one.document.key.id, one.document.document_id, _entries(one, vectors), replaced)
                for one, replaced in documents
            )
            self._apply(edition, [one.document.key.id for one, _ in documents], changes)

    def _apply(self, edition: OpenEdition, key_ids: Sequence[str], changes: Iterable[DocumentChange]) -> None:
        """Apply a change to each key, and store the references that the index assigns."""
        if edition.index.derives_ids:
            edition.index.apply(changes)
            return
        self.catalog.expect_references(key_ids, edition.name)
        written = edition.index.apply(changes)
        self.catalog.keep_references(dict(zip(key_ids, written, strict=True)), edition.name)

    def _assigned(self, edition: OpenEdition, key_id: str) -> list[str] | None:
        """References of all entries of a key in an index that assigns them; None while the entries of an interrupted write
        may not be visible."""
        stored = self.catalog.references(key_id, edition.name)
        if not stored.expected_since:
            return stored.found
        if self.clock() - stored.expected_since < self.settling_seconds:
            return None
        return list(dict.fromkeys((*stored.found, *edition.index.references(key_id))))

    def renew(self, edition: OpenEdition, key_id: str, head: Item | None, *, since: str) -> FillCounts:
        """Replace all entries of a key by those of its current version, if there is one.

        An index may not show recent writes yet: entries that it may hold beyond those it shows follow from the versions
        that were replaced after `since`. Raises `StoreUnavailableError`.
        """
        filled = FillCounts()
        derived = edition.index.derives_ids
        old = edition.index.references(key_id) if derived else self._assigned(edition, key_id)
        if old is None:
            filled.postponed.append(key_id)
            return filled
        found = self._read([head], filled) if head else []
        entries = [entry for one in found for entry in _entries(one, self._bound_vectors(edition, one.chunks))]
        if derived:
            fresh = {entry.indexed.entry_id for entry in entries}
            both = dict.fromkeys((*old, *self._replaced(head, since)))
            old = [reference for reference in both if reference not in fresh]
        document_id = found[0].document.document_id if found else ""
        self._apply(edition, [key_id], [DocumentChange(key_id, document_id, entries, old)])
        return filled

    def _read(self, heads: Sequence[Item], filled: FillCounts) -> list[SearchedDocument]:
        current = [head for head in heads if current_id(head)]
        found = [one for one in Each(self.threads)(self._document, current) if one]
        for one in found:
            if one.document.chunk_count and not one.chunks and self.documents.is_searched(one.document):
                filled.lacking.append(one.document.key.id)
        filled.documents += len(found)
        filled.chunks += sum(len(one.chunks) for one in found)
        return found

    def _document(self, head: Item) -> SearchedDocument | None:
        key = DocumentKey(scope_of_key(head["scope"]), head["source"])
        document = self.catalog.version(key, current_id(head))
        if document is None:
            return None
        return self.documents.read(document)

    def _replaced(self, head: Item | None, since: str) -> Iterator[str]:
        """References of versions that were replaced after `since`."""
        if not head:
            return
        key = DocumentKey(scope_of_key(head["scope"]), head["source"])
        for version in self.catalog.versions(key):
            if version.superseded_at and version.superseded_at < since:
                return
            if version.superseded_at:
                chunks = self.read_chunks(key, version.document_id)
                yield from (entry_id(key.id, chunk.chunk_id) for chunk in chunks)

    def _bound_vectors(self, edition: OpenEdition, chunks: Sequence[DocumentChunk]) -> Iterator[Vectors]:
        with self.editions.bound(edition):
            return iter(list(self._vectors(chunks)))

    def _vectors(self, chunks: Iterable[DocumentChunk]) -> Iterator[Vectors]:
        """Vectors in order, embedded in batches across documents."""
        texts: list[str] = []
        for chunk in chunks:
            texts.append(chunk.text)
            if len(texts) == EMBED_AT_ONCE:
                yield from self.embedder.embed_documents(texts)
                texts = []
        if texts:
            yield from self.embedder.embed_documents(texts)


def _entries(one: SearchedDocument, vectors: Iterator[Vectors]) -> Iterator[IndexEntry]:
    for indexed in one.indexed():
        yield IndexEntry(indexed, next(vectors))


def _flagged(one: SearchedDocument) -> set[str]:
    """Chunks with suspected instructions to a model. All chunks, if the suspicion was about something that chunks no longer
    contain (removed characters, the title)."""
    suspicions = [remark.text for remark in one.document.remarks if remark.kind is RemarkKind.SUSPECTED_INSTRUCTION]
    if not suspicions:
        return set()
    seen = {chunk.chunk_id for chunk in one.chunks if _is_suspect(chunk)}
    elsewhere = not seen or any(not text.startswith("line ") or "invisible" in text for text in suspicions)
    return {chunk.chunk_id for chunk in one.chunks} if elsewhere else seen


def _is_suspect(chunk: DocumentChunk) -> bool:
    cleaner = Cleaner()
    for _ in cleaner.clean(chunk.content.splitlines(keepends=True)):
        pass
    return bool(cleaner.suspected)
