"""Callers with tokens of the agents' gateway: the interceptor that states them, and the secret that it shares with the
functions of tools."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge
from infra.constructs.code import LayerSource
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction
from infra.names import Names

IDENTIFY_CALLERS = FunctionSpec(
    use_case="identify_callers",
    dependencies="api",
    description="States the callers of the agents' gateway, from their tokens",
    memory=512,
    timeout=10,
    answers_people=True,
)

SECRET_CHARACTERS = 64
_NO_ROTATION = (
    "a new value would refuse calls until every function has read it; it is replaced by hand, with put-secret-value"
)


class GatewayCallers(Construct):
    """The function that intercepts requests, and the secret with which it signs. It has no other right than to read it."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, source: LayerSource) -> None:
        super().__init__(scope, construct_id)
        deployment = names.deployment
        secret = secretsmanager.CfnSecret(
            self,
            "Secret",
            name=names.gateway_secret,
            description="Signs the callers of the agents' gateway, for the functions of tools",
            generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
                password_length=SECRET_CHARACTERS, exclude_punctuation=True
            ),
        )
        acknowledge(secret, "SMG4", _NO_ROTATION)
        self.interceptor = UseCaseFunction(
            self,
            IDENTIFY_CALLERS,
            names=names,
            source=source,
            settings={
                "gateway_secret": names.gateway_secret,
                "token_issuer": deployment.jwt_issuer,
                "token_audience": deployment.jwt_audience,
                "token_clients": deployment.jwt_clients,
            },
            rights=verifying_rights(names),
        )
        self.interceptor_arn = self.interceptor.target.function_arn


def verifying_settings(names: Names) -> dict[str, str]:
    """Settings of functions of tools: the secret, if callers have tokens, and the gateway whose callers have none."""
    if not names.deployment.gateway_takes_tokens:
        return {}
    unsigned = {"unsigned_gateway": names.agent} if names.deployment.gateway_auth == "both" else {}
    return {"gateway_secret": names.gateway_secret, **unsigned}


def verifying_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights of the interceptor and of functions of tools: the secret, and no other."""
    if not names.deployment.gateway_takes_tokens:
        return []
    return [rights.allow(["secretsmanager:GetSecretValue"], names.gateway_secret_arn)]
