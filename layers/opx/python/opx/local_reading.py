"""Documents and answers of the services in this process, as far as one identity may see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentChunk, DocumentState, KnowledgeDocument
from opx.domain.ids import ID_LENGTH
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.domain.research import DEFAULT_ITERATIONS, ResearchReport
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Reader
from opx.domain.times import iso_time
from opx.errors import DocumentNotFoundError, InvalidInputError, ObjectNotFoundError
from opx.knowledge_base import MAX_PAGE, DocumentVersions, Page, checked_id
from opx.paging import page_of, read_token

if TYPE_CHECKING:
    from opx.services import Services

_CANDIDATES_NAMED = 5


class LocalReading:
    """The reading part of a knowledge base over services, for one identity."""

    def __init__(self, services: Services, identity: Identity) -> None:
        self._services = services
        self._identity = identity

    @property
    def knowledge(self) -> KnowledgeModel:
        return self._services.knowledge

    def search(self, query: str, config: QueryConfig, *, receipt: bool = False) -> Answer:  # noqa: ARG002 - always there
        return self._services.query_service(self._identity).answer(query, config)

    def research_topic(
        self, topic: str, max_iterations: int = DEFAULT_ITERATIONS, config: QueryConfig | None = None
    ) -> ResearchReport:
        return self._services.research_service(self._identity).research_topic(topic, max_iterations, config)

    def documents(
        self, *, category: str = "", all_versions: bool = False, limit: int = MAX_PAGE, after: str = ""
    ) -> Page[KnowledgeDocument]:
        place = read_token(after, 3)
        model = self.knowledge
        paths = model.within(category) if category else sorted(model.categories)
        return page_of(
            self._visible(paths, place[:2], current_only=not all_versions),
            order=lambda document: (document.category, document.last_updated),
            name=lambda document: f"{document.document_id} {document.key.id} {document.version:08d}",
            limit=limit,
            after=place,
        )

    def _visible(
        self, categories: Sequence[str], begin: tuple[str, ...] = (), *, current_only: bool = True
    ) -> Iterator[KnowledgeDocument]:
        scopes = self._reader().visible
        found = self._services.catalog.visible(scopes, categories=categories, current_only=current_only, begin=begin)
        return (document for document in found if not current_only or not self._expired(document))

    def _expired(self, document: KnowledgeDocument) -> str:
        """The day since when a document is not to be shown, "" for one that is."""
        from opx.retrieval.expiry import expired_since

        return expired_since(document, self.knowledge, iso_time(self._services.clock()))

    def _current(self) -> Iterator[KnowledgeDocument]:
        return self._visible(sorted(self.knowledge.categories))

    def document(self, wanted: str) -> DocumentVersions:
        text = checked_id(wanted)
        found = self._by_id(text) if len(text) == ID_LENGTH else self._by_beginning(wanted, text)
        reader = self._reader()
        versions = (v for v in self._services.catalog.versions(found.key) if reader.may_see(v.key.scope))
        return DocumentVersions(found, tuple(versions))

    def _by_beginning(self, wanted: str, text: str) -> KnowledgeDocument:
        found = {d.document_id: d for d in self._current() if d.document_id.startswith(text)}
        if len(found) > 1:
            names = "".join(f"\n  {d.document_id}  {d.title}" for d in list(found.values())[:_CANDIDATES_NAMED])
            raise InvalidInputError(f"{wanted} is the beginning of {len(found)} document ids:{names}")
        if not found:
            raise DocumentNotFoundError(f"no current document has an id that begins with {wanted}")
        return next(iter(found.values()))

    def _by_id(self, document_id: str) -> KnowledgeDocument:
        reader = self._reader()
        found = [d for d in self._services.catalog.find(document_id) if reader.may_see(d.key.scope)]
        if not found:
            raise DocumentNotFoundError(f"no document {document_id}")
        days = {document.key.id: self._expired(document) for document in found}
        found = [document for document in found if not days[document.key.id]]
        if not found:
            raise DocumentNotFoundError(f"document {document_id} expired on {max(days.values())}, and is being removed")
        return max(found, key=lambda d: (d.state is DocumentState.CURRENT, d.version))

    def chunks(self, document_id: str, *, after: int = 0) -> Iterator[DocumentChunk]:
        from opx.ingestion.chunk_files import read_chunks

        document = self._by_id(document_id)
        return self._stored_chunks(document, after, read_chunks)

    def _stored_chunks(
        self, document: KnowledgeDocument, after: int, read: Callable[..., Iterator[DocumentChunk]]
    ) -> Iterator[DocumentChunk]:
        try:
            yield from islice(read(self._services.store, document.key, document.document_id), after, None)
        except ObjectNotFoundError:
            raise DocumentNotFoundError(f"the chunks of {document.document_id} are gone: ingest it again") from None

    def _reader(self) -> Reader:
        return self._services.projects.reader(self._identity)
