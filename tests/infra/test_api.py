"""The HTTP API: who gets in, by which way, and what the function behind it may do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from opx.domain.policy import scopes_for
from opx.operations import load
from opx.operations.registry import Function
from opx.ports.tables import (
    ALIASES,
    AUDIT,
    BASELINES,
    CALENDAR,
    DELIVERIES,
    DOCUMENTS,
    EMBEDDINGS,
    FAILURES,
    GAPS,
    GRAPH,
    KEYS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    SOURCES,
    STAGING,
    USAGE,
    USES,
)
from opx.settings import Settings
from tests.infra.conftest import ISSUER
from tests.infra.templates import STACKS, Assembly, Resource, lint_findings
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import BUCKET, QUEUE, pairs, rights, table_arns

ROUTES = load().routes
WRITTEN = (ALIASES, GRAPH, LIFECYCLE, OUTCOMES, PATTERNS, SOURCES, STAGING)
CHECKPOINTS = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:dev-opx-knowledge-checkpoints"
REBUILDS = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:dev-opx-knowledge-rebuilds"
PULLS = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:dev-opx-knowledge-pulls"
SCHEDULES = "arn:<AWS::Partition>:scheduler:<AWS::Region>:<AWS::AccountId>:schedule/dev-opx-knowledge/source-*"
SCHEDULES_ROLE = "arn:<AWS::Partition>:iam::<AWS::AccountId>:role/dev-opx-source-schedules-<AWS::Region>"
SECRETS = "arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:dev-opx-knowledge/*"
RETRIEVE = "arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:function:dev-opx-retrieve-knowledge"


@pytest.fixture(scope="module")
def without(make: Callable[..., Assembly]) -> Assembly:
    return make(api_auth="none")


def routes(assembly: Assembly) -> dict[str, Resource]:
    return {route["RouteKey"]: route for route in assembly.resources("api", "ApiGatewayV2::Route").values()}


def function_of(key: str) -> Function:
    route = ROUTES[key].route
    assert route is not None
    return route.function


def called(assembly: Assembly, route: Resource) -> str:
    """The function that a route leads to."""
    integration = route["Target"].removeprefix("integrations/").strip("<>")
    found: Resource = assembly.resources("api", "ApiGatewayV2::Integration")[integration]
    assert (found["IntegrationType"], found["PayloadFormatVersion"]) == ("AWS_PROXY", "2.0")
    uri: str = found["IntegrationUri"]
    return uri


class TestRoutes:
    def test_they_are_the_librarys_and_no_others(self, default: Assembly, tokens: Assembly) -> None:
        for assembly in (default, tokens):
            assert set(routes(assembly)) == set(ROUTES)

    def test_their_logical_ids_stay(self, default: Assembly, tokens: Assembly, snapshot: SnapshotAssertion) -> None:
        """With another id, CloudFormation would make a route a second time before it removes the first."""
        for assembly in (default, tokens):
            found = assembly.resources("api", "ApiGatewayV2::Route")
            assert sorted(f"{route['RouteKey']}: {name}" for name, route in found.items()) == snapshot(name="routes")

    def test_each_leads_to_its_function(self, default: Assembly) -> None:
        (manage,) = default.resources("api", "Lambda::Function")
        arns = {Function.RETRIEVE: f"{RETRIEVE}:live", Function.MANAGE: f"<{manage}.Arn>"}
        for key, route in routes(default).items():
            assert called(default, route) == arns[function_of(key)]

    def test_the_function_that_reads_is_the_retrieval_stacks(self, default: Assembly) -> None:
        function = default.only("retrieval", "Lambda::Function")["FunctionName"]
        alias = default.only("retrieval", "Lambda::Alias")["Name"]
        assert f"{RETRIEVE}:live".endswith(f":{function}:{alias}")
        (stack,) = (
            s
            for s in json.loads((default.folder / "manifest.json").read_text())["artifacts"].items()
            if s[0] == "opx-knowledge-dev-api"
        )
        assert "opx-knowledge-dev-retrieval" in stack[1]["dependencies"]

    def test_without_snapstart_it_is_the_function_itself(self, tokens: Assembly) -> None:
        assert called(tokens, routes(tokens)["GET /status"]) == RETRIEVE

    def test_no_route_is_open(self, default: Assembly, tokens: Assembly, ephemeral: Assembly) -> None:
        for assembly in (default, ephemeral):
            assert {route["AuthorizationType"] for route in routes(assembly).values()} == {"AWS_IAM"}
        (authorizer,) = tokens.resources("api", "ApiGatewayV2::Authorizer")
        for route in routes(tokens).values():
            assert (route["AuthorizationType"], route["AuthorizerId"]) == ("JWT", f"<{authorizer}>")

    def test_tokens_need_a_routes_scopes(self, tokens: Assembly, default: Assembly) -> None:
        for key, route in routes(tokens).items():
            assert route.get("AuthorizationScopes", []) == list(scopes_for(ROUTES[key].actions))
        assert routes(tokens)["POST /uploads"]["AuthorizationScopes"] == ["opx/write", "opx/curate", "opx/admin"]
        assert not [route for route in routes(default).values() if "AuthorizationScopes" in route]

    def test_tokens_are_those_of_the_issuer_for_the_audience(self, tokens: Assembly) -> None:
        authorizer = tokens.only("api", "ApiGatewayV2::Authorizer")
        assert authorizer["JwtConfiguration"] == {"Issuer": ISSUER, "Audience": ["cli", "console", "machine"]}
        assert authorizer["AuthorizerType"] == "JWT"
        assert authorizer["IdentitySource"] == ["$request.header.Authorization"]

    def test_no_other_site_may_send_a_browsers_requests(self, default: Assembly, tokens: Assembly) -> None:
        for assembly in (default, tokens):
            api = assembly.only("api", "ApiGatewayV2::Api")
            assert "CorsConfiguration" not in api
            assert (api["ProtocolType"], api["DisableExecuteApiEndpoint"]) == ("HTTP", False)


def test_this_api_alone_may_call_the_functions(default: Assembly) -> None:
    (api,) = default.resources("api", "ApiGatewayV2::Api")
    (manage,) = default.resources("api", "Lambda::Function")
    permissions = list(default.resources("api", "Lambda::Permission").values())
    assert {permission["FunctionName"] for permission in permissions} == {f"{RETRIEVE}:live", f"<{manage}.Arn>"}
    for permission in permissions:
        assert permission["Action"] == "lambda:InvokeFunction"
        assert permission["Principal"] == "apigateway.amazonaws.com"
        assert permission["SourceAccount"] == "<AWS::AccountId>"
        assert permission["SourceArn"] == f"arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<{api}>/*"


def test_access_is_checked_only_for_buckets_that_may_be_sources(tokens: Assembly, default: Assembly) -> None:
    assert ("s3:ListBucket", "arn:<AWS::Partition>:s3:::docs-of-ops") in rights(tokens, "api")
    assert not [resource for _, resource in rights(default, "api") if "docs-of-ops" in resource]


class TestStage:
    def test_requests_are_limited(self, default: Assembly) -> None:
        stage = default.only("api", "ApiGatewayV2::Stage")
        assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 50, "ThrottlingBurstLimit": 100}
        assert (stage["StageName"], stage["AutoDeploy"]) == ("$default", True)

    def test_requests_are_logged_without_question_and_caller(self, default: Assembly) -> None:
        written = default.only("api", "ApiGatewayV2::Stage")["AccessLogSettings"]["Format"]
        assert json.loads(written)["requestId"] == "$context.requestId"
        logged = {value.removeprefix("$context.") for value in json.loads(written).values()}
        assert not {name for name in logged if name.startswith(("path", "identity", "authorizer.claims", "query"))}
        assert {"routeKey", "status", "responseLatency"} < logged

    def test_the_log_is_kept_for_ninety_days(self, default: Assembly, ephemeral: Assembly) -> None:
        for assembly, policy in ((default, "RetainExceptOnCreate"), (ephemeral, "Delete")):
            stage = assembly.only("api", "ApiGatewayV2::Stage")
            name = stage["AccessLogSettings"]["DestinationArn"].strip("<>").removesuffix(".Arn")
            group = assembly.templates["api"]["Resources"][name]
            assert group["DeletionPolicy"] == policy
            assert group["Properties"]["RetentionInDays"] == 90
            assert group["Properties"]["LogGroupName"].startswith("/aws/vendedlogs/opx-knowledge-")


class TestManageKnowledge:
    def test_the_function_may_do_exactly_this(self, default: Assembly) -> None:
        function = default.only("api", "Lambda::Function")
        logs = f"<{function['LoggingConfig']['LogGroup'].strip('<>')}.Arn>"
        documents = {f"{BUCKET}/documents/*", f"{BUCKET}/clients/*/documents/*"}
        queue = f"arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:{QUEUE}"
        assert rights(default, "api") == (
            pairs("logs:CreateLogStream PutLogEvents", {logs})
            | pairs("s3:ListBucket", {BUCKET})
            | pairs("s3:ListBucketVersions", {BUCKET})
            | pairs("s3:AbortMultipartUpload DeleteObject GetObject GetObjectVersion PutObject", documents)
            | pairs("s3:ListMultipartUploadParts PutObjectTagging", documents)
            | pairs("s3:GetObjectTagging GetObjectVersionTagging", documents)
            | pairs("dynamodb:BatchGetItem GetItem Query", table_arns(DOCUMENTS, KEYS, FAILURES))
            | pairs("dynamodb:BatchGetItem BatchWriteItem GetItem PutItem Query", table_arns(BASELINES))
            | pairs("dynamodb:BatchGetItem DeleteItem GetItem PutItem Query", table_arns(PROJECTS))
            | pairs("dynamodb:GetItem", table_arns(AUDIT))
            | pairs("dynamodb:Query", table_arns(USAGE))
            | pairs("dynamodb:BatchGetItem", table_arns(DELIVERIES))
            | pairs("dynamodb:BatchGetItem BatchWriteItem", table_arns(USES))
            | pairs("s3:GetObject", {f"{BUCKET}/chunks/*", f"{BUCKET}/clients/*/chunks/*"})
            | pairs("sqs:SendMessage", {queue, PULLS, CHECKPOINTS, REBUILDS})
            | pairs("dynamodb:BatchGetItem BatchWriteItem DeleteItem GetItem PutItem Query", table_arns(*WRITTEN))
            | pairs("scheduler:CreateSchedule DeleteSchedule UpdateSchedule", {SCHEDULES})
            | pairs("iam:PassRole", {SCHEDULES_ROLE})
            | pairs("secretsmanager:GetSecretValue", {SECRETS})
            | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        )

    def test_it_knows_the_bucket_and_the_queue_that_are_created(self, default: Assembly) -> None:
        for stack in ("api", "retrieval"):
            settings = Settings.from_environ(environment(default, stack))
            buckets = {bucket.get("BucketName") for bucket in default.resources("storage", "S3::Bucket").values()}
            assert settings.corpus_bucket in buckets
            url = "https://sqs.<AWS::Region>.<AWS::URLSuffix>/<AWS::AccountId>/"
            queues = {queue["QueueName"] for queue in default.resources("ingestion", "SQS::Queue").values()}
            assert settings.ingest_queue_url.removeprefix(url) in queues
            assert settings.environment == "dev"

    def test_it_compares_files_by_the_settings_of_ingestion(self, default: Assembly) -> None:
        """Otherwise files would be sent again that are ingested already."""
        own, ingestion = (Settings.from_environ(environment(default, stack)) for stack in ("api", "ingestion"))
        rules = ("chunk_tokens", "chunk_overlap", "embedding_model", "search_index", "max_document_bytes")
        assert [getattr(own, name) for name in rules] == [getattr(ingestion, name) for name in rules]

    def test_it_answers_before_the_api_gives_up(self, default: Assembly) -> None:
        assert default.only("api", "Lambda::Function")["Timeout"] < 30

    def test_few_run_at_once_and_nothing_is_reserved_where_nothing_is_to_be(
        self, default: Assembly, tokens: Assembly
    ) -> None:
        assert default.only("api", "Lambda::Function")["ReservedConcurrentExecutions"] == 5
        assert "ReservedConcurrentExecutions" not in tokens.only("api", "Lambda::Function")

    def test_it_acts_for_whom_the_installation_is_configured(self, tokens: Assembly) -> None:
        for stack in ("api", "retrieval"):
            settings = Settings.from_environ(environment(tokens, stack))
            assert (settings.client_id, settings.project_id) == ("acme", "shop")


def test_its_address_is_an_output(default: Assembly) -> None:
    (api,) = default.resources("api", "ApiGatewayV2::Api")
    assert default.templates["api"]["Outputs"]["ApiUrl"]["Value"] == f"<{api}.ApiEndpoint>"


def test_without_authorisation_there_is_no_api_at_all(without: Assembly) -> None:
    assert "api" not in without.templates
    assert not [r for _, _, r in without.all_resources() if "ApiGateway" in r["Type"]]
    assert without.findings == []


def test_without_the_api_the_retrieval_function_reads_only_for_agents(without: Assembly) -> None:
    found = rights(without, "retrieval")
    assert {action.split(":")[0] for action, _ in found} == {"logs", "dynamodb", "aoss", "bedrock", "s3", "sqs", "xray"}
    objects = {resource for action, resource in found if action == "s3:GetObject"}
    assert objects == {f"{BUCKET}/chunks/*", f"{BUCKET}/clients/*/chunks/*", f"{BUCKET}/words/*"}
    tables = {resource for action, resource in found if action.startswith("dynamodb:")}
    assert tables == table_arns(
        *(ALIASES, AUDIT, BASELINES, CALENDAR, DOCUMENTS, EMBEDDINGS, GAPS, GRAPH),
        *(KEYS, LIFECYCLE, OUTCOMES, PROJECTS, USES),
    )


def test_cdk_nag_and_cfn_lint_find_nothing_with_tokens(tokens: Assembly) -> None:
    assert tokens.findings == []
    assert lint_findings(tokens, "api") == []
    assert "api" in STACKS
