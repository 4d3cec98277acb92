"""Proves that a stored version is what was ingested: its object by its checksum, its chunks by their ids, which are hashes of
their text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.ids import chunk_id
from opx.domain.provenance import Provenance
from opx.domain.record import Record, about
from opx.errors import DamagedStoreError, ObjectNotFoundError, SecretNotFoundError, UnparsableDocumentError
from opx.ingestion.corpus.chunk_files import read_chunks, text_hash
from opx.ports import ObjectStore

_BLOCK = 1024 * 1024


class Integrity(StrEnum):
    """The state of something stored, compared with its checksum."""

    INTACT = "intact"
    ALTERED = "altered"
    GONE = "gone"
    REPLACED = "replaced"
    """A later object has its name: the version is an earlier one."""
    UNREADABLE = "unreadable"
    """Encrypted, and its key isn't here."""
    UNKNOWN = "unknown"
    """No checksum was recorded when it was ingested."""


class ObjectProof(Record, frozen=True):
    key: Annotated[str, about("The object's key in the corpus.")]
    checksum: Annotated[str, about("The SHA-256 of the object that was ingested, in hexadecimal.")]
    version: Annotated[str, about("The store's version of the object; empty if it keeps none.")]
    integrity: Annotated[Integrity, about("The object as it is stored now, compared with that checksum.")]


class TextProof(Record, frozen=True):
    chunks: Annotated[int, about("Chunks that were ingested.")]
    checksum: Annotated[str, about("The SHA-256 of the version's text, in hexadecimal.")]
    integrity: Annotated[Integrity, about("The stored chunks, compared with their ids and that checksum.")]
    altered: Annotated[tuple[str, ...], about("Ids of chunks whose text is another one.")] = ()


def digest_of(store: ObjectStore, object_key: str) -> str:
    """SHA-256 of an object's bytes. Raises `ObjectNotFoundError` and `StoreUnavailableError`."""
    digest = hashlib.sha256()
    with store.open(object_key) as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def prove_object(store: ObjectStore, document: KnowledgeDocument, provenance: Provenance | None) -> ObjectProof:
    """Compares the stored object with its checksum. The object of an earlier version is replaced, usually."""
    key = f"{document.key.scope.prefix}{document.key.source}"
    recorded = provenance.object_checksum if provenance else ""
    version = provenance.object_version if provenance else ""
    return ObjectProof(key, recorded, version, _object_integrity(store, key, recorded, document))


def _object_integrity(store: ObjectStore, key: str, recorded: str, document: KnowledgeDocument) -> Integrity:
    try:
        if not recorded and store.head(key):
            return Integrity.UNKNOWN
        checksum = digest_of(store, key)
    except ObjectNotFoundError:
        return Integrity.GONE
    except UnparsableDocumentError:  # an encrypted original that was changed
        return Integrity.ALTERED
    except SecretNotFoundError:
        return Integrity.UNREADABLE
    if checksum == recorded:
        return Integrity.INTACT
    return Integrity.REPLACED if document.superseded_at else Integrity.ALTERED


def prove_text(store: ObjectStore, document: KnowledgeDocument) -> TextProof:
    """Compares the stored chunks with their ids, and their text with the checksum of the version."""
    seen, altered = list[str](), list[str]()

    def checked() -> Iterator[DocumentChunk]:
        for chunk in read_chunks(store, document.key, document.document_id):
            seen.append(chunk.chunk_id)
            if chunk_id(document.document_id, chunk.chunk_index, chunk.content) != chunk.chunk_id:
                altered.append(chunk.chunk_id)
            yield chunk

    try:
        checksum = text_hash(checked())
    except ObjectNotFoundError:
        return TextProof(document.chunk_count, document.content_hash, Integrity.GONE)
    except DamagedStoreError:
        return TextProof(document.chunk_count, document.content_hash, Integrity.ALTERED)
    same = len(seen) == document.chunk_count and checksum == document.content_hash
    found = Integrity.INTACT if same and not altered else Integrity.ALTERED
    return TextProof(document.chunk_count, document.content_hash, found, tuple(altered))
