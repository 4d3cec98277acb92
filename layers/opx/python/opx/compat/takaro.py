"""The functions of the documentation design (Takaro): `searchDocs`, `researchTopic`, `retrieve` and the tools' factories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from opx.domain.queries import SearchMode
from opx.facade.knowledge import Knowledge
from opx.operations.search import Search, search
from opx.retrieval.hybrid import RRF_K, reciprocal_rank_fusion

if TYPE_CHECKING:
    from opx.edges.factories import CallableTool

__all__ = ["createResearchTopicTool", "createSearchDocsTool", "fuseResults", "researchTopic", "searchDocs"]


def searchDocs(  # noqa: N802 - the design's name
    knowledge: Knowledge, query: str, thoroughness: str = "balanced", limit: int = 5
) -> dict[str, Any]:
    """Returns `results` with `content`, `source`, `section` and `relevance`. Raises `InvalidInputError`."""
    from opx.facade.learning import member

    mode = member(SearchMode, thoroughness)
    answer = knowledge.call(search, Search(q=query, thoroughness=mode, limit=limit, budget=0))
    found = (*answer.results, *answer.unconfirmed)[:limit]
    return {
        "results": [
            {"content": one.content, "source": one.source, "section": one.section, "relevance": one.relevance}
            for one in found
        ]
    }


def researchTopic(knowledge: Knowledge, topic: str, maxIterations: int = 3) -> dict[str, Any]:  # noqa: N802, N803
    """Returns `topic`, `searchesPerformed` and `findings`. Raises `InvalidInputError`."""
    report = knowledge.research(topic, maxIterations)
    return {
        "topic": report.topic,
        "searchesPerformed": report.searches_performed,
        "findings": [{"content": one.content, "source": one.source, "section": one.section} for one in report.findings],
    }


def createSearchDocsTool(knowledge: Knowledge) -> CallableTool:  # noqa: N802
    """The search as a tool for an agent's framework."""
    return knowledge.tools()["search_docs"]


def createResearchTopicTool(knowledge: Knowledge) -> CallableTool:  # noqa: N802
    """The research as a tool; agents have it only where they are given it."""
    return knowledge.tools()["research_topic"]


def fuseResults(*rankings: Sequence[str], k: int = RRF_K) -> list[str]:  # noqa: N802
    """Ids by reciprocal rank fusion of the rankings, the best first."""
    fused = reciprocal_rank_fusion([[(one, 0.0) for one in ranking] for ranking in rankings], k=k)
    return [one for one, _ in fused]
