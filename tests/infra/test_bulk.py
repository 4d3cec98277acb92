"""Bulk jobs: the state machine, what it and its function may do, and batch inference in a role of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from infra.bulk import BULK_STAGE
from infra.configuration import ContextError, Deployment
from infra.constructs import bulk_machine
from infra.preflight import batch_inference, discovered_context
from infra.quotas import batch_quotas_of
from opx.settings import Settings
from tests.infra.templates import Assembly, lint_findings, listed
from tests.infra.test_application import compact

COHERE = "eu.cohere.embed-v4:0"
MACHINE = "arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:stateMachine:dev-opx-knowledge-bulk"
EXECUTIONS = MACHINE.replace(":stateMachine:", ":execution:")


@pytest.fixture(scope="module")
def encrypted(make: Callable[..., Assembly]) -> Assembly:
    """With a key and a network, and a model behind an inference profile."""
    return make(bulk="true", kms_key="own", vpc="true", ephemeral="true", embedding_model=COHERE)


def definition(assembly: Assembly) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(assembly.only("bulk", "StepFunctions::StateMachine")["DefinitionString"])
    return found


def statements(assembly: Assembly, stack: str, role: str) -> list[dict[str, Any]]:
    """The rights of the role whose name contains this."""
    (logical,) = (
        name for name, one in assembly.resources(stack, "IAM::Role").items() if role in str(one.get("RoleName"))
    )
    policies = assembly.resources(stack, "IAM::Policy").values()
    return [
        statement
        for policy in policies
        if f"<{logical}>" in policy["Roles"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def allowed(found: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Resources by action."""
    pairs = [(action, one) for one in found for action in listed(one["Action"])]
    return {
        action: sorted(r for a, one in pairs if a == action for r in listed(one["Resource"])) for action, _ in pairs
    }


def test_by_default_there_is_none(default: Assembly) -> None:
    assert "bulk" not in default.templates
    assert "states:" not in json.dumps(default.templates)
    assert "OPX_BULK" not in json.dumps(default.templates)


def test_checks_of_the_templates_find_nothing(bulk: Assembly, encrypted: Assembly) -> None:
    assert bulk.findings == encrypted.findings == []
    assert [lint_findings(one, "bulk") for one in (bulk, encrypted)] == [[], []]
    assert lint_findings(bulk, "api") == []


def test_the_template_is_as_it_was(bulk: Assembly, snapshot: SnapshotAssertion) -> None:
    assert compact(bulk, "bulk") == snapshot


def test_nothing_in_the_stack_is_billed_by_the_hour(bulk: Assembly) -> None:
    kinds = {resource["Type"] for stack, _, resource in bulk.all_resources() if stack == "bulk"}
    assert {kind for kind in kinds if not kind.startswith(("AWS::IAM::", "AWS::CDK::", "AWS::Lambda::"))} == {
        "AWS::Logs::LogGroup",
        "AWS::StepFunctions::StateMachine",
    }
    assert "ProvisionedConcurrency" not in json.dumps(bulk.templates["bulk"])


def test_documents_are_prepared_and_applied_by_children_with_retries_and_tolerated_failures(bulk: Assembly) -> None:
    states = definition(bulk)["States"]
    maps = {name: state for name, state in states.items() if state["Type"] == "Map"}
    assert list(maps) == ["Prepare", "Apply"]
    for state in maps.values():
        assert state["ItemProcessor"]["ProcessorConfig"] == {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"}
        assert (
            state["ItemReader"]["Parameters"]["Key.$"] == "States.Format('bulk/{}/shards.json', $$.Execution.Input.job)"
        )
        assert (state["MaxConcurrencyPath"], state["ToleratedFailurePercentagePath"]) == ("$.children", "$.tolerated")
        assert state["ResultWriter"]["Resource"].endswith(":s3:putObject")


def tasks(states: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, state in states.items():
        if state["Type"] == "Task":
            yield name, state
        if state["Type"] == "Map":
            yield from tasks(state["ItemProcessor"]["States"])


def test_a_busy_service_is_waited_for_much_longer_than_a_failing_function(bulk: Assembly) -> None:
    for name, task in tasks(definition(bulk)["States"]):
        if name == "Record failure":
            assert "Retry" not in task  # a redrive is what calls it again
            continue
        busy, _, anything = task["Retry"]
        assert busy["ErrorEquals"][0] == "ServiceBusyError"
        assert anything["ErrorEquals"] == ["States.ALL"]
        assert anything["MaxAttempts"] + 1 == bulk_machine.ATTEMPTS < busy["MaxAttempts"]
        assert min(busy["IntervalSeconds"] * 2**n for n in range(20, 21)) > busy["MaxDelaySeconds"]
        assert task["TimeoutSeconds"] > BULK_STAGE.timeout


def test_every_state_outside_of_children_has_its_failure_recorded(bulk: Assembly) -> None:
    states = definition(bulk)["States"]
    caught = {name for name, state in states.items() if state.get("Catch", [{}])[0].get("Next") == "Record failure"}
    assert caught == {"List", "Prepare", "Embed", "Apply", "Finish"}
    assert states["Record failure"]["Next"] == "Is list finished?"


def test_the_machine_calls_one_function_and_starts_only_itself(bulk: Assembly) -> None:
    found = allowed(statements(bulk, "bulk", "bulk-machine"))
    assert found["lambda:InvokeFunction"] == [
        "arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:function:dev-opx-bulk-stage"
    ]
    assert found["states:StartExecution"] == [MACHINE]
    assert found["states:RedriveExecution"] == [f"{EXECUTIONS}/*", f"{EXECUTIONS}:*"]
    assert found["s3:GetObject"] == found["s3:PutObject"]
    assert all(arn.endswith("/bulk/*") for arn in found["s3:PutObject"])
    assert {action.partition(":")[0] for action, on in found.items() if on == ["*"]} == {"logs", "xray"}


def test_it_logs_everything_but_data_and_traces(bulk: Assembly) -> None:
    machine = bulk.only("bulk", "StepFunctions::StateMachine")
    assert machine["StateMachineType"] == "STANDARD"
    assert (machine["LoggingConfiguration"]["Level"], machine["LoggingConfiguration"]["IncludeExecutionData"]) == (
        "ALL",
        False,
    )
    assert machine["TracingConfiguration"] == {"Enabled": True}


def test_a_key_encrypts_the_machine_and_its_roles_may_use_it(encrypted: Assembly) -> None:
    machine = encrypted.only("bulk", "StepFunctions::StateMachine")
    assert machine["EncryptionConfiguration"]["Type"] == "CUSTOMER_MANAGED_KMS_KEY"
    for role in ("bulk-machine", "batch-inference", "bulk-stage"):
        assert {"kms:Decrypt", "kms:GenerateDataKey"} <= set(allowed(statements(encrypted, "bulk", role))), role


def test_batch_inference_reads_and_writes_the_folder_of_bulk_jobs_alone(bulk: Assembly) -> None:
    role = next(
        one for one in bulk.resources("bulk", "IAM::Role").values() if "batch-inference" in str(one.get("RoleName"))
    )
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "bedrock.amazonaws.com"}
    assert trust["Condition"]["StringEquals"] == {"aws:SourceAccount": "<AWS::AccountId>"}
    assert trust["Condition"]["ArnLike"]["aws:SourceArn"].endswith(":model-invocation-job/*")
    found = allowed(statements(bulk, "bulk", "batch-inference"))
    assert all(arn.endswith("/bulk/*") for arn in (*found["s3:GetObject"], *found["s3:PutObject"]))
    assert "s3:DeleteObject" not in found


def test_the_function_may_pass_that_role_to_bedrock_and_to_nobody_else(bulk: Assembly) -> None:
    (passing,) = (one for one in statements(bulk, "bulk", "bulk-stage") if one["Action"] == "iam:PassRole")
    assert passing["Condition"] == {"StringEquals": {"iam:PassedToService": "bedrock.amazonaws.com"}}
    assert str(passing["Resource"]).endswith(":role/dev-opx-batch-inference-<AWS::Region>")


def test_the_function_may_delete_only_in_the_folder_of_bulk_jobs(bulk: Assembly) -> None:
    found = allowed(statements(bulk, "bulk", "bulk-stage"))
    assert [arn.partition("/")[2] for arn in found["s3:DeleteObject"]] == ["bulk/*"]
    assert {arn.partition("/")[2] for arn in found["s3:PutObject"]} == {"bulk/*", "chunks/*", "clients/*/chunks/*"}


def test_the_function_behind_the_api_starts_looks_at_and_stops_jobs(bulk: Assembly) -> None:
    found = allowed(statements(bulk, "api", "manage-knowledge"))
    assert found["states:StartExecution"] == [MACHINE]
    assert found["states:StopExecution"] == found["states:DescribeExecution"] == [f"{EXECUTIONS}:*"]
    assert found["bedrock:StopModelInvocationJob"][0].endswith(":model-invocation-job/*")
    assert "bedrock:CreateModelInvocationJob" not in found


@pytest.mark.parametrize(("stack", "function"), [("bulk", "bulk-stage"), ("api", "manage-knowledge")])
def test_functions_know_the_machine_the_role_and_the_quotas(bulk: Assembly, stack: str, function: str) -> None:
    functions = bulk.resources(stack, "Lambda::Function").values()
    (found,) = (one for one in functions if str(one["FunctionName"]).endswith(function))
    variables = found["Environment"]["Variables"]
    settings = Settings.from_environ({name: str(value) for name, value in variables.items()})
    assert settings.bulk_state_machine == MACHINE
    assert settings.bulk_batch_role.endswith(":role/dev-opx-batch-inference-<AWS::Region>")
    assert (settings.bulk_children, settings.batch_most_records, settings.batch_jobs) == (200, 100_000, 20)


@pytest.mark.parametrize("children", ["0", "10001"])
def test_children_beyond_what_step_functions_runs_are_refused(children: str) -> None:
    with pytest.raises(ContextError, match="bulk_children"):
        Deployment(bulk_children=int(children))


class Quotas:
    """Service Quotas with these values."""

    def __init__(self, **quotas: float) -> None:
        self._quotas = [{"QuotaName": name.replace("_", " "), "Value": value} for name, value in quotas.items()]

    def get_paginator(self, operation: str) -> Quotas:
        self._pages = [{"Quotas": self._quotas if operation == "list_service_quotas" else []}]
        return self

    def paginate(self, ServiceCode: str) -> list[dict[str, Any]]:  # noqa: N803
        assert ServiceCode == "bedrock"
        return self._pages


TITAN = Quotas(
    Records_per_batch_inference_job_for_Titan_Text_Embeddings_V2=100_000.0,
    Minimum_number_of_records_per_batch_inference_job_for_Titan_Text_Embeddings_V2=100.0,
    Records_per_batch_inference_job_for_Claude_3=50_000.0,
)


def test_quotas_of_batch_inference_are_read_by_their_names() -> None:
    known = {"batch_fewest_records": 100, "batch_most_records": 100_000}
    assert batch_quotas_of("amazon.titan-embed-text-v2:0", TITAN) == known
    assert batch_quotas_of(COHERE, TITAN) == {}
    found = discovered_context(Deployment(bulk=True, embedding_requests_per_minute=60), lambda _: TITAN)
    assert found == {key: str(value) for key, value in known.items()}
    assert discovered_context(Deployment(embedding_requests_per_minute=60), lambda _: TITAN) == {}


def test_a_model_without_batch_inference_is_a_warning() -> None:
    (problem,) = batch_inference(Deployment(bulk=True, embedding_model=COHERE), lambda _: TITAN)
    assert not problem.fatal
    assert "on demand" in problem.text
    assert not list(batch_inference(Deployment(bulk=True), lambda _: TITAN))
    assert not list(batch_inference(Deployment(embedding_model=COHERE), lambda _: TITAN))
