"""The tools as an action group of a Bedrock agent, for accounts that had such agents before they were closed to others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from aws_cdk import Aws, Stack
from aws_cdk import aws_bedrock as bedrock
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs import rights
from infra.constructs.agent_tools import Offer
from infra.names import Names
from opx.edges import schemas

IDLE_SECONDS = 1800
"""Seconds that an idle session is kept: longer than an operator takes to try a step."""

LIVE = "live"

_ActionGroup = bedrock.CfnAgent.AgentActionGroupProperty


class ClassicAgent(Construct):
    """An agent with an action group for each offer, and the alias that applications call.

    The action groups have function details or API schemas, as the deployment configures; both offer the same
    tools under the same name. Only this agent may call the functions.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, offers: Sequence[Offer], instructions: str
    ) -> None:
        super().__init__(scope, construct_id)
        deployment = names.deployment
        self.role = self._make_role(names)
        self.agent = bedrock.CfnAgent(
            self,
            "Agent",
            agent_name=names.agent,
            description="OPX Knowledge: answers from runbooks and postmortems, with their sources",
            agent_resource_role_arn=self.role.role_arn,
            foundation_model=deployment.agent_model,
            instruction=instructions,
            action_groups=[_action_group(deployment.agent_schema, offer) for offer in offers],
            auto_prepare=True,
            idle_session_ttl_in_seconds=IDLE_SECONDS,
        )
        self.agent.node.add_dependency(self.role)  # with its policy: preparing the agent checks it
        self.alias = bedrock.CfnAgentAlias(
            self,
            "Alias",
            agent_alias_name=LIVE,
            agent_id=self.agent.attr_agent_id,
            description=f"Agent as of {self._digest()}",
        )
        for at, function_arn in enumerate(dict.fromkeys(offer.function_arn for offer in offers)):
            self.alias.add_resource_dependency(self._allow(f"MayCall{at or ''}", function_arn))

    def _make_role(self, names: Names) -> iam.Role:
        agents = f"arn:{Aws.PARTITION}:bedrock:{Aws.REGION}:{Aws.ACCOUNT_ID}:agent/*"
        conditions = {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}, "ArnLike": {"aws:SourceArn": agents}}
        principal = iam.ServicePrincipal("bedrock.amazonaws.com", conditions=conditions)
        role = iam.Role(self, "Role", role_name=names.agent_role, assumed_by=principal)
        model = names.deployment.agent_model
        for statement in rights.converse(model):
            role.add_to_policy(statement)
        rights.acknowledge_profile(role, model)
        return role

    def _allow(self, construct_id: str, function_arn: str) -> lambda_.CfnPermission:
        return lambda_.CfnPermission(
            self,
            construct_id,
            action="lambda:InvokeFunction",
            function_name=function_arn,
            principal="bedrock.amazonaws.com",
            source_account=Aws.ACCOUNT_ID,
            source_arn=self.agent.attr_agent_arn,
        )

    def _digest(self) -> str:
        """Changes with the agent. An alias gets a new version of its agent only when the alias itself changes."""
        properties = Stack.of(self).resolve(self.agent._cfn_properties)
        return hashlib.sha256(json.dumps(properties, sort_keys=True).encode()).hexdigest()[:12]


def _action_group(kind: str, offer: Offer) -> _ActionGroup:
    definition: dict[str, Any] = {"function_schema": _functions(offer.tools)}
    if kind == "openapi":
        payload = json.dumps(schemas.tools_openapi(offer.group, offer.tools), separators=(",", ":"))
        definition = {"api_schema": bedrock.CfnAgent.APISchemaProperty(payload=payload)}
    return _ActionGroup(
        action_group_name=offer.group.name,
        action_group_executor=bedrock.CfnAgent.ActionGroupExecutorProperty(lambda_=offer.function_arn),
        description=offer.group.description,
        **definition,
    )


def _functions(tools: schemas.Tools) -> bedrock.CfnAgent.FunctionSchemaProperty:
    return bedrock.CfnAgent.FunctionSchemaProperty(
        functions=[
            bedrock.CfnAgent.FunctionProperty(
                name=function["name"],
                description=function["description"],
                parameters={
                    name: bedrock.CfnAgent.ParameterDetailProperty(**detail)
                    for name, detail in function["parameters"].items()
                },
            )
            for function in schemas.functions(tools)["functions"]
        ]
    )
