"""Five incidents over the Model Context Protocol, played by an agent that sees structured results alone, and does nothing but
follow `Next:`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client

from opx.domain.scopes import Identity
from opx.ingestion.events import EventOutcome
from opx.ingestion.files import plan_files
from opx.operations.context import Caller, Context
from opx.operations.search_tools import SearchRunbooks, search_runbooks
from opx.operations.system import System
from opx_serve.mcp import make_server, tools_for
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
        for file in plan_files([documents], documents):
            assert not isinstance(file, EventOutcome), file
            system.manager.put_file(file, {})
        list(system.manager.work())
        yield system


NEXT = re.compile(r"^Next: (?P<tool>\w+)\((?P<arguments>.*?)\)(?: of this Document ID)?:", re.MULTILINE)
ARGUMENT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\d+)')


async def played(server: Any, incident: str, wanted: str) -> tuple[str, str]:
    """The first and the last answer of at most `MOST_CALLS`. The agent begins with a search, stops as soon as it reads the
    wanted command, and follows the first `Next:` otherwise."""
    answers: list[str] = []
    tool, arguments = "search_runbooks", {"query": incident}
    async with Client(server) as client:
        while len(answers) < MOST_CALLS:
            found = await client.call_tool(tool, arguments)
            assert not found.is_error, found.content
            reply = found.structured_content
            answers.append(reply["answer"])
            following = NEXT.search(answers[-1])
            if wanted in answers[-1] or following is None:
                break
            first = reply["documents"][0] if "documents" in reply else reply
            given = {name: json.loads(value) for name, value in ARGUMENT.findall(following["arguments"])}
            tool, arguments = following["tool"], {"document": first["documentId"], **given}
    return answers[0], answers[-1]


@pytest.mark.parametrize("incident", INCIDENTS)
def test_agent_gets_runnable_commands_of_the_right_runbook(system: System, incident: str) -> None:
    context = Context(system, Caller(Identity()))
    title, wanted = INCIDENTS[incident]
    first, last = anyio.run(played, make_server(tools_for(context), context), incident, wanted)
    assert first.startswith(f"Source: {title}\n")
    assert wanted in last


def test_procedure_for_an_alert_takes_one_call(system: System) -> None:
    context = Context(system, Caller(Identity()))

    async def call() -> Any:
        async with Client(make_server(tools_for(context), context)) as client:
            alert = '[FIRING:1] KubePodCrashLooping (namespace="payments" pod="payments-gateway-7d9c")'
            return await client.call_tool("find_procedure", {"alert": alert})

    answer = anyio.run(call).structured_content["answer"]
    assert "\nSource: Pod in CrashLoopBackOff\n" in answer
    assert "[Command 1: read; note: the example has NS=catalog; the alert says namespace=payments]" in answer
    assert "the alert says pod=payments-gateway-7d9c]" in answer


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
