"""The tools that search knowledge."""

from __future__ import annotations

from opx.domain.queries import SearchMode
from opx.tools.declarations import Parameter, Tool, ToolGroup

DEFAULT_RESULTS = 5
MAX_RESULTS = 20
DEFAULT_ITERATIONS = 3
MAX_ITERATIONS = 5
MAX_ID_CHARACTERS = 100


def _number_of_results(name: str) -> Parameter:
    return Parameter(
        name=name,
        type="integer",
        about="How many results to return at most.",
        default=DEFAULT_RESULTS,
        maximum=MAX_RESULTS,
    )


SEARCH_RUNBOOKS = Tool(
    name="search_runbooks",
    description=(
        "Search the operations runbooks: procedures for diagnosing and fixing known problems, and how the systems are "
        "built. Use it before acting on an alert or a symptom. Each result names its source and document id; results "
        "that are not good enough are left out."
    ),
    parameters=(
        Parameter(
            name="query",
            type="string",
            about="The symptom, alert name, error message or task, in plain words or copied as it is.",
        ),
        _number_of_results("max_results"),
    ),
)

SEARCH_POSTMORTEMS = Tool(
    name="search_postmortems",
    description=(
        "Search the postmortems of past incidents: what happened, why, how it was found and what fixed it. Use it to "
        "see whether a problem has occurred before. Each result names its source and document id; results that are "
        "not good enough are left out."
    ),
    parameters=(
        Parameter(
            name="query",
            type="string",
            about="What is happening now, the affected service or the suspected cause, in plain words.",
        ),
        _number_of_results("max_results"),
    ),
)

GET_DOCUMENT_DETAILS = Tool(
    name="get_document_details",
    description=(
        "Get what is known about a document: title, category, tags, author, version, when it was last updated and "
        "where it is. Use it to judge or cite a search result."
    ),
    parameters=(
        Parameter(
            name="document_id",
            type="string",
            about="The document id, as search results give it.",
            maximum=MAX_ID_CHARACTERS,
        ),
    ),
)

SEARCH_DOCS = Tool(
    name="search_docs",
    description=(
        "Search all documentation: manuals, interface pages, guides and everything else that is known, of every "
        "category. Use it for how something works or is called, where no runbook or postmortem is meant. Each result "
        "names its source and section; results that are not good enough are left out."
    ),
    parameters=(
        Parameter(
            name="query",
            type="string",
            about="A question in plain words, or the name of a function, hook, option or error as it is written.",
        ),
        Parameter(
            name="thoroughness",
            type="string",
            about="How much work the question is worth; more work takes longer.",
            default=SearchMode.BALANCED.value,
            choices=tuple(mode.value for mode in SearchMode),
        ),
        _number_of_results("limit"),
    ),
)

RESEARCH_TOPIC = Tool(
    name="research_topic",
    description=(
        "Research a topic with several searches, each of which follows up on what the ones before found and lacked. "
        "Use it for questions with several parts, or where one search was not enough; it takes longer than a search. "
        "The findings name their source and section."
    ),
    parameters=(
        Parameter(name="topic", type="string", about="The topic or the question, in plain words."),
        Parameter(
            name="max_iterations",
            type="integer",
            about="How many rounds of searches at most.",
            default=DEFAULT_ITERATIONS,
            maximum=MAX_ITERATIONS,
        ),
    ),
    opt_in=True,
)

KNOWLEDGE_GROUP = ToolGroup(
    name="retrieve-knowledge",
    title="OPX Knowledge retrieval",
    description="Runbooks, postmortems and documentation for operations agents, with their sources.",
    tools=(
        SEARCH_RUNBOOKS,
        SEARCH_POSTMORTEMS,
        GET_DOCUMENT_DETAILS,
        SEARCH_DOCS,
        RESEARCH_TOPIC,
    ),
)
