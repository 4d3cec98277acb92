"""The tools behind AgentCore Gateway: an MCP server for agents of any make, whose callers sign their requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_bedrockagentcore as agentcore
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import rights
from infra.constructs.agent_tools import Offer
from infra.names import Names
from opx.edges import schemas

MCP_VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
"""All versions of the protocol that the gateway supports; it refuses clients of versions that aren't listed."""

_Schema = agentcore.CfnGatewayTarget.SchemaDefinitionProperty


class KnowledgeGateway(Construct):
    """A gateway with a target for each offer.

    Callers need `bedrock-agentcore:InvokeGateway` on it. No header reaches a function: a caller could name any client
    in one, and with IAM authorisation nothing checks it. All callers have the configured identity.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, offers: Sequence[Offer], instructions: str
    ) -> None:
        super().__init__(scope, construct_id)
        self.role = self._make_role(names, [offer.function_arn for offer in offers])
        self.gateway = agentcore.CfnGateway(
            self,
            "Gateway",
            name=names.agent,
            description="OPX Knowledge: runbooks and postmortems, with their sources",
            role_arn=self.role.role_arn,
            authorizer_type="AWS_IAM",
            protocol_type="MCP",
            protocol_configuration=agentcore.CfnGateway.GatewayProtocolConfigurationProperty(
                mcp=agentcore.CfnGateway.MCPGatewayConfigurationProperty(
                    instructions=instructions, supported_versions=list(MCP_VERSIONS)
                )
            ),
        )
        for at, offer in enumerate(offers):
            self._add_target(f"Target{at or ''}", offer)

    def _add_target(self, construct_id: str, offer: Offer) -> None:
        target = agentcore.CfnGatewayTarget(
            self,
            construct_id,
            gateway_identifier=self.gateway.attr_gateway_identifier,
            name=offer.group.name,
            description=offer.group.description,
            credential_provider_configurations=[
                agentcore.CfnGatewayTarget.CredentialProviderConfigurationProperty(
                    credential_provider_type="GATEWAY_IAM_ROLE"
                )
            ],
            target_configuration=_lambda_target(offer),
        )
        target.node.add_dependency(self.role)  # with its policy: the gateway may check the function when it is added

    def _make_role(self, names: Names, functions: Sequence[str]) -> iam.Role:
        """The gateway's id is its name and ten characters that the service adds."""
        gateways = f"arn:{Aws.PARTITION}:bedrock-agentcore:{Aws.REGION}:{Aws.ACCOUNT_ID}:gateway/{names.agent}-*"
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": gateways}}
        principal = iam.ServicePrincipal("bedrock-agentcore.amazonaws.com", conditions=conditions)
        role = iam.Role(self, "Role", role_name=names.role("agent_gateway"), assumed_by=principal)
        role.add_to_policy(rights.allow(["lambda:InvokeFunction"], *functions))
        return role


def _lambda_target(offer: Offer) -> agentcore.CfnGatewayTarget.TargetConfigurationProperty:
    tools = [
        agentcore.CfnGatewayTarget.ToolDefinitionProperty(
            name=tool["name"], description=tool["description"], input_schema=_schema(tool["inputSchema"])
        )
        for tool in schemas.gateway(offer.tools)
    ]
    function = agentcore.CfnGatewayTarget.McpLambdaTargetConfigurationProperty(
        lambda_arn=offer.function_arn,
        tool_schema=agentcore.CfnGatewayTarget.ToolSchemaProperty(inline_payload=tools),
    )
    mcp = agentcore.CfnGatewayTarget.McpTargetConfigurationProperty(lambda_=function)
    return agentcore.CfnGatewayTarget.TargetConfigurationProperty(mcp=mcp)


def _schema(definition: Mapping[str, Any]) -> _Schema:
    """A JSON schema as CloudFormation spells it."""
    properties = {name: _schema(inner) for name, inner in definition.get("properties", {}).items()}
    return _Schema(
        type=definition["type"],
        description=definition.get("description"),
        properties=properties or None,
        required=definition.get("required"),
    )
