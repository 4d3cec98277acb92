"""The HTTP API: a gateway with an authorizer on every route, and the functions behind it, one for reads, one for writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.configuration import Deployment, listed
from infra.console_choices import role_settings
from infra.constructs import bulk_jobs, rights, secret_originals
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.http_stage import add_stage, integrate
from infra.constructs.ingesting import deciding_settings
from infra.constructs.learning_functions import CHECKPOINTS, capturing_rights
from infra.constructs.use_case_function import (
    FindEngine,
    FunctionSpec,
    SearchEngine,
    UseCaseFunction,
    configured_identity,
    reaching_settings,
)
from infra.names import PULLS, PULLS_FAILED, REBUILDS, Names
from opx.domain.policy import scopes_for
from opx.operations import load
from opx.operations.registry import Function
from opx.ports.tables import (
    ALIASES,
    BASELINES,
    DELIVERIES,
    DOCUMENTS,
    FAILURES,
    GRAPH,
    KEYS,
    LIFECYCLE,
    PROJECTS,
    SOURCES,
    USAGE,
)

REFUSED = {"authorizerError": "$context.authorizer.error"}
"""Field of the access log with the reason for which an authorizer refused a request."""

RATE, BURST = 50, 100
"""Requests a second, and at once. The reading function has 50 instances by default, which answer about 100 questions a
second: half of that is left to agents, which don't use the API."""

MANAGE_CONCURRENCY = 5
"""Its work is short, and documents are ingested by another function. Small, as it reduces the account's concurrency for
everything else."""

_ON_DOCUMENTS = [
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:GetObjectVersion",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
    "s3:PutObjectTagging",
    *rights.READ_ATTESTATIONS,
]

_DEPLOYED_AS = {
    "list_documents": "documents",
    "get_document": "document",
    "read_chunks": "chunks",
    "list_categories": "categories",
    "get_status": "status",
    "list_failures": "failures",
    "list_audit_records": "audit",
    "list_gaps": "gaps",
    "list_objects": "objects",
    "prepare_upload": "upload",
    "get_object_states": "object_states",
    "get_project": "project",
    "get_baseline_stats": "baseline",
    "list_baseline_series": "baseline_series",
    "get_node": "graph_node",
    "list_neighbours": "graph_neighbours",
    "find_path": "graph_path",
    "find_nodes": "graph_find",
    "list_changes": "graph_changes",
    "list_affected": "graph_affected",
    "get_graph_coverage": "graph_coverage",
    "list_aliases": "aliases",
    "list_merges": "merges",
    "merge_nodes": "merge_things",
    "diff_document": "document_diff",
    "list_reviews": "reviews",
    "list_prunings": "prunings",
    "list_holds": "holds",
    "list_entries": "learning_entries",
    "list_patterns": "patterns",
    "get_pattern": "pattern",
    "find_patterns_for_task": "patterns_for_task",
    "find_patterns_for_failure": "patterns_for_failure",
    "get_task_context": "task_context",
    "get_document_outcomes": "document_outcomes",
    "process_checkpoint": "checkpoint",
    "list_sources": "sources",
    "check_source": "source_health",
    "crawl_site": "crawl",
}
"""Former names of operations, kept in logical ids of routes: with another id, CloudFormation would create a route a second
time before it deletes the first, and API Gateway accepts a route key once."""

MANAGE_KNOWLEDGE = FunctionSpec(
    use_case=Function.MANAGE.value,
    dependencies="manage",  # it checks sources and reads uploads, but parses no document
    description="Uploads, deletes and manages documents, for the HTTP API",
    memory=1024,
    timeout=29,  # a second less than the API waits
)


class ApiStack(Stack):
    """API Gateway with an authorizer on every route, and the function that may write.

    The reading function is the retrieval stack's, referred to by name without an import: `retrieve_arn`.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        engine: FindEngine,
        source: LayerSource,
        retrieve_arn: str,
        env: Environment,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: HTTP API")
        collection = engine(self)
        deployment = names.deployment
        self.manage = _manage_function(self, names, collection, source)
        self.api = gateway.CfnApi(
            self,
            "HttpApi",
            name=names.stack("api"),
            description="Questions and documents of OPX Knowledge",
            protocol_type="HTTP",
            disable_execute_api_endpoint=False,
        )
        tokens = self._token_authorizer(deployment) if deployment.api_auth == "jwt" else None
        called = {Function.RETRIEVE: retrieve_arn, Function.MANAGE: self.manage.target.function_arn}
        add_routes(self, self.api, called, tokens)
        add_stage(
            self,
            self.api,
            names=names,
            kind="api",
            also_logged=REFUSED,
            rate=RATE,
            burst=BURST,
        )
        CfnOutput(self, "ApiUrl", value=self.api.attr_api_endpoint)

    def _token_authorizer(self, deployment: Deployment) -> gateway.CfnAuthorizer:
        # API Gateway compares both with the claim `aud`, and with `client_id` if there is none.
        audience = listed(deployment.jwt_audience) + listed(deployment.jwt_clients)
        return add_authorizer(self, self.api, deployment.jwt_issuer, audience)


def add_authorizer(
    scope: Construct, api: gateway.CfnApi, issuer: str, audience: Sequence[str]
) -> gateway.CfnAuthorizer:
    """The authorizer of tokens of one issuer for one of an audience."""
    return gateway.CfnAuthorizer(
        scope,
        "TokenAuthorizer",
        api_id=api.ref,
        name="tokens",
        authorizer_type="JWT",
        identity_source=["$request.header.Authorization"],
        jwt_configuration=gateway.CfnAuthorizer.JWTConfigurationProperty(audience=list(audience), issuer=issuer),
    )


def add_routes(
    scope: Construct,
    api: gateway.CfnApi,
    called: Mapping[Function, str],
    tokens: gateway.CfnAuthorizer | None,
    *,
    groups_are_roles: bool = False,
) -> None:
    """The routes of all operations, to the functions with these ARNs. Without an authorizer of `tokens`, callers need rights
    of IAM on them. API Gateway checks a token's scopes; it can't read groups, so that the functions alone check these."""
    targets = {function: integrate(scope, api, _construct_id(function.value), arn) for function, arn in called.items()}
    for operation in load().routes.values():
        route = operation.route
        assert route is not None
        scopes = list(scopes_for(operation.actions)) if tokens and not groups_are_roles else []
        gateway.CfnRoute(
            scope,
            f"Route{_construct_id(_DEPLOYED_AS.get(operation.name, operation.name))}",
            api_id=api.ref,
            route_key=route.key,
            target=f"integrations/{targets[route.function].ref}",
            authorization_type="JWT" if tokens else "AWS_IAM",
            authorizer_id=tokens.ref if tokens else None,
            # With IAM, a caller's own policy lists the routes it may call.
            authorization_scopes=scopes or None,
        )


def _construct_id(name: str) -> str:
    """`delete_objects` -> `DeleteObjects`: logical ids follow from names alone, not from the order of the routes."""
    return name.title().replace("_", "")


def _manage_function(scope: Construct, names: Names, collection: SearchEngine, source: LayerSource) -> UseCaseFunction:
    """The function for writes. Its settings name index and model, which are part of how files were ingested; it has no rights
    on them."""
    found = UseCaseFunction(
        scope,
        MANAGE_KNOWLEDGE,
        names=names,
        source=source,
        settings={
            **deciding_settings(names, collection),
            **configured_identity(names),
            **role_settings(names),
            "checkpoint_queue_url": names.queue_url(CHECKPOINTS),
            "rebuild_queue_url": names.queue_url(REBUILDS),
            **_source_settings(names),
            **secret_originals.choice(names),
            **_budget(names),
            **bulk_jobs.settings(names),
        },
        rights=_manage_rights(names),
        folders=(*rights.DOCUMENT_FOLDERS, *rights.CHUNK_FOLDERS),
        concurrency=MANAGE_CONCURRENCY if names.deployment.query_concurrency else 0,
    )
    rights.acknowledge_secrets(found.role, names)
    reason = "schedules of sources that are registered while the system runs; their names begin alike"
    acknowledge_wildcard(found.role, names.registered_schedules_arn, reason)
    bulk_jobs.acknowledge(found.role, names)
    return found


def _budget(names: Names) -> dict[str, str]:
    dollars = names.deployment.budget_usd
    return {"monthly_budget": str(dollars)} if dollars else {}


def _source_settings(names: Names) -> dict[str, str]:
    """Queue, role and schedule group for sources that are registered at run time."""
    return {
        "pull_queue_url": names.queue_url(PULLS),
        "pull_queue_arn": names.queue_arn(PULLS),
        "pull_failed_arn": names.queue_arn(PULLS_FAILED),
        "pull_role_arn": names.role_arn("source-schedules"),
        "schedule_group": names.schedule_group,
        **reaching_settings(names),
    }


def _source_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to store sources, schedule them, request pulls, and check with their credentials whether they can be pulled."""
    pass_role = rights.allow(["iam:PassRole"], names.role_arn("source-schedules"))
    pass_role.add_condition("StringEquals", {"iam:PassedToService": "scheduler.amazonaws.com"})
    schedule = ["scheduler:CreateSchedule", "scheduler:DeleteSchedule", "scheduler:UpdateSchedule"]
    return [
        rights.on_tables(names, (SOURCES,), rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.allow(schedule, names.registered_schedules_arn),
        pass_role,
        rights.allow(["sqs:SendMessage"], names.queue_arn(PULLS)),
        rights.read_secrets(names),
    ]


def _manage_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights of the function for writes; uploads to signed addresses use them, too. Listing distinguishes a missing object
    (404) from a forbidden one (403), and checks whether a bucket that is a source can be read."""
    bucket = names.corpus_arn
    return [
        rights.allow(["s3:ListBucket"], bucket, *names.source_bucket_arns),
        rights.allow(["s3:ListBucketVersions"], bucket),  # old versions are put back
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, _ON_DOCUMENTS),
        rights.on_tables(names, (DOCUMENTS, KEYS, FAILURES), rights.READ_ITEMS),
        rights.on_tables(names, (USAGE,), ["dynamodb:Query"]),
        rights.on_tables(names, (DELIVERIES,), ["dynamodb:BatchGetItem"]),
        rights.on_tables(names, (BASELINES,), rights.ADD_VALUES),
        rights.on_tables(names, (ALIASES, GRAPH), rights.READ_ITEMS + rights.WRITE_ITEMS),  # for names and merges
        rights.on_tables(names, (LIFECYCLE,), rights.READ_ITEMS + rights.WRITE_ITEMS),  # holds
        rights.on_tables(names, (PROJECTS,), (*rights.READ_ITEMS, "dynamodb:DeleteItem", "dynamodb:PutItem")),
        rights.allow(["sqs:SendMessage"], *map(names.queue_arn, ("ingest", CHECKPOINTS, REBUILDS))),
        *capturing_rights(names),
        *_source_rights(names),
        *bulk_jobs.starting_rights(names),
    ]
