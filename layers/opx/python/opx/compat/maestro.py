"""The names of the tiered design (Maestro): `KnowledgeQuery`, `IngestionManager` and their records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from opx.domain.queries import Band, QueryConfig
from opx.domain.record import replace
from opx.domain.results import RetrievalResult as Found
from opx.domain.sources import Document, KnowledgeSource
from opx.facade.knowledge import Knowledge, MSDocsSource, NVDSource, WebSearchSource

P = ParamSpec("P")
R = TypeVar("R")

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


class _OverKnowledge:
    """A part of the design over the knowledge at an address."""

    def __init__(self, knowledge: Knowledge | str | Path = "") -> None:
        self.knowledge = knowledge_at(knowledge)


def unchanged(method: Callable[Concatenate[Knowledge, P], R]) -> Callable[Concatenate[_OverKnowledge, P], R]:
    """The method of `Knowledge` as a method of a part."""

    @wraps(method)
    def run(self: _OverKnowledge, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.knowledge, *args, **kwargs)

    return run


def _likely(config: QueryConfig | None) -> QueryConfig:
    """The configuration with the bound of the band `likely` in place of the design's bar of .7."""
    given = config or QueryConfig()
    is_default = given.min_confidence == QueryConfig().min_confidence
    return replace(given, min_confidence=Band.LIKELY.least) if is_default else given


class KnowledgeQuery(_OverKnowledge):
    """Queries over all tiers. A `min_confidence` of .7, the design's default, asks for results that are at least likely."""

    def query(self, query: str, config: QueryConfig | None = None) -> list[RetrievalResult]:
        """See `Knowledge.query`."""
        return [RetrievalResult.of(one) for one in self.knowledge.query(query, _likely(config))]

    def query_with_context(
        self, query: str, context: Mapping[str, Any], config: QueryConfig | None = None
    ) -> RetrievalResult:
        """See `Knowledge.query_with_context`."""
        return RetrievalResult.of(self.knowledge.query_with_context(query, context, _likely(config)))

    get_baseline = unchanged(Knowledge.get_baseline)

    def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """See `Knowledge.search_internet`."""
        return [RetrievalResult.of(one) for one in self.knowledge.search_internet(query, max_results)]


class IngestionManager(_OverKnowledge):
    """All ways in."""

    ingest_document = unchanged(Knowledge.ingest_document)
    ingest_batch = unchanged(Knowledge.ingest_batch)
    ingest_from_evidence = unchanged(Knowledge.ingest_from_evidence)
    register_source = unchanged(Knowledge.register_source)
    pull_now = unchanged(Knowledge.pull_now)
    watch_directory = unchanged(Knowledge.watch_directory)
    get_webhook_endpoint = unchanged(Knowledge.get_webhook_endpoint)
    subscribe_stream = unchanged(Knowledge.subscribe_stream)


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
