"""Access of agents to the tools: by the gateway, or without resources of ours. The classic agent has a module of its own."""

from __future__ import annotations

import re
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from infra.agent import INSTRUCTIONS
from opx.domain.scopes import Identity
from opx.edges import schemas
from opx.edges.tools import granted
from opx.operations.grants import ForAll
from opx.operations.registry import KNOWLEDGE
from opx.settings import Settings
from tests.infra.templates import Assembly, Resource
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import pairs, rights
from tests.support.agent_calls import DISK_TITLE, Handler
from tests.support.fakes import FakeContext

FUNCTION = "arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:function:dev-opx-retrieve-knowledge"
LIVE = f"{FUNCTION}:live"
ANY_AGENT = "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:agent/*"
FOR_ALL = frozenset(ForAll())
OFFERED = tuple(granted(KNOWLEDGE, FOR_ALL).values())
VALUES = {
    "query": DISK_TITLE,
    "max_results": "5",
    "max_tokens": "1200",
    "document": DISK_TITLE,
    "part": "outline",
    "after": "0",
    "alert": DISK_TITLE,
    "labels": "host=web-1",
    "document_id": "0" * 32,
    "thoroughness": "fast",
    "at_least": "weak",
    "limit": "5",
    "reference": "service:checkout",
    "resource": "web-server-01",
    "hops": "1",
    "edge_types": "",
    "direction": "both",
    "since": "",
    "from_reference": "service:checkout",
    "to_reference": "service:payments",
}
"""An argument for each parameter, as action groups send them: texts."""


class TestGateway:
    def test_only_signed_requests_are_let_in(self, default: Assembly) -> None:
        found = default.only("agent", "BedrockAgentCore::Gateway")
        assert found["AuthorizerType"] == "AWS_IAM"
        assert found["ProtocolType"] == "MCP"

    def test_its_role_may_call_the_functions_live_version_and_nothing_else(self, default: Assembly) -> None:
        assert rights(default, "agent") == pairs("lambda:InvokeFunction", {LIVE})
        role = default.only("agent", "IAM::Role")
        assert "ManagedPolicyArns" not in role
        found = default.only("agent", "BedrockAgentCore::Gateway")
        assert found["RoleArn"] == f"<{next(iter(default.resources('agent', 'IAM::Role')))}.Arn>"

    def test_only_this_gateway_of_this_account_may_take_the_role(self, default: Assembly) -> None:
        (trust,) = default.only("agent", "IAM::Role")["AssumeRolePolicyDocument"]["Statement"]
        name = default.only("agent", "BedrockAgentCore::Gateway")["Name"]
        gateways = f"arn:<AWS::Partition>:bedrock-agentcore:<AWS::Region>:<AWS::AccountId>:gateway/{name}-*"
        assert trust["Principal"] == {"Service": "bedrock-agentcore.amazonaws.com"}
        assert trust["Condition"] == {
            "StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"},
            "ArnLike": {"aws:SourceArn": gateways},
        }

    def test_the_function_that_it_calls_is_the_one_that_is_made(self, default: Assembly) -> None:
        assert f"{FUNCTION}:{default.only('retrieval', 'Lambda::Alias')['Name']}" == LIVE
        assert FUNCTION.endswith(f":{default.only('retrieval', 'Lambda::Function')['FunctionName']}")
        assert target(default)["LambdaArn"] == LIVE

    def test_without_snapstart_it_calls_the_function_itself(self, without_snapstart: Assembly) -> None:
        assert target(without_snapstart)["LambdaArn"] == FUNCTION
        assert rights(without_snapstart, "agent") == pairs("lambda:InvokeFunction", {FUNCTION})

    def test_its_tools_are_those_of_the_library(self, default: Assembly) -> None:
        assert lowered(target(default)["ToolSchema"]["InlinePayload"]) == schemas.gateway(OFFERED)

    def test_the_service_accepts_the_target(self, default: Assembly) -> None:
        """As far as botocore's model of CreateGatewayTarget knows."""
        model = botocore.session.get_session().get_service_model("bedrock-agentcore-control")
        shape = model.operation_model("CreateGatewayTarget").input_shape
        found = default.only("agent", "BedrockAgentCore::GatewayTarget")
        assert refusals(shape, lowered(found) | {"gatewayIdentifier": "g" * 10 + "-" + "0" * 10}) == ""

    def test_the_target_is_added_when_the_gateway_may_call_it(self, default: Assembly) -> None:
        (name,) = default.resources("agent", "BedrockAgentCore::GatewayTarget")
        (policy,) = default.resources("agent", "IAM::Policy")
        assert policy in default.templates["agent"]["Resources"][name]["DependsOn"]

    def test_no_header_of_a_caller_reaches_the_function(self, default: Assembly) -> None:
        assert "MetadataConfiguration" not in default.only("agent", "BedrockAgentCore::GatewayTarget")

    def test_the_service_accepts_the_gateway(self, default: Assembly) -> None:
        model = botocore.session.get_session().get_service_model("bedrock-agentcore-control")
        shape = model.operation_model("CreateGateway").input_shape
        assert refusals(shape, lowered(default.only("agent", "BedrockAgentCore::Gateway"))) == ""

    def test_clients_of_every_version_of_the_protocol_are_served(self, default: Assembly) -> None:
        mcp = default.only("agent", "BedrockAgentCore::Gateway")["ProtocolConfiguration"]["Mcp"]
        assert set(mcp["SupportedVersions"]) == {"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

    def test_its_clients_get_the_instructions(self, default: Assembly) -> None:
        mcp = default.only("agent", "BedrockAgentCore::Gateway")["ProtocolConfiguration"]["Mcp"]
        assert mcp["Instructions"] == INSTRUCTIONS

    def test_nobody_else_may_call_the_function(self, default: Assembly) -> None:
        assert permissions(default, "retrieval") == permissions(default, "agent") == []

    def test_url_and_arn_of_the_gateway_are_outputs(self, default: Assembly) -> None:
        (name,) = default.resources("agent", "BedrockAgentCore::Gateway")
        assert outputs(default) == {"GatewayUrl": f"<{name}.GatewayUrl>", "GatewayArn": f"<{name}.GatewayArn>"}

    def test_every_tool_of_the_template_is_answered_by_the_handler(self, default: Assembly, handler: Handler) -> None:
        name = default.only("agent", "BedrockAgentCore::GatewayTarget")["Name"]
        answers = {}
        for tool in target(default)["ToolSchema"]["InlinePayload"]:
            arguments = {required: VALUES[required] for required in tool["InputSchema"]["Required"]}
            answers[tool["Name"]] = handler(arguments, gateway_context(f"{name}___{tool['Name']}"))
        assert set(answers) == FOR_ALL
        assert answers["search_runbooks"]["answer"].startswith(f"Source: {DISK_TITLE}")
        assert "\nConfidence: weak" in answers["search_postmortems"]["answer"]
        assert answers["get_document_details"]["error"]["code"] == "not_found"

    def test_the_target_has_the_name_that_the_function_knows(self, default: Assembly) -> None:
        assert default.only("agent", "BedrockAgentCore::GatewayTarget")["Name"] == KNOWLEDGE.name

    def test_a_caller_that_names_a_client_in_a_header_is_nobody_special(
        self, default: Assembly, handler: Handler
    ) -> None:
        """The gateway hands over what the target lists, which is nothing."""
        listed = default.only("agent", "BedrockAgentCore::GatewayTarget").get("MetadataConfiguration", {})
        sent = {"x-opx-client-id": "acme"}
        headers = {name: value for name, value in sent.items() if name in listed.get("AllowedRequestHeaders", [])}
        answer = handler({"query": "Unseal the acme vault"}, gateway_context("t___search_runbooks", headers))
        assert "acme" not in answer["answer"]


class TestNone:
    def test_there_is_no_agent_stack(self, least: Assembly) -> None:
        assert "agent" not in least.templates
        assert not list(least.folder.glob("*-agent.*"))

    def test_agents_of_this_account_alone_may_call_the_function(self, least: Assembly) -> None:
        (alias,) = least.resources("retrieval", "Lambda::Alias")
        assert permissions(least, "retrieval") == [a_permission(f"<{alias}>", ANY_AGENT)]


def test_callers_without_identity_get_that_of_the_deployment(least: Assembly, default: Assembly) -> None:
    chosen = Settings.from_environ(environment(least, "retrieval"))
    assert Identity(chosen.client_id, chosen.project_id) == Identity("acme", "shop")
    assert not {"OPX_CLIENT_ID", "OPX_PROJECT_ID"} & set(environment(default, "retrieval"))


def target(assembly: Assembly) -> Resource:
    """The Lambda configuration of the gateway's only target."""
    found = assembly.only("agent", "BedrockAgentCore::GatewayTarget")
    configuration: Resource = found["TargetConfiguration"]["Mcp"]["Lambda"]
    return configuration


def outputs(assembly: Assembly) -> dict[str, str]:
    return {name: output["Value"] for name, output in assembly.templates["agent"]["Outputs"].items()}


def permissions(assembly: Assembly, stack: str) -> list[Resource]:
    """Those of Bedrock."""
    found = assembly.resources(stack, "Lambda::Permission").values()
    return [permission for permission in found if permission["Principal"].startswith("bedrock")]


def a_permission(function: str, source: str) -> Resource:
    return {
        "Action": "lambda:InvokeFunction",
        "FunctionName": function,
        "Principal": "bedrock.amazonaws.com",
        "SourceAccount": "<AWS::AccountId>",
        "SourceArn": source,
    }


def refusals(shape: Any, request: Any) -> str:
    """Botocore's validation report on this request."""
    return str(ParamValidator().validate(request, shape).generate_report())


def lowered(value: Any) -> Any:
    """A value of a template with its keys as the services' own APIs spell them. Names of tools and parameters, which
    are keys too, are lower case already, and texts of references become such as the APIs accept."""
    if isinstance(value, list):
        return [lowered(item) for item in value]
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: lowered(item) for key, item in value.items()}
    return as_deployed(value) if isinstance(value, str) else value


def as_deployed(text: str) -> str:
    text = re.sub(r"^<\w+\.Arn>$", "arn:aws:iam::111122223333:role/made", text)
    for name, deployed in (("Partition", "aws"), ("Region", "eu-central-1"), ("AccountId", "111122223333")):
        text = text.replace(f"<AWS::{name}>", deployed)
    return text


def gateway_context(tool: str, headers: dict[str, str] | None = None) -> FakeContext:
    context = FakeContext.of_gateway("", headers)
    context.client_context.custom["bedrockAgentCoreToolName"] = tool
    return context
