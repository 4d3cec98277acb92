"""Operations that do several searches for a topic, and agents' tools that search."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.research import DEFAULT_ITERATIONS, MOST_ITERATIONS, ResearchReport
from opx.domain.results import Answer
from opx.operations.agent_answers import DocsAnswer, FoundAnswer, ResearchAnswer
from opx.operations.context import Context
from opx.operations.registry import KNOWLEDGE, Tool, operation
from opx.operations.requests import Filled, Request
from opx.operations.search import CUT, DEFAULT_RESULTS, MAX_QUESTION, MAX_SEARCH_RESULTS, answered

AGENT_CONFIDENCE = 0.7
"""What a result has to reach for an agent."""

Results = Annotated[int, Meta(ge=1, le=MAX_SEARCH_RESULTS, description="How many results to return at most.")]


class Research(Request, frozen=True):
    topic: Annotated[Filled, Meta(max_length=MAX_QUESTION, description=f"What is to be found out; {CUT}")]
    max_iterations: Annotated[
        int, Meta(ge=1, le=MOST_ITERATIONS, description="How many rounds of searches at most.")
    ] = DEFAULT_ITERATIONS
    config: Annotated[
        QueryConfig,
        Meta(description="Bounds every search; `maxResults` and `minConfidence` are those of the findings."),
    ] = QueryConfig()


@operation(http="POST /research")
def research(context: Context, request: Research) -> ResearchReport:
    """Do several searches for a topic: for each part of it, and again for what is missing."""
    return _researched(context, request.topic, request.max_iterations, request.config)


# -- tools of agents


class SearchRunbooks(Request, frozen=True):
    query: Annotated[
        Filled, Meta(description="The symptom, alert name, error message or task, in plain words or copied as it is.")
    ]
    max_results: Results = DEFAULT_RESULTS


@operation(
    tool=Tool(
        KNOWLEDGE,
        "Search the operations runbooks: procedures for diagnosing and fixing known problems, and how the systems are "
        "built. Use it before acting on an alert or a symptom. Each result names its source and document id; results "
        "that are not good enough are left out.",
    )
)
def search_runbooks(context: Context, request: SearchRunbooks) -> FoundAnswer:
    """Search procedures and architecture."""
    return FoundAnswer(_found(context, request.query, request.max_results, "runbooks"))


class SearchPostmortems(Request, frozen=True):
    query: Annotated[
        Filled, Meta(description="What is happening now, the affected service or the suspected cause, in plain words.")
    ]
    max_results: Results = DEFAULT_RESULTS


@operation(
    tool=Tool(
        KNOWLEDGE,
        "Search the postmortems of past incidents: what happened, why, how it was found and what fixed it. Use it to "
        "see whether a problem has occurred before. Each result names its source and document id; results that are "
        "not good enough are left out.",
    )
)
def search_postmortems(context: Context, request: SearchPostmortems) -> FoundAnswer:
    """Search what past incidents taught."""
    return FoundAnswer(_found(context, request.query, request.max_results, "postmortems"))


class SearchDocs(Request, frozen=True):
    query: Annotated[
        Filled,
        Meta(
            description="A question in plain words, or the name of a function, hook, option or error as it is written."
        ),
    ]
    thoroughness: Annotated[
        SearchMode, Meta(description="How much work the question is worth; more work takes longer.")
    ] = SearchMode.BALANCED
    limit: Results = DEFAULT_RESULTS


@operation(
    tool=Tool(
        KNOWLEDGE,
        "Search all documentation: manuals, interface pages, guides and everything else that is known, of every "
        "category. Use it for how something works or is called, where no runbook or postmortem is meant. Each result "
        "names its source and section; results that are not good enough are left out.",
    )
)
def search_docs(context: Context, request: SearchDocs) -> DocsAnswer:
    """Search all categories."""
    return DocsAnswer(_found(context, request.query, request.limit, mode=request.thoroughness))


class ResearchTopic(Request, frozen=True):
    topic: Annotated[Filled, Meta(description="The topic or the question, in plain words.")]
    max_iterations: Annotated[
        int, Meta(ge=1, le=MOST_ITERATIONS, description="How many rounds of searches at most.")
    ] = DEFAULT_ITERATIONS


@operation(
    tool=Tool(
        KNOWLEDGE,
        "Research a topic with several searches, each of which follows up on what the ones before found and lacked. "
        "Use it for questions with several parts, or where one search was not enough; it takes longer than a search. "
        "The findings name their source and section.",
        opt_in=True,
    )
)
def research_topic(context: Context, request: ResearchTopic) -> ResearchAnswer:
    """Search, and search again for what is lacking."""
    config = QueryConfig(min_confidence=AGENT_CONFIDENCE)
    return ResearchAnswer(_researched(context, request.topic, request.max_iterations, config))


def _found(
    context: Context, question: str, limit: int, category: str = "", mode: SearchMode = SearchMode.BALANCED
) -> Answer:
    config = QueryConfig(
        categories=(category,) if category else None, min_confidence=AGENT_CONFIDENCE, max_results=limit, mode=mode
    )
    return answered(context, question, config)


def _researched(context: Context, topic: str, max_iterations: int, config: QueryConfig) -> ResearchReport:
    researcher = context.system.questions.research(context.identity, context.report)
    return researcher.research_topic(topic, max_iterations, config)
