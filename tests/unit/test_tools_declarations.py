"""What the tools accept, and what they say about what they don't."""

from __future__ import annotations

import inspect

import pytest
from opx.tools.declarations import (
    MAX_FUNCTION_PARAMETERS,
    MAX_TOOLS,
    ArgumentError,
    Tool,
    ToolGroup,
    UnknownToolError,
    Value,
    snake_case,
)
from opx.tools.groups import GROUPS, TOOLS
from opx.tools.knowledge_group import (
    GET_DOCUMENT_DETAILS,
    KNOWLEDGE_GROUP,
    RESEARCH_TOPIC,
    SEARCH_DOCS,
    SEARCH_RUNBOOKS,
)
from opx.tools.knowledge_tools import KnowledgeTools


def read(tool: Tool = SEARCH_RUNBOOKS, **given: object) -> dict[str, Value]:
    return tool.arguments(given.items())


def test_tools_are_those_that_agents_know() -> None:
    described = {group.name: {tool.name: [p.name for p in tool.parameters] for tool in group.tools} for group in GROUPS}
    assert described == {
        "retrieve-knowledge": {
            "search_runbooks": ["query", "max_results"],
            "search_postmortems": ["query", "max_results"],
            "get_document_details": ["document_id"],
            "search_docs": ["query", "thoroughness", "limit"],
            "research_topic": ["topic", "max_iterations"],
            "find_related": ["reference", "hops", "edge_types", "direction", "since"],
            "explain_relation": ["from_reference", "to_reference"],
        },
        "learn-from-work": {
            "capture_failure_solution": [
                "failure_description",
                "solution_steps",
                "error_message",
                "task_type",
                "technology",
            ],
            "verify_solution": ["entry_id", "result", "incident"],
            "capture_gate_rejection": ["gate_type", "human_feedback", "revision_approach"],
            "capture_gate_approval": ["gate_type", "approved_approach"],
            "capture_warning": ["tried", "effect", "problem", "reference", "incident"],
            "report_outcome": ["receipt_id", "document_id", "result", "step", "incident"],
            "query_for_task": ["task_description", "agent_type", "task_type", "technology", "max_results"],
            "query_for_failure": ["failure_description", "error_message", "agent_type", "task_type"],
            "build_context_for_task": ["task", "agent_type", "task_type", "technology"],
        },
    }


def test_tools_are_within_bedrocks_quotas() -> None:
    assert max(len(group.tools) for group in GROUPS) <= MAX_TOOLS == 11
    assert max(len(tool.parameters) for tool in TOOLS.values()) <= MAX_FUNCTION_PARAMETERS == 5


def test_no_tool_takes_whose_something_is() -> None:
    named = {parameter.name for tool in TOOLS.values() for parameter in tool.parameters}
    assert named.isdisjoint({"client_id", "project_id", "group_id", "scope", "principal", "agent"})


def test_no_name_is_in_two_groups() -> None:
    assert len(TOOLS) == sum(len(group.tools) for group in GROUPS)


@pytest.mark.parametrize("tool", KNOWLEDGE_GROUP.tools, ids=lambda tool: tool.name)
def test_method_takes_what_is_declared(tool: Tool) -> None:
    taken = list(inspect.signature(getattr(KnowledgeTools, tool.name)).parameters.values())[1:]
    declared = [(p.name, inspect.Parameter.empty if p.required else p.default) for p in tool.parameters]
    assert [(parameter.name, parameter.default) for parameter in taken] == declared


def test_missing_optional_parameter_has_its_default() -> None:
    assert read(query="disk full") == {"query": "disk full", "max_results": 5}


@pytest.mark.parametrize("value", [7, 7.0, "7", " 7 "])
def test_number_is_read_in_every_form_that_agents_send(value: object) -> None:
    assert read(query="q", max_results=value)["max_results"] == 7


@pytest.mark.parametrize("value", ["1", "20"])
def test_bounds_are_accepted(value: str) -> None:
    assert read(query="q", max_results=value)["max_results"] == int(value)


@pytest.mark.parametrize("value", ["0", "21", "-1", "many", "", "1.5", 1.5, True, None, [5], float("nan"), "9" * 5000])
def test_number_that_cannot_be_used_is_refused_with_the_limits(value: object) -> None:
    with pytest.raises(ArgumentError, match="max_results must be a whole number from 1 to 20, not ") as caught:
        read(query="q", max_results=value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", ["", "  \n", None, 5, ["disk"]])
def test_query_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(ArgumentError, match="query must be a text that is not empty"):
        read(query=value)


def test_spaces_around_a_text_are_dropped() -> None:
    assert read(GET_DOCUMENT_DETAILS, document_id=" abc\n") == {"document_id": "abc"}


def test_text_over_its_limit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="document_id must have at most 100 characters, not 101"):
        read(GET_DOCUMENT_DETAILS, document_id="x" * 101)


def test_missing_required_parameter_is_named() -> None:
    with pytest.raises(ArgumentError, match=r"^query is missing"):
        read(max_results="5")


@pytest.mark.parametrize("name", ["client_id", "scope", "opxClientId", "min_confidence", "Query"])
def test_unknown_parameter_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"unknown parameter '{name}'; search_runbooks takes: query, max_results"):
        SEARCH_RUNBOOKS.arguments([("query", "q"), (name, "acme")])


def test_parameter_given_twice_is_refused() -> None:
    with pytest.raises(ArgumentError, match="query is given twice"):
        SEARCH_RUNBOOKS.arguments([("query", "a"), ("query", "b")])


@pytest.mark.parametrize("name", ["", "search", "call", "__init__", "_search", None, 5, ["search_runbooks"]])
def test_unknown_tool_is_refused_with_the_known_ones(name: object) -> None:
    with pytest.raises(UnknownToolError, match="there are: search_runbooks, search_postmortems, get_document_details"):
        KNOWLEDGE_GROUP.tool_named(name, TOOLS)


def test_tool_that_is_not_allowed_is_refused_like_one_that_does_not_exist() -> None:
    said = []
    for name in ("research_topic", "no_such_thing1"):
        with pytest.raises(UnknownToolError) as caught:
            KNOWLEDGE_GROUP.tool_named(name, {"search_docs"})
        said.append(str(caught.value).replace(name, "NAME"))
    assert said == ["unknown tool 'NAME'; there are: search_docs"] * 2


def test_tool_of_another_group_is_unknown() -> None:
    with pytest.raises(UnknownToolError):
        KNOWLEDGE_GROUP.tool_named("query_logs", TOOLS)


def test_agent_without_any_tool_is_told_so() -> None:
    with pytest.raises(UnknownToolError, match=r"there are: none$"):
        KNOWLEDGE_GROUP.tool_named("search_docs", ())


class TestOtherSpellings:
    @pytest.mark.parametrize(
        ("camel", "snake"), [("searchDocs", "search_docs"), ("researchTopic", "research_topic"), ("call", "call")]
    )
    def test_tool_is_found_by_its_name_in_camel_case(self, camel: str, snake: str) -> None:
        assert snake_case(camel) == snake

    def test_camel_case_names_a_tool(self) -> None:
        assert KNOWLEDGE_GROUP.tool_named("searchDocs", TOOLS) is SEARCH_DOCS

    def test_camel_case_names_a_parameter(self) -> None:
        assert read(RESEARCH_TOPIC, topic="t", maxIterations="2") == {"topic": "t", "max_iterations": 2}

    def test_both_spellings_at_once_are_one_parameter_given_twice(self) -> None:
        with pytest.raises(ArgumentError, match="max_iterations is given twice"):
            read(RESEARCH_TOPIC, topic="t", maxIterations="2", max_iterations="2")

    @pytest.mark.parametrize("name", ["SearchDocs", "search_Docs", "searchDocs!", "_searchDocs", "SEARCH_DOCS"])
    def test_any_other_form_is_left_as_it_is(self, name: str) -> None:
        assert snake_case(name) == name


class TestOptionalParameters:
    def test_text_has_its_default(self) -> None:
        assert read(SEARCH_DOCS, query="q") == {"query": "q", "thoroughness": "balanced", "limit": 5}

    def test_empty_text_counts_as_not_given(self) -> None:
        assert read(SEARCH_DOCS, query="q", thoroughness=" ")["thoroughness"] == "balanced"

    def test_only_the_choices_are_accepted(self) -> None:
        assert read(SEARCH_DOCS, query="q", thoroughness="thorough")["thoroughness"] == "thorough"
        with pytest.raises(ArgumentError, match="thoroughness must be one of fast, balanced, thorough, not 'slow'"):
            read(SEARCH_DOCS, query="q", thoroughness="slow")

    def test_choices_and_default_are_in_the_description(self) -> None:
        (parameter,) = [p for p in SEARCH_DOCS.parameters if p.name == "thoroughness"]
        assert parameter.description.endswith("One of fast, balanced, thorough, balanced if not given.")


def test_part_of_a_group_has_its_name() -> None:
    part = KNOWLEDGE_GROUP.only({"search_docs", "query_logs"})
    assert part == ToolGroup(KNOWLEDGE_GROUP.name, KNOWLEDGE_GROUP.title, KNOWLEDGE_GROUP.description, (SEARCH_DOCS,))
