"""Runs reading, chunking and extraction on documents in a folder, as the pipeline does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from opx.adapters.embedded.object_store import FolderObjectStore
from opx.domain.documents import DocumentChunk, DocumentKey, KnowledgeDocument
from opx.domain.graph import EdgeStatement, NodeStatement, Statements
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Scope
from opx.domain.sources import SourceDocument
from opx.graph.extraction.extractor import Extractor
from opx.ingestion.chunking import ChunkOwner, chunk_lines
from opx.ingestion.files import OBJECT_METADATA
from opx.ingestion.object_names import pulled_name, with_extension
from opx.ingestion.reading import DocumentReader
from opx.runtime.knowledge_file import load_knowledge
from opx_testing.fake_time import FakeTime

STATED = ("relationship", "metadata", "alerts", "causes", "inventory", "advisory")
"""Rules that read explicit statements, and don't search for names."""

MAX_BYTES = 40 * 1024 * 1024


@cache
def knowledge() -> KnowledgeModel:
    return load_knowledge(Path(__file__).parents[2] / "corpus" / "knowledge.yaml")


class Extracted:
    """The statements of a document, in a form for assertions."""

    def __init__(self, document: KnowledgeDocument, chunks: list[DocumentChunk], statements: Statements) -> None:
        self.document = document
        self.chunks = chunks
        self.statements = statements

    @property
    def own(self) -> str:
        return self.statements.own

    @property
    def edges(self) -> set[str]:
        """Stated edges as `from edge to`; mentions found in text are left out."""
        return {f"{one.source} {one.edge_type} {one.target}" for one in self.statements.edges if one.rule in STATED}

    @property
    def remarks(self) -> str:
        return "\n".join(remark.text for remark in self.statements.remarks)

    def edge(self, text: str) -> EdgeStatement:
        return next(one for one in self.statements.edges if f"{one.source} {one.edge_type} {one.target}" == text)

    def node(self, key: str) -> NodeStatement:
        return next(one for one in self.statements.nodes if one.key == key)

    def evidence(self, text: str) -> str:
        """The passages that prove an edge, one after the other."""
        wanted = self.edge(text).chunk_ids
        return "\n".join(chunk.content for chunk in self.chunks if chunk.chunk_id in wanted)


class Extraction:
    def __init__(self, folder: Path) -> None:
        self.store = FolderObjectStore(folder)
        self.reader = DocumentReader(self.store, knowledge(), max_bytes=MAX_BYTES, clock=FakeTime().clock)
        self.extractor = Extractor()

    def pulled(self, document: SourceDocument, category: str, **given: Any) -> Extracted:
        """Extracts a document under the name that a pull gives it."""
        name = with_extension(pulled_name("s", document), document.content)
        return self.extract(document.content, f"{category}/{name}", category=category, **document.metadata, **given)

    def extract(
        self,
        content: str | bytes | Mapping[str, Any],
        source: str = "runbooks/page.md",
        *,
        tokens: int = 500,
        **metadata: Any,
    ) -> Extracted:
        data = json.dumps(content) if isinstance(content, Mapping) else content
        data = data.encode() if isinstance(data, str) else data
        name = f"documents/{source}"
        info = self.store.put(name, data, metadata={OBJECT_METADATA: json.dumps(metadata)} if metadata else {})
        with self.reader.read(DocumentKey(Scope(), name), info) as read:
            document = read.document
            owner = ChunkOwner(document.document_id, document.title, document.category, document.tags)
            chunks = list(chunk_lines(read.lines(), owner, tokens=tokens, overlap=min(50, tokens // 4)))
            opened = partial(self.store.open, name)
            return Extracted(document, chunks, self.extractor(document, partial(_all, chunks), opened))


def _all(chunks: list[DocumentChunk]) -> Iterator[DocumentChunk]:
    yield from chunks
