"""Deliveries of other services: one open route, and a function that may do hardly anything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.application import new_app
from infra.configuration import Deployment
from infra.constructs.code import LayerSource, Platform
from infra.names import Names
from infra.webhooks import WebhooksStack
from opx.domain.knowledge import Tier
from opx.domain.sources import WebhookDefinition
from opx.ports.tables import BASELINES, DELIVERIES
from opx.settings import Settings
from tests.infra.templates import Assembly, lint_findings, listed
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import BUCKET, clients_arn, pairs, rights, table_arns


@pytest.fixture(scope="module")
def open_to_others(make: Callable[..., Assembly]) -> Assembly:
    return make(webhooks="true", client_id="acme")


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """Rights of the function's role with two webhooks that share a secret."""
    app = new_app({"aws:cdk:bundling-stacks": []}, str(tmp_path_factory.mktemp("cdk")))
    names = Names(Deployment())
    source = LayerSource(bundle=False, platform=Platform())
    webhooks = [
        WebhookDefinition(name, Tier.INTERNAL, "operations/alerts", "github", secrets)
        for name, secrets in (("a", ("webhook-a", "webhook-b")), ("b", ("webhook-b",)))
    ]
    WebhooksStack(app, "webhooks", names=names, source=source, env=None, webhooks=webhooks)  # type: ignore[arg-type]
    folder = Path(app.synth().directory)
    template = json.loads((folder / "webhooks.template.json").read_text())["Resources"]
    (policy,) = (found for found in template.values() if found["Type"] == "AWS::IAM::Policy")
    found: list[dict[str, object]] = policy["Properties"]["PolicyDocument"]["Statement"]
    return found


def test_by_default_nothing_is_delivered(default: Assembly) -> None:
    assert "webhooks" not in default.templates


def test_there_is_one_route_and_it_is_the_only_open_one(open_to_others: Assembly) -> None:
    routes = [r["Properties"] for _, _, r in open_to_others.all_resources() if r["Type"] == "AWS::ApiGatewayV2::Route"]
    opened = [route["RouteKey"] for route in routes if route["AuthorizationType"] == "NONE"]
    assert opened == ["POST /ingest/{tier}/{category+}"]
    assert len(open_to_others.resources("webhooks", "ApiGatewayV2::Route")) == 1


def test_it_leads_to_the_function_that_verifies(open_to_others: Assembly) -> None:
    (function,) = open_to_others.resources("webhooks", "Lambda::Function")
    integration = open_to_others.only("webhooks", "ApiGatewayV2::Integration")
    assert (integration["IntegrationType"], integration["PayloadFormatVersion"]) == ("AWS_PROXY", "2.0")
    assert integration["IntegrationUri"] == f"<{function}.Arn>"
    assert open_to_others.only("webhooks", "Lambda::Function")["FunctionName"] == "dev-opx-receive-webhook"


def test_this_api_alone_may_call_it(open_to_others: Assembly) -> None:
    (api,) = open_to_others.resources("webhooks", "ApiGatewayV2::Api")
    permission = open_to_others.only("webhooks", "Lambda::Permission")
    assert permission["Principal"] == "apigateway.amazonaws.com"
    assert permission["SourceAccount"] == "<AWS::AccountId>"
    assert permission["SourceArn"] == f"arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<{api}>/*"


def test_deliveries_are_limited(open_to_others: Assembly) -> None:
    stage = open_to_others.only("webhooks", "ApiGatewayV2::Stage")
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 10, "ThrottlingBurstLimit": 20}
    assert open_to_others.only("webhooks", "Lambda::Function")["ReservedConcurrentExecutions"] == 5


def test_each_is_logged_without_its_address_which_may_have_a_token(open_to_others: Assembly) -> None:
    stage = open_to_others.only("webhooks", "ApiGatewayV2::Stage")["AccessLogSettings"]
    logged = {value.removeprefix("$context.") for value in json.loads(stage["Format"]).values()}
    assert {"routeKey", "status", "requestId"} < logged
    assert not {name for name in logged if re.match("path|identity|query|authorizer|protocol", name)}
    group = stage["DestinationArn"].strip("<>").removesuffix(".Arn")
    assert open_to_others.templates["webhooks"]["Resources"][group]["Properties"]["RetentionInDays"] == 90


def test_the_function_may_do_exactly_this(open_to_others: Assembly) -> None:
    """It can't read documents, or a secret that no webhook has. Their names it can list, as each put looks for metadata
    beside the document."""
    function = open_to_others.only("webhooks", "Lambda::Function")
    logs = f"<{function['LoggingConfig']['LogGroup'].strip('<>')}.Arn>"
    deliveries = {f"{BUCKET}/documents/*/webhooks/*", f"{BUCKET}/clients/*/documents/*/webhooks/*"}
    assert rights(open_to_others, "webhooks") == (
        pairs("logs:CreateLogStream PutLogEvents", {logs})
        | pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:DeleteObject PutObject PutObjectTagging", deliveries)
        | pairs("s3:GetObject", {f"{each}.metadata.json" for each in deliveries})
        | pairs("dynamodb:GetItem PutItem", table_arns(DELIVERIES))
        | pairs("dynamodb:PutItem", table_arns(BASELINES))
        | pairs("dynamodb:GetItem", clients_arn())
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
    )


def test_it_may_read_the_secrets_that_webhooks_declare(statements: list[dict[str, object]]) -> None:
    (found,) = (each for each in statements if "secretsmanager:GetSecretValue" in listed(each["Action"]))
    names = sorted(json.dumps(arn).rpartition("opx-knowledge/")[2].split('"')[0] for arn in listed(found["Resource"]))
    assert names == ["webhook-a-??????", "webhook-b-??????"]


def test_its_settings_are_those_of_the_installation(open_to_others: Assembly) -> None:
    settings = Settings.from_environ(environment(open_to_others, "webhooks"))
    assert (settings.backend, settings.client_id, settings.environment) == ("aws", "acme", "dev")
    buckets = {bucket.get("BucketName") for bucket in open_to_others.resources("storage", "S3::Bucket").values()}
    assert settings.corpus_bucket in buckets


def test_its_address_is_an_output(open_to_others: Assembly) -> None:
    (api,) = open_to_others.resources("webhooks", "ApiGatewayV2::Api")
    assert open_to_others.templates["webhooks"]["Outputs"]["WebhookUrl"]["Value"] == f"<{api}.ApiEndpoint>"


def test_cdk_nag_and_cfn_lint_find_nothing(open_to_others: Assembly) -> None:
    assert open_to_others.findings == []
    assert lint_findings(open_to_others, "webhooks") == []
