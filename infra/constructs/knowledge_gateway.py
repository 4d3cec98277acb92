"""The tools behind AgentCore Gateway: an MCP server for agents of any make, whose callers sign their requests or have
tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_bedrockagentcore as agentcore
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.configuration import listed
from infra.constructs import rights
from infra.constructs.agent_tools import Offer
from infra.names import Names
from opx.edges import schemas
from opx.edges.gateway_callers import IDENTITY_HEADER

MCP_VERSIONS = ("2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26")
"""All versions of the protocol that the gateway supports; it refuses clients of versions that aren't listed."""

DISCOVERY = "/.well-known/openid-configuration"
"""The end of an issuer's address with its public keys (OpenID Connect Discovery 1.0, section 4)."""

_Schema = agentcore.CfnGatewayTarget.SchemaDefinitionProperty


class KnowledgeGateway(Construct):
    """A gateway with a target for each offer.

    Without an interceptor, callers need `bedrock-agentcore:InvokeGateway` on it. No header reaches a function: a caller could
    name any client in one. All callers have the configured identity.

    With one, callers need a token of the deployment's issuer. The only header that reaches a function is the interceptor's
    signed statement about its caller.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        offers: Sequence[Offer],
        instructions: str,
        interceptor_arn: str = "",
    ) -> None:
        super().__init__(scope, construct_id)
        name, kind = (names.token_gateway, "token_gateway") if interceptor_arn else (names.agent, "agent_gateway")
        called = [offer.function_arn for offer in offers] + [interceptor_arn] * bool(interceptor_arn)
        self.role = self._make_role(names.role(kind), name, called)
        self.gateway = agentcore.CfnGateway(
            self,
            "Gateway",
            name=name,
            description="OPX Knowledge: runbooks and postmortems, with their sources",
            role_arn=self.role.role_arn,
            **(_with_tokens(names, interceptor_arn) if interceptor_arn else {"authorizer_type": "AWS_IAM"}),
            protocol_type="MCP",
            protocol_configuration=agentcore.CfnGateway.GatewayProtocolConfigurationProperty(
                mcp=agentcore.CfnGateway.MCPGatewayConfigurationProperty(
                    instructions=instructions, supported_versions=list(MCP_VERSIONS)
                )
            ),
        )
        if interceptor_arn:
            self.gateway.node.add_dependency(self.role)  # with its policy: likewise the interceptor
        allowed = agentcore.CfnGatewayTarget.MetadataConfigurationProperty(allowed_request_headers=[IDENTITY_HEADER])
        for at, offer in enumerate(offers):
            self._add_target(f"Target{at or ''}", offer, allowed if interceptor_arn else None)

    def _add_target(
        self, construct_id: str, offer: Offer, headers: agentcore.CfnGatewayTarget.MetadataConfigurationProperty | None
    ) -> None:
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
            metadata_configuration=headers,
        )
        target.node.add_dependency(self.role)  # with its policy: the gateway may check the function when it is added

    def _make_role(self, role_name: str, gateway: str, functions: Sequence[str]) -> iam.Role:
        """The gateway's id is its name and ten characters that the service adds."""
        gateways = f"arn:{Aws.PARTITION}:bedrock-agentcore:{Aws.REGION}:{Aws.ACCOUNT_ID}:gateway/{gateway}-*"
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": gateways}}
        principal = iam.ServicePrincipal("bedrock-agentcore.amazonaws.com", conditions=conditions)
        role = iam.Role(self, "Role", role_name=role_name, assumed_by=principal)
        role.add_to_policy(rights.allow(["lambda:InvokeFunction"], *functions))
        return role


def _with_tokens(names: Names, interceptor_arn: str) -> dict[str, Any]:
    """Properties of a gateway for holders of tokens."""
    deployment, gateway = names.deployment, agentcore.CfnGateway
    authorizer = gateway.CustomJWTAuthorizerConfigurationProperty(
        discovery_url=f"{deployment.jwt_issuer.rstrip('/')}{DISCOVERY}",
        allowed_audience=listed(deployment.jwt_audience) or None,
        allowed_clients=listed(deployment.jwt_clients) or None,
    )
    interceptor = gateway.GatewayInterceptorConfigurationProperty(
        interceptor=gateway.InterceptorConfigurationProperty(
            lambda_=gateway.LambdaInterceptorConfigurationProperty(arn=interceptor_arn)
        ),
        interception_points=["REQUEST"],
        input_configuration=gateway.InterceptorInputConfigurationProperty(pass_request_headers=True),
    )
    return {
        "authorizer_type": "CUSTOM_JWT",
        "authorizer_configuration": gateway.AuthorizerConfigurationProperty(custom_jwt_authorizer=authorizer),
        "interceptor_configurations": [interceptor],
    }


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
