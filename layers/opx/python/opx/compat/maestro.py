"""The names of the tiered design (Maestro): `KnowledgeQuery`, `IngestionManager` and their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

from opx.domain.queries import QueryConfig
from opx.domain.results import RetrievalResult as Found
from opx.domain.sources import Document, KnowledgeSource, SourceDeclaration
from opx.facade.knowledge import Knowledge
from opx.facade.sources import MSDocsSource, NVDSource, WebSearchSource

if TYPE_CHECKING:
    from opx.domain.baselines import BaselineStats
    from opx.ingestion.events import IngestionResult

__all__ = [
    "Document",
    "Evidence",
    "IngestionManager",
    "KnowledgeQuery",
    "KnowledgeSource",
    "MSDocsSource",
    "MaestroKnowledge",
    "NVDSource",
    "QueryConfig",
    "RetrievalResult",
    "WebSearchSource",
]


class Evidence(SimpleNamespace):
    """Evidence with the fields that an agent gives it. `opx.Evidence` is the record with the fields that are known."""


@dataclass
class RetrievalResult:
    """A result with its time as `datetime`; None for a document without one."""

    content: str
    score: float
    tier: str
    category: str
    source: str
    timestamp: datetime | None
    trust_score: float
    metadata: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Found) -> Self:
        """The same result with the design's types."""
        return cls(
            content=found.content,
            score=found.score,
            tier=found.tier,
            category=found.category,
            source=found.source,
            timestamp=found.updated_at,
            trust_score=found.trust_score,
            metadata={**found.metadata, "band": found.band.value},
        )


def knowledge_at(knowledge: Knowledge | str | Path) -> Knowledge:
    """The knowledge, or that at an address; without one, that of the environment."""
    return knowledge if isinstance(knowledge, Knowledge) else Knowledge.open(knowledge)


class KnowledgeQuery:
    """Queries over all tiers."""

    def __init__(self, knowledge: Knowledge | str | Path = "") -> None:
        self.knowledge = knowledge_at(knowledge)

    def query(self, query: str, config: QueryConfig | None = None) -> list[RetrievalResult]:
        """See `Knowledge.query`."""
        return [RetrievalResult.of(one) for one in self.knowledge.query(query, config)]

    def query_with_context(
        self, query: str, context: Mapping[str, Any], config: QueryConfig | None = None
    ) -> RetrievalResult:
        """See `Knowledge.query_with_context`."""
        return RetrievalResult.of(self.knowledge.query_with_context(query, context, config))

    def get_baseline(self, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        """See `Knowledge.get_baseline`."""
        return self.knowledge.get_baseline(node, metric, time_window)

    def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """See `Knowledge.search_internet`."""
        return [RetrievalResult.of(one) for one in self.knowledge.search_internet(query, max_results)]


class IngestionManager:
    """All ways in."""

    def __init__(self, knowledge: Knowledge | str | Path = "") -> None:
        self.knowledge = knowledge_at(knowledge)

    def ingest_document(
        self, tier: str, category: str, document: Document | object, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """See `Knowledge.ingest_document`."""
        return self.knowledge.ingest_document(tier, category, document, metadata)

    def ingest_batch(
        self, tier: str, category: str, documents: Iterable[Document | object], dedupe: bool = True
    ) -> IngestionResult:
        """See `Knowledge.ingest_batch`."""
        return self.knowledge.ingest_batch(tier, category, documents, dedupe)

    def ingest_from_evidence(self, evidence: object) -> str:
        """See `Knowledge.ingest_from_evidence`."""
        return self.knowledge.ingest_from_evidence(evidence)

    def register_source(
        self, source: KnowledgeSource | SourceDeclaration | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """See `Knowledge.register_source`."""
        return self.knowledge.register_source(source, schedule, tier, category)

    def pull_now(self, source_id: str) -> IngestionResult:
        """See `Knowledge.pull_now`."""
        return self.knowledge.pull_now(source_id)

    def watch_directory(self, path: str, tier: str, category: str, pattern: str = "*.md") -> str:
        """See `Knowledge.watch_directory`."""
        return self.knowledge.watch_directory(path, tier, category, pattern)

    def get_webhook_endpoint(self, tier: str, category: str) -> str:
        """See `Knowledge.get_webhook_endpoint`."""
        return self.knowledge.get_webhook_endpoint(tier, category)

    def subscribe_stream(
        self,
        stream: str,
        tier: str,
        category: str,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the name that callers know
    ) -> str:
        """See `Knowledge.subscribe_stream`."""
        return self.knowledge.subscribe_stream(stream, tier, category, filter)


class MaestroKnowledge:
    """Both halves over one knowledge: `query` and `ingestion`."""

    def __init__(self, knowledge: Knowledge | str | Path = "") -> None:
        self.knowledge = knowledge_at(knowledge)
        self.query = KnowledgeQuery(self.knowledge)
        self.ingestion = IngestionManager(self.knowledge)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.knowledge.close()
