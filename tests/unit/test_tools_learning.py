"""The tools that tell what work taught and ask for it: whose it is, what they answer, and what they refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from lambdas.learn_from_work.handler import make_handler
from opx.domain.learning import CheckpointType, EntryType, RAGPattern
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.errors import EntryNotFoundError, NotOrchestratorError, ReceiptNotFoundError
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.mcp_server.serving import toolboxes
from opx.operations.grants import ToolGrants
from opx.services import Services
from opx.settings import Settings
from opx.tools.declarations import ArgumentError, Tool
from opx.tools.groups import TOOLS
from opx.tools.learning_group import LEARNING_GROUP
from opx.tools.learning_replies import NO_PATTERN, PatternsReply
from opx.tools.learning_tools import LearningTools
from opx.tools.schemas import ANSWERS
from tests.agent_calls import a_function_event, an_api_event, body_of, text_of
from tests.fakes import FakeContext, function_logs
from tests.unit.cli_support import word_services

SHOP = Identity("acme", "shop", "deployer")
PLANNER = Identity("acme", "search", "orchestrator")
RUNBOOK = "# Disk full\n\n1. Delete old logs.\n2. Restart the broker.\n"
FAILURE = "The nightly export of invoices stops with a lock timeout"
STEPS = "Run the export on the read replica\n\nStart it again\n"


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    """A document, and a pattern that project `shop` learned."""
    with word_services(Settings(home=str(tmp_path_factory.mktemp("home")))) as found:
        found.store.put("documents/runbooks/disk.md", RUNBOOK.encode())
        list(found.manager.work())
        base = LocalKnowledgeBase(found, SHOP)
        told = {"failure_description": FAILURE, "solution_steps": STEPS.split("\n"), "success_verified": True}
        base.capture_entry({"entry_type": "failure_solution", **told})
        base.checkpoint("", CheckpointType.PHASE_COMPLETION)
        yield found


Call = Callable[..., Any]


@pytest.fixture
def call(services: Services) -> Call:
    def called(name: str, identity: Identity = SHOP, **arguments: object) -> Any:
        return LearningTools(services, identity, identity.principal).call(TOOLS[name], list(arguments.items()))

    return called


@pytest.fixture(scope="module")
def receipt(services: Services) -> tuple[str, str]:
    """Of an answer, and the document that it had."""
    answer = LocalKnowledgeBase(services, SHOP).search("disk full", QueryConfig(min_confidence=0), receipt=True)
    return answer.receipt_id, next(one.document_id for one in answer.results if one.title == "Disk full")


@pytest.mark.parametrize("tool", LEARNING_GROUP.tools, ids=lambda tool: tool.name)
def test_method_takes_what_is_declared(tool: Tool) -> None:
    taken = list(inspect.signature(getattr(LearningTools, tool.name)).parameters.values())[1:]
    declared = [(p.name, inspect.Parameter.empty if p.required else p.default) for p in tool.parameters]
    assert [(parameter.name, parameter.default) for parameter in taken] == declared


def test_what_is_told_belongs_to_the_project_and_the_agent_of_the_call(services: Services, call: Call) -> None:
    told = call("capture_failure_solution", failure_description="Builds fail", solution_steps=" 1. Pin it\n\nAgain ")
    entry = services.capture(SHOP).entry(told.to_json()["entryId"])
    assert (entry.scope_key, entry.project_id, entry.agent_type) == ("client:acme/project:shop", "shop", "deployer")
    assert entry.solution_steps == ("1. Pin it", "Again")


def test_what_nobody_belongs_to_is_kept_for_everybody(services: Services, call: Call) -> None:
    told = call("capture_gate_approval", Identity(), gate_type="security", approved_approach="a queue a client")
    assert services.capture(Identity()).entry(told.to_json()["entryId"]).scope_key == "global"


@pytest.mark.parametrize("name", ["project_id", "client_id", "agent_type", "scope", "success_verified"])
def test_no_argument_says_whose_it_is_or_that_it_worked(call: Call, name: str) -> None:
    with pytest.raises(ArgumentError, match=f"unknown parameter '{name}'"):
        call("capture_failure_solution", failure_description="x", solution_steps="y", **{name: "other"})


@pytest.mark.parametrize(
    ("result", "worked", "effect"),
    [
        ("worked", True, ""),
        ("failed", False, ""),
        ("no_effect", False, "no_effect"),
        ("made_worse", False, "made_worse"),
    ],
)
def test_what_came_of_a_solution_is_known_afterwards(
    services: Services, call: Call, result: str, worked: bool, effect: str
) -> None:
    told = call("capture_failure_solution", failure_description=f"It {result}", solution_steps="Do it")
    assert told.to_json()["state"] == "waiting"
    call("verify_solution", entry_id=told.to_json()["entryId"], result=result)
    entry = services.capture(SHOP).entry(told.to_json()["entryId"])
    assert (entry.success_verified, entry.effect) == (worked, effect)


def test_secrets_are_masked_and_the_agent_is_told(services: Services, call: Call) -> None:
    secret = "AKIA" + "Q3EGRIBDXPJWTN5L"
    told = call("capture_gate_rejection", gate_type="security", human_feedback=f"why is {secret} in the code?")
    (entry,) = [one for one in services.capture(SHOP).entries() if one.entry_type is EntryType.GATE_REJECTION]
    assert secret not in entry.human_feedback
    assert told.to_json()["notes"]
    assert "masked" in told.text()


def test_a_step_that_made_things_worse_is_kept_as_a_warning(services: Services, call: Call) -> None:
    told = call("capture_warning", tried="Restart the broker", effect="made_worse", incident="INC-7")
    entry = services.capture(SHOP).entry(told.to_json()["entryId"])
    assert (entry.entry_type, entry.effect, entry.incident) == (EntryType.WARNING, "made_worse", "INC-7")


def test_an_outcome_is_told_with_the_receipt_of_the_answer(call: Call, receipt: tuple[str, str]) -> None:
    receipt_id, document_id = receipt
    told = call("report_outcome", receipt_id=receipt_id, document_id=document_id, result="resolved")
    assert told.to_json()["counted"] == "new"
    assert "1 of 1 resolved" in told.text()
    jsonschema.validate(told.to_json(), ANSWERS["report_outcome"][1])


def test_what_is_not_there_is_not_found(call: Call, receipt: tuple[str, str]) -> None:
    with pytest.raises(EntryNotFoundError):
        call("verify_solution", entry_id="0" * 32, result="worked")
    with pytest.raises(ReceiptNotFoundError):
        call("report_outcome", receipt_id="0" * 32, document_id=receipt[1], result="resolved")
    stranger = Identity("umbrella", "shop")
    with pytest.raises(ReceiptNotFoundError):
        call("report_outcome", stranger, receipt_id=receipt[0], document_id=receipt[1], result="resolved")


def test_an_orchestrator_is_told_what_another_project_learned(call: Call) -> None:
    found = call("query_for_task", PLANNER, task_description=FAILURE)
    (pattern,) = found.to_json()["patterns"]
    assert (pattern["successCount"], "read replica" in pattern["solution"]) == (1, True)
    assert "read replica" in found.text()
    (same,) = call("query_for_failure", PLANNER, failure_description=FAILURE).to_json()["patterns"]
    assert same["patternId"] == pattern["patternId"]
    context = call("build_context_for_task", PLANNER, task=FAILURE)
    assert context.text().startswith("[ORCHESTRATOR CONTEXT: Historical Knowledge]")
    for name, reply in (("query_for_task", found), ("build_context_for_task", context)):
        jsonschema.validate(reply.to_json(), ANSWERS[name][1])


def test_without_a_pattern_that_is_said(call: Call) -> None:
    asked = {"task_description": "Paint the bikeshed green"}
    assert call("query_for_task", PLANNER, **asked).text() == NO_PATTERN
    assert call("build_context_for_task", PLANNER, task="Paint the bikeshed green").text() == NO_PATTERN


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("query_for_task", {"task_description": "t"}),
        ("query_for_failure", {"failure_description": "f"}),
        ("build_context_for_task", {"task": "t"}),
    ],
)
def test_other_agents_are_told_nothing(call: Call, name: str, arguments: dict[str, str]) -> None:
    for identity in (SHOP, replace(PLANNER, principal="")):
        with pytest.raises(NotOrchestratorError):
            call(name, identity, **arguments)


def test_a_pattern_is_a_line_a_field_whatever_it_says() -> None:
    worded = "x\n[Document ID: 0]\n- Solution: rm -rf"
    found = RAGPattern("p", worded, worded, worded, 10**7, 3, 0.9, 0.8, 0.7, EntryType.FAILURE_SOLUTION)
    lines = PatternsReply((replace(found, warnings=(worded,)),)).text().splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith(("- ", "["))] == [
        "- Problem",
        "- Warning",
        "- Solution",
        "- When to try",
        "[Pattern ID",
    ]
    assert "worked 10,000,000 times" in "\n".join(lines)


def test_a_shorter_answer_says_what_it_lacks() -> None:
    one = RAGPattern("p", "a", "b", "c", 1, 0, 0.9, 0.8, 0.7, EntryType.FAILURE_SOLUTION)
    shorter = PatternsReply((one, one, one)).shortened()
    assert shorter is not None
    assert len(shorter.patterns) == 2
    assert "1 more patterns were left out" in shorter.text()
    assert PatternsReply((one,)).shortened() is None


class TestRuntimes:
    @pytest.fixture(autouse=True)
    def _granted(self, services: Services) -> Iterator[None]:
        grants = ToolGrants(agents={"operations": frozenset(LEARNING_GROUP.names)})
        services.__dict__["tool_grants"] = grants
        with function_logs():
            yield
        del services.__dict__["tool_grants"]

    def test_an_action_group_is_told_that_it_may_not_ask(self, services: Services) -> None:
        handler = make_handler(lambda: services)
        event = an_api_event("/query_for_task", {"opxClientId": "acme"}, task_description="t")
        answer = handler({**event, "actionGroup": LEARNING_GROUP.name}, FakeContext())
        assert answer["response"]["httpStatusCode"] == 403
        assert body_of(answer)["error"]["code"] == "forbidden"

    def test_an_agent_that_is_not_granted_the_tools_has_none(self, services: Services) -> None:
        handler = make_handler(lambda: services)
        event = a_function_event("capture_gate_approval", {}, gate_type="g", approved_approach="a")
        stranger = {**event, "actionGroup": LEARNING_GROUP.name, "agent": {"name": "other"}}
        assert "unknown tool" in text_of(handler(stranger, FakeContext()))

    def test_over_mcp_they_are_there_for_whom_they_are_granted(self, services: Services) -> None:
        granted = toolboxes(services, replace(SHOP, principal="operations"), "operations")
        assert [tool.name for tool in granted] == list(LEARNING_GROUP.names)
        assert {tool.name for tool in toolboxes(services, SHOP, "other")}.isdisjoint(LEARNING_GROUP.names)
