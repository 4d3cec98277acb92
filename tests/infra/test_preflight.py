"""Checks of an account before a deployment. Answers are validated against AWS's own descriptions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from infra.command_line import context_of
from infra.configuration import Deployment
from infra.constructs.hybrid_index import index_schema
from infra.preflight import main, problems
from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL

ACCOUNT = "111122223333"
OTHER_MODEL = "cohere.embed-v4:0"
AVAILABLE = {
    "modelId": DEFAULT_MODEL,
    "agreementAvailability": {"status": "AVAILABLE"},
    "authorizationStatus": "AUTHORIZED",
    "entitlementAvailability": "AVAILABLE",
    "regionAvailability": "AVAILABLE",
}
GOOD: dict[tuple[str, str], dict[str, Any] | str] = {
    ("sts", "get_caller_identity"): {"Account": ACCOUNT},
    ("ssm", "get_parameter"): {"Parameter": {"Value": "30"}},
    ("s3", "head_bucket"): "404",
    ("lambda", "get_account_settings"): {
        "AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": 1000}
    },
    ("opensearchserverless", "list_collection_groups"): {"collectionGroupSummaries": []},
    ("bedrock", "get_foundation_model_availability"): AVAILABLE,
    ("bedrock-agentcore-control", "list_gateways"): {"items": []},
    ("bedrock-agent", "list_agents"): {"agentSummaries": []},
    ("cloudformation", "get_template"): "ValidationError",
}
"""Answers of an account that has never seen a deployment; a string is an error code."""


class Account:
    """Clients with configured answers."""

    def __init__(self, **changed: dict[str, Any] | str) -> None:
        self._answers = {key: changed.get(key[1], answer) for key, answer in GOOD.items()}

    def __call__(self, service: str) -> Any:
        client = boto3.client(  # type: ignore[call-overload]
            service, region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x"
        )
        stubber = Stubber(client)
        for (name, operation), answer in self._answers.items():
            if name != service:
                continue
            if isinstance(answer, str):
                stubber.add_client_error(operation, answer)
            else:
                stubber.add_response(operation, answer)
        stubber.activate()
        return client


def reported(clients: Account, **context: object) -> list[tuple[str, bool]]:
    return [(problem.text, problem.fatal) for problem in problems(Deployment.from_context(context), clients)]


def deployed(model: str) -> dict[str, Any]:
    index = {"IndexName": "opx-knowledge", "IndexSchema": index_schema(model)}
    resource = {"Type": "AWS::OpenSearchServerless::CollectionIndex", "Properties": index}
    return {"TemplateBody": json.dumps({"Resources": {"Index": resource}})}


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
