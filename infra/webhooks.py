"""Deliveries of other services: an HTTP API of its own, before a function that verifies each of them itself.

The API for questions and documents has no open route. This one can't have any other: who delivers has no credentials of
AWS, and no token of ours. Hence its own gateway, its own function, and as few rights as that does with.
"""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge
from infra.constructs.code import LayerSource
from infra.constructs.http_stage import add_stage, integrate
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, corpus_settings
from infra.names import Names
from opx.domain.sources import WebhookDefinition
from opx.ingestion.events import SIDECAR_SUFFIX
from opx.ports.tables import BASELINES, DELIVERIES
from opx.runtime.knowledge_file import load_knowledge
from opx_streams.webhooks.definitions import load_webhooks
from opx_streams.webhooks.gateway import ROUTE
from opx_streams.webhooks.receiving import FOLDER

RATE, BURST = 10, 20
"""Deliveries a second, and at once: an outage causes many, and any sender can cause refused ones."""

CONCURRENCY = 5
"""Limits forged deliveries, so that they can't use up the account's concurrency."""

RECEIVE_WEBHOOK = FunctionSpec(
    use_case="receive_webhook",
    dependencies="ingest",  # JSONPath, and certificates of Amazon SNS
    description="Verifies deliveries of other services and stores them in the corpus",
    memory=512,
    timeout=29,  # a second less than the API waits
)

_FOLDERS = (f"documents/*/{FOLDER}/*", f"clients/*/documents/*/{FOLDER}/*")
_SIDECARS = tuple(folder + SIDECAR_SUFFIX for folder in _FOLDERS)
_NO_AUTHORIZER = (
    "services that deliver have no credentials of AWS: the function verifies the signature of each delivery before it "
    "reads it"
)


class WebhooksStack(Stack):
    """One open, rate-limited route, and the function behind it.

    The function may read the secrets that the `webhooks` declare, and no others.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        source: LayerSource,
        env: Environment,
        webhooks: Iterable[WebhookDefinition] | None = None,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: webhooks")
        declared = load_webhooks(load_knowledge()).values() if webhooks is None else webhooks
        secrets = sorted({name for webhook in declared for name in webhook.secrets})
        self.receive = _function(self, names, source, secrets)
        self.api = gateway.CfnApi(
            self,
            "DeliveriesApi",
            name=names.stack("webhooks"),
            description="Deliveries of other services to OPX Knowledge",
            protocol_type="HTTP",
        )
        self._route(self.receive.target.function_arn)
        add_stage(self, self.api, names=names, kind="webhooks", rate=RATE, burst=BURST)
        CfnOutput(self, "WebhookUrl", value=self.api.attr_api_endpoint)

    def _route(self, function_arn: str) -> None:
        integration = integrate(self, self.api, RECEIVE_WEBHOOK.construct_id, function_arn)
        route = gateway.CfnRoute(
            self,
            "RouteIngest",
            api_id=self.api.ref,
            route_key=ROUTE,
            target=f"integrations/{integration.ref}",
            authorization_type="NONE",
        )
        acknowledge(route, "APIG4", _NO_AUTHORIZER)


def _function(scope: Construct, names: Names, source: LayerSource, secrets: list[str]) -> UseCaseFunction:
    return UseCaseFunction(
        scope,
        RECEIVE_WEBHOOK,
        names=names,
        source=source,
        settings=corpus_settings(names),
        rights=_rights(names, secrets),
        folders=(*_FOLDERS, *_SIDECARS),
        concurrency=CONCURRENCY if names.deployment.query_concurrency else 0,
    )


def _rights(names: Names, secrets: list[str]) -> list[iam.PolicyStatement]:
    """Reads only the ids of known deliveries, the secrets, and sidecars of its own documents, which each put looks up.
    Listing distinguishes a missing object (404) from a forbidden one (403)."""
    found = [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, _FOLDERS, ["s3:DeleteObject", "s3:PutObject", "s3:PutObjectTagging"]),
        rights.on_objects(names, _SIDECARS, ["s3:GetObject"]),
        rights.on_tables(names, (DELIVERIES,), ("dynamodb:GetItem", "dynamodb:PutItem")),
        rights.on_tables(names, (BASELINES,), ("dynamodb:PutItem",)),
        rights.look_clients_up(names),
    ]
    if secrets:
        arns = [names.secret_arn(name) for name in secrets]
        found.append(rights.allow(["secretsmanager:GetSecretValue"], *arns))
    return found
