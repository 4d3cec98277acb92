"""Versions of documents of the services in this process, as far as one identity may see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.versions import Restored, VersionDiff
from opx.errors import DocumentNotFoundError, InvalidInputError, InvalidScopeError, ObjectNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opx.domain.scopes import Scope
    from opx.ingestion.manager import IngestionManager
    from opx.knowledge_base import DocumentVersions
    from opx.services import Services


class LocalVersions:
    """The part of a knowledge base that is about versions."""

    _services: Services

    if TYPE_CHECKING:

        @property
        def scope(self) -> Scope: ...

        @property
        def manager(self) -> IngestionManager: ...

        def document(self, wanted: str) -> DocumentVersions: ...

        def _expired(self, document: KnowledgeDocument) -> str: ...

    def version_diff(self, wanted: str, *, before: int = 0, after: int = 0) -> VersionDiff:
        from opx.lifecycle.differences import difference

        found = self.document(wanted)
        new = _numbered(found.versions, after) if after else found.document
        old = _numbered(found.versions, before) if before else _before(found.versions, new)
        self._require_valid(old, new)
        return difference(old, new, (self._version_text(old), self._version_text(new)))

    def restore(self, wanted: str, version: int = 0) -> Restored:
        from opx.lifecycle.restoring import Restorer

        found = self.document(wanted)
        chosen = _numbered(found.versions, version) if version else found.document
        if chosen.key.scope != self.scope:
            raise InvalidScopeError(
                f"document {chosen.document_id} belongs to {chosen.key.scope.key}, you may restore only {self.scope.key}"
            )
        self._require_valid(chosen)
        services = self._services
        restorer = Restorer(store=services.store, writer=self.manager, past=services.past_objects)
        return restorer.restore(chosen)

    def _require_valid(self, *documents: KnowledgeDocument) -> None:
        for document in documents:
            if day := self._expired(document):
                name = f"version {document.version} of {document.key.source}"
                raise DocumentNotFoundError(f"{name} expired on {day}, and is being removed")

    def _version_text(self, document: KnowledgeDocument) -> str:
        from opx.ingestion.chunk_files import joined_text

        return "".join(joined_text(self._version_chunks(document)))

    def _version_chunks(self, document: KnowledgeDocument) -> Iterator[DocumentChunk]:
        from opx.ingestion.chunk_files import read_chunks

        try:
            yield from read_chunks(self._services.store, document.key, document.document_id)
        except ObjectNotFoundError:
            message = f"the text of version {document.version} of {document.key.source} is gone"
            raise DocumentNotFoundError(message) from None


def _numbered(versions: Sequence[KnowledgeDocument], number: int) -> KnowledgeDocument:
    found = next((one for one in versions if one.version == number), None)
    if found is None:
        there = ", ".join(str(one.version) for one in reversed(versions[:20]))
        raise DocumentNotFoundError(f"the document has no version {number}; there are {there}")
    return found


def _before(versions: Sequence[KnowledgeDocument], version: KnowledgeDocument) -> KnowledgeDocument:
    """The one that it replaced. `versions` are the newest first."""
    found = next((one for one in versions if one.version < version.version), None)
    if found is None:
        raise InvalidInputError(
            f"version {version.version} is the first one that is kept: there is none to compare with"
        )
    return found
