"""Checks an account before a deployment changes anything: `python -m infra.preflight -c key=value`.

Without a prerequisite, a deployment would fail after minutes, often with a misleading message, and roll back.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import boto3
from aws_cdk import Token
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    SSOError,
    TokenRetrievalError,
)

from infra.api import MANAGE_CONCURRENCY
from infra.application import endpoints_of
from infra.command_line import CDK, context_of
from infra.configuration import ALL_ENDPOINTS, ContextError, Deployment, listed
from infra.constructs.hybrid_index import index_schema
from infra.constructs.managed_index import INDEX_NAME as MANAGED_INDEX
from infra.constructs.private_network import CLASSIC_COLLECTION, COLLECTION, GATEWAYS, ZONES
from infra.names import APPLICATION, Names
from infra.quotas import batch_quotas_of, quota_of
from infra.webhooks import CONCURRENCY as WEBHOOK_CONCURRENCY
from opx.domain.prices import PRICES
from opx.lifecycle.costs import AWAKE_MINUTES, HOURS, SEARCH_WORKERS
from opx.ports.tables import LIFECYCLE
from opx.settings import COLLECTIONS, FIRST_COLLECTION
from opx_aws.bedrock_embedder import embedding_model
from opx_aws.opensearch_schema import RECORD_FIELD

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_VERSION = 6
"""Version of the CDK bootstrap stack that the templates require."""

ALWAYS_FREE = 100
"""Concurrent executions that Lambda keeps unreserved in every account."""

SIGN_IN = "sign in again: `aws sso login`, or renew the credentials that your shell or pipeline has"
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "TokenRefreshRequired")
_CLOCK = ("RequestExpired", "RequestTimeTooSkewed", "InvalidSignatureException")
MODELS = (
    "embedding_model",
    "next_embedding_model",
    "vision_model",
    "rerank_model",
    "chat_model",
    "context_model",
    "graph_model",
)
_GEOGRAPHY = re.compile(r"(us|us-gov|eu|apac|au|ca|jp|global)\.")
"""Prefix of the id of a cross-region inference profile."""

COLLECTION_INDEX = "AWS::OpenSearchServerless::CollectionIndex"
_INDEXES = {"Custom::SearchIndex": "Body", COLLECTION_INDEX: "IndexSchema"}
"""Types of indexes in templates of this release and of earlier ones, with the property that describes the index."""

_MISSING = ("UnknownOperationException", "UnrecognizedClientException", "AccessDeniedException", "ValidationException")


class Clients(Protocol):
    """Makes a client of a service in the region of the deployment."""

    def __call__(self, service: str, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason for which a deployment would fail, with the remedy; not `fatal` if that isn't certain."""

    text: str
    fatal: bool = True


def problems(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """All problems of the account, in the order in which they are best solved."""
    return checked((check.__name__, partial(check, deployment, clients)) for check in CHECKS)


def checked(checks: Iterable[tuple[str, Callable[[], Iterator[Problem]]]]) -> Iterator[Problem]:
    """The problems that named checks find. A check that the caller has no rights for, or whose service can't be reached,
    is reported as such; credentials that are no longer valid end the checks."""
    for name, check in checks:
        try:
            yield from check()
        except EndpointConnectionError as exc:
            yield Problem(
                f"{exc}: is the service available in this region, and reachable from this machine?", fatal=False
            )
        except (SSOError, TokenRetrievalError) as exc:
            yield Problem(f"{exc}: {SIGN_IN}")
            return
        except ClientError as exc:
            code = exc.response["Error"]["Code"]
            if code in _EXPIRED:
                yield Problem(f"the credentials are expired or unknown ({code}): {SIGN_IN}")
                return
            if code in _CLOCK:
                yield Problem(f"AWS refuses the time of the signature ({code}): set the clock of this machine")
                return
            yield Problem(f"{name.replace('_', ' ')} could not be checked: {exc}", fatal=False)


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
        yield Problem(f"the account is {state} in this region: run `npx {CDK} bootstrap` first")


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
    wanted = deployment.ingest_workers + deployment.query_concurrency
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
    generations = (deployment.search_generation, deployment.next_search_generation)
    if "nextgen" not in generations or deployment.search_endpoint:
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


def search_limits(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that the account may have one more collection, unless the environment has its own already."""
    if deployment.search_endpoint:
        return
    if deployment.following:
        yield from search_limits(deployment.following, clients)
    client, name = clients("opensearchserverless"), Names(deployment).collection
    try:
        nextgen = deployment.search_generation == "nextgen"
        groups = all_items(client.list_collection_groups, "collectionGroupSummaries") if nextgen else []
    except ClientError as exc:
        if exc.response["Error"]["Code"] in _MISSING:
            return  # which the check of the generation reports
        raise
    collections = all_items(client.list_collections, "collectionSummaries")
    if any(found["name"] == name for found in collections):
        return
    in_group = next((found.get("numberOfCollections", 0) for found in groups if found["name"] == name), 0)
    for quota in all_items(partial(clients("service-quotas").list_service_quotas, ServiceCode="aoss"), "Quotas"):
        limited = quota["QuotaName"].lower()
        if "collection" not in limited or "capacity" in limited or "ocu" in limited:
            continue
        per_group = re.search(r"(per|in a) collection group", limited)
        used = in_group if per_group else len(groups if "collection groups" in limited else collections)
        if used >= quota["Value"]:
            yield Problem(
                f"OpenSearch Serverless allows {quota['Value']:g} ({quota['QuotaName']}), and there are {used}: delete a "
                "collection that is not used, raise the quota in Service Quotas, or use an existing collection with "
                "-c search_endpoint=... -c search_arn=..."
            )


def all_items(operation: Callable[..., dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """All items of an operation that returns them in pages, and that botocore has no paginator for."""
    found: list[dict[str, Any]] = []
    token: dict[str, str] = {}
    while True:
        answer = operation(**token)
        found += answer.get(key, [])
        name = next((name for name in ("nextToken", "NextToken") if answer.get(name)), None)
        if not name:
            return found
        token = {name: answer[name]}


def model_access(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that the account may use each chosen model. A deployment needs the embedding model; the others serve single
    features, which do without."""
    client = clients("bedrock")
    region = client.meta.region_name
    if region not in boto3.Session().get_available_regions("bedrock"):
        yield Problem(
            f"{region} has no Amazon Bedrock as far as this SDK knows: choose a region with -c region=...", fatal=False
        )
    for key in MODELS:
        if chosen := getattr(deployment, key):
            name = embedding_model(chosen).name if "embedding" in key else _GEOGRAPHY.sub("", chosen)
            yield from _model_access(client, key, name, fatal=key == "embedding_model")


def _model_access(client: Any, key: str, name: str, *, fatal: bool) -> Iterator[Problem]:
    try:
        found = client.get_foundation_model_availability(modelId=name)
    except EndpointConnectionError as exc:
        yield Problem(
            f"Amazon Bedrock can't be reached ({exc}): has this region no Bedrock, or this machine no access?", fatal
        )
        return
    except ClientError as exc:
        if exc.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        found = {"regionAvailability": "NOT_AVAILABLE"}
    if "NOT_AVAILABLE" in (found["regionAvailability"], found.get("entitlementAvailability")):
        yield Problem(f"the model {name} is not available in this region: choose another with -c {key}=...", fatal)
    elif found["authorizationStatus"] == "NOT_AUTHORIZED" or found["agreementAvailability"]["status"] == "ERROR":
        yield Problem(
            f"this account may not use {name}: see its model agreement in Bedrock's catalog, and policies that deny it",
            fatal,
        )


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
    if deployment.following:
        yield from index_of_the_last_deployment(deployment.following, clients)
    template = deployed_template(clients, Names(deployment).search_stack)
    wanted = index_schema(deployment)
    for resource in template["Resources"].values():
        if resource["Type"] not in _INDEXES:
            continue
        name = resource["Properties"]["IndexName"]
        found = resource["Properties"][_INDEXES[resource["Type"]]]
        if name == deployment.search_index and not _compatible(found, wanted):
            yield Problem(
                f"index {name} was made for {_identity(found, wanted)} and can't become one for "
                f"{_identity(wanted, found)}. Deploy a new one beside it with -c search_index={name}-2 "
                "and fill it from the corpus (docs/deploy.md, A new index); the old one stays until then"
            )
        is_wanted = name == deployment.search_index or deployment.knowledge_base != "none"
        is_removed = resource["Type"] == COLLECTION_INDEX and resource.get("DeletionPolicy", "Delete") == "Delete"
        if is_removed and is_wanted:
            yield Problem(
                f"index {name} is a resource of an earlier release, which this deployment would delete: "
                + (
                    "deploy with -c knowledge_base=none first, then again with it, and Bedrock fills it anew"
                    if name == MANAGED_INDEX
                    else "destroy the environment first, which is ephemeral, or deploy it with another -c search_index=... "
                    "and fill that from the corpus (docs/deploy.md, A new index)"
                )
            )


def deployed_template(clients: Clients, stack: str) -> dict[str, Any]:
    """The template of a stack, without resources if there is no such stack."""
    try:
        body = clients("cloudformation").get_template(StackName=stack)["TemplateBody"]
    except ClientError as exc:
        if exc.response["Error"]["Code"] != "ValidationError":  # the code for a stack that doesn't exist
            raise
        return {"Resources": {}}
    found: dict[str, Any] = body if isinstance(body, dict) else json.loads(body)
    return found


def collection_of_the_answers(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that the deployment knows the collection with the index that answers now, and that it becomes no other one
    before an index was built there."""
    if deployment.search_endpoint:
        return
    names = Names(deployment)
    known = {deployment.search_collection, *([deployment.following.search_collection] if deployment.following else [])}
    recorded = _active_collection(names, clients)
    if recorded and recorded not in known:
        yield Problem(
            f"the index that answers is in the collection {recorded}, which this deployment leaves out: deploy with "
            f"-c search_collection={recorded}, or build an index in the other one first (docs/rebuild.md, Another collection)"
        )
    if recorded:
        return
    both = {name: Names(replace(deployment, search_collection=name, next_search_generation="")) for name in COLLECTIONS}
    there = [name for name, each in both.items() if deployed_template(clients, each.search_stack)["Resources"]]
    if there and deployment.search_collection != there[0]:
        yield Problem(
            f"the index that answers is in the collection {there[0]}, and none was built in {deployment.search_collection} "
            f"yet: deploy with -c search_collection={there[0]} -c next_search_generation=..., and build one there "
            "(docs/rebuild.md, Another collection)"
        )


def _active_collection(names: Names, clients: Clients) -> str:
    """The collection of the active index as recorded; empty if nothing is, as before the first new index."""
    key = {"subject": {"S": f"index {names.deployment.search_index}"}, "entry": {"S": "editions"}}
    try:
        found = clients("dynamodb").get_item(TableName=names.table(LIFECYCLE), Key=key).get("Item")
    except ClientError as exc:
        if exc.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        return ""
    if not found:
        return ""
    editions = [item["M"] for item in found["editions"]["L"]]
    active = next(item for item in editions if item["name"]["S"] == found["active"]["S"])
    return str(active.get("collection", {}).get("S") or FIRST_COLLECTION)


def network(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that endpoints exist in the zones of a private network, and that an existing VPC can take them."""
    if not deployment.vpc:
        return
    ec2 = clients("ec2")
    wanted = [name for name in endpoints_of(deployment) if name != CLASSIC_COLLECTION]
    subnets = []
    if deployment.vpc_id:
        subnets = ec2.describe_subnets(SubnetIds=listed(deployment.vpc_subnets))["Subnets"]
        yield from _existing_network(deployment, ec2, wanted, subnets)
    interfaces = [name for name in wanted if name not in GATEWAYS]
    if interfaces:
        yield from _endpoint_zones(deployment, ec2, interfaces, [subnet["AvailabilityZone"] for subnet in subnets])


def _existing_network(
    deployment: Deployment, ec2: Any, wanted: Sequence[str], subnets: Sequence[Mapping[str, Any]]
) -> Iterator[Problem]:
    vpc = deployment.vpc_id
    for subnet in subnets:
        if subnet["VpcId"] != vpc:
            yield Problem(f"subnet {subnet['SubnetId']} is in {subnet['VpcId']}, not in {vpc}")
    if len({subnet["AvailabilityZone"] for subnet in subnets}) < len(subnets):
        yield Problem("two of vpc_subnets are in the same zone: an endpoint takes one subnet in each zone")
    for attribute, key in (("enableDnsSupport", "EnableDnsSupport"), ("enableDnsHostnames", "EnableDnsHostnames")):
        if not ec2.describe_vpc_attribute(VpcId=vpc, Attribute=attribute)[key]["Value"]:
            yield Problem(
                f"{vpc} has {attribute} off, without which names of services don't lead to endpoints: enable it"
            )
    found = ec2.describe_vpc_endpoints(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["VpcEndpoints"]
    others = {
        _service(ec2, endpoint): endpoint
        for endpoint in found
        if not _is_ours(endpoint, deployment) and endpoint["State"].lower() in ("available", "pending")
    }
    for name in wanted:
        if name in others and _conflicts(others[name], deployment):
            known = others[name]["VpcEndpointId"]
            remedy = f"vpc_collection_endpoint={known}" if name == COLLECTION else f"vpc_endpoints=...,{name}"
            yield Problem(
                f"{vpc} has an endpoint for {name} already ({known}), and AWS refuses another: add -c {remedy}"
            )
    absent = [] if deployment.vpc_internet else set(listed(deployment.vpc_endpoints)) - {ALL_ENDPOINTS, *others}
    for name in sorted(absent):
        yield Problem(
            f"{vpc} has no endpoint for {name}, which vpc_endpoints names: is it shared another way?", fatal=False
        )


def _conflicts(endpoint: Mapping[str, Any], deployment: Deployment) -> bool:
    """True for an endpoint with the private name of one of ours, or with a route in one of the same tables."""
    routed = set(endpoint.get("RouteTableIds", ())) & set(listed(deployment.vpc_route_tables))
    return bool(routed) if endpoint["VpcEndpointType"] == "Gateway" else endpoint["PrivateDnsEnabled"]


def _is_ours(endpoint: Mapping[str, Any], deployment: Deployment) -> bool:
    tags = {tag["Key"]: tag["Value"] for tag in endpoint.get("Tags", ())}
    return (tags.get("application"), tags.get("environment")) == (APPLICATION, deployment.environment)


def _service(ec2: Any, described: Mapping[str, Any]) -> str:
    """`com.amazonaws.eu-central-1.sqs` -> `sqs`."""
    return str(described["ServiceName"]).partition(f".{ec2.meta.region_name}.")[2]


def _endpoint_zones(
    deployment: Deployment, ec2: Any, wanted: Sequence[str], chosen: Sequence[str]
) -> Iterator[Problem]:
    """Checks each endpoint's zones: not every service has endpoints in all. Unless zones are chosen, CloudFormation takes
    the first two by name."""
    owned = [{"Name": "owner", "Values": ["amazon"]}, {"Name": "service-type", "Values": ["Interface"]}]
    pages = ec2.get_paginator("describe_vpc_endpoint_services").paginate(Filters=owned)
    offered = {
        _service(ec2, service): set(service["AvailabilityZones"])
        for page in pages
        for service in page["ServiceDetails"]
    }
    for name in wanted:
        if name not in offered:
            yield Problem(f"this region has no endpoints for {name}: a private network can't reach it here")
    kinds = [{"Name": "zone-type", "Values": ["availability-zone"]}]
    zones = ec2.describe_availability_zones(Filters=kinds)["AvailabilityZones"]
    in_all = sorted(zone["ZoneName"] for zone in zones if all(zone["ZoneName"] in offered.get(n, ()) for n in wanted))
    names = {zone["ZoneId"]: zone["ZoneName"] for zone in zones}
    by_choice = chosen or [names.get(zone, zone) for zone in listed(deployment.vpc_zones)]
    for zone in by_choice or sorted(names.values())[:ZONES]:
        lacking = [name for name in wanted if name in offered and zone not in offered[name]]
        if lacking:
            remedy = "other vpc_subnets" if deployment.vpc_id else f"-c vpc_zones={','.join(in_all[:2])}"
            yield Problem(
                f"zone {zone} has no endpoints for {', '.join(lacking)}: choose {remedy} (zones with all endpoints: "
                f"{', '.join(in_all) or 'none'})",
                fatal=bool(by_choice),
            )


def embedding_quota(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that the account may call the embedding model at all: some new accounts have quotas of 0."""
    if _states_quota(deployment):
        return
    found = quota_of(deployment.embedding_model, clients("service-quotas"))
    if not found:
        yield Problem(
            f"Service Quotas lists no quota of {deployment.embedding_model}: ingestion finds its speed by trying, unless "
            "you set -c embedding_requests_per_minute=... or embedding_tokens_per_minute",
            fatal=False,
        )
    for unit, value in found.items():
        if value < 1:
            yield Problem(
                f"the account's quota of {deployment.embedding_model} is {value:g} {unit} a minute in this region: no "
                "document could be ingested. Request more in Service Quotas (Amazon Bedrock) or from AWS Support, choose "
                "another model or region (-c embedding_model=..., -c region=...), or set -c "
                "embedding_requests_per_minute=... if that is wrong"
            )


def _states_quota(deployment: Deployment) -> bool:
    return bool(deployment.embedding_requests_per_minute or deployment.embedding_tokens_per_minute)


def batch_inference(deployment: Deployment, clients: Clients) -> Iterator[Problem]:
    """Checks that bulk jobs can embed texts in batches; without, they are embedded one by one, at twice the price."""
    if deployment.bulk and not batch_quotas_of(deployment.embedding_model, clients("service-quotas")):
        yield Problem(
            f"Service Quotas lists no batch inference with {deployment.embedding_model} in this region: bulk jobs embed "
            "texts on demand, within the quota of requests, unless that changes",
            fatal=False,
        )


def waking(deployment: Deployment, _: Clients) -> Iterator[Problem]:
    """States the price of waking the collection on every alarm, which depends on alarms of others."""
    if deployment.wake_on_alarms and deployment.may_sleep:
        hour = SEARCH_WORKERS * PRICES["OpenSearch Serverless, OCU-hour"]
        alarm = hour * AWAKE_MINUTES / 60
        yield Problem(
            f"wake_on_alarms: every alarm of this account and region keeps the search collection awake for {AWAKE_MINUTES} "
            f"minutes, which costs {alarm:.2f} $: ten a day {300 * alarm:.0f} $ a month, one in ten minutes "
            f"{HOURS * hour:.0f} $. Alarms of auto scaling (TargetTracking-...) count, too",
            fatal=False,
        )


def discovered_context(deployment: Deployment, clients: Clients) -> Mapping[str, str]:
    """Context that the account decides, and that the deployment leaves open: quotas of the embedding model, and of batch
    inference with it. Empty without the right to read them."""
    model = deployment.embedding_model
    found: dict[str, float] = {}
    try:
        if not _states_quota(deployment):
            quota = quota_of(model, clients("service-quotas"))
            found |= {f"embedding_{unit}_per_minute": value for unit, value in sorted(quota.items())}
        if deployment.bulk and not _states_batch_quotas(deployment):
            found |= batch_quotas_of(model, clients("service-quotas"))
    except (ClientError, EndpointConnectionError):
        return {}
    return {key: str(int(value)) for key, value in found.items() if value >= 1}


def _states_batch_quotas(deployment: Deployment) -> bool:
    return bool(deployment.batch_fewest_records or deployment.batch_most_records or deployment.batch_jobs)


CHECKS: tuple[Callable[[Deployment, Clients], Iterator[Problem]], ...] = (
    account,
    bootstrap,
    bucket,
    concurrency,
    search_generation,
    search_limits,
    collection_of_the_answers,
    model_access,
    embedding_quota,
    batch_inference,
    waking,
    agents,
    index_of_the_last_deployment,
    network,
)


def _compatible(deployed: Any, wanted: Mapping[str, Any]) -> bool:
    """True if the deployed index has all wanted fields in the wanted form. That of judging records is added where it is
    missing, and further fields do no harm."""
    found = _mappings(deployed)
    return found.get("_meta") == wanted["mappings"].get("_meta") and not _other_fields(found, wanted["mappings"])


def _identity(schema: Any, other: Any) -> str:
    """The model and analyzer of an index, or if those are the same as of another one, the mappings that differ."""
    one, another = _mappings(schema), _mappings(other)
    if one.get("_meta") == another.get("_meta"):
        fields = sorted({*_other_fields(one, another), *_other_fields(another, one)})
        return ", ".join(f"{name} {json.dumps(one['properties'].get(name))}" for name in fields)
    return ", ".join(f"{name} {value}" for name, value in sorted(one.get("_meta", {}).items()))


def _other_fields(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    fields = {RECORD_FIELD: wanted["properties"].get(RECORD_FIELD), **found["properties"]}
    return [name for name, field in wanted["properties"].items() if fields.get(name) != field]


def _mappings(schema: Any) -> dict[str, Any]:
    mappings: dict[str, Any] = (json.loads(schema) if isinstance(schema, str) else schema)["mappings"]
    return mappings


@dataclass(frozen=True, slots=True)
class Account:
    """The account and region that a deployment goes to."""

    number: str
    region: str
    clients: Clients


class UnreachableError(Exception):
    """There is no account to deploy to; the message has the remedy."""


def connect(deployment: Deployment) -> Account:
    """The account of the environment's credentials. Raises `UnreachableError`."""
    try:
        session = boto3.Session()
        region = deployment.region or os.environ.get("AWS_REGION") or session.region_name
        if not region:
            raise UnreachableError(
                "no region: give -c region=eu-central-1, set AWS_REGION, or choose a profile that has one"
            )
        if session.get_credentials() is None:
            raise UnreachableError("no AWS credentials: set AWS_PROFILE, or sign in with `aws sso login`")
        clients = partial(_client, session, region)
        return Account(clients("sts").get_caller_identity()["Account"], region, clients)
    except ClientError as exc:
        code = exc.response["Error"]["Code"]
        remedy = "set the clock of this machine" if code in _CLOCK else SIGN_IN
        raise UnreachableError(f"AWS does not accept the credentials ({code}): {remedy}") from exc
    except (SSOError, TokenRetrievalError) as exc:
        raise UnreachableError(f"{exc}: {SIGN_IN}") from exc
    except BotoCoreError as exc:
        raise UnreachableError(str(exc)) from exc


def _client(session: boto3.Session, region: str, service: str) -> Any:
    config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard", "total_max_attempts": 6})
    return session.client(service, region_name=region, config=config)  # type: ignore[call-overload]


def report(found: Iterable[Problem]) -> bool:
    """Prints problems; returns whether the deployment would fail."""
    fatal = False
    for problem in found:
        fatal |= problem.fatal
        print(f"{'error' if problem.fatal else 'warning'}: {problem.text}", file=sys.stderr, flush=True)  # noqa: T201
    return fatal


def main(arguments: Sequence[str]) -> int:
    """Prints all problems of the account; returns 1 if a deployment would fail. Arguments are those of the `cdk` command."""
    try:
        deployment = Deployment.from_context(context_of(arguments))
        account = connect(deployment)
        fatal = report(problems(deployment, account.clients))
        discovered = {} if fatal else discovered_context(deployment, account.clients)
        if discovered:
            options = " ".join(f"-c {key}={value}" for key, value in discovered.items())
            print(f"found: {options}", file=sys.stderr)  # noqa: T201
        return int(fatal)
    except (ContextError, UnreachableError, BotoCoreError) as exc:
        return int(report([Problem(str(exc))]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
