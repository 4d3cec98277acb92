"""The function that answers queries of agents about running systems: logs, metrics, traces and baselines."""

from __future__ import annotations

from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import gateway_callers, rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.agent_tools import tool_grants
from infra.constructs.code import LayerSource
from infra.constructs.use_case_function import (
    FunctionSpec,
    UseCaseFunction,
    configured_identity,
    reaching_settings,
    table_settings,
)
from infra.names import Names
from opx.operations.registry import OPERATIONS, REGISTRY, Run
from opx.ports.tables import BASELINES, PROJECTS
from opx_telemetry.operations import analyze_traces, correlate_metrics, query_logs
from opx_telemetry.rules import TelemetryRules, read_telemetry

QUERY_OPERATIONS = FunctionSpec(
    use_case="query_operations",
    dependencies="api",
    description="Answers questions about running systems: logs, metrics, traces, baselines",
    memory=512,
    timeout=30,  # a question may take 20 s (telemetry.seconds): what is left is for starting and one slow request
)

FOLLOW_QUERIES = ("logs:GetQueryResults", "logs:StopQuery")
READ_METRICS = ("cloudwatch:GetMetricData",)
READ_TRACES = ("xray:BatchGetTraces", "xray:GetTraceSummaries")
_NO_RESOURCE = (
    "queries of logs are followed by ids that the function itself got, and neither metrics nor traces are resources: "
    "these read-only actions take none"
)


def are_wanted() -> bool:
    """True if knowledge.yaml grants a tool about running systems to some agent."""
    return tool_grants().anyone_may_use(OPERATIONS)


class OperationalQueries(Construct):
    """The read-only function, with the permission of agents to invoke it.

    It may query the log groups of knowledge.yaml, section `telemetry`, and read metrics and traces if some are listed
    there. Bedrock agents of this account may invoke it if agents are created elsewhere, as they may invoke the
    function that searches.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, source: LayerSource) -> None:
        super().__init__(scope, construct_id)
        rules = read_telemetry()
        self.queries = UseCaseFunction(
            self,
            QUERY_OPERATIONS,
            names=names,
            source=source,
            settings={
                **table_settings(names),
                **configured_identity(names),
                **gateway_callers.verifying_settings(names),
                **server_settings(names, rules),
            },
            rights=[
                rights.on_tables(names, (BASELINES, PROJECTS), rights.READ_ITEMS),
                *telemetry_rights(rules),
                *server_rights(names, rules),
                *gateway_callers.verifying_rights(names),
            ],
        )
        _acknowledge(self.queries.role, rules)
        self.target_arn = self.queries.target_arn
        if names.deployment.agent == "none":
            self.queries.allow_bedrock_agents()


def telemetry_rights(rules: TelemetryRules) -> list[iam.PolicyStatement]:
    """Exactly the rights that the granted tools need, for the configured sources of telemetry."""
    found = []
    if rules.log_groups and _may(query_logs):
        found += [rights.allow(["logs:StartQuery"], *_log_groups(rules)), rights.allow(FOLLOW_QUERIES, "*")]
    if rules.metrics and _may(correlate_metrics):
        found.append(rights.allow(READ_METRICS, "*"))
    if rules.services and _may(analyze_traces):
        found.append(rights.allow(READ_TRACES, "*"))
    return found


def server_settings(names: Names, rules: TelemetryRules) -> dict[str, str]:
    """Settings of a function that queries declared servers: the hosts that it may reach."""
    return reaching_settings(names) if rules.servers else {}


def server_rights(names: Names, rules: TelemetryRules) -> list[iam.PolicyStatement]:
    """The right to read the secrets of declared servers, and no others."""
    arns = [names.secret_arn(server.token_env) for server in rules.servers if server.token_env]
    return [rights.allow(["secretsmanager:GetSecretValue"], *arns)] if arns else []


def _may(tool: Run[Any, Any]) -> bool:
    """True if some agent may use the tool of this function."""
    return tool_grants().anyone_may(REGISTRY.of(tool).name)


def _log_groups(rules: TelemetryRules) -> list[str]:
    """ARNs in both of the forms that CloudWatch Logs compares with, of a group and of what is in it."""
    groups = f"arn:{Aws.PARTITION}:logs:{Aws.REGION}:{Aws.ACCOUNT_ID}:log-group"
    return [f"{groups}:{name}{end}" for name in rules.log_groups for end in ("", ":*")]


def _acknowledge(role: iam.Role, rules: TelemetryRules) -> None:
    for arn in _log_groups(rules):
        if "*" in arn:
            acknowledge_wildcard(
                role, arn, "the streams of a log group, and log groups that the operators list by prefix"
            )
    if rules.log_groups or rules.metrics or rules.services:
        acknowledge_wildcard(role, "*", _NO_RESOURCE)
