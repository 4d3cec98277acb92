"""Operations that search: a simple one, and one with the full query configuration."""

from __future__ import annotations

from typing import Annotated

from opx.domain import queries
from opx.domain.knowledge import Tier
from opx.domain.record import about, replace
from opx.domain.requests import Filled, Request, Text
from opx.domain.results import Answer
from opx.operations.context import Context
from opx.operations.registry import operation

DEFAULT_RESULTS = 5
MAX_SEARCH_RESULTS = 20
PASSAGES_PER_DOCUMENT = 4
"""Passages of each document that select its relevant blocks."""
MAX_QUESTION = 100_000
CUT = f"only the first {queries.MAX_QUERY_CHARACTERS:,} characters are read."
Question = Annotated[Filled, about(f"The question; {CUT}", max_length=MAX_QUESTION)]
Budget = Annotated[
    int,
    about(
        "Also return the relevant blocks of each document, in about so many tokens in all; 0 for passages only.",
        ge=0,
        le=queries.MAX_BUDGET,
    ),
]
WantsReceipt = Annotated[
    bool, about("Also return a receipt, with which the query can be replayed and the answers compared.")
]


class Search(Request, frozen=True):
    q: Question
    thoroughness: Annotated[queries.SearchMode, about("Effort of the search.")] = queries.SearchMode.BALANCED
    limit: Annotated[int, about("How many results at most.", ge=1, le=MAX_SEARCH_RESULTS)] = DEFAULT_RESULTS
    category: Annotated[queries.Several[queries.Name], about(queries.CATEGORY)] = ()
    tag: Annotated[queries.Several[queries.Name], about(queries.TAG)] = ()
    tier: Annotated[queries.Several[queries.TierName], about("A tier of trust.")] = ()
    service: Annotated[queries.Several[queries.Name], about(queries.SERVICE)] = ()
    resource: Annotated[queries.Several[queries.Name], about(queries.RESOURCE)] = ()
    updated_from: Annotated[Text, about(queries.UPDATED_FROM)] = ""
    updated_before: Annotated[Text, about(queries.UPDATED_BEFORE)] = ""
    expand: Annotated[queries.Expand, about(queries.EXPAND)] = queries.Expand.NONE
    plain: Annotated[bool, about(queries.PLAIN)] = False
    graph: Annotated[bool, about(queries.GRAPH)] = False
    as_of: Annotated[Text, about(queries.AS_OF)] = ""
    receipt: WantsReceipt = False
    budget: Budget = queries.DEFAULT_BUDGET


@operation(http="GET /knowledge/{kbId}/search")
def search(context: Context, request: Search) -> Answer:
    """Answer a query given as URL parameters."""
    tiers = request.tier or queries.QueryConfig().tiers
    config = queries.QueryConfig(
        tiers=tiers,
        categories=request.category or None,
        tags=request.tag,
        max_results=request.limit,
        mode=request.thoroughness,
        include_internet=Tier.INTERNET in tiers,  # naming the tier enables it
        services=request.service,
        resources=request.resource,
        updated_from=request.updated_from,
        updated_before=request.updated_before,
        expand=request.expand,
        plain=request.plain,
        expand_graph=request.graph,
        as_of=request.as_of,
    )
    return run_search(context, request.q, config, receipt=request.receipt, budget=request.budget)


class Query(Request, frozen=True):
    query: Question
    config: Annotated[queries.QueryConfig, about("Query configuration; omitted fields have their defaults.")] = (
        queries.QueryConfig()
    )
    receipt: WantsReceipt = False
    budget: Budget = queries.DEFAULT_BUDGET
    gaps: Annotated[bool, about("Without it, a question without a good answer isn't recorded as a gap.")] = True


@operation(http="POST /knowledge/{kbId}/query")
def query(context: Context, request: Query) -> Answer:
    """Ask a question with the full query configuration."""
    config, receipt, budget = request.config, request.receipt, request.budget
    return run_search(context, request.query, config, receipt=receipt, budget=budget, gaps=request.gaps)


def run_search(
    context: Context,
    question: str,
    config: queries.QueryConfig,
    *,
    receipt: bool = False,
    budget: int = 0,
    unconfirmed: bool = True,
    hidden: frozenset[str] = frozenset(),
    gaps: bool = True,
) -> Answer:
    """Answers a question; with a budget, includes the relevant blocks of the results' documents, or, with `unconfirmed`,
    of the unconfirmed ones where there is no result. Documents of the categories `hidden` are not found. Without `gaps`, a
    question without a good answer isn't recorded as one."""
    questions = context.system.questions
    service = questions.for_reader(context.identity, context.report, gaps=gaps, hidden=hidden, words=True)
    answer = service.search(question, config)
    results = answer.results or (answer.unconfirmed if unconfirmed else ())
    if budget and results:
        text = str(answer.understood.get("text") or question)
        answer = replace(answer, documents=questions.handover(service.reader).documents(text, results, budget))
    return answer if receipt else replace(answer, receipt=None)
