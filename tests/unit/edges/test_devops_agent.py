"""AWS DevOps Agent as a client of the gateway: registered with the files of the guide, with a token or signatures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import botocore.session
import httpx2
import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.validate import ParamValidator
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from opx.errors import NotApplicableError
from opx.operations import load
from opx.operations.grants import ForAll
from opx.operations.system import System
from opx_aws.deployed_api import AwsAccount
from opx_aws.operator import DeployedSystem
from tests.doubles.agentcore_gateway import PublicEndpoints
from tests.unit.edges.test_gateway_callers import AUDIENCE, GLOBEX, REPORT, SEARCH, VAULT, a_gateway
from tests.unit.edges.test_gateway_callers import corpus as corpus

GUIDE = (Path(__file__).parents[3] / "docs" / "devops-agent.md").read_text()
SERVER, SIGNING_SERVER, ALLOWED = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", GUIDE, re.DOTALL))
OAUTH = SERVER["mcpserver"]["authorizationConfig"]["oAuthClientCredentials"]
TOOLS = {f"{one.tool.group.name}___{name}": one.tool for name, one in load().tools().items() if one.tool}
MOST_CHARACTERS = 64


@pytest.fixture
def endpoints(corpus: System) -> Iterator[PublicEndpoints]:
    """The endpoints for tokens; the agent's client is one of acme."""
    claims = {"aud": AUDIENCE, "opx_client_id": "acme"}
    clients = {OAUTH["clientId"]: (OAUTH["clientSecret"], " ".join(OAUTH["scopes"]), claims)}
    with PublicEndpoints(a_gateway(corpus), clients) as found:
        yield found


def a_token(endpoints: PublicEndpoints, secret: str = OAUTH["clientSecret"]) -> str:
    """The token for client credentials; "" if the issuer refuses them."""
    form = {"grant_type": "client_credentials", "client_id": OAUTH["clientId"], "client_secret": secret}
    answer = requests.post(
        f"{endpoints.endpoint}/oauth2/token",
        data=urlencode({**form, "scope": " ".join(OAUTH["scopes"])}),
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        timeout=5,
    )
    return str(answer.json().get("access_token", ""))


def session(endpoints: PublicEndpoints, *calls: tuple[str, dict[str, Any]]) -> tuple[Any, list[Any], list[Any]]:
    """Instructions, tools and results of calls, of one session of the official client over Streamable HTTP."""

    async def run() -> tuple[Any, list[Any], list[Any]]:
        headers = {"Authorization": f"Bearer {a_token(endpoints)}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(f"{endpoints.endpoint}/mcp", http_client=http)
            async with Client(transport, mode="legacy") as client:
                listed = (await client.list_tools()).tools
                results = [await client.call_tool(name, arguments) for name, arguments in calls]
                return client.instructions, listed, results

    return anyio.run(run)


def refusals(operation: str, **request: Any) -> str:
    shape: Any = botocore.session.get_session().get_service_model("devops-agent").operation_model(operation).input_shape
    return str(ParamValidator().validate(request, shape).generate_report())


class TestGuide:
    def test_the_service_accepts_its_files(self) -> None:
        assert refusals("RegisterService", service="mcpserver", serviceDetails=SERVER) == ""
        assert refusals("RegisterService", service="mcpserversigv4", serviceDetails=SIGNING_SERVER) == ""
        assert refusals("AssociateService", agentSpaceId="s", serviceId="i", configuration=ALLOWED) == ""

    def test_the_tools_to_allow_are_all_that_every_agent_may_use(self) -> None:
        allowed = ALLOWED["mcpserver"]["tools"]
        assert {name.partition("___")[2] for name in allowed} == frozenset(ForAll())
        assert not [name for name in allowed if TOOLS[name].writes]
        details = ALLOWED["mcpserver"]["toolDetails"]
        assert details == [{"name": name, "toolClassification": "READ_ONLY"} for name in allowed]

    def test_each_tool_is_listed_as_reading_or_as_writing(self) -> None:
        reading, _, writing = GUIDE.partition("- Tools that store something")
        named = {name: set(re.findall(r"[a-z-]+___[a-z_]+", text)) for name, text in (("r", reading), ("w", writing))}
        assert named["w"] == {name for name, tool in TOOLS.items() if tool.writes}
        assert named["r"] == TOOLS.keys() - named["w"]

    def test_names_have_at_most_64_characters(self) -> None:
        assert max(map(len, TOOLS)) <= MOST_CHARACTERS
        assert all(re.fullmatch("[a-zA-Z0-9_-]+", name) for name in TOOLS)


class TestClientCredentials:
    def test_the_agent_finds_the_tools_and_an_answer_of_its_client(self, endpoints: PublicEndpoints) -> None:
        instructions, listed, results = session(
            endpoints,
            (SEARCH, {"query": VAULT}),
            (SEARCH, {"query": GLOBEX}),
            (REPORT, {"question": "?", "missing": "?"}),
        )
        assert instructions == "Search first."
        assert set(ALLOWED["mcpserver"]["tools"]) <= {tool.name for tool in listed}
        found = [json.loads(result.content[0].text) for result in results]
        assert f"Source: {VAULT}" in found[0]["answer"]
        assert GLOBEX not in json.dumps(found[1])
        assert found[2]["error"]["code"] == "forbidden"

    def test_a_wrong_secret_gets_no_token_and_no_token_gets_nothing(self, endpoints: PublicEndpoints) -> None:
        assert a_token(endpoints, secret="wrong") == ""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        answer = requests.post(f"{endpoints.endpoint}/mcp", data=body, headers={"Authorization": "Bearer "}, timeout=5)
        assert answer.status_code == 401


class TestSignatures:
    @pytest.mark.parametrize(("service", "status"), [("bedrock-agentcore", 200), ("execute-api", 403)])
    def test_the_agent_signs_for_the_service_of_the_guide(self, corpus: System, service: str, status: int) -> None:
        chosen = SIGNING_SERVER["mcpserversigv4"]["authorizationConfig"]
        assert chosen["service"] == "bedrock-agentcore"
        with PublicEndpoints(a_gateway(corpus, tokens=False), {}) as endpoints:
            call = {"name": SEARCH, "arguments": {"query": "Disk full on Linux hosts"}}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
            request = AWSRequest(
                "POST", f"{endpoints.endpoint}/mcp", data=body, headers={"Content-Type": "application/json"}
            )
            SigV4Auth(Credentials("AKIDEXAMPLE", "secret"), service, chosen["region"]).add_auth(request)
            answer = requests.post(
                f"{endpoints.endpoint}/mcp", data=body, headers=dict(request.headers.items()), timeout=5
            )
        assert answer.status_code == status
        assert ("Disk full" in answer.text) is (status == 200)


class AnAccount(AwsAccount):
    """An account whose stack with the gateway has these outputs."""

    def __init__(self, **outputs: str) -> None:
        super().__init__("", "eu-central-1")
        self._outputs = outputs

    def client(self, service: str, **options: Any) -> Any:
        return self

    def describe_stacks(self, StackName: str) -> dict[str, Any]:  # noqa: N803
        assert StackName == "opx-knowledge-dev-agent"
        outputs = [{"OutputKey": name, "OutputValue": value} for name, value in self._outputs.items()]
        return {"Stacks": [{"Outputs": outputs}]}


class TestDoctor:
    """`opx doctor` calls the gateway with signatures, too."""

    def test_it_gets_an_answer(self, corpus: System, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "example")
        with PublicEndpoints(a_gateway(corpus, tokens=False), {}) as endpoints:
            account = AnAccount(GatewayUrl=f"{endpoints.endpoint}/mcp")
            system = DeployedSystem(account, "dev", lambda: None)
            assert "Disk full" in system.ask_gateway("search_runbooks", {"query": "Disk full on Linux hosts"})

    @pytest.mark.parametrize(
        ("outputs", "reason"), [({"TokenGatewayUrl": "https://x"}, "tokens alone"), ({}, "no gateway")]
    )
    def test_a_gateway_that_can_not_be_called_is_named_with_the_reason(
        self, outputs: dict[str, str], reason: str
    ) -> None:
        with pytest.raises(NotApplicableError, match=reason):
            DeployedSystem(AnAccount(**outputs), "dev", lambda: None).ask_gateway("search_runbooks", {})
