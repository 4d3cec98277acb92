"""Builders of index entries, and of changes of an index: every argument has a default."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Sequence

from opx.domain import ids
from opx.domain.documents import ChunkMetadata, DocumentChunk, DocumentKey, contextual_text
from opx.domain.knowledge import Tier
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope
from opx.ports import DocumentChange, IndexEntry, SearchFilter, Vector, Vectors

VECTOR_DIMENSION = 8
"""Dimension of the vectors made here."""

EVERYONE = SearchFilter(scopes=(Scope().key,))
"""A reader who sees what is global, and nothing else."""


def a_unit_vector(*values: float) -> Vector:
    """The direction of `values`, filled up with zeros, at length one."""
    padded = [*values, *[0.0] * (VECTOR_DIMENSION - len(values))]
    length = math.hypot(*padded)
    return array("f", (value / length for value in padded))


def any_vector(seed: str) -> Vector:
    """A unit vector that depends on `seed` alone."""
    numbers = random.Random(seed)
    return a_unit_vector(*(numbers.gauss(0, 1) for _ in range(VECTOR_DIMENSION)))


def a_chunk(
    content: str = "Restart the service and watch its log.",
    *,
    title: str = "Runbook",
    section: Sequence[str] = ("Steps",),
    index: int = 0,
    category: str = "runbooks/procedures",
    tags: Sequence[str] = (),
    document_id: str = "",
) -> DocumentChunk:
    """A chunk that is a document of its own, unless `document_id` says otherwise."""
    document = document_id or ids.document_id(title, category, ids.content_hash(content))
    return a_piece(
        chunk_id=ids.chunk_id(document, index, contextual_text(title, section, content)),
        document_id=document,
        chunk_index=index,
        content=content,
        token_count=len(content.split()),
        title=title,
        section=tuple(section),
        start=index * 1000,
        end=index * 1000 + len(content),
        category=category,
        tags=tuple(tags),
    )


def a_piece(  # a chunk with every field as it is given
    chunk_id: str,
    document_id: str,
    chunk_index: int,
    content: str,
    token_count: int,
    title: str,
    section: tuple[str, ...],
    start: int,
    end: int,
    category: str,
    tags: tuple[str, ...] = (),
) -> DocumentChunk:
    return DocumentChunk(
        chunk_id=chunk_id,
        document_id=document_id,
        chunk_index=chunk_index,
        content=content,
        token_count=token_count,
        section=section,
        start=start,
        end=end,
        metadata=ChunkMetadata(title, category, tags),
    )


def an_entry(
    content: str = "Restart the service and watch its log.",
    *,
    source: str = "documents/runbooks/procedures/restart.md",
    scope: Scope = Scope(),  # noqa: B008
    tier: Tier = Tier.INTERNAL,
    trust: float = 1.0,
    language: str = "en",
    vector: Vector | None = None,
    vectors: Vectors = (),
    title: str = "Runbook",
    section: Sequence[str] = ("Steps",),
    index: int = 0,
    category: str = "runbooks/procedures",
    tags: Sequence[str] = (),
    document_id: str = "",
    flags: Sequence[str] = (),
    fingerprint: str = "",
    resources: Sequence[str] = (),
    last_updated: str = "2026-03-01T12:00:00Z",
) -> IndexEntry:
    """An index entry of the chunk that `a_chunk` makes, under the document key of `source` in `scope`, with `vectors`, or
    else `vector` alone."""
    chunk = a_chunk(
        content, title=title, section=section, index=index, category=category, tags=tags, document_id=document_id
    )
    key = DocumentKey(scope, source)
    indexed = IndexedChunk(
        entry_id=ids.entry_id(key.id, chunk.chunk_id),
        chunk=chunk,
        key_id=key.id,
        scope_key=scope.key,
        tier=tier,
        trust=trust,
        source_uri=f"file:///corpus/{source}",
        last_updated=last_updated,
        language=language,
        flags=tuple(flags),
        fingerprint=fingerprint,
        resources=tuple(resources),
    )
    return IndexEntry(indexed, vectors or (any_vector(indexed.entry_id) if vector is None else vector,))


def a_change(*entries: IndexEntry, superseded: Sequence[str] = ()) -> DocumentChange:
    """The change that puts `entries`, all of one document, into an index."""
    first = entries[0].indexed
    return DocumentChange(first.key_id, first.chunk.document_id, entries, superseded)


def a_removal(entry: IndexEntry, superseded: Sequence[str]) -> DocumentChange:
    """The change that takes the document of `entry` out of an index."""
    return DocumentChange(entry.indexed.key_id, entry.indexed.chunk.document_id, (), superseded)
