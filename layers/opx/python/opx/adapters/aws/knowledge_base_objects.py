"""Chunks as objects that a Bedrock Knowledge Base ingests: one text each, with its metadata in a sidecar beside it.

Sidecars follow Bedrock's convention (user guide, "Connect to Amazon S3 for your knowledge base"): `x.txt` has
`x.txt.metadata.json`. What searches are filtered by are attributes of their own. The rest of a chunk is one attribute
with JSON text: the vector store guesses the type of a field from the first value it sees, and a title that looks like a
date would make it refuse all others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opx.domain.documents import ChunkMetadata, DocumentChunk, DocumentKey, contextual_text
from opx.domain.knowledge import Tier
from opx.domain.results import IndexedChunk
from opx.domain.times import day_number

COPIES_FOLDER = "managed/"
"""Where copies are in the corpus bucket: all that the data source reads, and nothing else is there."""

SIDECAR_SUFFIX = ".metadata.json"
MAX_SIDECAR_BYTES = 10_000
"""Larger ones are ignored: "10 KB" in AWS's announcement of metadata filtering, taken for the smaller reading."""

FILTER_ATTRIBUTES: dict[str, str] = {
    "scopes": "scope",
    "categories": "category",
    "tiers": "tier",
    "document_ids": "document_id",
    "languages": "language",
}
"""Each part of a `SearchFilter` that is compared with a single value, and the attribute that has it."""

LIST_ATTRIBUTES: dict[str, str] = {"tags": "tags", "services": "services"}
"""Each part of a `SearchFilter` that is compared with a list, and the attribute that has it; absent where that is empty."""

DAY_ATTRIBUTE = "updated_day"
"""Days from 1970-01-01 to the last update, a number; absent where that is unknown."""

CHUNK_ATTRIBUTE = "chunk"


def document_folder(key: DocumentKey, document_id: str) -> str:
    """Where the copies of one version are: in its owner's folder, so that all copies of a client can be found."""
    return f"{COPIES_FOLDER}{key.scope.prefix}{key.id}/{document_id}/"


def object_name(folder: str, chunk: DocumentChunk) -> str:
    return f"{folder}{chunk.chunk_index:06d}.txt"


def sidecar(indexed: IndexedChunk) -> bytes | None:
    """The metadata of a copy; None if they are more than a knowledge base takes."""
    chunk = indexed.chunk
    attributes: dict[str, Any] = {
        "scope": indexed.scope_key,
        "category": chunk.category,
        "tier": indexed.tier.value,
        "document_id": chunk.document_id,
        "language": indexed.language,
        CHUNK_ATTRIBUTE: _to_json(_facts(indexed)),
    }
    lists = {"tags": chunk.tags, "services": indexed.services}
    attributes |= {name: list(lists[part]) for part, name in LIST_ATTRIBUTES.items() if lists[part]}
    day = day_number(indexed.last_updated)
    if day is not None:
        attributes[DAY_ATTRIBUTE] = day
    data = _to_json({"metadataAttributes": attributes}).encode("utf-8", "replace")
    return data if len(data) <= MAX_SIDECAR_BYTES else None


def chunk_of(text: str, attributes: Mapping[str, Any]) -> IndexedChunk:
    """The chunk whose copy has this text and these attributes. Raises `ValueError` if they are not of a copy."""
    try:
        facts = json.loads(attributes[CHUNK_ATTRIBUTE])
        return _chunk_of(text, attributes, facts)
    except (KeyError, TypeError) as exc:
        raise ValueError(f"not the metadata of a chunk: {exc!r}") from exc


def _facts(indexed: IndexedChunk) -> dict[str, Any]:
    """What is not filtered by."""
    chunk = indexed.chunk
    return {
        "entry_id": indexed.entry_id,
        "key_id": indexed.key_id,
        "chunk_id": chunk.chunk_id,
        "index": chunk.chunk_index,
        "tokens": chunk.token_count,
        "start": chunk.start,
        "end": chunk.end,
        "title": chunk.title,
        "section": list(chunk.section),
        "trust": indexed.trust,
        "source_uri": indexed.source_uri,
        "last_updated": indexed.last_updated,
        "fingerprint": indexed.fingerprint,
        **({"flags": list(indexed.flags)} if indexed.flags else {}),
        **({"context": chunk.context} if chunk.context else {}),
    }


def _chunk_of(text: str, attributes: Mapping[str, Any], facts: Mapping[str, Any]) -> IndexedChunk:
    title, section = facts["title"], tuple(facts["section"])
    context = f"{facts['context']}\n\n" if facts.get("context") else ""
    chunk = DocumentChunk(
        chunk_id=facts["chunk_id"],
        document_id=attributes["document_id"],
        chunk_index=facts["index"],
        content=text.removeprefix(contextual_text(title, section, context)),
        token_count=facts["tokens"],
        section=section,
        start=facts["start"],
        end=facts["end"],
        metadata=ChunkMetadata(title, attributes["category"], tuple(attributes.get(LIST_ATTRIBUTES["tags"], ()))),
    )
    return IndexedChunk(
        entry_id=facts["entry_id"],
        chunk=chunk,
        key_id=facts["key_id"],
        scope_key=attributes["scope"],
        tier=Tier(attributes["tier"]),
        trust=facts["trust"],
        source_uri=facts["source_uri"],
        last_updated=facts["last_updated"],
        language=attributes["language"],
        flags=tuple(facts.get("flags", ())),
        fingerprint=facts.get("fingerprint", ""),
        services=tuple(attributes.get(LIST_ATTRIBUTES["services"], ())),
    )


def _to_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
