"""Checks the files of versions and the bytes of objects by reading them whole, and restores what follows from others."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from opx.domain.documents import DocumentKey, KnowledgeDocument
from opx.errors import DamagedStoreError, ObjectNotFoundError, StoreUnavailableError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import (
    chunk_file,
    outline_data,
    outline_file,
    read_chunks,
    rebuilt_outline,
    text_hash,
)
from opx.ingestion.corpus.proving import digest_of
from opx.ingestion.prepared import EffectsOf
from opx.ports import ObjectStore
from opx.ports.objects import ObjectIntegrity

ALTERED = "its bytes differ from its checksum"


class VersionFileChecks:
    """Compares chunk files and outlines with the checksums of versions, and objects with the digests that their store
    recorded, if it does."""

    def __init__(self, corpus: Corpus, integrity: ObjectIntegrity | None) -> None:
        self._corpus = corpus
        self._integrity = integrity

    def of_object(self, object_key: str) -> str:
        """The damage of an object; "" if it is as it was stored, or missing."""
        if self._integrity is None:
            return ""
        try:
            return "" if self._integrity.is_intact(object_key) else ALTERED
        except DamagedStoreError:
            return ""  # of its metadata
        except StoreUnavailableError as exc:
            return str(exc)

    def of_chunks(self, document: KnowledgeDocument) -> str:
        """The damage of a version's chunk file; "" if it is as it was stored."""
        try:
            checksum = digest_of(self._corpus.store, chunk_file(document.key, document.document_id))
        except (ObjectNotFoundError, StoreUnavailableError) as exc:
            return str(exc)
        known = self._known(document, "chunks_checksum")
        if checksum in known:
            return ""
        return ALTERED if known else self._text_damage(document)

    def _text_damage(self, document: KnowledgeDocument) -> str:
        """The damage of a chunk file without a checksum, by the hash of the version's text."""
        if not document.content_hash:
            return ""
        try:
            chunks = list(read_chunks(self._corpus.store, document.key, document.document_id))
        except StoreUnavailableError as exc:
            return str(exc)
        return "" if text_hash(chunks) == document.content_hash else "its text is not that of the version"

    def of_outline(self, document: KnowledgeDocument, *, may_be_missing: bool) -> str:
        """The damage of a version's outline; "" if it is as it was stored, or has no checksum. One that is missing is made
        whenever it is read."""
        known = self._known(document, "outline_checksum")
        if not known:
            return ""
        try:
            checksum = digest_of(self._corpus.store, outline_file(document.key, document.document_id))
        except ObjectNotFoundError as exc:
            return "" if may_be_missing else str(exc)
        except StoreUnavailableError as exc:
            return str(exc)
        return "" if checksum in known else ALTERED

    def _known(self, document: KnowledgeDocument, field: str) -> set[str]:
        """Checksums of the versions that share the file: those of the same content in the same scope. Empty if one of them
        has none, as it may have written the file last."""
        shared = [one for one in self._corpus.catalog.find(document.document_id) if one.scope == document.scope]
        found = {getattr(one, field) for one in shared}
        return set() if "" in found else found


def restore_outline(store: ObjectStore, document: KnowledgeDocument, effects_of: EffectsOf) -> bool:
    """Makes the outline of a version from its chunks, with the effects of its commands or, as before there were any, without.
    One that differs from its checksum, as it was of earlier rules or another table of effects, is removed instead: then it
    is made whenever it is read. False if the chunks are damaged, too."""
    key: DocumentKey = document.key
    try:
        outline = rebuilt_outline(store, key, document.document_id, document.title)
    except (ObjectNotFoundError, DamagedStoreError):
        return False
    name = outline_file(key, document.document_id)
    store.delete(name)
    for data in (outline_data(outline, effects_of(outline.steps)), outline_data(outline)):
        if hashlib.sha256(data).hexdigest() == document.outline_checksum:
            store.put(name, data)
            break
    return True


def metadata_of(document: KnowledgeDocument) -> Mapping[str, Any]:
    """The facts of a version that its object's metadata may have stated."""
    facts = {
        "category": document.category,
        "title": document.title,
        "source_uri": document.source_uri if document.source_uri != document.location else "",
        "tags": list(document.tags),
    }
    return {name: value for name, value in facts.items() if value}
