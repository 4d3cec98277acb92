"""The agent's tools, as plain methods that know nothing of the runtime which calls them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from opx.domain.documents import DocumentState, KnowledgeDocument
from opx.domain.ids import ID_LENGTH
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.errors import DocumentNotFoundError
from opx.ports import Clock
from opx.retrieval.query import KnowledgeQuery
from opx.retrieval.readers import ProjectRegistry
from opx.runtime.metrics import Report, unreported
from opx.tools.declarations import Tool
from opx.tools.knowledge_group import DEFAULT_ITERATIONS, DEFAULT_RESULTS
from opx.tools.replies import DocsReply, DocumentReply, Reply, ResearchReply, SearchReply

if TYPE_CHECKING:
    from opx.domain.research import ResearchReport
    from opx.ingestion.catalog import Catalog

MIN_CONFIDENCE = 0.7
_DOCUMENT_ID = re.compile(f"[0-9a-f]{{{ID_LENGTH}}}")


class Researcher(Protocol):
    """Finds out about a topic with several searches."""

    def research_topic(self, topic: str, max_iterations: int, config: QueryConfig) -> ResearchReport: ...


class Knowledge(Protocol):
    """What the tools need of a system; `Services` has it."""

    @property
    def catalog(self) -> Catalog: ...

    @property
    def projects(self) -> ProjectRegistry: ...

    def query_service(self, identity: Identity | None = None, report: Report = unreported) -> KnowledgeQuery: ...

    def research_service(self, identity: Identity | None = None, report: Report = unreported) -> Researcher: ...

    @property
    def clock(self) -> Clock: ...


class KnowledgeTools:
    """The tools of one identity: they find and show what it may see, and nothing else.

    Results below `min_confidence` are left out. Methods raise `StoreUnavailableError`, and `InvalidScopeError` for a
    malformed identity.
    """

    def __init__(
        self,
        knowledge: Knowledge,
        identity: Identity,
        *,
        min_confidence: float = MIN_CONFIDENCE,
        report: Report = unreported,
    ) -> None:
        self._knowledge = knowledge
        self._identity = identity
        self._min_confidence = min_confidence
        self._report = report

    def call(self, tool: Tool, given: Iterable[tuple[str, object]]) -> Reply:
        """Do what a tool does. Raises `ArgumentError` for arguments that are not as declared."""
        reply: Reply = getattr(self, tool.name)(**tool.arguments(given))
        return reply

    def search_runbooks(self, query: str, max_results: int = DEFAULT_RESULTS) -> SearchReply:
        """Search procedures and architecture."""
        return SearchReply(self._answer(query, max_results, categories=("runbooks",)))

    def search_postmortems(self, query: str, max_results: int = DEFAULT_RESULTS) -> SearchReply:
        """Search what past incidents taught."""
        return SearchReply(self._answer(query, max_results, categories=("postmortems",)))

    def search_docs(
        self, query: str, thoroughness: str = SearchMode.BALANCED.value, limit: int = DEFAULT_RESULTS
    ) -> DocsReply:
        """Search all categories."""
        return DocsReply(self._answer(query, limit, mode=SearchMode(thoroughness)))

    def research_topic(self, topic: str, max_iterations: int = DEFAULT_ITERATIONS) -> ResearchReply:
        """Search, and search again for what is lacking."""
        config = QueryConfig(min_confidence=self._min_confidence)
        researcher = self._knowledge.research_service(self._identity, self._report)
        return ResearchReply(researcher.research_topic(topic, max_iterations, config))

    def get_document_details(self, document_id: str) -> DocumentReply:
        """The newest version that the reader may see, current ones first.

        Raises `DocumentNotFoundError`, the same for an id that doesn't exist and one that belongs to someone else.
        """
        newest = max(self._visible(document_id), key=_recency, default=None)
        if newest is None:
            raise DocumentNotFoundError(f"no document with this id: {document_id}")
        return DocumentReply(newest)

    def _answer(
        self,
        query: str,
        max_results: int,
        *,
        categories: tuple[str, ...] | None = None,
        mode: SearchMode = SearchMode.BALANCED,
    ) -> Answer:
        config = QueryConfig(
            categories=categories, min_confidence=self._min_confidence, max_results=max_results, mode=mode
        )
        return self._knowledge.query_service(self._identity, self._report).answer(query, config)

    def _visible(self, document_id: str) -> Iterator[KnowledgeDocument]:
        reader = self._knowledge.projects.reader(self._identity)
        if not _DOCUMENT_ID.fullmatch(document_id):
            return
        for document in self._knowledge.catalog.find(document_id):
            if reader.may_see(document.key.scope):
                yield document


def _recency(document: KnowledgeDocument) -> tuple[bool, str, int, str]:
    """Ends with the key, so that equals are told apart the same way every time."""
    current = document.state is DocumentState.CURRENT
    return current, document.last_updated, document.version, document.key.id
