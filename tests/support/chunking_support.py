"""Chunks of a document's text, without the pipeline that reads it line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opx.domain.documents import DocumentChunk
from opx.formats.markdown_lines import scan
from opx.ingestion.chunking import DEFAULT_OVERLAP, DEFAULT_TOKENS, ChunkOwner, chunk_lines


def chunk_document(
    pieces: Iterable[str], owner: ChunkOwner, *, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[DocumentChunk]:
    """Chunks of normalised text that is given in pieces: lines, very long ones cut."""
    return chunk_lines(scan(pieces), owner, tokens=tokens, overlap=overlap)
