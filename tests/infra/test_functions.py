"""Rules for every function and role."""

from __future__ import annotations

import pytest

from infra.constructs.layer_contents import ROOT
from infra.ingestion import READ_PAGES
from infra.operations import READ_METRICS
from opx.settings import Settings, env_name
from tests.infra.templates import Assembly, Resource, listed

OWN_NAMES = tuple(
    f":{name}opx-knowledge/{rest}"
    for prefix in ("dev-", "")
    for name, rest in ((f"secret:{prefix}", "*"), (f"schedule/{prefix}", "source-*"))
)
FUNCTION_STACKS = ("ingestion", "retrieval", "api")
OF_NO_RESOURCE = {"xray:PutTelemetryRecords", "xray:PutTraceSegments", READ_PAGES, *READ_METRICS}


def environment(assembly: Assembly, stack: str) -> dict[str, str]:
    function = assembly.only(stack, "Lambda::Function")
    return dict(function["Environment"]["Variables"])


@pytest.mark.parametrize("stack", FUNCTION_STACKS)
def test_the_environment_names_fields_of_the_settings_and_nothing_else(default: Assembly, stack: str) -> None:
    known = {env_name(name) for name in Settings.__struct_fields__}
    assert set(environment(default, stack)) <= known


@pytest.mark.parametrize("stack", FUNCTION_STACKS)
def test_the_environment_makes_valid_settings_for_aws(default: Assembly, stack: str) -> None:
    settings = Settings.from_environ(environment(default, stack))
    assert settings.backend == "aws"
    assert settings.table_prefix == "dev-"
    assert settings.search_generation == "nextgen"
    assert settings.embedding_model == "amazon.titan-embed-text-v2:0"


def test_functions_search_the_index_that_is_created(default: Assembly) -> None:
    created = default.only("search", "Custom::SearchIndex")["IndexName"]
    assert {environment(default, stack)["OPX_SEARCH_INDEX"] for stack in FUNCTION_STACKS} == {created}


def test_ingestion_knows_the_bucket_and_the_queue_that_are_created(default: Assembly) -> None:
    variables = environment(default, "ingestion")
    buckets = {bucket.get("BucketName") for bucket in default.resources("storage", "S3::Bucket").values()}
    assert variables["OPX_CORPUS_BUCKET"] in buckets
    queues = default.resources("ingestion", "SQS::Queue")
    assert queues[variables["OPX_INGEST_QUEUE_URL"].strip("<>")]["QueueName"] == "dev-opx-knowledge-ingest"


def test_other_choices_reach_the_functions(ephemeral: Assembly) -> None:
    for stack in FUNCTION_STACKS:
        settings = Settings.from_environ(environment(ephemeral, stack))
        assert (settings.table_prefix, settings.search_generation) == ("", "classic")
        assert settings.embedding_model == "eu.cohere.embed-v4:0"


@pytest.mark.parametrize("stack", FUNCTION_STACKS)
def test_logs_are_kept_for_ninety_days_in_the_functions_own_group(default: Assembly, stack: str) -> None:
    function = default.only(stack, "Lambda::Function")
    group = default.resources(stack, "Logs::LogGroup")[function["LoggingConfig"]["LogGroup"].strip("<>")]
    assert group["RetentionInDays"] == 90
    assert group["LogGroupName"] == f"/aws/lambda/{function['FunctionName']}"


@pytest.mark.parametrize("stack", FUNCTION_STACKS)
def test_a_function_has_a_role_of_its_own_without_managed_policies(default: Assembly, stack: str) -> None:
    role = default.only(stack, "IAM::Role")
    assert "ManagedPolicyArns" not in role
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_no_role_may_do_everything_or_reach_everything(default: Assembly, ephemeral: Assembly) -> None:
    for assembly in (default, ephemeral):
        for statement in allowed(assembly):
            assert all("*" not in action for action in listed(statement["Action"]))
            assert "*" not in listed(statement["Resource"])


def test_wildcards_are_in_names_below_our_own_and_in_the_region_of_a_profiles_model_alone(
    default: Assembly, ephemeral: Assembly
) -> None:
    for assembly in (default, ephemeral):
        for statement in allowed(assembly):
            for resource in listed(statement["Resource"]):
                keys = resource.startswith("arn:<AWS::Partition>:s3:::") and "*" not in resource.split("/")[0]
                model = resource.endswith(":*::foundation-model/cohere.embed-v4:0")
                own = resource.endswith(OWN_NAMES)
                provided = resource.startswith("<HybridIndexIndexesCreateIndexFunction") and resource.endswith(
                    ".Arn>:*"
                )
                assert "*" not in resource or keys or model or own or provided


def allowed(assembly: Assembly) -> list[Resource]:
    """Statements of roles' policies, but for sending traces, pages and metrics, which are no resource."""
    policies = [r["Properties"] for _, _, r in assembly.all_resources() if r["Type"] == "AWS::IAM::Policy"]
    statements = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    return [statement for statement in statements if set(listed(statement["Action"])) - OF_NO_RESOURCE]


@pytest.mark.parametrize(
    "use_case", ["ingest_documents", "retrieve_knowledge", "manage_knowledge", "pull_sources", "receive_webhook"]
)
def test_the_handler_that_is_deployed_exists(use_case: str) -> None:
    assert (ROOT / "lambdas" / use_case / "handler.py").is_file()
