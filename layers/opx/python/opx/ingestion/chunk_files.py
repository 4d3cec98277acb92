"""Where the chunks of every version of a document are kept, and how they are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from opx.domain.documents import DocumentChunk, DocumentKey
from opx.domain.record import from_json
from opx.ports import ObjectStore


def chunk_file(key: DocumentKey, document_id: str) -> str:
    """The object that holds the chunks of a document version, one JSON line each."""
    return f"{key.scope.prefix}chunks/{document_id}.jsonl"


def read_chunks(store: ObjectStore, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
    """The chunks of any version, current or not, in order. Raises `ObjectNotFoundError` if they are gone."""
    with store.open(chunk_file(key, document_id)) as stream:
        for line in stream:
            yield from_json(DocumentChunk, json.loads(line.decode("utf-8", "surrogatepass")))


def joined_text(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """The document's text, in pieces: chunks overlap, their offsets say by how much."""
    written = 0
    for chunk in chunks:
        if chunk.end > written:
            yield chunk.content[max(0, written - chunk.start) :]
            written = chunk.end
