"""Tools as objects for agent frameworks."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from opx.domain.scopes import Identity
from opx.edges.factories import CallableTool
from opx.errors import StoreUnavailableError
from opx.operations.context import Caller, Context
from opx.operations.registry import REGISTRY, Run
from opx.operations.search_tools import search_docs
from opx.operations.system import System
from opx_web.operations import research_topic
from opx_web.research.researcher import Researchers
from tests.support.agent_calls import DISK_TITLE

VAULT = "Unseal the acme vault"


def tool_of(run: Run[Any, Any], services: System, identity: Identity | None = None) -> CallableTool:
    return CallableTool(REGISTRY.of(run), Context(services, Caller(identity or Identity())))


def test_tool_describes_itself(services: System) -> None:
    tool = tool_of(search_docs, services)
    assert tool.name == tool.__name__ == "search_docs"
    assert tool.description.startswith("Search all documentation")
    assert tool.input_schema["required"] == ["query"]
    assert set(tool.input_schema["properties"]) == {"query", "thoroughness", "limit", "max_tokens", "at_least"}


def test_tool_has_the_signature_of_its_arguments(services: System) -> None:
    signature = inspect.signature(tool_of(search_docs, services))
    assert (
        str(signature) == "(*, query: str, thoroughness: str = 'balanced', limit: int = 5, max_tokens: int = 1200, "
        "at_least: str = 'weak') -> str"
    )


def test_call_answers_with_text(services: System) -> None:
    assert tool_of(search_docs, services)(query=DISK_TITLE, limit=1).startswith(f"Source: {DISK_TITLE}")


def test_result_is_in_the_shape_that_callers_know(services: System) -> None:
    found = tool_of(search_docs, services).result(query=DISK_TITLE, thoroughness="fast")
    assert {"content", "source", "section", "relevance", "untrusted"} <= set(found["results"][0])
    assert found["results"][0]["relevance"].endswith("%")


def test_tool_searches_the_scopes_of_its_identity(services: System) -> None:
    assert VAULT in tool_of(search_docs, services, Identity("acme"))(query=VAULT)
    assert "vault" not in tool_of(search_docs, services)(query=VAULT).lower()


def test_an_invalid_argument_is_returned_as_an_error_not_raised(services: System) -> None:
    tool = tool_of(search_docs, services)
    assert tool(query="q", limit=50) == "Error: limit must be a whole number from 1 to 20, not 50"
    assert tool.result(limit=5)["error"]["code"] == "invalid_argument"


def test_a_failure_is_reported_without_its_details(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(services.questions, "for_reader", broken)
    assert tool_of(search_docs, services)(query="q") == "Error: the request failed; the error was logged"


def test_an_unavailable_store_is_reported(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(*_: object, **__: object) -> None:
        raise StoreUnavailableError("no route to host")

    monkeypatch.setattr(services.part(Researchers), "of", unavailable)
    tool = tool_of(research_topic, services)
    assert tool(topic="disks") == "Error: the knowledge base is unavailable for now"
