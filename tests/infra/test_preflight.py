"""Checks of an account before a deployment. Answers are validated against AWS's own descriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import UnauthorizedSSOTokenError

from infra.command_line import context_of
from infra.configuration import Deployment
from infra.constructs.hybrid_index import index_schema
from infra.preflight import discovered_context, main, model_access, problems, search_limits
from opx_aws.bedrock_embedder import DEFAULT_MODEL
from opx_aws.opensearch_schema import RECORD_FIELD
from tests.doubles.aws_account import AwsAccountDouble, RefusedError, answering_client

ACCOUNT = "111122223333"
OTHER_MODEL = "cohere.embed-v4:0"
AVAILABLE = {
    "modelId": DEFAULT_MODEL,
    "agreementAvailability": {"status": "AVAILABLE"},
    "authorizationStatus": "AUTHORIZED",
    "entitlementAvailability": "AVAILABLE",
    "regionAvailability": "AVAILABLE",
}


def quotas(*values: tuple[str, float], of: str = "On-demand model inference {} per minute for {}") -> dict[str, Any]:
    """Service Quotas' answer with quotas of Titan V2, among others."""
    names = ("Amazon Titan Text Embeddings V2", "Amazon Titan Text Embeddings", "Cohere Embed V4")
    found = [{"QuotaName": of.format(unit, names[0]), "Value": value} for unit, value in values]
    others = [
        {"QuotaName": of.format(unit, name), "Value": 1.0} for unit in ("requests", "tokens") for name in names[1:]
    ]
    crossing = {"QuotaName": f"Cross-region model inference requests per minute for {names[0]}", "Value": 2.0}
    return {"Quotas": [*others, crossing, *found]}


GOOD: dict[tuple[str, str], dict[str, Any] | str] = {
    ("sts", "get_caller_identity"): {"Account": ACCOUNT},
    ("ssm", "get_parameter"): {"Parameter": {"Value": "30"}},
    ("s3", "head_bucket"): "404",
    ("lambda", "get_account_settings"): {
        "AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}
    },
    ("opensearchserverless", "list_collection_groups"): {"collectionGroupSummaries": []},
    ("opensearchserverless", "list_collections"): {"collectionSummaries": []},
    ("bedrock", "get_foundation_model_availability"): AVAILABLE,
    ("service-quotas", "list_service_quotas"): quotas(("requests", 60.0), ("tokens", 300_000.0)),
    ("service-quotas", "list_aws_default_service_quotas"): quotas(("requests", 6000.0)),
    ("bedrock-agentcore-control", "list_gateways"): {"items": []},
    ("bedrock-agent", "list_agents"): {"agentSummaries": []},
    ("cloudformation", "get_template"): "ValidationError",
    ("dynamodb", "get_item"): "ResourceNotFoundException",
}
"""Answers of an account that has never seen a deployment; a string is an error code."""


class Account:
    """Clients with configured answers."""

    def __init__(self, **changed: dict[str, Any] | str) -> None:
        self._answers = {key: changed.get(key[1], answer) for key, answer in GOOD.items()}

    def __call__(self, service: str) -> Any:
        def answer(operation: str, _: Mapping[str, Any]) -> Mapping[str, Any]:
            found = self._answers[service, operation]
            if isinstance(found, str):
                raise RefusedError(found)
            return dict(found)  # which botocore changes

        return answering_client(service, "eu-central-1", answer)


def reported(clients: Account, **context: object) -> list[tuple[str, bool]]:
    return [(problem.text, problem.fatal) for problem in problems(Deployment.from_context(context), clients)]


EARLIER = {"Type": "AWS::OpenSearchServerless::CollectionIndex", "DeletionPolicy": "RetainExceptOnCreate"}
"""The resource of an index in templates before `Custom::SearchIndex`."""


def test_waking_on_alarms_states_its_price() -> None:
    ((text, fatal),) = reported(Account(), wake_on_alarms="true")
    assert text.startswith("wake_on_alarms: every alarm of this account and region keeps the search collection awake")
    assert "costs 0.10 $: ten a day 29 $ a month, one in ten minutes 350 $" in text
    assert not fatal
    assert reported(Account()) == []
    assert reported(Account(), wake_on_alarms="true", search_min_ocu="1") == []


def deployed(model: str, form: str = "Body", resource: Mapping[str, Any] | None = None, **more: str) -> dict[str, Any]:
    """The template of an index."""
    schema = index_schema(Deployment(embedding_model=model, **more))  # type: ignore[arg-type]
    index = {"IndexName": "opx-knowledge", form: json.dumps(schema)}
    found = {**(resource or {"Type": "Custom::SearchIndex"}), "Properties": index}
    return {"TemplateBody": json.dumps({"Resources": {"Index": found}})}


def test_an_account_without_problems_has_no_report() -> None:
    assert reported(Account()) == []


@pytest.mark.parametrize(
    ("operation", "answer", "context", "reason", "fatal"),
    [
        ("get_caller_identity", {"Account": "999999999999"}, {"account": ACCOUNT}, "of account 999999999999", True),
        ("get_parameter", "ParameterNotFound", {}, "not bootstrapped in this region: run `npx", True),
        ("get_parameter", {"Parameter": {"Value": "3"}}, {}, "bootstrapped with version 3", True),
        ("get_parameter", "AccessDeniedException", {}, "bootstrap could not be checked", False),
        (
            "get_account_settings",
            {"AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}},
            {},
            "65 concurrent executions would be reserved, but only 0 are available .* -c ingest_concurrency=0",
            True,
        ),
        (
            "get_account_settings",
            {"AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}},
            {"webhooks": "true"},
            "70 concurrent executions would be reserved",
            True,
        ),
        ("list_collection_groups", "UnknownOperationException", {}, "-c search_generation=classic", True),
        ("list_collection_groups", "AccessDeniedException", {}, "lacks them, or these credentials may not", False),
        (
            "get_foundation_model_availability",
            {**AVAILABLE, "regionAvailability": "NOT_AVAILABLE"},
            {},
            "titan-embed-text-v2:0 is not available in this region",
            True,
        ),
        (
            "get_foundation_model_availability",
            {**AVAILABLE, "authorizationStatus": "NOT_AUTHORIZED"},
            {},
            "may not use amazon.titan-embed-text-v2:0: see its model agreement",
            True,
        ),
        (
            "get_foundation_model_availability",
            "ResourceNotFoundException",
            {},
            "titan-embed-text-v2:0 is not available in this region",
            True,
        ),
        (
            "list_service_quotas",
            quotas(("requests", 0.0)),
            {},
            "is 0 requests a minute .* Request more in Service",
            True,
        ),
        ("list_service_quotas", quotas(("tokens", 0.0)), {}, "is 0 tokens a minute in this region", True),
        ("head_bucket", "403", {"environment": "prod"}, "opx-knowledge-corpus is taken .* -c corpus_bucket=", True),
        ("list_agents", {"agentSummaries": []}, {"agent": "classic"}, "closed to new customers", False),
    ],
)
def test_missing_prerequisite_is_reported_with_the_reason(
    operation: str, answer: dict[str, Any] | str, context: dict[str, object], reason: str, fatal: bool
) -> None:
    ((text, is_fatal),) = reported(Account(**{operation: answer}), **context)
    assert is_fatal is fatal
    assert re.search(reason, text)


def test_quotas_that_may_not_be_read_are_warnings() -> None:
    found = reported(Account(list_service_quotas="AccessDeniedException"))
    assert [text.partition(" could not be checked")[0] for text, fatal in found if not fatal] == [
        "search limits",
        "embedding quota",
    ]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("ExpiredToken", "sign in again: `aws sso login`"),
        ("InvalidClientTokenId", "sign in again: `aws sso login`"),
        ("RequestTimeTooSkewed", "set the clock of this machine"),
    ],
)
def test_credentials_that_are_no_longer_valid_end_the_checks_with_the_remedy(code: str, remedy: str) -> None:
    ((text, fatal),) = reported(Account(get_caller_identity=code, get_parameter=code))
    assert fatal
    assert remedy in text


def test_a_sign_in_that_ended_is_no_traceback() -> None:
    def clients(_: str) -> Any:
        raise UnauthorizedSSOTokenError

    ((problem),) = problems(Deployment(), clients)
    assert problem.fatal
    assert "sign in again" in problem.text


def test_a_region_without_bedrock_is_refused() -> None:
    double = AwsAccountDouble(unreachable=frozenset({"bedrock"}), region="us-iso-east-1")
    first, second = model_access(Deployment(), double)
    assert not first.fatal  # a newer region may be unknown to the SDK
    assert "us-iso-east-1 has no Amazon Bedrock" in first.text
    assert second.fatal
    assert "Bedrock can't be reached" in second.text


def test_models_of_single_features_are_checked_too_and_stop_nothing() -> None:
    refused = {"get_foundation_model_availability": "ResourceNotFoundException"}
    chosen = Deployment(chat_model="eu.amazon.nova-lite-v1:0", reranker="chat")
    embedding, chat = model_access(chosen, AwsAccountDouble(errors=refused, region="eu-central-1"))
    assert (embedding.fatal, chat.fatal) == (True, False)
    assert chat.text.startswith("the model amazon.nova-lite-v1:0 is not available")
    assert "-c chat_model=..." in chat.text


@pytest.mark.parametrize(
    ("quota", "groups"),
    [
        ("Collections per account per Region", {}),
        ("Collection groups per account", {"first": 1, "second": 1, "third": 1}),
        ("Collections per collection group", {"dev-opx-knowledge": 3}),
    ],
)
def test_an_account_at_a_limit_of_collections_is_refused(quota: str, groups: dict[str, int]) -> None:
    taken = {"one": "aaa1", "two": "aaa2", "three": "aaa3"}
    quotas = {"Indexing capacity in OCU": 1.0, quota: 3.0}
    (problem,) = search_limits(
        Deployment(), AwsAccountDouble(collections=taken, collection_groups=groups, quotas=quotas)
    )
    assert problem.fatal
    assert f"allows 3 ({quota}), and there are 3" in problem.text


def test_limits_of_collections_are_none_to_an_environment_that_has_its_own() -> None:
    full = AwsAccountDouble(collections={"dev-opx-knowledge": "aaa1"}, quotas={"Collections per account": 1.0})
    assert list(search_limits(Deployment(), full)) == []
    assert list(search_limits(Deployment(search_endpoint="https://x", search_arn="arn"), full)) == []


@pytest.mark.parametrize(
    ("operation", "answer", "context"),
    [
        ("list_collection_groups", "UnknownOperationException", {"search_generation": "classic"}),
        (
            "get_account_settings",
            {"AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 10}},
            {"ingest_concurrency": "0", "query_concurrency": "0"},
        ),
        ("list_gateways", "AccessDeniedException", {"agent": "none"}),
        ("list_service_quotas", quotas(("requests", 0.0)), {"embedding_requests_per_minute": "60"}),
    ],
)
def test_unused_services_are_not_checked(
    operation: str, answer: dict[str, Any] | str, context: dict[str, object]
) -> None:
    assert reported(Account(**{operation: answer}), **context) == []


def test_a_bucket_of_this_account_may_be_there() -> None:
    assert reported(Account(head_bucket={}), environment="prod") == []


def test_choices_are_read_from_cdk_json_and_the_command_line_wins(tmp_path: Path) -> None:
    file = tmp_path / "cdk.json"
    file.write_text(json.dumps({"app": "x", "context": {"agent": "none", "vpc": True}}))
    arguments = ["deploy", "-c", "agent=classic", "--context=region=eu-west-1", "--context", "environment=a=b"]
    assert context_of(arguments, file) == {"agent": "classic", "vpc": True, "region": "eu-west-1", "environment": "a=b"}


def test_an_index_for_another_model_is_refused_with_the_way_out() -> None:
    account = Account(get_template=deployed(OTHER_MODEL), get_foundation_model_availability=AVAILABLE)
    ((text, fatal),) = reported(account)
    assert fatal
    assert "index opx-knowledge was made for" in text
    assert "-c search_index=opx-knowledge-2" in text


def test_an_index_for_another_model_may_have_one_of_another_name_beside_it() -> None:
    assert reported(Account(get_template=deployed(OTHER_MODEL)), search_index="opx-knowledge-2") == []


def test_the_index_as_it_was_deployed_is_left_alone() -> None:
    assert reported(Account(get_template=deployed(DEFAULT_MODEL))) == []
    assert reported(Account(get_template=deployed(DEFAULT_MODEL, "IndexSchema", EARLIER))) == []


def test_an_index_of_an_earlier_release_without_judging_records_is_kept() -> None:
    schema = index_schema(Deployment())
    del schema["mappings"]["properties"][RECORD_FIELD]
    index = {"Type": "Custom::SearchIndex", "Properties": {"IndexName": "opx-knowledge", "Body": json.dumps(schema)}}
    template = {"TemplateBody": json.dumps({"Resources": {"Index": index}})}
    assert reported(Account(get_template=template)) == []


def test_an_index_of_an_earlier_release_that_would_be_deleted_is_refused() -> None:
    deleted = {"Type": EARLIER["Type"], "DeletionPolicy": "Delete"}
    ((text, fatal),) = reported(Account(get_template=deployed(DEFAULT_MODEL, "IndexSchema", deleted)))
    assert fatal
    assert "which this deployment would delete: destroy the environment first" in text
    beside = Account(get_template=deployed(DEFAULT_MODEL, "IndexSchema", deleted))
    assert reported(beside, search_index="opx-knowledge-2") == []


def test_a_classic_index_without_an_engine_that_filters_is_refused_with_the_way_out() -> None:
    account = Account(get_template=deployed(DEFAULT_MODEL, "IndexSchema", EARLIER))
    ((text, fatal),) = reported(account, search_generation="classic")
    assert fatal
    assert '"engine": "faiss"' in text
    assert "-c search_index=opx-knowledge-2" in text


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No profile, no region, no credentials."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "no region: give -c region="),
        (["-c", "region=eu-central-1"], "no AWS credentials: set AWS_PROFILE"),
        (["--context", "enviroment=prod"], "unknown context key 'enviroment'"),
        (["-c", "search_generation=future"], "allowed: nextgen, classic"),
    ],
)
@pytest.mark.usefixtures("nobody")
def test_a_deployment_that_cant_start_reports_the_reason(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    assert reason in capsys.readouterr().err


@pytest.mark.usefixtures("nobody")
def test_an_unknown_profile_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    assert main(["-c", "region=eu-central-1"]) == 1
    assert "nobodys" in capsys.readouterr().err


TOKENS_ALONE = quotas(("tokens", 300_000.0), of="On-demand InvokeModel {} per minute for {}")


@pytest.mark.parametrize(
    ("changed", "context", "found"),
    [
        ({}, {}, {"embedding_requests_per_minute": "60", "embedding_tokens_per_minute": "300000"}),
        ({"list_service_quotas": TOKENS_ALONE}, {}, {"embedding_tokens_per_minute": "300000"}),
        ({"list_service_quotas": {"Quotas": []}}, {}, {"embedding_requests_per_minute": "6000"}),
        (
            {},
            {"embedding_model": OTHER_MODEL},
            {"embedding_requests_per_minute": "1", "embedding_tokens_per_minute": "1"},
        ),
        ({}, {"embedding_requests_per_minute": "200"}, {}),
        ({"list_service_quotas": "AccessDeniedException"}, {}, {}),
    ],
)
def test_the_quota_of_the_embedding_model_is_found(
    changed: dict[str, Any], context: dict[str, object], found: dict[str, str]
) -> None:
    assert discovered_context(Deployment.from_context(context), Account(**changed)) == found


def test_a_profile_has_the_quota_of_its_scope() -> None:
    deployment = Deployment(embedding_model="eu.amazon.titan-embed-text-v2:0")
    assert discovered_context(deployment, Account()) == {"embedding_requests_per_minute": "2"}


@pytest.mark.parametrize(
    ("context", "workers"),
    [
        ({}, 10),
        ({"embedding_requests_per_minute": "60"}, 2),
        ({"embedding_requests_per_minute": "200"}, 3),
        ({"embedding_requests_per_minute": "600"}, 10),
        ({"embedding_requests_per_minute": "6000"}, 10),
        ({"embedding_requests_per_minute": "6000", "embedding_tokens_per_minute": "60000"}, 3),
        ({"embedding_model": OTHER_MODEL, "embedding_requests_per_minute": "20"}, 10),
        ({"embedding_requests_per_minute": "60", "ingest_concurrency": "7"}, 7),
        ({"ingest_concurrency": "0"}, 0),
    ],
)
def test_as_many_documents_are_ingested_at_once_as_the_quota_has_work_for(
    context: dict[str, object], workers: int
) -> None:
    assert Deployment.from_context(context).ingest_workers == workers
