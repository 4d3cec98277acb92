"""The gateway for callers with tokens, beside the one for IAM roles: as the service accepts it, and as its callers use it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from typing import Any

import botocore.session
import pytest

from lambdas.identify_callers.handler import make_handler as make_interceptor
from lambdas.retrieve_knowledge.handler import make_handler as make_retrieve
from opx.domain.record import replace
from opx.edges.gateway_callers import IDENTITY_HEADER, MIN_KEY_CHARACTERS
from opx.operations.system import System
from opx.settings import Settings
from tests.doubles.agentcore_gateway import AgentCoreGateway, a_jwt
from tests.infra.conftest import ISSUER
from tests.infra.templates import Assembly, Resource, lint_findings, listed
from tests.infra.test_agent import FUNCTION, lowered, outputs, refusals
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import pairs
from tests.support.agent_calls import CORPUS, DISK_TITLE, a_system
from tests.support.fakes import function_logs

NOW = 1_750_000_000.0
NAME, TOKENS = "dev-opx-knowledge", "dev-opx-knowledge-tokens"
SECRET = "dev-opx-gateway/callers"
SECRET_ARN = f"arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:{SECRET}-??????"
VAULT, SEARCH = "Unseal the acme vault", "retrieve-knowledge___search_runbooks"


def gateways(assembly: Assembly) -> dict[str, Resource]:
    return {one["Name"]: one for one in assembly.resources("agent", "BedrockAgentCore::Gateway").values()}


def targets(assembly: Assembly, name: str) -> list[Resource]:
    """Targets of the gateway with this name."""
    ids = {f"<{key}.GatewayIdentifier>": one["Name"] for key, one in gateways_by_id(assembly).items()}
    found = assembly.resources("agent", "BedrockAgentCore::GatewayTarget").values()
    return [target for target in found if ids[target["GatewayIdentifier"]] == name]


def gateways_by_id(assembly: Assembly) -> dict[str, Resource]:
    return assembly.resources("agent", "BedrockAgentCore::Gateway")


def interceptor(assembly: Assembly) -> Resource:
    found = assembly.resources("agent", "Lambda::Function").values()
    (function,) = [one for one in found if one["FunctionName"] == "dev-opx-identify-callers"]
    return function


def rights_of(assembly: Assembly, role: str) -> set[tuple[str, str]]:
    """Every pair of action and resource of the role whose logical id begins like this."""
    (policy,) = [one for name, one in assembly.resources("agent", "IAM::Policy").items() if name.startswith(role)]
    statements = policy["PolicyDocument"]["Statement"]
    return {(action, arn) for one in statements for action in listed(one["Action"]) for arn in listed(one["Resource"])}


class TestTemplate:
    def test_there_is_a_gateway_for_each_kind_of_callers(self, tokens: Assembly) -> None:
        assert {name: one["AuthorizerType"] for name, one in gateways(tokens).items()} == {
            NAME: "AWS_IAM",
            TOKENS: "CUSTOM_JWT",
        }
        assert outputs(tokens).keys() == {"GatewayUrl", "GatewayArn", "TokenGatewayUrl", "TokenGatewayArn"}

    def test_tokens_are_those_of_the_issuer_for_audience_and_client(self, tokens: Assembly) -> None:
        assert gateways(tokens)[TOKENS]["AuthorizerConfiguration"]["CustomJWTAuthorizer"] == {
            "DiscoveryUrl": f"{ISSUER}/.well-known/openid-configuration",
            "AllowedAudience": ["cli", "console"],
            "AllowedClients": ["machine"],
        }

    def test_each_request_with_a_token_is_intercepted_and_none_with_a_signature(self, tokens: Assembly) -> None:
        (found,) = gateways(tokens)[TOKENS]["InterceptorConfigurations"]
        assert found["InterceptionPoints"] == ["REQUEST"]
        assert found["InputConfiguration"] == {"PassRequestHeaders": True}
        assert "InterceptorConfigurations" not in gateways(tokens)[NAME]

    def test_the_statement_is_the_only_header_that_reaches_a_function(self, tokens: Assembly) -> None:
        for target in targets(tokens, TOKENS):
            assert target["MetadataConfiguration"] == {"AllowedRequestHeaders": [IDENTITY_HEADER]}
        for target in targets(tokens, NAME):
            assert "MetadataConfiguration" not in target

    def test_both_have_the_same_tools(self, tokens: Assembly) -> None:
        found = [[target["TargetConfiguration"] for target in targets(tokens, name)] for name in (NAME, TOKENS)]
        assert found[0] == found[1] != []

    def test_the_service_accepts_both_gateways_and_their_targets(self, tokens: Assembly) -> None:
        model: Any = botocore.session.get_session().get_service_model("bedrock-agentcore-control")
        gateway = model.operation_model("CreateGateway").input_shape
        target = model.operation_model("CreateGatewayTarget").input_shape
        for name, found in gateways(tokens).items():
            assert refusals(gateway, lowered(found)) == ""
            assert re.fullmatch(gateway.members["name"].metadata["pattern"], name)
            for each in targets(tokens, name):
                assert refusals(target, lowered(each) | {"gatewayIdentifier": f"{name}-{'0' * 10}"}) == ""

    def test_the_service_accepts_the_issuers_address(self, tokens: Assembly) -> None:
        """Botocore checks no patterns."""
        shape: Any = botocore.session.get_session().get_service_model("bedrock-agentcore-control")
        jwt = shape.shape_for("CustomJWTAuthorizerConfiguration")
        found = gateways(tokens)[TOKENS]["AuthorizerConfiguration"]["CustomJWTAuthorizer"]["DiscoveryUrl"]
        assert re.fullmatch(jwt.members["discoveryUrl"].metadata["pattern"], found)

    def test_cfn_lint_finds_nothing(self, tokens: Assembly) -> None:
        assert lint_findings(tokens, "agent") == []


class TestRights:
    def test_each_gateway_may_call_its_functions_and_nothing_else(self, tokens: Assembly) -> None:
        (name,) = [
            key for key, one in tokens.resources("agent", "Lambda::Function").items() if one is interceptor(tokens)
        ]
        assert rights_of(tokens, "KnowledgeGatewayRole") == pairs("lambda:InvokeFunction", {FUNCTION})
        assert rights_of(tokens, "TokenGatewayRole") == pairs("lambda:InvokeFunction", {FUNCTION, f"<{name}.Arn>"})

    def test_the_interceptor_may_read_the_secret_and_nothing_else(self, tokens: Assembly) -> None:
        used = {
            (action, arn) for action, arn in rights_of(tokens, "Callers") if not action.startswith(("logs", "xray"))
        }
        assert used == pairs("secretsmanager:GetSecretValue", {SECRET_ARN})

    def test_only_it_and_the_functions_of_tools_may_read_the_secret(self, tokens: Assembly) -> None:
        readers = set()
        for stack in tokens.templates:
            for policy in tokens.resources(stack, "IAM::Policy").values():
                for statement in policy["PolicyDocument"]["Statement"]:
                    if "secretsmanager:GetSecretValue" in listed(statement["Action"]):
                        covered = [arn for arn in listed(statement["Resource"]) if fnmatch(SECRET_ARN, arn)]
                        readers |= {stack for _ in covered}
        assert readers == {"agent", "retrieval"}

    def test_the_secret_is_made_by_chance_and_long_enough(self, tokens: Assembly) -> None:
        secret = tokens.only("agent", "SecretsManager::Secret")
        assert secret["Name"] == SECRET
        assert "SecretString" not in secret
        assert secret["GenerateSecretString"]["PasswordLength"] >= MIN_KEY_CHARACTERS

    def test_without_tokens_there_is_neither(self, default: Assembly) -> None:
        assert not default.resources("agent", "SecretsManager::Secret")
        assert not default.resources("agent", "Lambda::Function")
        assert not {"OPX_GATEWAY_SECRET", "OPX_UNSIGNED_GATEWAY"} & set(environment(default, "retrieval"))


class Secrets:
    """Keeps the secret of the template."""

    def load(self) -> None: ...

    def open(self) -> None: ...

    def get(self, name: str) -> str:
        assert name == SECRET
        return "k" * 64


@pytest.fixture(scope="module")
def system(tokens: Assembly, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A system with the settings of the retrieval function that concern its callers."""
    given = Settings.from_environ(environment(tokens, "retrieval"))
    names = ("client_id", "project_id", "gateway_secret", "unsigned_gateway")
    chosen = {name: getattr(given, name) for name in names}
    home = tmp_path_factory.mktemp("home")
    with a_system(home, CORPUS, secrets=Secrets(), clock=lambda: NOW) as found, function_logs():
        found.installation.settings = replace(found.settings, **chosen)
        yield found


def gateway_of(assembly: Assembly, name: str, system: System) -> AgentCoreGateway:
    """The double that the template describes, with the real functions."""
    found = [lowered(target) for target in targets(assembly, name)]
    gateway = lowered(gateways(assembly)[name])
    settings = Settings.from_environ(interceptor(assembly)["Environment"]["Variables"])
    functions = {found[0]["targetConfiguration"]["mcp"]["lambda"]["lambdaArn"]: make_retrieve(lambda: system)}
    for one in gateway.get("interceptorConfigurations", ()):
        functions[one["interceptor"]["lambda"]["arn"]] = make_interceptor(Secrets, lambda: settings, lambda: NOW)
    return AgentCoreGateway(gateway, found, functions, clock=lambda: NOW, issuer=ISSUER)


def a_token(**claims: Any) -> dict[str, str]:
    common = {"iss": ISSUER, "aud": "cli", "client_id": "machine", "sub": "alice", "exp": NOW + 3600}
    return {"Authorization": f"Bearer {a_jwt({**common, **claims})}"}


class TestCallers:
    """The template's gateways, with the functions' own code behind them."""

    def test_tenants_get_their_documents(self, tokens: Assembly, system: System) -> None:
        gateway = gateway_of(tokens, TOKENS, system)
        assert f"Source: {VAULT}" in gateway.call(a_token(opx_client_id="acme"), SEARCH, query=VAULT)["answer"]
        for claims in ({"opx_client_id": "globex"}, {}):
            assert VAULT not in str(gateway.call(a_token(**claims), SEARCH, query=VAULT))
        assert DISK_TITLE in gateway.call(a_token(), SEARCH, query=DISK_TITLE)["answer"]

    def test_a_token_of_another_client_is_refused(self, tokens: Assembly, system: System) -> None:
        gateway = gateway_of(tokens, TOKENS, system)
        assert "error" in gateway.call(a_token(client_id="other", opx_client_id="acme"), SEARCH, query=VAULT)
        assert gateway.calls == []

    def test_roles_have_the_identity_of_the_deployment(self, tokens: Assembly, system: System) -> None:
        gateway = gateway_of(tokens, NAME, system)
        signed = {"Authorization": "AWS4-HMAC-SHA256 of an allowed role", "x-opx-client-id": "globex"}
        assert f"Source: {VAULT}" in gateway.call(signed, SEARCH, query=VAULT)["answer"]
