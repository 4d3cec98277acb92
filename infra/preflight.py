"""Checks an account before a deployment changes anything: `python -m infra.preflight -c key=value`.

Without a prerequisite, a deployment would fail after minutes, often with a misleading message, and roll back.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import boto3
from aws_cdk import Token
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError, ProfileNotFound

from infra.api import MANAGE_CONCURRENCY
from infra.command_line import context_of
from infra.configuration import ContextError, Deployment
from infra.constructs.hybrid_index import index_schema
from infra.names import Names
from infra.webhooks import CONCURRENCY as WEBHOOK_CONCURRENCY
from opx.adapters.aws.bedrock_embedder import embedding_model

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = 6
"""Version of the CDK bootstrap stack that the templates require."""

ALWAYS_FREE = 100
"""Concurrent executions that Lambda keeps unreserved in every account."""

_MISSING = ("UnknownOperationException", "UnrecognizedClientException", "AccessDeniedException", "ValidationException")


class Clients(Protocol):
    """Makes a client of a service in the region of the deployment."""

    def __call__(self, service: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason for which a deployment would fail, with the remedy; not `fatal` if that isn't certain."""

    text: str
    fatal: bool = True


def problems(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """All problems, in the order in which they are best solved. A check that the caller has no rights for is reported as
    such."""
    for check in CHECKS:
        try:
            yield from check(deployment, clients)
        except EndpointConnectionError as exc:
            yield Problem(
                f"{exc}: is the service available in this region, and reachable from this machine?", fatal=False
            )
        except ClientError as exc:
            yield Problem(f"{check.__name__.replace('_', ' ')} could not be checked: {exc}", fatal=False)


def account(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    found = clients("sts").get_caller_identity()["Account"]
    if deployment.account and found != deployment.account:
        yield Problem(f"these credentials are of account {found}, the deployment is for {deployment.account}")


def bootstrap(_: Deployment, clients: Clients) -> Iterator[Problem]:
    try:
        found = int(clients("ssm").get_parameter(Name=BOOTSTRAP_PARAMETER)["Parameter"]["Value"])
    except ClientError as exc:
        if exc.response["Error"]["Code"] != "ParameterNotFound":
            raise
        found = 0
    if found < BOOTSTRAP_VERSION:
        state = f"bootstrapped with version {found}" if found else "not bootstrapped"
        yield Problem(f"the account is {state} in this region: run `npx aws-cdk@2.1148.1 bootstrap` first")


def bucket(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that the corpus bucket's name is available: names are globally unique, and only a prefixed environment's name
    contains account and region."""
    name = Names(deployment).corpus_bucket
    if Token.is_unresolved(name):
        return
    try:
        clients("s3").head_bucket(Bucket=name)
    except ClientError as exc:
        if exc.response["Error"]["Code"] not in ("403", "404"):
            raise
        if exc.response["Error"]["Code"] == "403":
            yield Problem(f"the bucket name {name} is taken by another account: choose one with -c corpus_bucket=...")


def concurrency(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    wanted = deployment.ingest_concurrency + deployment.query_concurrency
    wanted += MANAGE_CONCURRENCY if deployment.query_concurrency and deployment.api_auth != "none" else 0
    wanted += WEBHOOK_CONCURRENCY if deployment.query_concurrency and deployment.webhooks else 0
    limits = clients("lambda").get_account_settings()["AccountLimit"]
    free = limits["UnreservedConcurrentExecutions"] - ALWAYS_FREE
    if wanted and free < wanted:
        yield Problem(
            f"{wanted} concurrent executions would be reserved, but only {max(free, 0)} are available (Lambda keeps "
            f"{ALWAYS_FREE} unreserved, and other functions may have reserved some; ignore this if this environment is "
            "deployed already): raise the quota, or deploy with -c ingest_concurrency=0 -c query_concurrency=0",
            fatal=limits["ConcurrentExecutions"] - ALWAYS_FREE < wanted,
        )


def search_generation(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    if deployment.search_generation != "nextgen" or deployment.search_endpoint:
        return
    try:
        clients("opensearchserverless").list_collection_groups(maxResults=1)
    except ClientError as exc:
        code = exc.response["Error"]["Code"]
        if code not in _MISSING:
            raise
        yield Problem(
            f"next-generation collections can't be used here ({code}): this region or account lacks them, or these "
            "credentials may not aoss:ListCollectionGroups. Deploy with -c search_generation=classic, which costs while idle",
            fatal=code == "UnknownOperationException",
        )


def model_access(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    name = embedding_model(deployment.embedding_model).name
    found = clients("bedrock").get_foundation_model_availability(modelId=name)
    if "NOT_AVAILABLE" in (found["regionAvailability"], found["entitlementAvailability"]):
        yield Problem(
            f"the embedding model {name} is not available in this region: choose one with -c embedding_model=..."
        )
    elif found["authorizationStatus"] == "NOT_AUTHORIZED":
        yield Problem(f"this account may not use {name}: see its model agreement in Bedrock, and policies that deny it")


def agents(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    if deployment.agent == "gateway":
        clients("bedrock-agentcore-control").list_gateways(maxResults=1)
    elif deployment.agent == "classic" and not clients("bedrock-agent").list_agents(maxResults=1)["agentSummaries"]:
        yield Problem(
            "this account has no Bedrock agent in this region. CreateAgent is refused in accounts that never had one "
            "(closed to new customers since 2026-07-30): if so, deploy with -c agent=gateway",
            fatal=False,
        )


def index_of_the_last_deployment(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks the deployed index: its vectors can't be changed to another kind; CloudFormation would try, and fail halfway."""
    try:
        body = clients("cloudformation").get_template(StackName=Names(deployment).stack("search"))["TemplateBody"]
    except ClientError as exc:
        if exc.response["Error"]["Code"] != "ValidationError":  # the code for a stack that doesn't exist
            raise
        return
    template = body if isinstance(body, dict) else json.loads(body)
    wanted = json.loads(index_schema(deployment.embedding_model))
    for resource in template["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] != "AWS::OpenSearchServerless::CollectionIndex":
            continue
        if properties["IndexName"] == deployment.search_index and not _compatible(properties["IndexSchema"], wanted):
            yield Problem(
                f"index {deployment.search_index} was made for {_identity(properties['IndexSchema'])} and can't become "
                f"one for {_identity(wanted)}. Deploy a new one beside it with -c search_index={deployment.search_index}-2 "
                "and fill it from the corpus (docs/deploy.md, A new index); the old one stays until then"
            )


CHECKS: tuple[Callable[[Deployment, Clients], Iterator[Problem]], ...] = (
    account,
    bootstrap,
    bucket,
    concurrency,
    search_generation,
    model_access,
    agents,
    index_of_the_last_deployment,
)


def _compatible(deployed: Any, wanted: Mapping[str, Any]) -> bool:
    """True if the deployed index has all wanted fields in the wanted form. Further fields do no harm."""
    schema = json.loads(deployed) if isinstance(deployed, str) else deployed
    found = schema["mappings"]
    if found.get("_meta") != wanted["mappings"].get("_meta"):
        return False
    return all(found["properties"].get(name) == field for name, field in wanted["mappings"]["properties"].items())


def _identity(schema: Any) -> str:
    mappings = (json.loads(schema) if isinstance(schema, str) else schema)["mappings"]
    return ", ".join(f"{name} {value}" for name, value in sorted(mappings.get("_meta", {}).items()))


def main(arguments: Sequence[str]) -> int:
    """Prints all problems; returns 1 if the deployment would fail. Arguments are those of the `cdk` command."""
    try:
        deployment = Deployment.from_context(context_of(arguments))
        session = boto3.Session()
    except (ContextError, ProfileNotFound) as exc:
        return _refuse(str(exc))
    region = deployment.region or os.environ.get("AWS_REGION") or session.region_name
    if not region:
        return _refuse("no region: give -c region=eu-central-1, set AWS_REGION, or choose a profile that has one")
    if session.get_credentials() is None:
        return _refuse("no AWS credentials: set AWS_PROFILE, or sign in with `aws sso login`")
    config = Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 3})

    def client(service: str) -> Any:
        return session.client(service, region_name=region, config=config)  # type: ignore[call-overload]

    try:
        found = list(problems(deployment, client))
    except BotoCoreError as exc:
        return _refuse(str(exc))
    for problem in found:
        print(f"{'error' if problem.fatal else 'warning'}: {problem.text}", file=sys.stderr)  # noqa: T201
    return int(any(problem.fatal for problem in found))


def _refuse(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
