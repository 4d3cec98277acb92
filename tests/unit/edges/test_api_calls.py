"""Dispatch of HTTP requests to operations: functions of routes, and the form and content of errors."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler as make_manage_handler
from lambdas.retrieve_knowledge.handler import make_handler as make_retrieve_handler
from opx.edges.http import respond
from opx.errors import (
    ConditionFailedError,
    DocumentNotFoundError,
    IndexUnavailableError,
    InvalidInputError,
    KnowledgeConfigError,
    StoreUnavailableError,
    UnknownCategoryError,
    UnparsableDocumentError,
)
from opx.operations import load
from opx.operations.grants import ToolGrants
from opx.operations.registry import Function, Operation
from opx.runtime.metrics import Metric
from opx.settings import Settings
from tests.support.agent_calls import a_function_event
from tests.support.api_requests import ROUTE, a_request, answered, refusal
from tests.support.fakes import FakeContext, Measured, function_logs

SETTINGS = Settings(environment="prod")
SECRET = "the launch code is 0000"


def started() -> Any:
    return SimpleNamespace(settings=SETTINGS, installation=SimpleNamespace(declared=lambda _: ToolGrants()))


def never_started() -> Any:
    raise AssertionError("nothing should have been started")


def raising(error: Exception) -> Callable[[], Any]:
    """Starts a system that raises this error for every lookup of a caller's scopes."""

    def fail(_: object) -> None:
        raise error

    return lambda: SimpleNamespace(
        settings=SETTINGS,
        ports=SimpleNamespace(files=None),
        corpus=SimpleNamespace(projects=SimpleNamespace(reader=fail)),
        installation=SimpleNamespace(knowledge=SimpleNamespace(categories={})),
    )


def status_of(error: Exception, report: Any = None) -> dict[str, Any]:
    return respond(a_request("get_status"), Function.RETRIEVE, raising(error), report or Measured())


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (InvalidInputError("x"), 400, "invalid_argument"),
            (UnparsableDocumentError("x"), 400, "invalid_argument"),
            (UnknownCategoryError("x"), 400, "unknown_category"),
            (DocumentNotFoundError("x"), 404, "not_found"),
            (ConditionFailedError("x"), 409, "conflict"),
            (StoreUnavailableError("x"), 503, "unavailable"),
            (IndexUnavailableError("x"), 503, "unavailable"),
            (KnowledgeConfigError("x"), 500, "internal"),
            (RuntimeError("x"), 500, "internal"),
            (KeyError("x"), 500, "internal"),
        ],
    )
    def test_each_has_its_status_and_code(self, error: Exception, status: int, code: str) -> None:
        assert refusal(answered(status_of(error))) == (status, code)

    def test_the_callers_mistake_is_explained(self) -> None:
        assert answered(status_of(InvalidInputError("limit must be 1")))[1]["error"]["message"] == "limit must be 1"

    @pytest.mark.parametrize("kind", [RuntimeError, KnowledgeConfigError, StoreUnavailableError, ConditionFailedError])
    def test_internal_errors_are_not_disclosed(self, kind: type[Exception]) -> None:
        assert SECRET not in json.dumps(status_of(kind(SECRET)))

    def test_a_temporary_error_has_a_retry_after_header(self) -> None:
        assert status_of(StoreUnavailableError("x"))["headers"]["retry-after"] == "5"
        assert "retry-after" not in status_of(InvalidInputError("x"))["headers"]

    @pytest.mark.parametrize(
        ("error", "metric"),
        [
            (InvalidInputError("x"), Metric.API_REFUSED),
            (StoreUnavailableError("x"), Metric.API_UNAVAILABLE),
            (KnowledgeConfigError("x"), Metric.API_ERRORS),
            (RuntimeError("x"), Metric.API_ERRORS),
        ],
    )
    def test_each_is_counted(self, error: Exception, metric: Metric) -> None:
        report = Measured()
        status_of(error, report)
        assert report.counts == {Metric.API_REQUESTS: 1, metric: 1}

    def test_successful_call_is_counted_only_as_a_request(self) -> None:
        report = Measured()
        system: Any = SimpleNamespace(
            settings=SETTINGS,
            installation=SimpleNamespace(knowledge=SimpleNamespace(categories={}, default_category="docs")),
        )
        reply = respond(a_request("list_categories"), Function.RETRIEVE, lambda: system, report)
        assert answered(reply)[0] == 200
        assert report.counts == {Metric.API_REQUESTS: 1}

    def test_a_refusal_is_logged_without_what_was_sent(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        event = a_request("query", body={"query": SECRET, "config": {"mode": SECRET}, SECRET: 1}, kbId="default")
        respond(event, Function.RETRIEVE, started, Measured())
        assert "POST /knowledge/{kbId}/query: refused as invalid_argument" in caplog.text
        assert SECRET not in caplog.text

    @pytest.mark.parametrize(
        "error", [RuntimeError(SECRET), InvalidInputError(SECRET), StoreUnavailableError(SECRET)], ids=repr
    )
    def test_a_system_that_does_not_start_is_an_error_of_its_own(
        self, error: Exception, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken() -> Any:
            raise error

        report = Measured()
        reply = respond(a_request("get_status"), Function.RETRIEVE, broken, report)
        assert refusal(answered(reply)) == (500, "internal")
        assert report.counts == {Metric.API_REQUESTS: 1, Metric.API_ERRORS: 1}
        assert SECRET in caplog.text
        assert SECRET not in json.dumps(reply)

    def test_wrong_categories_of_ours_are_logged_with_what_is_wrong(self, caplog: pytest.LogCaptureFixture) -> None:
        status_of(KnowledgeConfigError("knowledge.yaml:3: no tier"))
        assert "knowledge.yaml:3: no tier" in caplog.text


class TestRoutes:
    @pytest.mark.parametrize("operation", load().routes.values(), ids=lambda one: str(one.name))
    def test_a_route_is_done_by_its_function_and_by_no_other(self, operation: Operation[Any, Any]) -> None:
        event, route = a_request(operation.name), ROUTE[operation.name]
        for function in Function:
            reply = respond(
                event,
                function,
                never_started if function is not route.function else started,
                Measured(),
            )
            status, found = answered(reply)
            refused = status == 404 and found["error"]["code"] == "no_such_route"
            assert refused == (function is not route.function)

    @pytest.mark.parametrize("key", ["GET /", "$default", "ANY /{proxy+}", "GET /status/", "POST /status", ""])
    def test_another_route_is_not_there(self, key: str) -> None:
        event = a_request("get_status") | {"routeKey": key}
        reply = respond(event, Function.RETRIEVE, never_started, Measured())
        assert refusal(answered(reply)) == (404, "no_such_route")

    def test_the_deployed_functions_know_their_own_routes_alone(self) -> None:
        with function_logs():
            reading, writing = make_retrieve_handler(never_started), make_manage_handler(never_started)
            for name, route in ROUTE.items():
                other = writing if route.function is Function.RETRIEVE else reading
                reply = answered(other(a_request(name), FakeContext()))
                assert refusal(reply) == (404, "no_such_route")

    def test_a_request_without_an_identity_is_refused_first(self) -> None:
        event = a_request("query", caller=None, body="{" * 10, kbId="../..")
        reply = respond(event, Function.RETRIEVE, started, Measured())
        assert refusal(answered(reply)) == (403, "forbidden")


class TestAgentsAndRequests:
    """One function answers both, and never mistakes one for the other."""

    def test_an_agents_call_is_answered_in_its_form(self) -> None:
        with function_logs():
            reply = make_retrieve_handler(started)(a_function_event("no_such_tool"), FakeContext())
        assert reply["messageVersion"] == "1.0"

    def test_a_request_written_by_a_model_into_a_gateways_call_is_read_as_arguments(self) -> None:
        with function_logs():
            event = a_request("list_documents")
            reply = make_retrieve_handler(started)(event, FakeContext.of_gateway("search_runbooks"))
        assert reply["error"]["code"] == "invalid_argument"
        assert "statusCode" not in reply

    def test_an_agents_call_in_the_body_of_a_request_is_a_body(self) -> None:
        body = a_function_event("search_runbooks", {"opxClientId": "acme"}, query="disk")
        with function_logs():
            reply = make_retrieve_handler(started)(a_request("query", body=body, kbId="default"), FakeContext())
        assert refusal(answered(reply)) == (400, "invalid_argument")
