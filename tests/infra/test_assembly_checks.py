"""Checks of templates against an account: types of the region, states of stacks, names that are taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.assembly_checks import IDENTIFIERS, IMPORTED, Assembly, assembly_problems
from infra.preflight import Account
from tests.doubles.aws_account import ACCOUNT, AwsAccountDouble, StackDouble
from tests.infra.regions import schema

STORAGE = "opx-knowledge-dev-storage"
TABLES = ("dev-opx-knowledge-audit", "dev-opx-knowledge-documents", "dev-opx-knowledge-keys")
BUCKET = {"Fn::Join": ["", ["dev-corpus-", {"Ref": "AWS::AccountId"}, "-", {"Ref": "AWS::Region"}]]}
WRITTEN_OUT = f"dev-corpus-{ACCOUNT}-eu-west-2"
Check = Callable[..., list[tuple[str, bool]]]


def a_resource(kind: str, *, kept: bool = True, **properties: Any) -> dict[str, Any]:
    policy = {"DeletionPolicy": "RetainExceptOnCreate"} if kept else {}
    return {"Type": f"AWS::{kind}", "Properties": properties, **policy}


NAMED = {
    "Backups": a_resource("Backup::BackupVault", BackupVaultName="dev-opx-knowledge"),
    "Audit": a_resource("DynamoDB::Table", TableName=TABLES[0]),
    "Documents": a_resource("DynamoDB::Table", TableName=TABLES[1]),
    "Keys": a_resource("DynamoDB::Table", TableName=TABLES[2]),
    "Corpus": a_resource("S3::Bucket", BucketName=BUCKET),
    "AccessLogs": a_resource("S3::Bucket"),
    "Logs": a_resource("Logs::LogGroup", LogGroupName="/aws/lambda/dev-opx-prune"),
    "Encryption": a_resource("OpenSearchServerless::SecurityPolicy", Type="encryption", Name="dev-opx-knowledge"),
    "Network": a_resource("OpenSearchServerless::SecurityPolicy", Type="network", Name="dev-opx-knowledge"),
    "Group": a_resource("OpenSearchServerless::CollectionGroup", Name="dev-opx-knowledge"),
    "Collection": a_resource("OpenSearchServerless::Collection", Name="dev-opx-knowledge"),
    "OriginalsKey": a_resource("SecretsManager::Secret", Name="dev-opx-originals/key"),
    "Schedules": a_resource("Scheduler::ScheduleGroup", kept=False, Name="dev-opx-knowledge"),
}
TYPES = frozenset(resource["Type"] for resource in NAMED.values())


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """The problems of templates in an account."""

    def checked(
        account: AwsAccountDouble, resources: Mapping[str, Any], *, adopt: bool = False, stack: str = STORAGE
    ) -> list[tuple[str, bool]]:
        (tmp_path / f"{stack}.template.json").write_text(json.dumps({"Resources": resources}))
        assembly = Assembly(tmp_path, Account(ACCOUNT, account.region, account), adopt)
        return [(problem.text, problem.fatal) for problem in assembly_problems(assembly)]

    return checked


def test_an_account_that_has_every_type_and_no_name_has_no_problem(check: Check) -> None:
    assert check(AwsAccountDouble(types=TYPES), NAMED) == []


# -- types


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        ("BedrockAgentCore::Gateway", "-c agent=none"),
        ("OpenSearchServerless::CollectionGroup", "-c search_generation=classic, or choose another region"),
        ("OpenSearchServerless::Collection", "-c search_endpoint=... -c search_arn=..."),
        ("Bedrock::KnowledgeBase", "-c knowledge_base=none"),
        ("Pipes::Pipe", ": choose another region with -c region=..."),
    ],
)
def test_a_type_that_the_region_lacks_is_named_with_its_stack_and_the_way_out(
    check: Check, kind: str, remedy: str
) -> None:
    ((text, fatal),) = check(AwsAccountDouble(), {"One": a_resource(kind)})
    assert fatal
    assert text.startswith(f"CloudFormation has no AWS::{kind} in eu-west-2, which {STORAGE} needs: ")
    assert remedy in text


def test_types_that_are_in_no_registry_are_not_looked_for(check: Check) -> None:
    own = ("AWS::CDK::Metadata", "Custom::S3AutoDeleteObjects", "AWS::CloudFormation::CustomResource")
    account = AwsAccountDouble()
    assert check(account, {kind.rsplit(":", 1)[-1]: {"Type": kind} for kind in own}) == []
    assert "describe_type" not in account.calls


@pytest.mark.parametrize("code", ["Throttling", "AccessDenied"])
def test_a_registry_that_does_not_answer_is_one_warning(check: Check, code: str) -> None:
    ((text, fatal),) = check(AwsAccountDouble(errors={"describe_type": code}), NAMED)
    assert not fatal
    assert text.startswith("resource types could not be checked")


# -- states


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        ("DELETE_FAILED", f"`aws cloudformation delete-stack --stack-name {STORAGE}` again"),
        ("UPDATE_ROLLBACK_FAILED", f"`aws cloudformation continue-update-rollback --stack-name {STORAGE}`"),
        ("ROLLBACK_FAILED", "delete-stack"),
        ("CREATE_FAILED", "delete-stack"),
        ("UPDATE_FAILED", "rollback-stack"),
        ("UPDATE_IN_PROGRESS", "another deployment is at work"),
        ("DELETE_IN_PROGRESS", "wait until it is done"),
    ],
)
def test_a_stack_that_refuses_deployments_is_named_with_the_command_that_helps(
    check: Check, status: str, remedy: str
) -> None:
    account = AwsAccountDouble(types=TYPES, stacks={STORAGE: StackDouble(status=status)})
    ((text, fatal),) = check(account, NAMED)
    assert fatal
    assert text.startswith(f"stack {STORAGE} is {status}: ")
    assert remedy in text


@pytest.mark.parametrize("status", ["REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"])
def test_states_that_a_deployment_ends_by_itself_are_no_problem(check: Check, status: str) -> None:
    assert check(AwsAccountDouble(types=TYPES, stacks={STORAGE: StackDouble(status=status)}), NAMED) == []


# -- names


def left_over() -> AwsAccountDouble:
    """An account after a `destroy`, with resources of others."""
    return AwsAccountDouble(
        types=TYPES,
        tables=["a-table", "another", *TABLES, "z-table"],
        buckets=[WRITTEN_OUT, "foreign"],
        log_groups=["/aws/lambda/a", "/aws/lambda/b", "/aws/lambda/dev-opx-prune"],
        policies=[("encryption", "x-1"), ("encryption", "x-2"), ("encryption", "dev-opx-knowledge")],
        collections={"dev-opx-knowledge": "ours1"},
        collection_groups={"dev-opx-knowledge": 1},
        backup_vaults=["Default", "others", "dev-opx-knowledge"],
        secrets=["others", "dev-opx-knowledge/token", "dev-opx-originals/key"],
    )


def test_retained_resources_in_no_stack_are_to_be_adopted(check: Check) -> None:
    ((text, fatal),) = check(left_over(), NAMED)
    assert fatal
    assert text.startswith(
        f"dev-opx-knowledge, {TABLES[0]}, {TABLES[1]} and 7 more exist already, and no stack has them"
    )
    assert "`make adopt`" in text


def test_names_that_our_own_stack_has_are_no_problem(check: Check) -> None:
    account = left_over()
    account.stacks = {STORAGE: StackDouble({name: (item["Type"], name) for name, item in NAMED.items()})}
    assert check(account, NAMED) == []


@pytest.mark.parametrize("state", ["DELETE_SKIPPED", "IMPORT_ROLLBACK_COMPLETE"])
def test_what_a_failed_stack_lists_and_does_not_have_is_to_be_adopted(check: Check, state: str) -> None:
    account = left_over()
    held = {name: (item["Type"], name) for name, item in NAMED.items()}
    account.stacks = {STORAGE: StackDouble(held, "ROLLBACK_COMPLETE", state)}
    ((text, _),) = check(account, NAMED)
    assert "`make adopt`" in text


def test_a_name_of_another_stack_is_refused_with_that_stack(check: Check) -> None:
    account = left_over()
    account.stacks = {"shop": StackDouble({"T": ("AWS::DynamoDB::Table", TABLES[0])})}
    ((text, fatal),) = check(account, {"Audit": NAMED["Audit"]}, adopt=True)
    assert fatal
    assert text.startswith(f"AWS::DynamoDB::Table {TABLES[0]} belongs to stack shop, not to {STORAGE}")


@pytest.mark.parametrize("adopt", [True, False])
def test_leftovers_without_data_are_to_be_deleted(check: Check, adopt: bool) -> None:
    account = AwsAccountDouble(types=TYPES, schedule_groups=["default", "x", "dev-opx-knowledge"])
    ((text, fatal),) = check(account, NAMED, adopt=adopt)
    assert fatal
    assert text.startswith("AWS::Scheduler::ScheduleGroup dev-opx-knowledge exists, and no stack has it")
    assert text.endswith("delete it")


def test_leftovers_with_data_are_no_problem_to_adopt(check: Check) -> None:
    assert check(left_over(), NAMED, adopt=True) == []


def test_names_that_may_not_be_listed_are_a_warning(check: Check) -> None:
    account = left_over()
    account.errors = {"list_tables": "AccessDeniedException"}
    ((text, fatal),) = check(account, NAMED)
    assert not fatal
    assert text.startswith("names could not be checked")


# -- types that can be taken back


@pytest.mark.parametrize("kind", [*IDENTIFIERS, *IMPORTED])
def test_each_type_can_be_imported_by_the_identifier_that_its_schema_names(kind: str) -> None:
    found = schema("eu-central-1", kind)
    identifiers = [pointer.removeprefix("/properties/") for pointer in found["primaryIdentifier"]]
    assert "read" in found["handlers"]
    assert tuple(identifiers) == IDENTIFIERS.get(kind, (IMPORTED.get(kind),))
