"""The learning tools in the runtimes of agents: who has them, who may query patterns, and replies as their schemas say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from lambdas.learn_from_work.handler import make_handler
from opx.domain.learning import EntryType
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.edges.calling import plain
from opx.edges.tools import call_tool
from opx.errors import InvalidInputError, NotOrchestratorError
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.learning import ProcessCheckpoint, process_checkpoint
from opx.operations.registry import LEARNING
from opx.operations.system import System
from opx.settings import Settings
from opx_serve.mcp import tools_for
from tests.support.agent_calls import a_function_event, an_api_event, body_of, reply_schema, text_of
from tests.support.cli_support import word_services
from tests.support.fakes import FakeContext, function_logs

SHOP = Identity("acme", "shop", "deployer")
PLANNER = Identity("acme", "search", "orchestrator")
RUNBOOK = "# Disk full\n\n1. Delete old logs.\n2. Restart the broker.\n"
FAILURE = "The nightly export of invoices stops with a lock timeout"
STEPS = ["Run the export on the read replica", "Start it again"]
NAMES = frozenset(load().tools(LEARNING))


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A document, and a pattern that project `shop` learned."""
    with word_services(Settings(home=str(tmp_path_factory.mktemp("home")))) as found:
        found.store.put("documents/runbooks/disk.md", RUNBOOK.encode())
        list(found.manager.work())
        given = {"failure_description": FAILURE, "solution_steps": STEPS, "success_verified": True}
        found.learning.capture(SHOP).capture(EntryType.FAILURE_SOLUTION, given)
        process_checkpoint(Context(found, Caller(SHOP)), ProcessCheckpoint())
        yield found


def called(services: System, name: str, identity: Identity = SHOP, /, **arguments: object) -> Any:
    context = Context(services, Caller(identity, agent=identity.principal))
    return call_tool(load().tools()[name], context, arguments.items())


def receipt_of(services: System) -> dict[str, str]:
    answer = services.questions.for_reader(SHOP).search("disk full", QueryConfig(min_confidence=0))
    document = next(one.document_id for one in answer.results if one.title == "Disk full")
    return {"receipt_id": answer.receipt_id, "document_id": document}


def test_replies_match_their_schemas(services: System) -> None:
    entry = called(services, "capture_failure_solution", failure_description="It hangs", solution_steps="Restart it")
    replies = {
        "capture_failure_solution": entry,
        "verify_solution": called(services, "verify_solution", entry_id=entry.record().entry_id, result="worked"),
        "capture_gate_rejection": called(services, "capture_gate_rejection", gate_type="g", human_feedback="no"),
        "capture_gate_approval": called(services, "capture_gate_approval", gate_type="g", approved_approach="a"),
        "capture_warning": called(services, "capture_warning", tried="Restart the broker", effect="made_worse"),
        "report_outcome": called(services, "report_outcome", **receipt_of(services), result="resolved"),
        "report_gap": called(services, "report_gap", question="How do we rotate keys?", missing="Who holds them."),
        "query_for_task": called(services, "query_for_task", PLANNER, task_description=FAILURE),
        "query_for_failure": called(services, "query_for_failure", PLANNER, failure_description=FAILURE),
        "query_for_gate": called(services, "query_for_gate", PLANNER, gate_type="g"),
        "build_context_for_task": called(services, "build_context_for_task", PLANNER, task=FAILURE),
    }
    assert replies.keys() == NAMES
    for name, reply in replies.items():
        jsonschema.validate(plain(reply), reply_schema(load().tools()[name]))
        assert reply.text()


@pytest.mark.parametrize("name", ["project_id", "client_id", "agent_type", "scope", "success_verified"])
def test_no_argument_sets_the_owner_or_verification(services: System, name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"unknown field {name}; there are: failure_description, "):
        called(services, "capture_failure_solution", failure_description="x", solution_steps="y", **{name: "other"})


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("query_for_task", {"task_description": "t"}),
        ("query_for_failure", {"failure_description": "f"}),
        ("build_context_for_task", {"task": "t"}),
    ],
)
def test_other_agents_are_refused(services: System, name: str, arguments: dict[str, str]) -> None:
    for identity in (SHOP, Identity("acme", "search")):
        with pytest.raises(NotOrchestratorError):
            called(services, name, identity, **arguments)


class TestRuntimes:
    @pytest.fixture(autouse=True)
    def _granted(self, services: System) -> Iterator[None]:
        services.installation.declare(read_grants, ToolGrants(agents={"operations": NAMES, "orchestrator": NAMES}))
        with function_logs():
            yield
        services.installation.declare(read_grants, ToolGrants())

    def answer_of(self, services: System, agent: str) -> dict[str, Any]:
        event = an_api_event("/query_for_task", {"opxClientId": "acme"}, task_description=FAILURE)
        called = {**event, "actionGroup": LEARNING.name, "agent": {"name": agent}, "sessionId": "session-7"}
        return make_handler(lambda: services)(called, FakeContext())

    def test_an_action_group_without_access_is_refused(self, services: System) -> None:
        answer = self.answer_of(services, "operations")
        assert answer["response"]["httpStatusCode"] == 403
        assert body_of(answer)["error"]["code"] == "forbidden"

    def test_orchestrator_is_answered_whatever_its_session_is(self, services: System) -> None:
        answer = self.answer_of(services, "orchestrator")
        assert answer["response"]["httpStatusCode"] == 200
        (pattern,) = body_of(answer)["patterns"]
        assert (pattern["successCount"], "read replica" in pattern["solution"]) == (1, True)

    def test_an_agent_that_is_not_granted_the_tools_has_none(self, services: System) -> None:
        handler = make_handler(lambda: services)
        event = a_function_event("capture_gate_approval", {}, gate_type="g", approved_approach="a")
        stranger = {**event, "actionGroup": LEARNING.name, "agent": {"name": "other"}}
        assert "unknown tool" in text_of(handler(stranger, FakeContext()))

    def test_over_mcp_they_are_there_for_whom_they_are_granted(self, services: System) -> None:
        assert tools_for(Context(services, Caller(SHOP, agent="operations"))).keys() == NAMES
        assert tools_for(Context(services, Caller(SHOP, agent="other"))).keys().isdisjoint(NAMES)
