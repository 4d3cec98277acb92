"""Arguments that the tools accept, and errors for others."""

from __future__ import annotations

from typing import Any

import pytest

from opx.domain.queries import SearchMode
from opx.domain.requests import Request, RequestError, fields_of
from opx.edges.failures import UnknownToolError
from opx.edges.schemas import description
from opx.edges.tools import granted, read_arguments, snake_case, tool_named
from opx.operations import load
from opx.operations.reading import GetDocumentDetails
from opx.operations.registry import GROUPS, KNOWLEDGE, LEARNING, MAX_FUNCTION_PARAMETERS, MAX_TOOLS, Operation
from opx.operations.search_tools import SearchDocs, SearchRunbooks
from opx_web.operations import ResearchTopic

TOOLS = load().tools()
KNOWLEDGE_TOOLS = load().tools(KNOWLEDGE)


def read(name: str = "search_runbooks", **given: object) -> Request:
    return read_pairs(name, *given.items())


def read_pairs(name: str, *given: tuple[str, object]) -> Request:
    request: Request = read_arguments(TOOLS[name], given)
    return request


def parameters_of(tool: Operation[Any, Any]) -> list[str]:
    return [field.name for field in fields_of(tool.request)]


def test_tools_are_those_that_agents_know() -> None:
    described = {
        group.name: {name: parameters_of(tool) for name, tool in load().tools(group).items()}
        for group in (KNOWLEDGE, LEARNING)
    }
    assert described == {
        "retrieve-knowledge": {
            "search_runbooks": ["query", "max_results", "max_tokens", "at_least"],
            "search_postmortems": ["query", "max_results", "max_tokens", "at_least"],
            "get_document_details": ["document_id"],
            "read_document": ["document", "part", "max_tokens", "after"],
            "find_procedure": ["alert", "labels", "max_tokens", "after"],
            "search_docs": ["query", "thoroughness", "limit", "max_tokens", "at_least"],
            "research_topic": ["topic", "max_iterations"],
            "find_related": ["reference", "hops", "edge_types", "direction", "since"],
            "explain_relation": ["from_reference", "to_reference"],
            "get_resource": ["resource", "since"],
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
            "report_gap": ["question", "missing"],
            "query_for_task": ["task_description", "agent_type", "task_type", "technology", "max_results"],
            "query_for_failure": ["failure_description", "error_message", "agent_type", "task_type"],
            "query_for_gate": ["gate_type", "proposal", "max_results"],
            "build_context_for_task": ["task", "agent_type", "task_type", "technology"],
        },
    }


def test_tools_are_within_bedrocks_quotas() -> None:
    assert max(len(load().tools(group)) for group in GROUPS) <= MAX_TOOLS == 11
    assert max(len(parameters_of(tool)) for tool in TOOLS.values()) <= MAX_FUNCTION_PARAMETERS == 5


def test_no_tool_has_an_argument_for_the_owner() -> None:
    named = {name for tool in TOOLS.values() for name in parameters_of(tool)}
    assert named.isdisjoint({"client_id", "project_id", "group_id", "scope", "principal", "agent"})


def test_every_tool_is_in_one_of_the_groups() -> None:
    assert len(TOOLS) == sum(len(load().tools(group)) for group in GROUPS)


def test_missing_optional_parameter_has_its_default() -> None:
    assert read(query="disk full") == SearchRunbooks(query="disk full", max_results=5)


@pytest.mark.parametrize("value", [7, 7.0, "7", " 7 "])
def test_number_is_read_in_every_form_that_agents_send(value: object) -> None:
    assert read(query="q", max_results=value) == SearchRunbooks(query="q", max_results=7)


@pytest.mark.parametrize("value", ["1", "20"])
def test_bounds_are_accepted(value: str) -> None:
    assert read(query="q", max_results=value) == SearchRunbooks(query="q", max_results=int(value))


@pytest.mark.parametrize("value", ["0", "21", "-1", "many", "1.5", 1.5, True, [5], float("nan"), "9" * 5000])
def test_number_that_cannot_be_used_is_refused_with_the_limits(value: object) -> None:
    with pytest.raises(RequestError, match="max_results must be a whole number from 1 to 20, not ") as caught:
        read(query="q", max_results=value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("", "must have at least 1 characters that are not blank"),
        ("  \n", "must have at least 1 characters that are not blank"),
        (None, "is missing: The symptom, alert name, error message or task"),
        (5, "must be a string, not 5"),
        (["disk"], r"must be a string, not \['disk'\]"),
    ],
)
def test_query_that_is_no_text_is_refused(value: object, problem: str) -> None:
    with pytest.raises(RequestError, match=f"^query {problem}"):
        read(query=value)


def test_spaces_around_a_text_are_dropped() -> None:
    assert read("get_document_details", document_id=" abc\n") == GetDocumentDetails(document_id="abc")


def test_text_over_its_limit_is_refused() -> None:
    with pytest.raises(RequestError, match="document_id may have at most 100 characters, not 101"):
        read("get_document_details", document_id="x" * 101)


def test_missing_required_parameter_is_named() -> None:
    with pytest.raises(RequestError, match=r"^query is missing: The symptom"):
        read(max_results="5")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("client_id", "client_id"),
        ("scope", "scope"),
        ("opxClientId", "opx_client_id"),
        ("min_confidence", "min_confidence"),
        ("Query", "Query"),
    ],
)
def test_unknown_parameter_is_refused_with_the_known_ones(name: str, shown: str) -> None:
    known = "query, max_results, max_tokens, at_least"
    with pytest.raises(RequestError, match=rf"^unknown field {shown}; there are: {known}$"):
        read_pairs("search_runbooks", ("query", "q"), (name, "acme"))


def test_parameter_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="query is given twice"):
        read_pairs("search_runbooks", ("query", "a"), ("query", "b"))


@pytest.mark.parametrize("name", ["", "search", "call", "__init__", "_search", None, 5, ["search_runbooks"]])
def test_unknown_tool_is_refused_with_the_known_ones(name: object) -> None:
    with pytest.raises(UnknownToolError, match=f"there are: {', '.join(KNOWLEDGE_TOOLS)}$"):
        tool_named(KNOWLEDGE_TOOLS, name)


def test_operation_that_is_no_tool_is_unknown() -> None:
    with pytest.raises(UnknownToolError, match="unknown tool 'list_documents'"):
        tool_named(granted(None, {"list_documents", "search_docs"}), "list_documents")


def test_tool_that_is_not_allowed_is_refused_like_one_that_does_not_exist() -> None:
    messages = []
    for name in ("research_topic", "no_such_thing1"):
        with pytest.raises(UnknownToolError) as caught:
            tool_named(granted(KNOWLEDGE, {"search_docs"}), name)
        messages.append(str(caught.value).replace(name, "NAME"))
    assert messages == ["unknown tool 'NAME'; there are: search_docs"] * 2


def test_tool_of_another_group_is_unknown() -> None:
    with pytest.raises(UnknownToolError):
        tool_named(granted(KNOWLEDGE, TOOLS), "query_logs")


def test_an_agent_without_tools_gets_an_empty_list_in_the_error() -> None:
    with pytest.raises(UnknownToolError, match=r"there are: none$"):
        tool_named(granted(KNOWLEDGE, ()), "search_docs")


class TestOtherSpellings:
    @pytest.mark.parametrize(
        ("camel", "snake"), [("searchDocs", "search_docs"), ("researchTopic", "research_topic"), ("call", "call")]
    )
    def test_tool_is_found_by_its_name_in_camel_case(self, camel: str, snake: str) -> None:
        assert snake_case(camel) == snake

    def test_camel_case_names_a_tool(self) -> None:
        assert tool_named(KNOWLEDGE_TOOLS, "searchDocs") is TOOLS["search_docs"]

    def test_camel_case_names_a_parameter(self) -> None:
        assert read("research_topic", topic="t", maxIterations="2") == ResearchTopic(topic="t", max_iterations=2)

    def test_both_spellings_at_once_are_one_parameter_given_twice(self) -> None:
        with pytest.raises(RequestError, match="max_iterations is given twice"):
            read("research_topic", topic="t", maxIterations="2", max_iterations="2")

    @pytest.mark.parametrize("name", ["SearchDocs", "search_Docs", "searchDocs!", "_searchDocs", "SEARCH_DOCS"])
    def test_any_other_form_is_left_as_it_is(self, name: str) -> None:
        assert snake_case(name) == name


class TestOptionalParameters:
    def test_text_has_its_default(self) -> None:
        assert read("search_docs", query="q") == SearchDocs(query="q", thoroughness=SearchMode.BALANCED, limit=5)

    @pytest.mark.parametrize("left_out", [" ", "", None])
    def test_empty_value_counts_as_not_given(self, left_out: object) -> None:
        expected = SearchDocs(query="q", thoroughness=SearchMode.BALANCED, limit=5)
        assert read("search_docs", query="q", thoroughness=left_out, limit=left_out) == expected

    def test_only_the_choices_are_accepted(self) -> None:
        expected = SearchDocs(query="q", thoroughness=SearchMode.THOROUGH)
        assert read("search_docs", query="q", thoroughness="thorough") == expected
        with pytest.raises(RequestError, match="thoroughness must be one of fast, balanced, thorough, not 'slow'"):
            read("search_docs", query="q", thoroughness="slow")

    def test_choices_and_default_are_in_the_description(self) -> None:
        (field,) = [one for one in fields_of(SearchDocs) if one.name == "thoroughness"]
        assert description(field).endswith("One of fast, balanced, thorough, balanced if not given.")


def test_a_group_has_only_its_granted_tools() -> None:
    assert granted(KNOWLEDGE, {"search_docs", "query_logs"}) == {"search_docs": TOOLS["search_docs"]}
