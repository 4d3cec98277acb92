"""Prepares documents for the index: chunks and outline, stored in the corpus, and statements for the graph."""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from opx.domain.documents import (
    ChunkMetadata,
    DocumentChunk,
    DocumentKey,
    KnowledgeDocument,
    Remark,
    RemarkKind,
    bounded,
    is_kept_out,
)
from opx.domain.graph import Statements
from opx.domain.ids import entry_id
from opx.domain.knowledge import Category
from opx.domain.procedures import Step, StoredEffects
from opx.domain.provenance import Provenance
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import ObjectNotFoundError, StoreUnavailableError, UnparsableDocumentError
from opx.hygiene import near_duplicates
from opx.hygiene.cleaning import Span, overlaps
from opx.hygiene.instructions import FLAG
from opx.ingestion.chunking import ChunkOwner, chunk_lines
from opx.ingestion.corpus.chunk_files import (
    chunk_file,
    chunk_of_line,
    outline_data,
    outline_file,
    read_chunks,
    version_files,
)
from opx.ingestion.corpus.claims import Claim
from opx.ingestion.reading import ParsedDocument
from opx.ports import IndexEntry, ObjectStore, Vectors

if TYPE_CHECKING:
    from opx.ingestion.contexts import ContextWriter, Round

log = logging.getLogger(__name__)

_SPOOL_BYTES = 1024 * 1024
_UNCLOSED = (
    "the code block that begins in line {line} of its text is never closed: steps are searched after it from where prose "
    "seems to begin"
)

_DOCUMENT_FACTS = tuple(name for name in IndexedChunk.__struct_fields__ if name in KnowledgeDocument.__struct_fields__)
"""Fields that an index entry copies from its document."""

Passages = Callable[[], Iterator[DocumentChunk]]
Extract = Callable[
    [KnowledgeDocument, Passages, Callable[[], AbstractContextManager[BinaryIO]]],
    Statements,
]
"""Extracts statements from a document, its chunks and its object. Raises
`StoreUnavailableError` and `ObjectNotFoundError`."""
EffectsOf = Callable[[Sequence[Step]], StoredEffects | None]
"""Classifies the commands of steps; None if there are none."""


@dataclass(frozen=True, slots=True)
class ChunkingRules:
    tokens: int
    overlap: int
    effects_of: EffectsOf = lambda _steps: None


@dataclass(frozen=True, slots=True)
class CutDocument:
    """Everything that follows from an object alone, before its claim: the document with its counts, and its chunks as
    lines of an open temporary file. `suspected`: see `ParsedDocument`."""

    document: KnowledgeDocument
    category: Category
    fingerprint: str
    lines: IO[bytes]
    outline: bytes
    provenance: Provenance
    suspected: Sequence[Span] = ()

    @property
    def is_embedded(self) -> bool:
        """True if its chunks are searched: not those of a category without embedded fields, nor those of a document that is
        past its retention."""
        return bool(self.category.embed) and not is_kept_out(self.document)

    def chunks(self) -> Iterator[DocumentChunk]:
        self.lines.seek(0)
        return map(chunk_of_line, self.lines)


@dataclass(slots=True)
class Prepared:
    """A document ready to be indexed: those of its chunks that are searched, as lines of an open temporary file, and the
    vectors of each. `contexts` are by chunk id."""

    claim: Claim
    document: KnowledgeDocument
    cut: CutDocument
    lines: IO[bytes]
    vectors: list[Vectors] = field(default_factory=list)
    contexts: Mapping[str, str] = field(default_factory=dict)
    statements: Statements = field(default_factory=Statements)

    @property
    def is_embedded(self) -> bool:
        """True if every chunk has its vectors."""
        return sum(1 for _ in self.chunks()) == len(self.vectors)

    def chunks(self) -> Iterator[DocumentChunk]:
        self.lines.seek(0)
        for line in self.lines:
            chunk = chunk_of_line(line)
            context = self.contexts.get(chunk.chunk_id)
            yield replace(chunk, context=context) if context else chunk

    def add_contexts(self, writer: ContextWriter, current: Round) -> None:
        """Writes contexts for the chunks; missing ones become remarks."""
        self.contexts, remarks = writer.write(self.document, self.chunks(), current)
        if remarks:  # first: the number of remarks is limited
            self.document = replace(self.document, remarks=bounded((*remarks, *self.document.remarks)))

    def add_statements(self, statements: Statements) -> None:
        """Sets the document's statements, and adds the extractor's remarks."""
        self.statements = statements
        if statements.remarks:
            self.document = replace(self.document, remarks=bounded((*self.document.remarks, *statements.remarks)))

    def entries(self) -> Iterator[IndexEntry]:
        facts, metadata = _facts_of(self.document), ChunkMetadata.of(self.document)
        for chunk, vectors in zip(self.chunks(), self.vectors, strict=True):
            flags = (FLAG,) if overlaps(self.cut.suspected, chunk.start, chunk.end) else ()
            mark = near_duplicates.fingerprint(chunk.own_text)
            yield IndexEntry(_indexed(replace(chunk, metadata=metadata), facts, flags, mark), vectors)


class Chunks:
    """Splits documents into chunks, and stores the chunks of every version in the corpus store. With `extract`, it also
    extracts statements for the graph."""

    def __init__(self, store: ObjectStore, rules: ChunkingRules, extract: Extract | None = None) -> None:
        self._store = store
        self._rules = rules
        self._extract = extract

    def cut(self, read: ParsedDocument, fingerprint: str, stack: ExitStack) -> CutDocument:
        """Chunks a document and makes its outline; stores nothing. `stack` closes the temporary file. Raises
        `UnparsableDocumentError` if there are no chunks."""
        lines = stack.enter_context(spool())
        document = self._cut(read, lines)
        lines.seek(0)
        document = replace(document, chunks_checksum=hashlib.file_digest(lines, "sha256").hexdigest())
        document, outline = self._outlined(document, read)
        return CutDocument(document, read.category, fingerprint, lines, outline, read.provenance, read.suspected)

    def prepare(self, claim: Claim, cut: CutDocument) -> Prepared:
        """A document with its statements; chunks of a category without embedded fields are not indexed, nor those of a
        document that is past its retention, which isn't in the graph either."""
        document = cut.document
        prepared = Prepared(claim, document, cut, cut.lines)
        if self._extract and cut.category.is_related and not is_kept_out(document):
            opened = partial(self._store.open, claim.event.document_key)
            prepared.add_statements(_statements(self._extract, document, prepared.chunks, opened))
        if not cut.is_embedded:
            prepared.lines = BytesIO()
        return prepared

    def store(self, cut: CutDocument) -> None:
        """Stores the chunks and the outline of a document whose catalog item names the version as being written."""
        document = cut.document
        self._keep(document, cut.lines)
        self._store.put(outline_file(document.key, document.document_id), cut.outline)

    def discard(self, key: DocumentKey, document_id: str, *, before: str) -> None:
        """Deletes the files of a version, unless its chunks were written at this time or later. The store of one machine
        lists no times: no other process writes there."""
        file = chunk_file(key, document_id)
        if all(info.modified < before for info in self._store.list(file) if info.key == file):
            self._store.delete_many(version_files(key, document_id))

    def read(self, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
        """The chunks of any version, current or not; none if they are gone. Raises `DamagedStoreError`."""
        try:
            yield from read_chunks(self._store, key, document_id)
        except ObjectNotFoundError:
            return

    def _cut(self, read: ParsedDocument, lines: IO[bytes]) -> KnowledgeDocument:
        """Writes the chunks as lines; returns the document with its counts."""
        document = read.document
        owner = ChunkOwner(document.document_id, document.title, document.category, document.tags)
        count = tokens = 0
        for chunk in chunk_lines(read.lines(), owner, tokens=self._rules.tokens, overlap=self._rules.overlap):
            lines.write(f"{chunk.to_json_line()}\n".encode("utf-8", "surrogatepass"))
            count += 1
            tokens += chunk.token_count
        if not count:
            raise UnparsableDocumentError(f"{document.key.source}: the document has no text")
        return replace(document, chunk_count=count, token_count=tokens)

    def _outlined(self, document: KnowledgeDocument, read: ParsedDocument) -> tuple[KnowledgeDocument, bytes]:
        """The bytes of the outline's file, and the document with a remark on each unclosed code block."""
        from opx.text.procedures.outline import MAX_CHARACTERS, outline_of

        read.text.seek(0)
        outline = outline_of(document.document_id, document.title, read.text.read(MAX_CHARACTERS + 1))
        data = outline_data(outline, self._rules.effects_of(outline.steps))
        document = replace(document, outline_checksum=hashlib.sha256(data).hexdigest())
        remarks = tuple(Remark(RemarkKind.IRREGULAR, _UNCLOSED.format(line=line)) for line in outline.unclosed)
        return (replace(document, remarks=bounded((*document.remarks, *remarks))) if remarks else document), data

    def _keep(self, document: KnowledgeDocument, lines: IO[bytes]) -> None:
        """Stores the chunk file."""
        with spool() as data:  # a copy: a store may close the file
            lines.seek(0)
            shutil.copyfileobj(lines, data)
            data.seek(0)
            self._store.put(chunk_file(document.key, document.document_id), data)  # type: ignore[arg-type]


def _statements(extract: Extract, document: KnowledgeDocument, *material: Any) -> Statements:
    """Extracts the document's statements. A bug in a rule loses its relations, but not the document."""
    try:
        return extract(document, *material)
    except (StoreUnavailableError, ObjectNotFoundError):
        raise
    except Exception as exc:
        log.exception("finding relations in %s failed unexpectedly", document.key.source)
        text = f"its relations are not in the graph because of a bug in this program: {exc!r}"
        return Statements(remarks=(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text),))


def spool() -> tempfile.SpooledTemporaryFile[bytes]:
    """A temporary file that is in memory while it is small."""
    return tempfile.SpooledTemporaryFile(_SPOOL_BYTES)


def as_indexed(
    chunk: DocumentChunk, document: KnowledgeDocument, flags: tuple[str, ...], *, fingerprint: str | None = None
) -> IndexedChunk:
    """The index entry of a chunk. Computing a fingerprint is slow: "" leaves it out.

    The metadata come from the document: a chunk file is shared by documents with the same text, and has those of one.
    """
    mark = near_duplicates.fingerprint(chunk.own_text) if fingerprint is None else fingerprint
    return _indexed(replace(chunk, metadata=ChunkMetadata.of(document)), _facts_of(document), flags, mark)


def _facts_of(document: KnowledgeDocument) -> Mapping[str, Any]:
    """The fields that all index entries of a document have in common."""
    key = document.key
    facts = {name: getattr(document, name) for name in _DOCUMENT_FACTS}
    return facts | {
        "resources": document.resources,
        "key_id": key.id,
        "scope_key": key.scope.key,
        "last_updated": document.last_updated,
    }


def _indexed(chunk: DocumentChunk, facts: Mapping[str, Any], flags: tuple[str, ...], fingerprint: str) -> IndexedChunk:
    return IndexedChunk(
        entry_id=entry_id(facts["key_id"], chunk.chunk_id), chunk=chunk, flags=flags, fingerprint=fingerprint, **facts
    )
