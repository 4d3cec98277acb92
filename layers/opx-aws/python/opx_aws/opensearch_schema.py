"""Defines the fields of the corpus's OpenSearch index once, for deployment and for the adapter."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from opx.domain.documents import ChunkMetadata, DocumentChunk
from opx.domain.ids import day_number
from opx.domain.knowledge import Tier
from opx.domain.record import to_json
from opx.domain.results import LATER_FACTS, IndexedChunk, later_facts
from opx.ports import IndexEntry, StoredRecord, mean_vector
from opx.retrieval.judging_records import packed_record, stored_record
from opx.text.analyzer import ANALYZER_VERSION
from opx.text.fields import LEXICAL_FIELDS, analysed_fields

VECTOR_FIELD = "vector"
ENTRY_FIELD = "entry_id"
KEY_FIELD = "key_id"
DAY_FIELD = "updated_day"
"""Days from 1970-01-01 to the last update; absent where that is unknown."""

RECORD_FIELD = "judging_record"
"""The packed judging record in Base64. An index of an earlier release may lack the field, and entries their record."""

STORED_TEXT = {"type": "text", "index": False}
SPACE_TYPE = "innerproduct"
CLASSIC_ENGINE = "faiss"
"""The engine of vectors in classic collections: their default, NMSLIB, refuses filters."""

"""The dot product of unit vectors is their cosine. Its score formula is the same in every k-NN engine and version,
which `cosinesimil`'s is not."""

VECTOR_DECIMALS = 8
"""Decimals of a vector's numbers in requests: finer than 32-bit floats below 1/8 resolve, half as long."""

FILTER_FIELDS: dict[str, str] = {
    "scopes": "scope",
    "categories": "category",
    "tiers": "tier",
    "tags": "tags",
    "document_ids": "document_id",
    "languages": "language",
    "resources": "services",
    "also_tags": "tags",
    "also_resources": "services",
}
"""List-valued fields of a `SearchFilter`, and the index fields that they match."""

_KEYWORDS = tuple(dict.fromkeys((ENTRY_FIELD, "chunk_id", KEY_FIELD, *FILTER_FIELDS.values())))
_STORED_TEXTS = (
    "title",
    "section",
    "content",
    "source_uri",
    "last_updated",
    *(name for name in LATER_FACTS if name not in FILTER_FIELDS),
    RECORD_FIELD,
)
_LATER_NAMES = {name: FILTER_FIELDS.get(name, name) for name in LATER_FACTS}
_STORED_NUMBERS = {
    "chunk_index": "integer",
    "token_count": "integer",
    "start": "integer",
    "end": "integer",
    "trust": "double",
}

SOURCE_FIELDS: tuple[str, ...] = (*_KEYWORDS, *_STORED_TEXTS, *_STORED_NUMBERS)
"""Fields returned with a hit: neither the vector nor the analysed terms."""


def index_body(model_id: str, dimension: int, *, engine: str = "") -> dict[str, Any]:
    """Settings and mappings of an index for vectors of this model; plain JSON, also for CloudFormation.

    Without `engine` the vector's mapping has no `method`: next-generation collections refuse one, and classic ones choose an
    engine that can't filter (`CLASSIC_ENGINE` can). The searched fields hold terms that are already analysed, joined by
    blanks. BM25 has Lucene's defaults, k1 = 1.2 and b = 0.75. Unknown fields are refused.
    """
    vector: dict[str, Any] = {"type": "knn_vector", "dimension": dimension}
    if engine:
        vector["method"] = {"name": "hnsw", "engine": engine, "space_type": SPACE_TYPE}
    else:
        vector["space_type"] = SPACE_TYPE
    properties: dict[str, Any] = {VECTOR_FIELD: vector}
    properties |= {name: {"type": "text", "analyzer": "whitespace"} for name in LEXICAL_FIELDS}
    properties |= {name: {"type": "keyword"} for name in _KEYWORDS}
    properties[DAY_FIELD] = {"type": "integer"}
    properties |= dict.fromkeys(_STORED_TEXTS, STORED_TEXT)
    properties |= {name: {"type": kind, "index": False} for name, kind in _STORED_NUMBERS.items()}
    return {
        "settings": {"index": {"knn": True}},
        "mappings": {"dynamic": "strict", "_meta": identity(model_id, dimension), "properties": properties},
    }


def identity(model_id: str, dimension: int) -> dict[str, Any]:
    """Properties that must be equal for an index to be usable; stored under the mapping's `_meta`."""
    return {
        "model_id": model_id,
        "dimension": dimension,
        "analyzer_version": ANALYZER_VERSION,
        "lexical_fields": sorted(LEXICAL_FIELDS),
    }


def to_source(entry: IndexEntry) -> dict[str, Any]:
    """The document stored for an entry. For several vectors it has their mean: services differ in how, and whether,
    they search nested ones."""
    indexed, chunk = entry.indexed, entry.indexed.chunk
    terms = {name: " ".join(found) for name, found in analysed_fields(chunk, indexed.language).items()}
    day = day_number(indexed.last_updated)
    return {
        ENTRY_FIELD: indexed.entry_id,
        "chunk_id": chunk.chunk_id,
        KEY_FIELD: indexed.key_id,
        "scope": indexed.scope_key,
        "category": chunk.category,
        "tier": indexed.tier.value,
        "tags": list(chunk.tags),
        "document_id": chunk.document_id,
        "language": indexed.language,
        "title": chunk.title,
        "section": list(chunk.section),
        "content": chunk.content,
        "source_uri": indexed.source_uri,
        "last_updated": indexed.last_updated,
        "chunk_index": chunk.chunk_index,
        "token_count": chunk.token_count,
        "start": chunk.start,
        "end": chunk.end,
        "trust": indexed.trust,
        **{stored: to_json(getattr(indexed, name)) for name, stored in _LATER_NAMES.items()},
        VECTOR_FIELD: [round(float(value), VECTOR_DECIMALS) for value in mean_vector(entry.vectors)],
        **{name: terms[name] for name in LEXICAL_FIELDS},
        **({} if day is None else {DAY_FIELD: day}),
        RECORD_FIELD: b64encode(packed_record(indexed)).decode(),
    }


def from_source(source: Mapping[str, Any]) -> IndexedChunk:
    """The chunk that `to_source` stored, also by versions without flags, fingerprints, resources and days."""
    chunk = DocumentChunk(
        chunk_id=source["chunk_id"],
        document_id=source["document_id"],
        chunk_index=source["chunk_index"],
        content=source["content"],
        token_count=source["token_count"],
        section=tuple(source["section"]),
        start=source["start"],
        end=source["end"],
        metadata=ChunkMetadata(source["title"], source["category"], tuple(source["tags"])),
    )
    return IndexedChunk(
        entry_id=source[ENTRY_FIELD],
        chunk=chunk,
        key_id=source[KEY_FIELD],
        scope_key=source["scope"],
        tier=Tier(source["tier"]),
        trust=source["trust"],
        source_uri=source["source_uri"],
        last_updated=source["last_updated"],
        language=source["language"],
        **later_facts(source, _LATER_NAMES),
    )


def record_from(source: Mapping[str, Any], indexed: IndexedChunk) -> StoredRecord | None:
    """The judging record that `to_source` stored with the chunk; None without one, or if it is no Base64."""
    try:
        data = b64decode(source.get(RECORD_FIELD) or "")
    except ValueError:
        return None
    return stored_record(indexed, data) if data else None
