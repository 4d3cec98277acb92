"""Five incidents over the Model Context Protocol, played by an agent that does nothing but follow `next`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from opx.domain.scopes import Identity
from opx.edges.mcp import make_server, tools_for
from opx.ingestion.events import EventOutcome
from opx.operations.context import Caller, Context
from opx.operations.research import SearchRunbooks, search_runbooks
from opx.operations.system import System
from tests.quality.expected import services_with

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CORPUS = Path(__file__).parents[2] / "corpus"
MOST_CALLS = 3

INCIDENTS = {
    "pods keep restarting in payments, CrashLoopBackOff": ("Pod in CrashLoopBackOff", "kubectl"),
    "DynamoDB requests are throttled for table cart-sessions": ("DynamoDB throttling", "aws dynamodb"),
    "FATAL: sorry, too many clients already": ("PostgreSQL connections exhausted", "pg_terminate_backend"),
    '[FIRING:1] KafkaConsumerLagHigh (consumergroup="notifications-order-mail" severity="critical")': (
        "Kafka consumer lag",
        "kafka-consumer-groups.sh",
    ),
    "No space left on device on a Linux host": ("Disk full on a Linux host", "df -h"),
}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with services_with(tmp_path_factory.mktemp("home")) as system:
        documents = CORPUS / "documents"
        for file in system.manager.plan([documents], documents):
            assert not isinstance(file, EventOutcome), file
            system.manager.put_file(file, {})
        list(system.manager.work())
        yield system


async def played(server: Any, incident: str, wanted: str) -> tuple[list[str], list[str]]:
    """The titles and the commands that the agent has after at most `MOST_CALLS`: it begins with a search, stops as soon as it
    has the wanted command, and follows the first `next` otherwise."""
    titles: list[str] = []
    commands: list[str] = []
    tool, arguments = "search_runbooks", {"query": incident}
    async with Client(server) as client:
        for _ in range(MOST_CALLS):
            found = await client.call_tool(tool, arguments)
            assert not found.is_error, found.content
            reply = found.structured_content
            documents = reply.get("documents") or ([reply] if "steps" in reply else [])
            titles += [one["title"] for one in documents]
            steps = [step for one in documents[:1] for step in one.get("steps", ())]
            commands += [command["text"] for step in steps for command in step.get("commands", ())]
            following = [*(call for one in documents[:1] for call in one.get("next", ())), *reply.get("next", ())]
            if any(wanted in command for command in commands) or not following:
                break
            tool, arguments = following[0]["tool"], following[0]["arguments"]
    return titles, commands


@pytest.mark.parametrize("incident", INCIDENTS)
def test_agent_gets_runnable_commands_of_the_right_runbook(system: System, incident: str) -> None:
    context = Context(system, Caller(Identity()))
    title, wanted = INCIDENTS[incident]
    titles, commands = anyio.run(played, make_server(tools_for(context), context), incident, wanted)
    assert titles[0] == title
    assert any(wanted in command for command in commands), commands


def test_procedure_for_an_alert_takes_one_call(system: System) -> None:
    context = Context(system, Caller(Identity()))

    async def call() -> Any:
        async with Client(make_server(tools_for(context), context)) as client:
            alert = '[FIRING:1] KubePodCrashLooping (namespace="payments" pod="payments-gateway-7d9c")'
            return await client.call_tool("find_procedure", {"alert": alert})

    reply = anyio.run(call).structured_content
    assert reply["document"]["title"] == "Pod in CrashLoopBackOff"
    assert reply["labels"] == {"namespace": "payments", "pod": "payments-gateway-7d9c"}
    assert any(one["effect"] == "read" for one in reply["commands"])


@pytest.mark.parametrize(
    ("question", "title"),
    [
        ("Why is web-server-01 slow?", "High CPU or load average on a Linux host"),
        ("pods keep restarting", "Pod in CrashLoopBackOff"),
    ],
)
def test_typed_question_gives_the_runbook_with_its_steps(system: System, question: str, title: str) -> None:
    context = Context(system, Caller(Identity(), owns_system=True))
    first = search_runbooks(context, SearchRunbooks(question)).answer.documents[0]
    assert first.title == title
    assert first.band != "weak"
    assert any(view.shown and view.commands for view in first.steps)
