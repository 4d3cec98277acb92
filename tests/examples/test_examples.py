"""Each example against the real library, with a scripted model behind its real interface."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from opx.operations.system import System
from tests.doubles.agentcore_gateway import AgentCoreGateway
from tests.doubles.http_double import HttpDouble, Request, Response
from tests.doubles.scripted_models import KEY, ScriptedModels
from tests.examples.running import PAGES, PYTHON, QUESTION, ROOT, TITLE, missing_library, ran, serving
from tests.unit.edges.test_gateway_callers import VAULT, a_gateway, a_token, corpus  # noqa: F401 - the last is a fixture

pytestmark = [pytest.mark.examples, pytest.mark.timeout(600)]  # libraries are compiled by their first import

OPX = ("-c", "from opx.system import command; command()")


def require(*modules: str) -> None:
    if reason := missing_library(*modules):
        pytest.skip(reason)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a home with two runbooks."""
    require("opx")
    folder = tmp_path_factory.mktemp("examples")
    pages = folder / "runbooks"
    pages.mkdir()
    for name, text in PAGES.items():
        (pages / name).write_text(text, encoding="utf-8")
    env = {"OPX_HOME": str(folder / "home")}
    ran(*OPX, "ingest", str(pages), env=env)
    return env


@pytest.fixture
def models() -> Iterator[ScriptedModels]:
    with ScriptedModels() as server:
        yield server


@pytest.fixture
def env(home: dict[str, str], models: ScriptedModels) -> dict[str, str]:
    return {
        **home,
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{models.endpoint}/v1",
        "OPENAI_API_BASE": f"{models.endpoint}/v1",
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": models.endpoint,
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
    }


AGENTS = {
    "strands_agent": ("strands",),
    "langchain_agent": ("langchain", "langchain_openai"),
    "bedrock_converse": ("boto3",),
    "openai_functions": ("openai",),
}


@pytest.mark.parametrize("example", AGENTS)
def test_an_agent_searches_and_answers_from_the_page(example: str, env: dict[str, str], models: ScriptedModels) -> None:
    require(*AGENTS[example])
    assert f"Read {TITLE}." in ran("-m", f"examples.{example}", QUESTION, env=env)
    assert models.searches == [QUESTION]


RETRIEVERS = {
    "langchain_retriever": ("langchain_openai",),
    "llamaindex_retriever": ("llama_index.core", "llama_index.llms.openai"),
}


@pytest.mark.parametrize("example", RETRIEVERS)
def test_a_retriever_gives_the_page_to_the_model(example: str, env: dict[str, str]) -> None:
    require(*RETRIEVERS[example])
    written = ran("-m", f"examples.{example}", QUESTION, env=env)
    assert f"Read {TITLE}." in written
    assert f"sure {TITLE}" in written


def test_the_mcp_client_lists_and_calls_tools(home: dict[str, str]) -> None:
    require("mcp")
    written = ran("-m", "examples.mcp_client", QUESTION, env=home)
    assert written.startswith("tools: search_runbooks, ")
    assert f"Source: {TITLE}" in written


def test_the_mcp_inspector_lists_and_calls_tools(home: dict[str, str], tmp_path: Path) -> None:
    """npx fetches the inspector, so this one program may use the network."""
    if not shutil.which("npx"):
        pytest.skip("npx is not installed")
    inspector = "@modelcontextprotocol/inspector@2.12.0"
    fetched = subprocess.run(["npx", "--yes", inspector, "--help"], capture_output=True, text=True, check=False)
    if "npm error" in fetched.stderr:
        pytest.skip(f"the inspector can't be had: {fetched.stderr.splitlines()[0]}")
    command = tmp_path / "opx"
    command.write_text(f"#!/bin/sh\nexec {PYTHON} {OPX[0]} '{OPX[1]}' \"$@\"\n", encoding="utf-8")
    command.chmod(0o755)
    written = subprocess.run(
        [ROOT / "examples" / "mcp_inspector.sh", QUESTION],
        env={**os.environ, **home, "OPX": str(command)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert '"search_postmortems"' in written
    assert f"Source: {TITLE}" in written


def test_the_action_group_gets_the_answer_in_its_envelope(home: dict[str, str]) -> None:
    require("boto3", "aws_lambda_powertools")
    written = ran("-m", "examples.bedrock_action_group", QUESTION, env=home)
    response = json.loads(written[written.index("{\n") :])["response"]
    assert (response["actionGroup"], response["function"]) == ("retrieve-knowledge", "search_runbooks")
    assert response["functionResponse"]["responseBody"]["TEXT"]["body"].startswith(f"Source: {TITLE}\n")


# -- AgentCore Gateway


class GatewayServer(HttpDouble):
    """A gateway over HTTP."""

    def __init__(self, gateway: AgentCoreGateway) -> None:
        super().__init__("gateway")
        self._gateway = gateway

    def _answer(self, request: Request) -> Response:
        if request.method != "POST":
            return Response(405, {"message": "Method Not Allowed"})
        status, body = self._gateway.post(request.headers, request.json())
        return Response(status, body)


@pytest.mark.parametrize(("claims", "found"), [({"opx_client_id": "acme"}, True), ({"opx_client_id": "globex"}, False)])
def test_the_gateway_client_finds_what_its_token_may_see(
    corpus: System,  # noqa: F811
    claims: dict[str, str],
    found: bool,
) -> None:
    require("mcp", "httpx2")
    with GatewayServer(a_gateway(corpus)) as server:
        token = a_token(**claims)["authorization"].removeprefix("Bearer ")
        env = {"GATEWAY_URL": f"{server.endpoint}/mcp", "GATEWAY_TOKEN": token}
        written = ran("-m", "examples.agentcore_gateway", VAULT, env=env)
    assert "retrieve-knowledge___search_runbooks" in written
    assert (f"Source: {VAULT}" in written) == found


# -- programs that listen


class Channel(HttpDouble):
    """A chat that takes posts of a webhook."""

    def __init__(self) -> None:
        super().__init__("chat")

    def _answer(self, request: Request) -> Response:
        return Response(200, "ok")

    @property
    def messages(self) -> list[str]:
        return [request.json()["text"] for request in self.requests]


def an_alert(name: str, summary: str, status: str = "firing") -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": name, "severity": "critical"},
        "annotations": {"summary": summary},
        "startsAt": "2026-03-01T10:00:00Z",
        "fingerprint": "1f2e3d",
    }


def a_group(*alerts: dict[str, Any]) -> dict[str, Any]:
    return {"version": "4", "receiver": "opx", "status": "firing", "groupLabels": {}, "alerts": list(alerts)}


def sent(address: str, body: Any) -> urllib3.BaseHTTPResponse:
    return urllib3.request("POST", address, json=body, timeout=30)


def test_an_alert_is_answered_in_the_channel(home: dict[str, str]) -> None:
    require("opx")
    group = a_group(
        an_alert("NodeDiskFull", "No space left on device"),
        an_alert("LunarEclipse", "The moon is gone"),
        an_alert("KafkaLag", "Consumers fall behind", "resolved"),
    )
    with Channel() as channel, serving("alertmanager_to_chat", {**home, "CHAT_WEBHOOK": channel.endpoint}) as address:
        assert sent(address, group).status == 204
        first, second = channel.messages
        assert first.startswith("*NodeDiskFull* fires.")
        assert TITLE in first
        assert second == "*LunarEclipse* fires, and no runbook is about it."
        assert sent(address, {"alerts": "none"}).status == 400
        channel.inject(Response(500))
        assert sent(address, a_group(an_alert("NodeDiskFull", "No space left"))).status == 502


def test_grafana_gets_runbooks_and_gaps_as_tables(home: dict[str, str]) -> None:
    require("opx")
    with serving("grafana_datasource", home) as address:
        assert urllib3.request("GET", f"{address}/").json() == {"status": "ok"}
        metrics = sent(f"{address}/metrics", {}).json()
        assert [metric["value"] for metric in metrics] == ["runbooks", "gaps"]
        targets = [
            {"refId": "A", "target": "runbooks", "payload": {"query": QUESTION}},
            {"refId": "B", "target": "gaps"},
        ]
        runbooks, gaps = sent(f"{address}/query", {"targets": targets}).json()
        assert sent(f"{address}/query", {}).status == 400
        assert sent(f"{address}/variable", {}).status == 404
    assert [column["text"] for column in runbooks["columns"]] == ["page", "section", "band", "score", "source"]
    assert runbooks["rows"][0][0] == TITLE
    assert all(len(row) == len(gaps["columns"]) for row in gaps["rows"])


# -- all of them


def test_every_example_is_documented_with_the_line_that_runs_it() -> None:
    listed = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    for file in sorted((ROOT / "examples").iterdir()):
        if file.name in ("__init__.py", "__pycache__", "knowledge.py"):
            continue
        assert f"examples/{file.name}" in listed, file.name
        if file.is_dir():
            continue
        text = file.read_text(encoding="utf-8")
        about = ast.get_docstring(ast.parse(text)) if file.suffix == ".py" else text
        assert about is not None
        assert f"examples.{file.stem} " in about or f"examples/{file.name} " in about, file.name
        assert len(text.splitlines()) < 120, file.name
