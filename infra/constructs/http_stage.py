"""The stage of an HTTP API, throttled and with an access log, and its integrations with Lambda functions."""

from __future__ import annotations

import json
from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.keeping import removal_policy
from infra.constructs.use_case_function import LOG_RETENTION
from infra.names import Names

LOGGED = {
    "requestId": "$context.requestId",
    "time": "$context.requestTimeEpoch",
    "route": "$context.routeKey",
    "status": "$context.status",
    "milliseconds": "$context.responseLatency",
    "bytes": "$context.responseLength",
    "error": "$context.error.message",
    "integrationStatus": "$context.integration.status",
    "integrationError": "$context.integrationErrorMessage",
}
"""Fields for failures and latencies. Nothing about questions and callers: ids and tokens in a path or query and addresses of
callers are left out; the request id leads to the function's log."""


def integrate(scope: Construct, api: gateway.CfnApi, name: str, function_arn: str) -> gateway.CfnIntegration:
    """The integration of an API with a function, with the permission to invoke it from any route. `name` is that of the
    function's construct."""
    stack = Stack.of(scope)
    lambda_.CfnPermission(
        scope,
        f"Call{name}",
        action="lambda:InvokeFunction",
        function_name=function_arn,
        principal="apigateway.amazonaws.com",
        source_account=stack.account,
        source_arn=stack.format_arn(service="execute-api", resource=api.ref, resource_name="*"),
    )
    return gateway.CfnIntegration(
        scope,
        f"To{name}",
        api_id=api.ref,
        integration_type="AWS_PROXY",
        integration_uri=function_arn,
        payload_format_version="2.0",
    )


def add_stage(
    scope: Construct,
    api: gateway.CfnApi,
    *,
    names: Names,
    kind: str,
    rate: int,
    burst: int,
    also_logged: Mapping[str, str] | None = None,
) -> None:
    """Deploys the API of a stack. `rate` is in requests a second, `burst` how many come at once; `kind` is the stack's."""
    log_group = logs.LogGroup(
        scope,
        "AccessLogs",
        # Names that begin so need no statement each in CloudWatch's resource policy, whose size is limited.
        log_group_name=f"/aws/vendedlogs/{names.stack(kind)}",
        retention=LOG_RETENTION,
        removal_policy=removal_policy(ephemeral=names.deployment.ephemeral),
    )
    gateway.CfnStage(
        scope,
        "Stage",
        api_id=api.ref,
        stage_name="$default",
        auto_deploy=True,
        default_route_settings=gateway.CfnStage.RouteSettingsProperty(
            throttling_rate_limit=rate, throttling_burst_limit=burst
        ),
        access_log_settings=gateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=log_group.log_group_arn,
            format=json.dumps({**LOGGED, **(also_logged or {})}, sort_keys=True),
        ),
    )
