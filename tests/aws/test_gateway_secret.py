"""The secret that the gateway's interceptor shares with the functions of tools, in Secrets Manager."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import boto3
import pytest

from lambdas.identify_callers.handler import make_handler, start
from opx.edges.gateway_callers import IDENTITY_HEADER, verified
from opx.errors import SecretNotFoundError
from opx.settings import Settings
from opx.system import bootstrap
from tests.doubles.agentcore_gateway import a_jwt
from tests.support.fakes import FakeContext, function_logs

NAME, TOOL = "dev-opx-gateway/callers", "retrieve-knowledge___search_runbooks"
SETTINGS = Settings(backend="aws", table_prefix="dev-", search_endpoint="https://search.example", gateway_secret=NAME)
TOKENS = Settings(gateway_secret=NAME, token_issuer="https://issuer", token_audience="opx")


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")


def intercepted() -> dict[str, Any]:
    """The interceptor's answer to a call with a token of acme."""
    claims = {"iss": "https://issuer", "aud": "opx", "exp": time.time() + 60, "opx_client_id": "acme"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": TOOL}}
    request = {"headers": {"Authorization": f"Bearer {a_jwt(claims)}"}, "body": body}
    with function_logs():
        answer = make_handler(start, lambda: TOKENS)({"mcp": {"gatewayRequest": request}}, FakeContext())
    found: dict[str, Any] = answer["mcp"]
    return found


def test_functions_of_tools_verify_what_the_interceptor_signs(aws: boto3.Session) -> None:
    aws.client("secretsmanager").create_secret(Name=NAME, SecretString="s" * 64)
    header = intercepted()["transformedGatewayRequest"]["headers"][IDENTITY_HEADER]
    with bootstrap(SETTINGS) as system:
        key = system.ports.deployment_secrets.get(NAME)
    assert verified(header, key, tool=TOOL, now=time.time()).caller.identity.client_id == "acme"


def test_without_the_secret_every_call_is_refused(aws: boto3.Session) -> None:
    assert intercepted()["transformedGatewayResponse"]["statusCode"] == 500
    with bootstrap(SETTINGS) as system, pytest.raises(SecretNotFoundError, match=NAME):
        system.ports.deployment_secrets.get(NAME)


def test_the_secret_is_none_of_those_that_sources_may_name(aws: boto3.Session) -> None:
    aws.client("secretsmanager").create_secret(Name=NAME, SecretString="s" * 64)
    with bootstrap(SETTINGS) as system, pytest.raises(SecretNotFoundError):
        system.ports.secrets.get(NAME)


def test_a_snapshot_holds_the_description_of_the_service_and_no_client(aws: boto3.Session) -> None:
    made: list[str] = []
    secrets = start()
    clients: Any = SimpleNamespace(load=lambda service: made.append(f"description of {service}"))
    secrets._clients = clients  # type: ignore[attr-defined]
    secrets.load()
    assert made == ["description of secretsmanager"]
    assert "_secrets" not in vars(secrets)
