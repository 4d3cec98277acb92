"""A version's text, put together again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opx.domain.documents import DocumentChunk


def joined_text(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """The document's text, in pieces: chunks overlap, their offsets say by how much."""
    written = 0
    for chunk in chunks:
        if chunk.end > written:
            yield chunk.content[max(0, written - chunk.start) :]
            written = chunk.end
