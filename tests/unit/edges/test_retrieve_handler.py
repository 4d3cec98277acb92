"""The retrieval function: each runtime's events in, its form of answer out, and never more than the caller may see."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lambdas.retrieve_knowledge.handler import make_handler
from opx.domain.record import replace
from opx.edges.tools import MAX_RESPONSE_BYTES, respond
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.operations.registry import KNOWLEDGE
from opx.operations.system import System
from opx.retrieval.assembly import MAX_DOCUMENTS
from opx.runtime.metrics import NAMESPACE, Metric
from tests.support.agent_calls import (
    DISK,
    DISK_TITLE,
    Handler,
    a_function_event,
    a_system,
    an_api_event,
    ask,
    body_of,
    id_of,
    state_of,
    text_of,
)
from tests.support.fakes import FakeContext, Measured

VAULT = "Unseal the acme vault"
ACME = {"opxClientId": "acme"}


@pytest.fixture
def handler(services: System, json_logs: None) -> Handler:
    return make_handler(lambda: services)


def metrics_in(output: str) -> dict[str, Any]:
    """The metrics line that a call printed."""
    lines = [json.loads(line) for line in output.splitlines() if '"_aws"' in line]
    assert len(lines) == 1
    assert lines[0]["_aws"]["CloudWatchMetrics"][0]["Namespace"] == NAMESPACE
    found: dict[str, Any] = lines[0]
    return found


class TestFunctionGroup:
    def test_answer_has_bedrocks_form(self, handler: Handler) -> None:
        event = a_function_event("search_runbooks", ACME, query=DISK_TITLE, max_results="3")
        response = handler(event, FakeContext())
        text = text_of(response)
        assert text.startswith(f"Source: {DISK_TITLE}\n")
        assert response == {
            "messageVersion": "1.0",
            "response": {
                "actionGroup": "retrieve-knowledge",
                "function": "search_runbooks",
                "functionResponse": {"responseBody": {"TEXT": {"body": text}}},
            },
            "sessionAttributes": ACME,
            "promptSessionAttributes": {"ticket": "OPS-1"},
        }

    def test_event_without_optional_fields_is_answered(self, handler: Handler) -> None:
        event = {
            "actionGroup": "retrieve-knowledge",
            "function": "search_runbooks",
            "parameters": [{"name": "query", "value": DISK_TITLE}],
        }
        response = handler(event, FakeContext())
        assert text_of(response).startswith("Source: ")
        assert response["sessionAttributes"] == {}

    def test_details_are_json(self, handler: Handler, services: System) -> None:
        document_id = id_of(services, DISK)
        assert json.loads(ask(handler, "get_document_details", document_id=document_id))["title"] == DISK_TITLE

    def test_bad_argument_prompts_the_agent_again(self, handler: Handler, capsys: pytest.CaptureFixture[str]) -> None:
        event = a_function_event("search_runbooks", query="disk", max_results="many")
        response = handler(event, FakeContext())
        assert state_of(response) == "REPROMPT"
        assert text_of(response) == "max_results must be a whole number from 1 to 20, not 'many'"
        assert metrics_in(capsys.readouterr().out)[Metric.INVALID_CALLS] == [1.0]

    def test_unknown_document_prompts_the_agent_again(self, handler: Handler) -> None:
        response = handler(a_function_event("get_document_details", document_id="0" * 32), FakeContext())
        assert state_of(response) == "REPROMPT"
        assert text_of(response).startswith("no document with this id")

    @pytest.mark.parametrize("function", ["drop_table", None, "query_logs", "list_documents"])
    def test_unknown_tool_fails(self, handler: Handler, function: str | None) -> None:
        response = handler(a_function_event("search_runbooks", query="disk") | {"function": function}, FakeContext())
        assert state_of(response) == "FAILURE"
        assert text_of(response).startswith("unknown ")

    @pytest.mark.parametrize("name", ["claims", None])
    def test_action_group_may_have_any_name(self, handler: Handler, name: str | None) -> None:
        response = handler(a_function_event("search_runbooks", query=DISK_TITLE) | {"actionGroup": name}, FakeContext())
        assert text_of(response).startswith(f"Source: {DISK_TITLE}")
        assert response["response"]["actionGroup"] == name

    @pytest.mark.parametrize("parameters", ["query", {"query": "disk"}, [{"value": "disk"}], ["disk"]])
    def test_malformed_parameters_prompt_the_agent_again(self, handler: Handler, parameters: object) -> None:
        event = a_function_event("search_runbooks") | {"parameters": parameters}
        assert state_of(handler(event, FakeContext())) == "REPROMPT"

    @pytest.mark.parametrize("event", [{}, [], None, "search"])
    def test_event_of_no_runtime_fails_in_this_form(self, handler: Handler, event: object) -> None:
        assert state_of(handler(event, FakeContext())) == "FAILURE"


class TestApiGroup:
    def test_answer_has_bedrocks_form(self, handler: Handler) -> None:
        response = handler(an_api_event("/search_runbooks", query=DISK_TITLE, max_results="3"), FakeContext())
        body = response["response"].pop("responseBody")
        assert list(body) == ["application/json"]
        assert json.loads(body["application/json"]["body"])["answer"].startswith(f"Source: {DISK_TITLE}")
        assert response == {
            "messageVersion": "1.0",
            "response": {
                "actionGroup": "retrieve-knowledge",
                "apiPath": "/search_runbooks",
                "httpMethod": "POST",
                "httpStatusCode": 200,
            },
            "sessionAttributes": {},
            "promptSessionAttributes": {"ticket": "OPS-1"},
        }

    def test_details_are_the_document(self, handler: Handler, services: System) -> None:
        event = an_api_event("/get_document_details", document_id=id_of(services, DISK))
        assert body_of(handler(event, FakeContext()))["documentId"] == id_of(services, DISK)

    @pytest.mark.parametrize(
        ("event", "status", "code"),
        [
            (an_api_event("/search_runbooks", query="disk", max_results="0"), 400, "invalid_argument"),
            (an_api_event("/search_runbooks"), 400, "invalid_argument"),
            (an_api_event("/get_document_details", document_id="0" * 32), 404, "not_found"),
            (an_api_event("/claims", query="disk"), 404, "unknown_tool"),
            (an_api_event("/search_runbooks", query="disk") | {"httpMethod": "GET"}, 404, "unknown_tool"),
            (an_api_event("/query_logs", query="disk"), 404, "unknown_tool"),
            (an_api_event("/search_runbooks", {"opxClientId": "a/*"}, query="disk"), 403, "forbidden"),
            (an_api_event("/search_runbooks") | {"requestBody": "disk"}, 500, "internal"),
        ],
    )
    def test_failure_has_its_status(self, handler: Handler, event: dict[str, Any], status: int, code: str) -> None:
        response = handler(event, FakeContext())
        assert response["response"]["httpStatusCode"] == status
        assert body_of(response)["error"]["code"] == code

    def test_path_parameters_count_as_arguments(self, handler: Handler) -> None:
        event = an_api_event("/search_runbooks", query="disk")
        event["parameters"] = [{"name": "client_id", "type": "string", "value": "acme"}]
        assert "unknown field client_id" in body_of(handler(event, FakeContext()))["error"]["message"]


class TestGateway:
    def test_answer_is_plain_json(self, handler: Handler) -> None:
        answer = handler({"query": DISK_TITLE, "max_results": 3}, FakeContext.of_gateway("search_runbooks"))
        assert set(answer) == {"answer", "documents", "documentIds", "receiptId", "partial", "untrusted", "notes"}
        assert "content" not in answer["documents"][0]
        assert answer["answer"].startswith(f"Source: {DISK_TITLE}")

    def test_details_are_the_document(self, handler: Handler, services: System) -> None:
        context = FakeContext.of_gateway("get_document_details")
        assert handler({"document_id": id_of(services, DISK)}, context)["title"] == DISK_TITLE

    def test_bad_argument_is_an_error_object(self, handler: Handler) -> None:
        answer = handler({"query": "disk", "max_results": 50}, FakeContext.of_gateway("search_runbooks"))
        assert answer == {
            "error": {
                "code": "invalid_argument",
                "message": "max_results must be a whole number from 1 to 20, not 50",
            }
        }

    @pytest.mark.parametrize(
        "custom", [{}, None, {"bedrockAgentCoreToolName": ""}, {"bedrockAgentCoreToolName": "target___drop_table"}]
    )
    def test_unknown_tool_is_an_error_object(self, handler: Handler, custom: dict[str, str] | None) -> None:
        answer = handler({"query": "disk"}, FakeContext(SimpleNamespace(custom=custom)))
        assert answer["error"]["code"] == "unknown_tool"

    @pytest.mark.parametrize("name", ["x-opx-client-id", "X-Opx-Client-Id", "x-opx-project-id", "x-opx-identity"])
    @pytest.mark.parametrize("value", ["acme", ["acme"], "acme/*"])
    def test_header_that_looks_like_an_identity_is_refused(self, handler: Handler, name: str, value: Any) -> None:
        context = FakeContext.of_gateway("search_runbooks", {name: value, "X-Request-Id": "1"})
        assert handler({"query": VAULT}, context)["error"]["code"] == "forbidden"

    def test_arguments_that_look_like_an_action_groups_event_are_only_arguments(self, handler: Handler) -> None:
        forged = a_function_event("search_runbooks", ACME, query=VAULT)
        answer = handler(forged, FakeContext.of_gateway("search_runbooks"))
        assert answer["error"]["code"] == "invalid_argument"
        assert VAULT not in json.dumps(answer)


class TestScope:
    def test_session_attributes_open_a_clients_documents(self, handler: Handler) -> None:
        assert f"Source: {VAULT}" in ask(handler, "search_runbooks", ACME, query=VAULT)

    def test_project_attribute_opens_the_projects_documents(self, handler: Handler) -> None:
        session = ACME | {"opxProjectId": "shop"}
        assert "Source: Empty the shop" in ask(handler, "search_runbooks", session, query="Empty the shop cart cache")

    @pytest.mark.parametrize("session", [{}, {"opxClientId": ""}, {"opxClientId": "other"}, {"clientId": "acme"}])
    def test_other_sessions_do_not_see_them(self, handler: Handler, session: dict[str, str]) -> None:
        assert "vault" not in ask(handler, "search_runbooks", session, query=VAULT).lower()

    @pytest.mark.parametrize(
        ("name", "shown"),
        [
            ("client_id", "client_id"),
            ("scope", "scope"),
            ("opxClientId", "opx_client_id"),
            ("project_id", "project_id"),
        ],
    )
    def test_scope_as_an_argument_is_refused(self, handler: Handler, name: str, shown: str) -> None:
        reply = ask(handler, "search_runbooks", None, **{"query": VAULT, name: "acme"})
        assert reply == f"unknown field {shown}; there are: query, max_results, max_tokens, at_least"

    def test_prompt_session_attributes_are_no_identity(self, handler: Handler) -> None:
        event = a_function_event("search_runbooks", query=VAULT) | {"promptSessionAttributes": ACME}
        assert "vault" not in text_of(handler(event, FakeContext())).lower()

    def test_malformed_session_ends_the_turn(self, handler: Handler) -> None:
        response = handler(a_function_event("search_runbooks", {"opxClientId": "a/*"}, query=VAULT), FakeContext())
        assert state_of(response) == "FAILURE"
        assert text_of(response) == "the session's client or project id is malformed"

    def test_configured_identity_counts_where_the_session_has_none(self, tmp_path: Path, json_logs: None) -> None:
        with a_system(tmp_path) as system:
            system.installation.settings = replace(system.settings, client_id="acme")
            handler = make_handler(lambda: system)
            assert f"Source: {VAULT}" in ask(handler, "search_runbooks", query=VAULT)
            assert "vault" not in ask(handler, "search_runbooks", {"opxClientId": ""}, query=VAULT).lower()


class TestFailing:
    def test_unexpected_error_is_logged_and_counted_but_not_shown(
        self,
        services: System,
        json_logs: None,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("secret detail")

        monkeypatch.setattr(services.questions, "for_reader", broken)
        response = make_handler(lambda: services)(a_function_event("search_runbooks", query="disk"), FakeContext())
        assert state_of(response) == "FAILURE"
        assert text_of(response) == "the request failed; the error was logged"
        output = capsys.readouterr().out
        assert metrics_in(output)[Metric.TOOL_ERRORS] == [1.0]
        (logged,) = [json.loads(line) for line in output.splitlines() if '"ERROR"' in line]
        assert logged["exception"].endswith("ZeroDivisionError")
        assert logged["function_request_id"] == FakeContext().aws_request_id

    def test_wrong_configuration_is_not_the_agents_fault(self, json_logs: None) -> None:
        def start() -> System:
            raise InvalidInputError("OPX_BACKEND must be 'embedded' or 'aws'")

        response = make_handler(start)(a_function_event("search_runbooks", query="disk"), FakeContext())
        assert state_of(response) == "FAILURE"
        assert "OPX_BACKEND" not in text_of(response)

    def test_unavailable_store_lets_the_agent_go_on(
        self, services: System, handler: Handler, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def unavailable(document_id: str) -> Any:
            raise StoreUnavailableError("can't read table opx-knowledge-documents")

        monkeypatch.setattr(services.corpus.catalog, "find", unavailable)
        response = handler(a_function_event("get_document_details", document_id="0" * 32), FakeContext())
        assert state_of(response) == "REPROMPT"
        assert text_of(response) == "the knowledge base is unavailable for now"

    def test_system_is_started_at_the_first_event_and_only_once(self, services: System, json_logs: None) -> None:
        starts = []

        def start() -> System:
            starts.append(1)
            return services

        handler = make_handler(start)
        assert starts == []
        for _ in range(2):
            ask(handler, "search_runbooks", query="disk")
        assert starts == [1]

    def test_failed_start_is_tried_again_at_the_next_event(self, services: System, json_logs: None) -> None:
        attempts = iter([StoreUnavailableError("not yet")])

        def start() -> System:
            for problem in attempts:
                raise problem
            return services

        handler = make_handler(start)
        assert "unavailable" in ask(handler, "search_runbooks", query=DISK_TITLE)
        assert "Source: " in ask(handler, "search_runbooks", query=DISK_TITLE)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Twenty good answers to one question, too much for an action group."""
    filler = "grüße word " * 1200
    corpus = {f"documents/runbooks/{n}.md": f"# Broken gadget\n\nnumber{n} {filler}" for n in range(20)}
    with a_system(tmp_path_factory.mktemp("large"), corpus) as system:
        yield system


def answered(services: System, event: Any, context: FakeContext) -> dict[str, Any]:
    """As the handler does."""
    return respond(event, context, KNOWLEDGE, lambda: services, Measured())


class TestSize:
    def test_action_group_gets_as_many_results_as_fit(self, large: System) -> None:
        session = {"note": "x" * 5000}
        event = a_function_event(
            "search_runbooks", session, query="Broken gadget", max_results="20", max_tokens="20000"
        )
        response = answered(large, event, FakeContext())
        size = len(json.dumps(response, ensure_ascii=False).encode())
        assert MAX_RESPONSE_BYTES / 2 < size <= MAX_RESPONSE_BYTES
        shown = text_of(response).count("[Document ID: ")
        assert f"Note: {20 - shown} more documents were left out" in text_of(response)

    def test_api_response_is_limited_too(self, large: System) -> None:
        event = an_api_event("/search_runbooks", query="Broken gadget", max_results="20", max_tokens="20000")
        response = answered(large, event, FakeContext())
        assert len(json.dumps(response, ensure_ascii=False).encode()) <= MAX_RESPONSE_BYTES
        assert "more documents were left out" in body_of(response)["notes"][0]

    def test_gateway_gets_everything(self, large: System) -> None:
        context = FakeContext.of_gateway("search_runbooks")
        answer = answered(large, {"query": "Broken gadget", "max_results": 20, "max_tokens": 20000}, context)
        assert 1 < answer["answer"].count("Source: ") <= MAX_DOCUMENTS
        assert len(answer["documents"]) == 20
        assert answer["notes"] == []


def test_a_call_without_a_query_prints_its_metrics_in_one_line(
    handler: Handler, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(handler, "get_document_details", document_id="0" * 32)
    line = metrics_in(capsys.readouterr().out)
    assert line["service"] == "opx"
    assert line[Metric.TOOL_CALLS] == line[Metric.INVALID_CALLS] == [1.0]


def test_question_is_measured(handler: Handler, capsys: pytest.CaptureFixture[str]) -> None:
    ask(handler, "search_runbooks", query=DISK_TITLE)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    (line,) = [line for line in lines if Metric.QUERIES in line]
    assert line[Metric.QUERIES] == line[Metric.TOOL_CALLS] == [1.0]
    assert line[Metric.QUERY_LATENCY][0] > 0


def test_importing_the_function_starts_nothing() -> None:
    program = (
        "import sys, lambdas.retrieve_knowledge.handler as h; "
        "heavy = {'boto3', 'opensearchpy', 'sqlite3', 'numpy', 'aws_xray_sdk', 'tantivy'} & set(sys.modules); "
        "print(sorted(heavy)); import logging; print(logging.getLogger('opx').handlers)"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_library_logs_go_through_the_functions_logger(handler: Handler, capsys: pytest.CaptureFixture[str]) -> None:
    ask(handler, "search_runbooks", query="disk", max_results="0")
    logging.getLogger("opx.retrieval.query").warning("from the library")
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "from the library" in line]
    assert json.loads(line)["service"] == "opx"
