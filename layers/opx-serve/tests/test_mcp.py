"""The tools over the Model Context Protocol, called by the official client."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server import Server

from opx.domain.scopes import Identity, Scope
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve.listening import HttpServer, listening_socket
from opx_serve.mcp import http_app, make_server, tools_for
from tests.support.cli_support import environment
from tests.support.fakes import WordsEmbedder
from tests.support.serving_support import LocalServer, over_mcp

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

KNOWLEDGE_FILE = Path(__file__).parents[3] / "corpus" / "knowledge.yaml"
RUNBOOK = "# Disk full\n\nA disk is full when writes fail with ENOSPC. Remove old archives, then extend the volume.\n"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    settings = Settings(home=str(tmp_path), knowledge_file=str(KNOWLEDGE_FILE))
    with bootstrap(settings, embedder=WordsEmbedder()) as services:
        services.manager.put_document("runbooks/procedures", RUNBOOK, {"title": "Disk full", "source": "disk.md"})
        secret = services.ingestion.manager_of(Scope("acme"))
        secret.put_document(
            "runbooks/procedures", RUNBOOK + "Call Ada.", {"title": "Disk full at Acme", "source": "a.md"}
        )
        assert services.ingestion.drain is not None
        list(services.ingestion.drain.run())
        yield services


def a_server(services: System, identity: Identity | None = None, agent: str = "") -> Server[Any]:
    context = Context(services, Caller(identity or Identity(), agent=agent))
    return make_server(tools_for(context), context)


async def called(server: Any, name: str, **arguments: Any) -> Any:
    async with Client(server) as client:
        return await client.call_tool(name, arguments)


def ask(server: Any, name: str, **arguments: Any) -> Any:
    async def run() -> Any:
        return await called(server, name, **arguments)

    return anyio.run(run)


def listed(server: Any) -> dict[str, Any]:
    async def run() -> Any:
        async with Client(server) as client:
            return (await client.list_tools()).tools

    return {tool.name: tool for tool in anyio.run(run)}


def resources(server: Any) -> list[Any]:
    async def run() -> Any:
        async with Client(server) as client:
            return (await client.list_resources()).resources

    return list(anyio.run(run))


class TestTools:
    def test_tools_are_those_of_the_other_runtimes(self, services: System) -> None:
        assert set(listed(a_server(services))) == {
            "search_runbooks",
            "search_postmortems",
            "get_document_details",
            "search_docs",
            "find_related",
            "explain_relation",
            "get_resource",
            "read_document",
            "find_procedure",
        }

    def test_tools_are_read_only_and_declare_their_arguments(self, services: System) -> None:
        tool = listed(a_server(services))["search_docs"]
        assert tool.annotations.read_only_hint
        assert set(tool.input_schema["properties"]) == {"query", "thoroughness", "limit", "max_tokens", "at_least"}

    def test_the_list_of_the_default_tools_takes_at_most_12_kb(self, services: System) -> None:
        tools = [
            one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed(a_server(services)).values()
        ]
        assert len(tools) == 9
        assert len(json.dumps(tools)) <= 12_000

    def test_an_answer_is_text_and_beside_it_the_ids_and_bands_of_what_it_names(self, services: System) -> None:
        result = ask(a_server(services), "search_docs", query="disk full ENOSPC", thoroughness="fast")
        assert not result.is_error
        (document,) = [d for d in services.corpus.catalog.in_category("runbooks/procedures") if d.title == "Disk full"]
        found = result.structured_content
        assert list(found) == ["answer", "results", "receiptId"]
        assert found["answer"] == result.content[0].text
        assert [one["documentId"] for one in found["results"]] == [document.document_id]
        assert f"Confidence: {found['results'][0]['band']}" in found["answer"]
        assert f"[Receipt ID: {found['receiptId']}]" in found["answer"]

    def test_a_document_can_be_looked_up(self, services: System) -> None:
        (document,) = [d for d in services.corpus.catalog.in_category("runbooks/procedures") if d.title == "Disk full"]
        result = ask(a_server(services), "get_document_details", document_id=document.document_id)
        assert result.structured_content["title"] == "Disk full"

    @pytest.mark.parametrize(
        ("name", "arguments", "message"),
        [
            ("search_docs", {}, "query is missing"),
            ("search_docs", {"query": "disk", "limit": 21}, "limit must be a whole number from 1 to 20"),
            ("search_docs", {"query": "disk", "scope": "acme"}, "unknown field scope"),
            ("get_document_details", {"document_id": "0" * 32}, "no document with this id"),
            ("drop_tables", {}, "unknown tool 'drop_tables'"),
        ],
    )
    def test_an_invalid_call_is_reported(
        self, services: System, name: str, arguments: dict[str, Any], message: str
    ) -> None:
        result = ask(a_server(services), name, **arguments)
        assert result.is_error
        assert message in result.content[0].text

    def test_a_failing_tool_discloses_no_details(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("secret detail")

        monkeypatch.setattr(services.questions, "for_reader", broken)
        result = ask(a_server(services), "search_docs", query="disk")
        assert result.is_error
        assert result.content[0].text == "the request failed; the error was logged"


class TestResources:
    def test_documents_are_resources_and_rules_of_alerts_are_none(self, services: System) -> None:
        rules = "groups:\n- name: x\n  rules:\n  - {alert: DiskFull, expr: up}\n"
        services.manager.put_document("operations/alert_rules", rules, {"title": "Rules", "source": "rules.yaml"})
        assert services.ingestion.drain is not None
        list(services.ingestion.drain.run())
        assert [one.title for one in resources(a_server(services))] == ["Disk full"]


class TestScope:
    def test_another_clients_document_is_not_found(self, services: System) -> None:
        (theirs,) = [
            d for d in services.corpus.catalog.in_category("runbooks/procedures") if d.title == "Disk full at Acme"
        ]
        assert ask(a_server(services), "get_document_details", document_id=theirs.document_id).is_error
        ours = a_server(services, Identity("acme"))
        assert not ask(ours, "get_document_details", document_id=theirs.document_id).is_error

    def test_an_agent_has_the_tools_that_it_is_granted(self, tmp_path: Path) -> None:
        text = KNOWLEDGE_FILE.read_text(encoding="utf-8").split("\nagents:")[0]
        file = tmp_path / "knowledge.yaml"
        file.write_text(text + "\nagents:\n  researcher: [research_topic]\n", encoding="utf-8")
        settings = Settings(home=str(tmp_path / "home"), knowledge_file=str(file))
        with bootstrap(settings, embedder=WordsEmbedder()) as services:
            assert set(listed(a_server(services, agent="researcher"))) == {"research_topic"}
            assert "research_topic" not in listed(a_server(services, agent="somebody else"))

    @pytest.mark.parametrize(
        ("telemetry", "tools"),
        [("{}", {"get_baseline"}), ("{prometheus: {url: 'https://p'}}", {"get_baseline", "correlate_metrics"})],
    )
    def test_tools_on_telemetry_need_a_source(self, tmp_path: Path, telemetry: str, tools: set[str]) -> None:
        text = KNOWLEDGE_FILE.read_text(encoding="utf-8").split("\nagents:")[0]
        file = tmp_path / "knowledge.yaml"
        granted = "agents: {responder: [get_baseline, correlate_metrics]}"
        file.write_text(f"{text}\n{granted}\ntelemetry: {telemetry}\n", encoding="utf-8")
        settings = Settings(home=str(tmp_path / "home"), knowledge_file=str(file))
        with bootstrap(settings, embedder=WordsEmbedder()) as services:
            assert set(listed(a_server(services, agent="responder"))) == tools


class TestTransports:
    def test_on_standard_input_and_output(self, tmp_path: Path) -> None:
        home = str(tmp_path / "home")
        with bootstrap(Settings(home=home)):
            pass
        (tmp_path / "home").mkdir(exist_ok=True)
        server = StdioServerParameters(
            command=sys.executable,
            args=["-c", "from opx.system import command; command()", "--home", home, "mcp"],
            env=environment(),
        )
        assert "search_docs" in listed(server)

    def test_over_http_on_this_machine(self, services: System) -> None:
        with HttpServer(http_app(a_server(services), "secret"), listening_socket("127.0.0.1:0")) as server:
            found = over_mcp(LocalServer(server.address, []), "secret", "search_docs", query="disk full")
        assert not found.is_error

    @pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}])
    def test_a_request_without_the_token_is_refused(self, services: System, header: dict[str, str]) -> None:
        from starlette.testclient import TestClient

        client = TestClient(http_app(a_server(services), "secret"))
        reply = client.post("/mcp", content=json.dumps({}), headers=header)
        assert (reply.status_code, reply.text) == (401, "missing or wrong token")
