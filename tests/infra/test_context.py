"""Accepted options of a deployment, and errors for all others."""

from __future__ import annotations

from dataclasses import fields

import pytest

from infra.configuration import ContextError, Deployment
from infra.constructs.layer_contents import ROOT

TOKENS = {"jwt_issuer": "https://issuer", "jwt_clients": "machine"}
EXISTING = {"vpc": "true", "vpc_id": "vpc-0a1b2c3d", "vpc_subnets": "subnet-0a1b2c3d,subnet-1a1b2c3d"}


def test_without_context_a_retained_next_generation_dev_environment_is_made() -> None:
    chosen = Deployment.from_context({})
    assert (chosen.environment, chosen.search_generation, chosen.ephemeral, chosen.bundle) == (
        "dev",
        "nextgen",
        False,
        False,
    )


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("environment", "Prod", "lower-case letters and digits"),
        ("environment", "elevenchars", "1 to 10"),
        ("environment", "", "1 to 10"),
        ("search_generation", "next", "nextgen, classic"),
        ("ephemeral", "yes", "true, false"),
        ("bundle", "1", "true, false"),
        ("embedding_model", "amazon.titan-embed-text-v9", "amazon.titan-embed-text-v2:0"),
        ("agent", "lex", "gateway, classic, none"),
        ("knowledge_base", "kendra", "none, bedrock"),
        ("api_auth", "open", "iam, jwt, none"),
        ("gateway_auth", "none", "iam, jwt, both"),
        ("jwt_issuer", "http://issuer", "the https address"),
        ("kms_key", "1234", "own, or the ARN of a key"),
        ("ingest_concurrency", "1", "auto, 0 .nothing reserved., 2 to 1000"),
        ("query_concurrency", "1", "0 .nothing reserved., 2 to 1000"),
        ("embedding_requests_per_minute", "-1", "0 .unknown., or the quota"),
        ("ingest_concurrency", "many", "a whole number"),
        ("source_buckets", "s3://x", "names of buckets"),
        ("vpc_id", "10.0.0.0/16", "the id of a VPC"),
        ("vpc_subnets", "subnet-0a1b2c3d, vpc-0a1b2c3d", "ids of subnets"),
        ("vpc_route_tables", "main", "ids of route tables"),
        ("vpc_security_group", "default", "the id of a security group"),
        ("vpc_endpoints", "bedrock_runtime", "all, or names such as sqs"),
        ("vpc_collection_endpoint", "aoss", "the id of a VPC endpoint"),
        ("vpc_zones", "eu-central-1a,euc1-az2", "names of zones .* or ids"),
        ("vpc_internet", "nat", "true, false"),
        ("reranker", "cohere", "local, bedrock, chat, off"),
        ("rewording", "false", "on, off"),
        ("learned_words", "no", "on, off"),
        ("secret_originals", "burn", "keep, encrypt"),
        ("rerank_model", "Cohere Rerank", "a model that reranks"),
        ("chat_model", "https://example.com", "a language model"),
        ("context_model", "nova", "a language model"),
        ("graph_model", "nova", "a language model"),
        ("query_concurrency", "-3", "0 .nothing reserved., 2 to 1000"),
    ],
)
def test_an_unknown_value_is_refused_with_what_is_allowed(key: str, value: str, allowed: str) -> None:
    with pytest.raises(ContextError, match=f"context {key}.*{allowed}"):
        Deployment.from_context({key: value})


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ({"search_endpoint": "https://x.aoss.amazonaws.com"}, "search_endpoint and search_arn go together"),
        ({"search_arn": "arn:aws:aoss:eu-central-1:1:collection/x"}, "search_endpoint and search_arn go together"),
        (
            {"api_auth": "jwt", "jwt_issuer": "https://issuer"},
            "api_auth=jwt and gateway_auth=jwt or both need jwt_issuer",
        ),
        ({"jwt_issuer": "https://issuer", "jwt_audience": "opx"}, "mean nothing without one"),
        ({"gateway_auth": "both", "jwt_issuer": "https://issuer"}, "need jwt_issuer, and jwt_audience or jwt_clients"),
        ({"gateway_auth": "jwt", "agent": "none", **TOKENS}, "gateway_auth=jwt needs agent=gateway"),
        ({"gateway_auth": "both", "agent": "classic", **TOKENS}, "gateway_auth=both needs agent=gateway"),
        ({"search_engine": "bedrock_knowledge_base"}, "search_engine=bedrock_knowledge_base needs knowledge_base"),
        ({"project_id": "p"}, "project_id needs client_id"),
        ({"reranker": "bedrock"}, "reranker=bedrock needs rerank_model"),
        ({"rerank_model": "cohere.rerank-v3-5:0"}, "means nothing without it"),
        ({"reranker": "chat"}, "reranker=chat needs chat_model"),
        ({"vpc_zones": "eu-central-1a,eu-central-1b"}, "vpc_zones needs vpc=true"),
        ({"vpc_internet": "true"}, "vpc_internet needs vpc=true"),
        ({"vpc": "true", "vpc_zones": "euc1-az1"}, "vpc_zones needs two or more, each once"),
        ({"vpc": "true", "vpc_zones": "euc1-az1,euc1-az1"}, "vpc_zones needs two or more, each once"),
        ({"vpc": "true", "vpc_internet": "true"}, "vpc_internet needs vpc_id, an existing VPC"),
        ({"vpc": "true", "vpc_endpoints": "all"}, "vpc_endpoints needs vpc_id, an existing VPC"),
        ({"vpc": "true", "vpc_id": "vpc-0a1b2c3d"}, "vpc_id needs vpc_subnets, two or more"),
        ({**EXISTING, "vpc_subnets": "subnet-0a1b2c3d"}, "vpc_subnets needs two or more, each once"),
        ({**EXISTING, "vpc_zones": "euc1-az1,euc1-az2"}, "vpc_zones and vpc_id exclude each other"),
        (EXISTING, "endpoints for dynamodb and s3 are routes: give vpc_route_tables, one for each"),
        ({**EXISTING, "vpc_endpoints": "s3,sqs"}, "endpoints for dynamodb are routes"),
        ({**EXISTING, "vpc_route_tables": "rtb-0a1b2c3d"}, "one for each of vpc_subnets in their order"),
    ],
)
def test_keys_that_mean_something_only_together_are_refused_alone(context: dict[str, str], reason: str) -> None:
    with pytest.raises(ContextError, match=reason):
        Deployment.from_context(context)


def test_an_unknown_key_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(ContextError, match="unknown context key 'enviroment'; allowed: environment, account"):
        Deployment.from_context({"enviroment": "prod"})


def test_the_operators_guide_lists_every_key() -> None:
    choices = (ROOT / "docs" / "deploy.md").read_text().partition("## Choices")[2].partition("## ")[0]
    assert [field.name for field in fields(Deployment) if f"`{field.name}`" not in choices] == []


def test_context_of_cdk_itself_is_left_alone() -> None:
    context = {"aws:cdk:bundling-stacks": [], "@aws-cdk/core:checkSecretUsage": True, "ssm:account=1:name": "x"}
    assert Deployment.from_context(context) == Deployment()


@pytest.mark.parametrize("value", ["true", "True", True])
def test_truth_is_read_from_the_command_line_and_from_cdk_json(value: object) -> None:
    assert Deployment.from_context({"ephemeral": value}).ephemeral is True
