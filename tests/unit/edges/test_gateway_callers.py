"""Callers of the agents' gateway: from their tokens through interceptor and functions to the documents that they may see."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from lambdas.identify_callers.handler import make_handler as make_interceptor
from lambdas.learn_from_work.handler import make_handler as make_learning
from lambdas.retrieve_knowledge.handler import make_handler as make_retrieve
from opx.edges import schemas
from opx.edges.gateway_callers import IDENTITY_HEADER, VALID_SECONDS, CallerStatement, signed, verified
from opx.edges.tools import granted
from opx.errors import ForbiddenError
from opx.operations import load
from opx.operations.grants import ToolGrants, read_grants
from opx.operations.registry import KNOWLEDGE, LEARNING
from opx.operations.system import System
from opx.settings import Settings
from tests.doubles.agentcore_gateway import AgentCoreGateway, a_jwt
from tests.support.agent_calls import CORPUS, a_system
from tests.support.fakes import FakeContext, function_logs

NOW = 1_750_000_000.0
ISSUER, AUDIENCE, SECRET, KEY = "https://issuer.example/pool", "opx", "dev-opx-gateway/callers", "k" * 64
VAULT, CART, GLOBEX = "Unseal the acme vault", "Empty the shop cart cache", "Unseal the globex vault"
SEARCH, REPORT = "retrieve-knowledge___search_runbooks", "learn-from-work___report_gap"
SIGNED = {"Authorization": "AWS4-HMAC-SHA256 of an allowed role"}
FORGED = CallerStatement("acme", "", "mallory", "", ("opx/admin",), SEARCH, NOW + 60)
TOKENS = Settings(
    gateway_secret=SECRET, unsigned_gateway="dev-opx-knowledge", token_issuer=ISSUER, token_audience=AUDIENCE
)


class Secrets:
    """Keeps one secret."""

    def load(self) -> None: ...

    def open(self) -> None: ...

    def get(self, name: str) -> str:
        assert name == SECRET
        return KEY


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Documents of two clients. Signed callers are required, unless they come through the gateway without tokens."""
    more = {"clients/globex/documents/runbooks/vault.md": f"# {GLOBEX}\n\nThe globex vault has two keys."}
    home = tmp_path_factory.mktemp("home")
    with a_system(home, {**CORPUS, **more}, secrets=Secrets(), clock=lambda: NOW) as system, function_logs():
        chosen = Settings(home=str(home), gateway_secret=SECRET, unsigned_gateway="dev-opx-knowledge")
        system.installation.settings = chosen
        every = frozenset(load().tools())
        system.installation.declare(read_grants, ToolGrants(every, {"reader": frozenset({"search_docs"})}))
        yield system


def a_target(group: Any, function: str, headers: bool) -> dict[str, Any]:
    tools = schemas.gateway(tuple(granted(group, load().tools()).values()))
    found = {"lambdaArn": function, "toolSchema": {"inlinePayload": tools}}
    allowed = {"metadataConfiguration": {"allowedRequestHeaders": [IDENTITY_HEADER]}} if headers else {}
    return {"name": group.name, "targetConfiguration": {"mcp": {"lambda": found}}, **allowed}


def a_gateway(system: System, *, tokens: bool = True, settings: Settings = TOKENS, **more: Any) -> AgentCoreGateway:
    """The gateway with tokens, or the one without."""
    jwt = {"discoveryUrl": f"{ISSUER}/.well-known/openid-configuration", "allowedAudience": [AUDIENCE]}
    interceptor = {
        "interceptor": {"lambda": {"arn": "interceptor"}},
        "interceptionPoints": ["REQUEST"],
        "inputConfiguration": {"passRequestHeaders": True},
    }
    mcp = {"mcp": {"supportedVersions": ["2025-11-25"], "instructions": "Search first."}}
    common = {"name": "dev-opx-knowledge", "authorizerType": "AWS_IAM", "protocolConfiguration": mcp}
    with_tokens = {
        **common,
        "name": "dev-opx-knowledge-tokens",
        "authorizerType": "CUSTOM_JWT",
        "authorizerConfiguration": {"customJWTAuthorizer": jwt},
        "interceptorConfigurations": [interceptor],
    }
    functions = {
        "interceptor": make_interceptor(Secrets, lambda: settings, lambda: NOW),
        "retrieve": make_retrieve(lambda: system),
        "learn": make_learning(lambda: system),
    }
    targets = [a_target(KNOWLEDGE, "retrieve", tokens), a_target(LEARNING, "learn", tokens)]
    gateway = with_tokens if tokens else common
    return AgentCoreGateway(gateway, targets, functions, clock=lambda: NOW, issuer=ISSUER, **more)


def a_token(**claims: Any) -> dict[str, str]:
    """The header of a caller whose token has these claims."""
    common = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW + 3600}
    return {"authorization": f"Bearer {a_jwt({**common, **claims})}"}


def titles(gateway: AgentCoreGateway, headers: Mapping[str, str], query: str) -> str:
    """The text that a search answers; the refusal if there is none."""
    found = gateway.call(headers, SEARCH, query=query)
    return str(found.get("answer", found))


ACME = {"opx_client_id": "acme"}
READERS = [
    (ACME, {VAULT}),
    ({"custom:opxClientId": "acme"}, {VAULT}),
    ({"opx_client_id": "acme", "opx_project_id": "shop"}, {VAULT, CART}),
    ({"opx_client_id": "globex"}, {GLOBEX}),
    ({}, set()),
]


@pytest.mark.parametrize("adds_headers", [False, True])
@pytest.mark.parametrize(("claims", "seen"), READERS)
def test_a_caller_finds_the_documents_of_its_claims(
    corpus: System, claims: dict[str, str], seen: set[str], adds_headers: bool
) -> None:
    gateway = a_gateway(corpus, adds_headers=adds_headers)
    found = {
        title for title in (VAULT, CART, GLOBEX) if f"Source: {title}" in titles(gateway, a_token(**claims), title)
    }
    assert found == seen


def forged_header(name: str, value: str = "acme") -> dict[str, str]:
    return {**a_token(opx_client_id="globex"), name: value}


FORGED_VALUES = ["acme", "", "acmé.ß", signed(FORGED, "x" * 64), signed(FORGED, "x" * 64).replace(".", ",")]
SPELLINGS = (
    *("x-opx-identity", "X-Opx-Identity", "X-OPX-IDENTITY", "x_opx_identity", " x-opx-identity", "x-opx-\u0131dentity"),
    *("x-opx-client-id", "X-OPX-Client-ID", "x_opx_client_id", "x-opx-project-id", "x-opx-agent", "opxClientId"),
)


class TestForgedHeaders:
    @pytest.mark.parametrize("adds_headers", [False, True])
    @pytest.mark.parametrize("name", SPELLINGS)
    def test_none_opens_another_clients_documents(self, corpus: System, name: str, adds_headers: bool) -> None:
        gateway = a_gateway(corpus, adds_headers=adds_headers)
        for value in FORGED_VALUES:
            assert VAULT not in titles(gateway, forged_header(name, value), VAULT)

    @pytest.mark.parametrize("adds_headers", [False, True])
    def test_neither_do_several_spellings_at_once(self, corpus: System, adds_headers: bool) -> None:
        gateway = a_gateway(corpus, adds_headers=adds_headers)
        headers = forged_header("X-Opx-Identity") | {
            "x-opx-identity": signed(FORGED, "x" * 64),
            "x-opx-client-id": "acme",
        }
        assert f"Source: {GLOBEX}" in titles(gateway, headers, GLOBEX)

    @pytest.mark.parametrize("name", SPELLINGS)
    def test_none_reaches_a_function_through_a_gateway_without_tokens(self, corpus: System, name: str) -> None:
        gateway = a_gateway(corpus, tokens=False)
        assert VAULT not in titles(gateway, SIGNED | {name: "acme"}, VAULT)
        assert "bedrockAgentCorePropagatedHeaders" not in gateway.calls[0][1].client_context.custom

    @pytest.mark.parametrize("name", SPELLINGS[:-1])
    def test_a_target_that_passes_it_on_is_refused(self, corpus: System, name: str) -> None:
        """Someone added headers to the list of the target."""
        gateway = a_gateway(corpus, tokens=False)
        for target in gateway.targets:
            target["metadataConfiguration"] = {"allowedRequestHeaders": [name]}  # type: ignore[index]
        assert gateway.call(SIGNED | {name: "acme"}, SEARCH, query=VAULT)["error"]["code"] == "forbidden"

    def test_two_statements_that_differ_are_refused(self, corpus: System) -> None:
        own = CallerStatement("globex", "", "bob", "", (), SEARCH, NOW + 60)
        headers = {IDENTITY_HEADER: signed(own, KEY), "X-Opx-Identity": "forged"}
        with function_logs():
            answer = make_retrieve(lambda: corpus)(
                {"query": GLOBEX}, FakeContext.of_gateway("search_runbooks", headers)
            )
        assert answer["error"]["code"] == "forbidden"


class TestTokens:
    @pytest.mark.parametrize(
        "claims",
        [
            {"exp": NOW - 1},
            {"aud": "other"},
            {"aud": ["other"]},
            {"iss": "https://other.example"},
        ],
    )
    def test_a_token_that_the_gateway_refuses_reaches_nothing(self, corpus: System, claims: dict[str, Any]) -> None:
        gateway = a_gateway(corpus)
        status, _ = gateway.post(a_token(**ACME, **claims), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert (status, gateway.calls) == (401, [])

    @pytest.mark.parametrize(
        "claims",
        [
            {"opx_client_id": "acme", "custom:opxClientId": "globex"},
            {"opx_client_id": ["acme"]},
            {"opx_client_id": 1},
            {"opx_client_id": "acme/*"},
            {"opx_client_id": "global"},
            {"opx_project_id": "shop"},
            {"opx_agent": ["reader"]},
        ],
    )
    def test_contradicting_and_malformed_claims_are_refused(self, corpus: System, claims: dict[str, Any]) -> None:
        gateway = a_gateway(corpus)
        status, found = gateway.post(a_token(**claims), {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert (status, found["id"], set(found)) == (403, 1, {"jsonrpc", "id", "error"})

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            (Settings(gateway_secret=SECRET, token_issuer="https://other", token_audience=AUDIENCE), "another issuer"),
            (Settings(gateway_secret=SECRET, token_issuer=ISSUER, token_audience="other"), "another audience"),
            (Settings(gateway_secret=SECRET, token_issuer=ISSUER, token_clients="other"), "another client"),
            (Settings(gateway_secret=SECRET, token_issuer=ISSUER), "neither an audience nor a client"),
            (Settings(gateway_secret=SECRET, token_audience=AUDIENCE), "another issuer"),
        ],
    )
    def test_the_interceptor_trusts_no_other_gateway(self, corpus: System, settings: Settings, reason: str) -> None:
        gateway = a_gateway(corpus, settings=settings)
        assert reason in gateway.call(a_token(**ACME), SEARCH, query=VAULT)["error"]["message"]
        assert gateway.calls == []

    @pytest.mark.parametrize(
        ("headers", "body"),
        [
            ({}, {"method": "tools/list"}),
            ({"Authorization": "Basic YTpi"}, {"method": "tools/list"}),
            ({"Authorization": "Bearer a.b.c"}, {"method": "tools/list"}),
            ({"Authorization": "Bearer e30.e30.c"}, {"method": "tools/list"}),
            ({**a_token(), "Authorization": a_token()["authorization"]}, {"method": "tools/list"}),
            (a_token(exp=True), {"method": "tools/list"}),
            (a_token(exp=float("nan")), {"method": "tools/list"}),
            (a_token(exp=10**400), {"method": "tools/list"}),
            (a_token(), [{"method": "tools/call"}]),
            (a_token(), {"method": "tools/call", "params": {"name": 7}}),
            (a_token(sub="s" * 300, opx_agent="a" * 5000), {"method": "tools/call", "params": {"name": SEARCH}}),
        ],
    )
    def test_the_interceptor_refuses_everything_else(self, headers: dict[str, str], body: Any) -> None:
        answer = intercepted({"headers": headers, "body": body})
        assert list(answer) == ["transformedGatewayResponse"]

    def test_a_claim_that_is_given_twice_is_refused(self) -> None:
        claims = (
            f'{{"iss": "{ISSUER}", "aud": "{AUDIENCE}", "exp": {NOW}, "opx_client_id": "a", "opx_client_id": "acme"}}'
        )
        payload = base64.urlsafe_b64encode(claims.encode()).decode().rstrip("=")
        request = {"headers": {"Authorization": f"Bearer e30.{payload}.s"}, "body": {"method": "tools/list"}}
        assert list(intercepted(request)) == ["transformedGatewayResponse"]

    @pytest.mark.parametrize("event", [{}, None, {"mcp": None}, {"mcp": {"gatewayRequest": []}}])
    def test_an_event_of_another_form_is_refused(self, event: Any) -> None:
        found = make_interceptor(Secrets, lambda: TOKENS, lambda: NOW)(event, FakeContext())
        assert found["mcp"]["transformedGatewayResponse"]["statusCode"] == 403

    def test_neither_token_nor_statement_is_logged(self, corpus: System, capsys: pytest.CaptureFixture[str]) -> None:
        token = a_token(**ACME)
        with function_logs():
            gateway = a_gateway(corpus)
            gateway.call(token, SEARCH, query=VAULT)
            intercepted({"headers": a_token(aud="other"), "body": {"method": "tools/list"}})
        statement = gateway.calls[0][1].client_context.custom["bedrockAgentCorePropagatedHeaders"][IDENTITY_HEADER]
        printed = capsys.readouterr()
        assert '"level":"WARNING"' in printed.out
        for part in (*token["authorization"].split(".")[1:], *statement.split("."), KEY):
            assert part not in printed.out + printed.err

    def test_what_a_session_needs_besides_calls_passes_unchanged(self) -> None:
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        headers = {**a_token(**ACME), "Mcp-Session-Id": "1", "X-Opx-Identity": "forged"}
        answer = intercepted({"headers": headers, "body": body})
        del headers["X-Opx-Identity"]
        assert answer == {"transformedGatewayRequest": {"headers": headers, "body": body}}


def intercepted(request: dict[str, Any]) -> dict[str, Any]:
    answer = make_interceptor(Secrets, lambda: TOKENS, lambda: NOW)({"mcp": {"gatewayRequest": request}}, FakeContext())
    found: dict[str, Any] = answer["mcp"]
    return found


class TestWithoutAStatement:
    def test_the_gateway_without_tokens_has_the_identity_of_the_deployment(self, corpus: System) -> None:
        assert "Disk full" in titles(a_gateway(corpus, tokens=False), SIGNED, "Disk full on Linux hosts")

    @pytest.mark.parametrize("name", ["dev-opx-knowledge-tokens", "dev-opx-knowledge-tokens-x", "other"])
    def test_any_other_gateway_is_refused(self, corpus: System, name: str) -> None:
        """An interceptor that is missing, or whose header doesn't arrive, gives nobody the identity of the deployment."""
        gateway = a_gateway(corpus, tokens=False)
        gateway.gateway = {**gateway.gateway, "name": name}
        assert gateway.call(SIGNED, SEARCH, query=VAULT)["error"]["code"] == "forbidden"

    def test_a_header_that_isnt_on_the_list_of_the_target_is_no_access(self, corpus: System) -> None:
        gateway = a_gateway(corpus)
        for target in gateway.targets:
            del target["metadataConfiguration"]  # type: ignore[attr-defined]
        assert gateway.call(a_token(**ACME), SEARCH, query=VAULT)["error"]["code"] == "forbidden"

    def test_a_statement_that_nothing_can_verify_is_no_access(self, tmp_path: Any) -> None:
        with a_system(tmp_path, {}) as system:
            found = a_gateway(system).call(a_token(**ACME), SEARCH, query=VAULT)
        assert found["error"]["code"] == "forbidden"


class TestStatements:
    STATED = CallerStatement("acme", "shop", "älice\ud800", "reader", ("opx/write",), SEARCH, NOW + 60)
    verify = staticmethod(partial(verified, tool=SEARCH, now=NOW))

    def test_is_read_as_it_was_written(self) -> None:
        assert self.verify(signed(self.STATED, KEY), KEY) == self.STATED

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda text: "A" + text[1:], "isn't signed"),
            (lambda text: text[:-1] + ("A" if text[-1] != "A" else "E"), "isn't signed"),
            (lambda text: text.partition(".")[0], "isn't signed"),
            (lambda text: text + ", " + text, "isn't signed"),
            (lambda text: text.replace(".", "\u2024"), "isn't signed"),
            (lambda _: "", "isn't signed"),
        ],
    )
    def test_a_changed_one_is_refused(self, change: Callable[[str], str], reason: str) -> None:
        with pytest.raises(ForbiddenError, match=reason):
            self.verify(change(signed(self.STATED, KEY)), KEY)

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            ({"tool": REPORT}, "another tool"),
            ({"now": NOW + VALID_SECONDS}, "another time"),
            ({"now": NOW - VALID_SECONDS - 100}, "another time"),
        ],
    )
    def test_it_is_for_one_tool_and_for_two_minutes(self, more: dict[str, Any], reason: str) -> None:
        with pytest.raises(ForbiddenError, match=reason):
            self.verify(signed(self.STATED, KEY), KEY, **more)

    def test_a_secret_that_could_be_guessed_signs_nothing(self) -> None:
        with pytest.raises(ForbiddenError, match="too short"):
            signed(self.STATED, "")


class TestAgents:
    def test_the_claim_names_the_agent_in_the_grants(self, corpus: System) -> None:
        answer = a_gateway(corpus).call(a_token(opx_agent="reader", **ACME), SEARCH, query=VAULT)
        assert answer["error"]["message"] == "unknown tool 'search_runbooks'; there are: search_docs"

    def test_the_audit_record_has_the_subject_of_the_token(self, corpus: System) -> None:
        a_gateway(corpus).call(a_token(sub="bob", **ACME), SEARCH, query=VAULT)
        assert "bob" in [record.principal for record in corpus.records.audit.records("client:acme")]

    @pytest.mark.parametrize(
        ("claims", "refused"),
        [
            ({**ACME, "scope": "opx/write"}, False),
            ({**ACME, "scp": ["opx/write"]}, False),
            ({"scope": "opx/admin"}, False),
            (ACME, True),
            ({**ACME, "scope": "opx/read writes opx/writer"}, True),
            ({"scope": "opx/write"}, True),
        ],
    )
    def test_tools_that_write_need_the_scope(self, corpus: System, claims: dict[str, Any], refused: bool) -> None:
        found = a_gateway(corpus).call(
            a_token(**claims), REPORT, question="Is the vault sealed?", missing="who seals it"
        )
        assert (found.get("error", {}).get("code") == "forbidden") is refused, json.dumps(found)
