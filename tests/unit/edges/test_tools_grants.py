"""Grants of tools to agents, as declared in the file and as enforced for calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from opx.edges.tools import respond
from opx.errors import KnowledgeConfigError
from opx.operations import load
from opx.operations.context import Context
from opx.operations.grants import ForAll, ToolGrants, read_grants
from opx.operations.registry import KNOWLEDGE, MAX_TOOLS, OPERATIONS, Operation
from opx.runtime.knowledge_file import Installation
from opx.settings import Settings
from tests.support.agent_calls import a_function_event, an_api_event, body_of, state_of, text_of
from tests.support.fakes import FakeContext, Measured

FILE = """\
agents:
  default: [search_docs]
  responder:
    - search_docs
    - research_topic
    - query_logs
  silent: []
"""


def read(tmp_path: Path, text: str) -> ToolGrants:
    file = tmp_path / "knowledge.yaml"
    file.write_text(text, encoding="utf-8")
    return read_grants(file)


class TestReading:
    def test_listed_agent_has_its_own_tools_and_nothing_of_the_default(self, tmp_path: Path) -> None:
        grants = read(tmp_path, FILE)
        assert grants.allowed("responder") == {"search_docs", "research_topic", "query_logs"}
        assert grants.allowed("silent") == set()

    @pytest.mark.parametrize("agent", ["", "other", "Responder", "default"])
    def test_every_other_agent_has_the_default(self, tmp_path: Path, agent: str) -> None:
        assert read(tmp_path, FILE).allowed(agent) == {"search_docs"}

    @pytest.mark.parametrize("text", ["sources: {}\n", "agents: {}\n"])
    def test_without_a_default_it_is_all_but_what_needs_opting_in(self, tmp_path: Path, text: str) -> None:
        assert read(tmp_path, text).allowed("x") == frozenset(ForAll())
        searching = {"search_runbooks", "search_postmortems", "get_document_details", "search_docs"}
        others = {"find_related", "explain_relation", "read_document", "find_procedure", "get_resource"}
        assert searching | others == frozenset(ForAll())

    def test_shipped_file_gives_nobody_what_needs_opting_in(self) -> None:
        assert read_grants() == ToolGrants()

    def test_unknown_tool_is_refused_with_its_line(self, tmp_path: Path) -> None:
        with pytest.raises(
            KnowledgeConfigError,
            match=r"knowledge.yaml:5: unknown tool 'query_log'; there are: search_runbooks, search_postmortems, ",
        ):
            read(tmp_path, "agents:\n  default: [search_docs]\n  a:\n    - search_docs\n    - query_log\n")

    def test_more_tools_than_an_agent_can_have_are_refused(self, tmp_path: Path) -> None:
        names = list(load().tools())
        assert read(tmp_path, f"agents:\n  a: [{', '.join(names[:MAX_TOOLS])}]\n").allowed("a") == set(
            names[:MAX_TOOLS]
        )
        with pytest.raises(KnowledgeConfigError, match=r"knowledge.yaml:2: an agent may use at most 11 tools, not 12"):
            read(tmp_path, f"agents:\n  a: [{', '.join(names[: MAX_TOOLS + 1])}]\n")

    @pytest.mark.parametrize("tools", ["search_docs", "{search_docs: true}", "[[search_docs]]", "[1]"])
    def test_tools_that_are_no_list_of_names_are_refused(self, tmp_path: Path, tools: str) -> None:
        with pytest.raises(KnowledgeConfigError, match=r"knowledge.yaml:2: "):
            read(tmp_path, f"agents:\n  default: {tools}\n")

    def test_tool_group_is_needed_once_an_agent_may_use_one_of_its_tools(self, tmp_path: Path) -> None:
        assert read(tmp_path, FILE).anyone_may_use(OPERATIONS)
        assert not ToolGrants().anyone_may_use(OPERATIONS)


GRANTS = ToolGrants(frozenset({"search_docs"}), {"responder": frozenset({"research_topic"})})


class SystemUnderTest:
    """The parts of a system that answer a call."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.installation = Installation(self.settings, lambda: 0.0)
        self.installation.declare(read_grants, GRANTS)


class BrokenInstallation(Installation):
    def declared(self, read: object) -> Any:
        raise KnowledgeConfigError("knowledge.yaml:5: unknown tool")


class BrokenSystem(SystemUnderTest):
    def __init__(self) -> None:
        super().__init__()
        self.installation = BrokenInstallation(self.settings, lambda: 0.0)


class Echo:
    """A reply that is the name of the tool."""

    def __init__(self, name: str) -> None:
        self._name = name

    def text(self) -> str:
        return self._name

    def record(self) -> dict[str, Any]:
        return {"tool": self._name}

    def shortened(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _tools_that_answer_with_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def call_tool(operation: Operation[Any, Any], _: Context, __: object) -> Echo:
        return Echo(operation.name)

    monkeypatch.setattr("opx.edges.tools.call_tool", call_tool)


def answered(
    event: Any, context: FakeContext | None = None, system: type[SystemUnderTest] = SystemUnderTest
) -> dict[str, Any]:
    return respond(event, context or FakeContext(), KNOWLEDGE, system, Measured())  # type: ignore[arg-type]


def named(event: dict[str, Any], agent: object) -> dict[str, Any]:
    return event | {"agent": agent}


class TestActionGroups:
    def test_agent_uses_what_it_was_given(self) -> None:
        event = named(a_function_event("research_topic", topic="t"), {"name": "responder"})
        assert text_of(answered(event)) == "research_topic"

    def test_tool_that_it_was_not_given_is_unknown_to_it(self) -> None:
        response = answered(named(a_function_event("search_docs", query="q"), {"name": "responder"}))
        assert state_of(response) == "FAILURE"
        assert text_of(response) == "unknown tool 'search_docs'; there are: research_topic"

    @pytest.mark.parametrize("agent", [None, {}, "responder", {"name": None}, {"name": ""}, {"name": "other"}])
    def test_agent_that_is_not_named_has_the_default(self, agent: object) -> None:
        assert state_of(answered(named(a_function_event("research_topic", topic="t"), agent))) == "FAILURE"
        assert text_of(answered(named(a_function_event("search_docs", query="q"), agent))) == "search_docs"

    def test_operation_of_an_api_schema_is_checked_too(self) -> None:
        assert body_of(answered(an_api_event("/research_topic", topic="t")))["error"]["code"] == "unknown_tool"
        allowed = named(an_api_event("/researchTopic", topic="t"), {"name": "responder"})
        assert body_of(answered(allowed)) == {"tool": "research_topic"}

    def test_session_cannot_name_another_agent(self) -> None:
        session = {"x-opx-agent": "responder", "agent": "responder", "name": "responder"}
        assert state_of(answered(a_function_event("research_topic", session, topic="t"))) == "FAILURE"


class TestGateway:
    @staticmethod
    def calling(tool: str, headers: dict[str, Any] | None = None) -> FakeContext:
        context = FakeContext.of_gateway("", headers)
        context.client_context.custom["bedrockAgentCoreToolName"] = tool
        return context

    def test_target_is_the_agent(self) -> None:
        assert answered({}, self.calling("responder___research_topic")) == {"tool": "research_topic"}

    def test_target_that_is_not_listed_has_the_default(self) -> None:
        assert answered({}, self.calling("other___search_docs")) == {"tool": "search_docs"}
        assert answered({}, self.calling("other___research_topic"))["error"]["code"] == "unknown_tool"

    def test_header_cannot_name_the_agent(self) -> None:
        context = self.calling("other___researchTopic", {"X-Opx-Agent": "responder"})
        assert answered({}, context)["error"]["code"] == "forbidden"

    def test_arguments_cannot_name_the_agent(self) -> None:
        forged = {"agent": {"name": "responder"}, "x-opx-agent": "responder"}
        assert answered(forged, self.calling("other___research_topic"))["error"]["code"] == "unknown_tool"


def test_file_that_cannot_be_read_lets_nobody_in() -> None:
    response = answered(a_function_event("search_docs", query="q"), system=BrokenSystem)
    assert state_of(response) == "FAILURE"
    assert text_of(response) == "the request failed; the error was logged"
