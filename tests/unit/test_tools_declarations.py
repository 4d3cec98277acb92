"""What the tools accept, and what they say about what they don't."""

from __future__ import annotations

import inspect

import pytest

from opx.tools.declarations import (
    GET_DOCUMENT_DETAILS,
    SEARCH_RUNBOOKS,
    TOOLS,
    ArgumentError,
    Tool,
    UnknownToolError,
    tool_named,
)
from opx.tools.knowledge_tools import KnowledgeTools


def read(tool: Tool = SEARCH_RUNBOOKS, **given: object) -> dict[str, str | int]:
    return tool.arguments(given.items())


def test_tools_are_those_that_agents_know() -> None:
    described = {name: [p.name for p in tool.parameters] for name, tool in TOOLS.items()}
    assert described == {
        "search_runbooks": ["query", "max_results"],
        "search_postmortems": ["query", "max_results"],
        "get_document_details": ["document_id"],
    }


@pytest.mark.parametrize("tool", TOOLS.values(), ids=lambda tool: tool.name)
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
        tool_named(name)
