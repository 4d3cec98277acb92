"""Old versions of documents, put back: an object becomes what it was, and the pipeline takes it from there."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.titles import chosen
from opx.domain.versions import Restored
from opx.errors import DocumentNotFoundError, InvalidInputError, ObjectNotFoundError
from opx.formats.metadata import given_facts
from opx.ingestion.corpus.chunk_files import joined_text, read_chunks
from opx.ingestion.corpus_writer import CorpusWriter
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ingestion.reading import title_path
from opx.lifecycle.versions.differences import version_name
from opx.ports import ObjectStore
from opx.ports.objects import PastObject, PastObjects

_READ_AS_TEXT = (".md", ".markdown", ".txt", ".text", ".log")
AS_MARKDOWN = "the file of then is gone: {suffix} is now the text that was read of it, as Markdown"


class Restorer:
    """Restores versions of documents of one scope, that of `writer`. No `past`: the store keeps no earlier contents."""

    def __init__(self, *, store: ObjectStore, writer: CorpusWriter, past: PastObjects | None) -> None:
        self._store = store
        self._writer = writer
        self._past = past

    def restore(self, document: KnowledgeDocument) -> Restored:
        """Put a version back. Done again, it puts the same again.

        Raises `InvalidInputError` for the current version, and `DocumentNotFoundError` if nothing is left of it.
        """
        if document.state is DocumentState.CURRENT:
            raise InvalidInputError(f"version {document.version} is the current one: there is nothing to restore")
        key = document.key.scope.prefix + document.key.source
        if self._bring_back(key, document.current_since):
            return Restored(key, version_name(document), original=True)
        return Restored(key, version_name(document), original=False, notes=self._put_text(key, document))

    def _bring_back(self, key: str, at: str) -> bool:
        """Make the object and its metadata file what they were when the version became current."""
        if self._past is None or not at:
            return False
        found = self._at(self._past, key, at)
        if found is None or found.removed:
            return False
        beside = self._at(self._past, key + SIDECAR_SUFFIX, at)
        try:
            if beside is not None and not beside.removed:
                self._past.bring_back(key + SIDECAR_SUFFIX, beside.name)
            elif self._store.head(key + SIDECAR_SUFFIX):
                self._store.delete(key + SIDECAR_SUFFIX)
            self._past.bring_back(key, found.name)
        except ObjectNotFoundError:  # it has just been removed for good
            return False
        return True

    def _at(self, past: PastObjects, key: str, at: str) -> PastObject | None:
        return next((one for one in past.of(key) if one.stored_at <= at), None)

    def _put_text(self, key: str, document: KnowledgeDocument) -> tuple[str, ...]:
        try:
            text = "".join(joined_text(read_chunks(self._store, document.key, document.document_id)))
        except ObjectNotFoundError:
            message = f"nothing is left of version {document.version} of {document.key.source}: it can't be restored"
            raise DocumentNotFoundError(message) from None
        facts, notes = _facts(document)
        self._writer.put_described(key, text.encode("utf-8", "replace"), facts)
        return notes


def _facts(document: KnowledgeDocument) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the catalog knows of a version, as metadata, and what of that can't be as it was."""
    notes = []
    path = PurePosixPath(document.key.source)
    name = ""
    if path.suffix.lower() not in _READ_AS_TEXT:
        name = f"{path.stem}.md"
        notes.append(AS_MARKDOWN.format(suffix=path.name))
    facts = {
        "category": document.category,
        "title": chosen(document.title, title_path(document.source, document.category)),
        "author": document.author,
        "version": document.metadata.version,
        "source_uri": document.source_uri if document.source_uri != document.location else "",
        "createdAt": document.created_at,
        "owner": document.owner,
        "name": name,
        **given_facts(document),
    }
    return {field: value for field, value in facts.items() if value}, tuple(notes)
