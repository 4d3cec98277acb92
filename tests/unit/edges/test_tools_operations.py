"""The tools for running systems, as each runtime calls them: replies and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from lambdas.query_operations.handler import make_handler
from opx.domain.baselines import BaselineStats
from opx.domain.record import replace
from opx.domain.requests import RequestError
from opx.domain.scopes import Identity, Reader, reader_of
from opx.edges.calling import plain
from opx.edges.tools import MAX_RESPONSE_BYTES, call_tool
from opx.errors import InvalidInputError, InvalidScopeError, StoreUnavailableError
from opx.operations import load
from opx.operations.context import Caller, Context
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.registry import OPERATIONS
from opx.ports.telemetry import LogQuery
from opx.runtime.knowledge_file import Installation
from opx.settings import Settings
from opx_telemetry.capability import baselines, telemetry
from opx_telemetry.operations import GetBaseline, get_baseline
from tests.support.agent_calls import a_function_event, an_api_event, body_of, reply_schema, state_of, text_of
from tests.support.fakes import FakeContext, function_logs
from tests.support.telemetry_support import GROUP, RULES, fake_stores

NOW = 1_750_000_000.0
TOOLS = load().tools(OPERATIONS)


class FakeBaselines:
    def __init__(self) -> None:
        self.readers: list[Reader] = []

    def get(self, reader: Reader, node: str, metric: str, time_window: str) -> BaselineStats:
        if time_window == "soon":
            raise InvalidInputError("a time window is a number of days such as 7d, not 'soon'")
        self.readers.append(reader)
        return BaselineStats(
            node=node,
            metric=metric,
            time_window=time_window,
            count=1000,
            mean=10.0,
            stddev=1.5,
            p10=8.0,
            p50=10.0,
            p90=12.0,
        )


class FakeProjects:
    def reader(self, identity: Identity) -> Reader:
        if "*" in identity.client_id:
            raise InvalidScopeError("malformed")
        return reader_of(identity)


class SystemUnderTest(SimpleNamespace):
    """The parts of a system that the tools need."""


@pytest.fixture
def system() -> SystemUnderTest:
    installation = Installation(Settings(), lambda: NOW)
    installation.declare(read_grants, ToolGrants(agents={"responder": frozenset(TOOLS)}))
    fakes = SimpleNamespace(stores=fake_stores(), rules=RULES, baselines=FakeBaselines())
    return SystemUnderTest(
        clock=lambda: NOW,
        telemetry=fakes,
        part={telemetry: fakes, baselines: fakes.baselines}.__getitem__,
        corpus=SimpleNamespace(projects=FakeProjects()),
        settings=installation.settings,
        installation=installation,
    )


@pytest.fixture
def context(system: Any) -> Context:
    return Context(system, Caller(Identity()))


@pytest.fixture
def handler(system: SystemUnderTest) -> Iterator[Any]:
    with function_logs():
        yield make_handler(lambda: system)  # type: ignore[arg-type, return-value]


CALLS: dict[str, dict[str, Any]] = {
    "query_logs": {"query": "error", "log_group": GROUP},
    "correlate_metrics": {"metric": "cpu", "node": "i-1"},
    "analyze_traces": {"service": "shop"},
    "get_baseline": {"node": "web-1", "metric": "cpu", "value": "40"},
}


def an_event(function: str, agent: str = "responder", **arguments: Any) -> dict[str, Any]:
    called = {"actionGroup": "query-operations", "agent": {"name": agent}}
    return a_function_event(function, **arguments) | called


def test_tools_are_those_that_agents_know() -> None:
    assert {name: list(one.request.__struct_fields__) for name, one in TOOLS.items()} == {
        "query_logs": ["query", "log_group", "minutes", "limit", "show"],
        "correlate_metrics": ["metric", "node", "minutes", "candidates", "max_lag"],
        "analyze_traces": ["service", "minutes", "limit"],
        "get_baseline": ["node", "metric", "time_window", "value"],
    }
    assert all(one.tool is not None and one.tool.opt_in for one in TOOLS.values())
    assert set(CALLS) == set(TOOLS)


@pytest.mark.parametrize("name", sorted(CALLS))
class TestEveryTool:
    def test_answer_is_as_described(self, name: str, context: Context) -> None:
        schema = reply_schema(TOOLS[name])
        answer = plain(call_tool(TOOLS[name], context, CALLS[name].items()))
        jsonschema.validate(json.loads(json.dumps(answer)), schema)
        assert set(answer) == set(schema["properties"])

    def test_action_group_gets_text(self, name: str, handler: Any) -> None:
        response = handler(an_event(name, **CALLS[name]), FakeContext())
        assert state_of(response) is None, text_of(response)
        assert text_of(response)

    def test_operation_gets_json(self, name: str, handler: Any) -> None:
        event = an_api_event(f"/{name}", **CALLS[name])
        response = handler(event | {"actionGroup": "query-operations", "agent": {"name": "responder"}}, FakeContext())
        assert response["response"]["httpStatusCode"] == 200
        assert "error" not in body_of(response)

    def test_agent_that_was_not_given_the_tool_does_not_know_it(self, name: str, handler: Any) -> None:
        response = handler(an_event(name, agent="other", **CALLS[name]), FakeContext())
        assert state_of(response) == "FAILURE"
        assert text_of(response) == f"unknown tool '{name}'; there are: none"

    def test_without_aws_only_baselines_can_be_queried(self, name: str, system: SystemUnderTest) -> None:
        system.telemetry.stores = None
        with function_logs():
            response = make_handler(lambda: system)(an_event(name, **CALLS[name]), FakeContext())  # type: ignore[arg-type, return-value]
        assert ("isn't on AWS" in text_of(response)) == (name != "get_baseline")


class TestRefusing:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            ({"query": "error", "log_group": "/other"}, "log group '/other' may not be queried; there are: /ecs/shop"),
            ({"query": '"', "log_group": GROUP}, 'query has an unclosed "'),
            (
                {"query": "e", "log_group": GROUP, "show": "all"},
                "show must be one of lines, over_time, by_stream, patterns",
            ),
            ({"query": "e", "log_group": GROUP, "limit": "201"}, "limit must be a whole number from 1 to 200"),
        ],
    )
    def test_an_invalid_call_is_reported_with_accepted_values(
        self, handler: Any, call: dict[str, str], message: str
    ) -> None:
        response = handler(an_event("query_logs", **call), FakeContext())
        assert state_of(response) == "REPROMPT"
        assert text_of(response).startswith(message)

    def test_an_invalid_time_window_is_reported(self, handler: Any) -> None:
        response = handler(an_event("get_baseline", node="n", metric="m", time_window="soon"), FakeContext())
        assert state_of(response) == "REPROMPT"
        assert "such as 7d" in text_of(response)

    def test_an_unavailable_store_is_named(
        self, handler: Any, system: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(query: LogQuery) -> str:
            raise StoreUnavailableError("can't start a log query for now: LimitExceededException")

        monkeypatch.setattr(system.telemetry.stores.logs, "start", away)
        response = handler(an_event("query_logs", **CALLS["query_logs"]), FakeContext())
        assert state_of(response) == "REPROMPT"
        assert text_of(response) == "can't start a log query for now: LimitExceededException"

    def test_malformed_session_ends_the_turn(self, handler: Any) -> None:
        event = an_event("get_baseline", **CALLS["get_baseline"]) | {"sessionAttributes": {"opxClientId": "a/*"}}
        assert state_of(handler(event, FakeContext())) == "FAILURE"

    def test_tool_of_the_other_group_is_unknown(self, handler: Any) -> None:
        assert "unknown tool 'search_docs'" in text_of(handler(an_event("search_docs", query="q"), FakeContext()))

    def test_queries_and_results_are_not_logged(
        self, handler: Any, system: SystemUnderTest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        system.telemetry.stores.logs.rows = ({"message": "needle error"},)
        handler(an_event("query_logs", query="needle", log_group=GROUP), FakeContext())
        handler(an_event("query_logs", query="needle", log_group="/haystack"), FakeContext())
        out, err = capsys.readouterr()
        assert "needle" not in out + err
        assert "haystack" not in out + err


class TestScope:
    def test_baselines_are_those_that_the_caller_may_see(self, handler: Any, system: SystemUnderTest) -> None:
        event = an_event("get_baseline", **CALLS["get_baseline"]) | {"sessionAttributes": {"opxClientId": "acme"}}
        handler(event, FakeContext())
        assert system.telemetry.baselines.readers == [FakeProjects().reader(Identity("acme"))]

    def test_the_agent_is_the_recorded_principal(self, handler: Any, system: SystemUnderTest) -> None:
        handler(an_event("get_baseline", **CALLS["get_baseline"]), FakeContext())
        assert system.telemetry.baselines.readers[0].identity.principal == "responder session session-1"

    def test_configured_identity_counts_where_the_session_has_none(self, handler: Any, system: SystemUnderTest) -> None:
        system.settings = replace(system.settings, client_id="acme")
        handler(an_event("get_baseline", **CALLS["get_baseline"]), FakeContext())
        assert system.telemetry.baselines.readers == [FakeProjects().reader(Identity("acme"))]


class TestSize:
    def test_large_answer_is_cut_to_what_bedrock_takes(self, handler: Any, system: SystemUnderTest) -> None:
        system.telemetry.stores.logs.rows = tuple({"message": f"error {n} {'x' * 1500}"} for n in range(100))
        response = handler(an_event("query_logs", **CALLS["query_logs"], limit="100"), FakeContext())
        assert len(json.dumps(response, ensure_ascii=False).encode()) <= MAX_RESPONSE_BYTES
        shown = text_of(response).count("error ")
        assert shown >= 10
        assert f"Note: {100 - shown} more rows were left out" in text_of(response)


class TestNumbers:
    @pytest.mark.parametrize(("given", "value"), [("-3.5", -3.5), (7, 7.0), ("1e3", 1000.0)])
    def test_number_may_be_any(self, context: Context, given: object, value: float) -> None:
        parameters = {"node": "n", "metric": "m", "value": given}
        expected = get_baseline(context, GetBaseline(node="n", metric="m", value=value))
        assert call_tool(TOOLS["get_baseline"], context, parameters.items()) == expected

    @pytest.mark.parametrize("given", ["much", "nan", "inf", True, [1]])
    def test_baseline_value_that_is_no_number_is_refused(self, context: Context, given: object) -> None:
        with pytest.raises(RequestError, match="value must be a number, not "):
            call_tool(TOOLS["get_baseline"], context, {"node": "n", "metric": "m", "value": given}.items())

    @pytest.mark.parametrize("given", [{}, {"value": None}, {"value": ""}])
    def test_nothing_stands_in_for_a_number_that_was_left_out(self, context: Context, given: dict[str, object]) -> None:
        found = call_tool(TOOLS["get_baseline"], context, {"node": "n", "metric": "m", **given}.items())
        assert (found.verdict, found.stats.time_window) == (None, "7d")
