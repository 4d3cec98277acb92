"""A knowledge base that is made up, for research over it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer, RetrievalResult, ScoreParts
from opx_web.reports import ResearchReport
from opx_web.research.planners import RulePlanner
from opx_web.research.planning import Planner
from opx_web.research.researcher import Researcher

TWO_PARTS = "disk full on the database host and expired TLS certificate"
DISK, TLS = "disk full on the database host", "expired TLS certificate"


def a_result(
    content: str = "Delete old logs.",
    *,
    confidence: float = 0.9,
    title: str = "Disk full",
    chunk: str = "",
    document: str = "",
    tier: str = "internal",
    trust: float = 1.0,
    flags: Sequence[str] = (),
) -> RetrievalResult:
    metadata = {
        "title": title,
        "section": ["Steps"],
        "chunkId": chunk or f"{title}/{content}",
        "documentId": document or title,
        **({"flags": list(flags)} if flags else {}),
    }
    parts = ScoreParts(1, 1.0, 1, 0.5, 0.9, confidence, trust, confidence * trust)
    return RetrievalResult(
        content, confidence * trust, tier, "runbooks", f"docs/{title}.md", "2026-01-01", trust, metadata, parts
    )


@dataclass
class Library:
    """Answers from a table: a question's text, or a word of it, and the results for it. Records the queries."""

    found: Mapping[str, Sequence[RetrievalResult] | BaseException] = field(default_factory=dict)
    before: Callable[[str], object] = lambda _: None
    calls: list[tuple[str, QueryConfig]] = field(default_factory=list)

    def search(self, query: str, config: QueryConfig | None = None) -> Answer:
        assert config is not None
        self.calls.append((query, config))
        self.before(query)
        results = next((results for word, results in self.found.items() if word in query), ())
        if isinstance(results, BaseException):
            raise results
        good = tuple(result for result in results if result.confidence >= config.min_confidence)
        return Answer(query, good, unconfirmed=tuple(result for result in results if result not in good))

    @property
    def queries(self) -> list[str]:
        return [query for query, _ in self.calls]


def research(
    library: Library,
    topic: str = TWO_PARTS,
    max_iterations: int = 3,
    *,
    planner: Planner | None = None,
    seconds: float = 5.0,
    clock: Callable[[], float] = time.monotonic,
    **config: object,
) -> ResearchReport:
    researcher = Researcher(library, planner or RulePlanner(), seconds=seconds, clock=clock)
    return researcher.research_topic(topic, max_iterations, QueryConfig(**config))  # type: ignore[arg-type]
