"""Checks of synthesised templates against an account and region: types, states of stacks, and names that are taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.preflight import Account, Clients, Problem, all_items, checked, deployed_template
from infra.template_text import plain

KEPT = ("Retain", "RetainExceptOnCreate")
"""Deletion policies of resources that stay when their stack is destroyed, which are also those that can be imported."""

IDENTIFIERS = {
    "AWS::Backup::BackupVault": ("BackupVaultName",),
    "AWS::DynamoDB::Table": ("TableName",),
    "AWS::Logs::LogGroup": ("LogGroupName",),
    "AWS::OpenSearchServerless::SecurityPolicy": ("Type", "Name"),
}
"""Properties that identify a resource of a type that a deployment imports by itself, if no function is in them."""

IMPORTED = {
    "AWS::KMS::Key": "KeyId",
    "AWS::OpenSearchServerless::Collection": "Id",
    "AWS::OpenSearchServerless::CollectionGroup": "Id",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SecretsManager::Secret": "Id",
}
"""Types that are imported before a deployment, with the name of their identifier. AWS assigns it, or it depends on account
and region."""

CHECKED_AT_ONCE = 8

_NAMED = {**IDENTIFIERS, "AWS::OpenSearchServerless::Collection": ("Name",)}
_NAMED |= {"AWS::OpenSearchServerless::CollectionGroup": ("Name",), "AWS::Scheduler::ScheduleGroup": ("Name",)}
_NAMED |= {"AWS::S3::Bucket": ("BucketName",), "AWS::SecretsManager::Secret": ("Name",)}
_FIXED = {
    "AWS::OpenSearchServerless::Collection": (
        "Name",
        "Type",
        "StandbyReplicas",
        "CollectionGroupName",
        "EncryptionConfig",
        "Tags",
    ),
    "AWS::OpenSearchServerless::CollectionGroup": ("Name", "Generation", "StandbyReplicas"),
}
"""Properties that CloudFormation can only set when it creates a resource (`createOnlyProperties` of the types' schemas)."""

_NO_TYPES = ("AWS::CDK::Metadata", "AWS::CloudFormation::CustomResource", "Custom::")
_ABSENT = ("404", "ValidationError", "ResourceNotFoundException", "NoSuchBucket")

_NOT_HELD = ("DELETE_COMPLETE", "DELETE_SKIPPED", "CREATE_FAILED", "IMPORT_FAILED", "IMPORT_ROLLBACK_COMPLETE")
"""States of resources that a stack lists and doesn't have."""

_WITHOUT = (
    ("AWS::OpenSearchServerless::CollectionGroup", "-c search_generation=classic"),
    ("AWS::OpenSearchServerless::", "-c search_endpoint=... -c search_arn=..., with a collection elsewhere"),
    ("AWS::BedrockAgentCore::", "-c agent=none (or classic)"),
    ("AWS::Bedrock::Agent", "-c agent=gateway (or none)"),
    ("AWS::Bedrock::", "-c knowledge_base=none"),
    ("AWS::Backup::", "-c backup=none"),
    ("AWS::Budgets::", "-c budget_usd=0"),
    ("AWS::ApiGatewayV2::", "-c api_auth=none and without webhooks and console"),
    ("AWS::CloudFront::", "without -c console"),
    ("AWS::Cognito::", "without -c console, or with -c console_issuer=... -c console_client=..."),
    ("AWS::EC2::", "-c vpc=false"),
    ("AWS::KMS::", "without -c kms_key"),
    ("AWS::StepFunctions::", "without -c bulk"),
)
"""Choices that leave out the types that begin with a prefix; the first that fits counts."""

_STATES = {
    "DELETE_FAILED": "a deletion did not finish: `aws cloudformation delete-stack --stack-name {stack}` again, if need be "
    "with `--retain-resources` and the logical ids that could not be deleted",
    "UPDATE_ROLLBACK_FAILED": "an update could not be undone: remove the cause that its events name, then "
    "`aws cloudformation continue-update-rollback --stack-name {stack}`",
    "ROLLBACK_FAILED": "a creation could not be undone: `aws cloudformation delete-stack --stack-name {stack}`",
    "CREATE_FAILED": "a creation stopped: `aws cloudformation delete-stack --stack-name {stack}`",
    "UPDATE_FAILED": "an update stopped: `aws cloudformation rollback-stack --stack-name {stack}`",
}


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of a template. `properties` have account and region written out, other references as text."""

    stack: str
    logical_id: str
    type: str
    properties: Mapping[str, Any]
    kept: bool

    @property
    def name(self) -> tuple[str, ...]:
        """The values of its identifying properties; empty if it has none, or none of its own choice."""
        values = [self.properties.get(key) for key in _NAMED.get(self.type, ())]
        return tuple(str(value) for value in values) if values and all(values) else ()


@dataclass(frozen=True)
class Assembly:
    """A folder that CDK synthesised, as it is for an account. `adopt`: retained resources are to be taken back."""

    folder: Path
    account: Account
    adopt: bool = False

    @cached_property
    def resources(self) -> list[Resource]:
        return [resource for path in sorted(self.folder.glob("*.template.json")) for resource in self._read(path)]

    @cached_property
    def stacks(self) -> list[str]:
        return sorted({resource.stack for resource in self.resources})

    @cached_property
    def held(self) -> set[tuple[str, str]]:
        """Stack and logical id of all resources that are in our stacks."""
        cloudformation = self.account.clients("cloudformation")
        found = set()
        for stack in self.stacks:
            try:
                for page in cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack):
                    found |= {
                        (stack, item["LogicalResourceId"])
                        for item in page["StackResourceSummaries"]
                        if item["ResourceStatus"] not in _NOT_HELD
                    }
            except ClientError as exc:
                if exc.response["Error"]["Code"] not in _ABSENT:
                    raise
        return found

    @cached_property
    def left_over(self) -> list[Resource]:
        """Resources with names that are taken, and not by the stack that wants them."""
        missing = [item for item in self.resources if item.name and (item.stack, item.logical_id) not in self.held]
        found: list[Resource] = []
        for kind in sorted({item.type for item in missing}):
            wanted = [item for item in missing if item.type == kind]
            taken = _EXISTING[kind](self.account.clients, {item.name for item in wanted})
            found += [item for item in wanted if item.name in taken]
        return found

    def _read(self, path: Path) -> Iterator[Resource]:
        for logical_id, item in json.loads(path.read_text())["Resources"].items():
            properties = item.get("Properties", {})
            yield Resource(
                path.name.removesuffix(".template.json"),
                logical_id,
                item["Type"],
                self.written_out(properties),
                item.get("DeletionPolicy") in KEPT,
            )

    def written_out(self, properties: Mapping[str, Any]) -> dict[str, Any]:
        """Properties of a template with account and region written out, and other references as text."""
        text = json.dumps(plain(properties))
        text = text.replace("<AWS::AccountId>", self.account.number).replace("<AWS::Region>", self.account.region)
        found: dict[str, Any] = json.loads(text)
        return found


def assembly_problems(assembly: Assembly) -> Iterator[Problem]:
    """All problems that a deployment of an assembly would have in its account."""
    return checked((check.__name__, partial(check, assembly)) for check in CHECKS)


def resource_types(assembly: Assembly) -> Iterator[Problem]:
    """Checks that CloudFormation has every type of the templates in this region."""
    cloudformation = assembly.account.clients("cloudformation")
    types = sorted({item.type for item in assembly.resources if not item.type.startswith(_NO_TYPES)})

    def is_known(kind: str) -> bool:
        try:
            cloudformation.describe_type(Type="RESOURCE", TypeName=kind)
        except ClientError as exc:
            if exc.response["Error"]["Code"] != "TypeNotFoundException":
                raise
            return False
        return True

    with ThreadPoolExecutor(CHECKED_AT_ONCE) as threads:
        missing = [kind for kind, known in zip(types, threads.map(is_known, types), strict=True) if not known]
    for kind in missing:
        stacks = ", ".join(sorted({item.stack for item in assembly.resources if item.type == kind}))
        remedy = next((choice for prefix, choice in _WITHOUT if kind.startswith(prefix)), "")
        other = "choose another region with -c region=..."
        yield Problem(
            f"CloudFormation has no {kind} in {assembly.account.region}, which {stacks} needs: "
            + (f"deploy {remedy}, or {other}" if remedy else other)
        )


def states_of_stacks(assembly: Assembly) -> Iterator[Problem]:
    """Checks that no stack is in a state that refuses a deployment."""
    cloudformation = assembly.account.clients("cloudformation")
    for stack in assembly.stacks:
        try:
            status = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"]
        except ClientError as exc:
            if exc.response["Error"]["Code"] not in _ABSENT:
                raise
            continue
        if status in _STATES:
            yield Problem(f"stack {stack} is {status}: {_STATES[status].format(stack=stack)}; then deploy again")
        elif (
            status.endswith("_IN_PROGRESS") and status != "REVIEW_IN_PROGRESS"
        ):  # CDK deletes a change set's empty stack
            yield Problem(f"stack {stack} is {status}: another deployment is at work; wait until it is done")


def replaced_collections(assembly: Assembly) -> Iterator[Problem]:
    """Checks that no search collection of an earlier deployment would be replaced: the new one would have its name."""
    for kind, fixed in _FIXED.items():
        for item in assembly.resources:
            if item.type != kind or (item.stack, item.logical_id) not in assembly.held:
                continue
            found = deployed_template(assembly.account.clients, item.stack)["Resources"].get(item.logical_id)
            before = assembly.written_out(found["Properties"]) if found else item.properties
            changed = [name for name in fixed if before.get(name) != item.properties.get(name)]
            if changed:
                yield Problem(
                    f"{' and '.join(changed)} of the search {kind.rsplit('::', 1)[-1].lower()} {_shown(item)} can't be "
                    "changed: leave the choices as they were deployed, and build the other collection beside it with "
                    "-c next_search_generation=... (docs/rebuild.md, Another collection)"
                )


def names(assembly: Assembly) -> Iterator[Problem]:
    """Checks that the names of tables, buckets, log groups and of the search collection aren't taken."""
    cloudformation = assembly.account.clients("cloudformation")
    alone = []
    for item in assembly.left_over:
        owner = _owner(cloudformation, item)
        if owner:
            yield Problem(
                f"{item.type} {_shown(item)} belongs to stack {owner}, not to {item.stack}: choose another "
                "-c environment=..., or destroy that stack if it isn't needed"
            )
        else:
            alone.append(item)
    kept = [item for item in alone if item.kept]
    if kept and not assembly.adopt:
        shown = ", ".join(_shown(item) for item in kept[:3]) + (f" and {len(kept) - 3} more" if len(kept) > 3 else "")
        yield Problem(
            f"{shown} exist already, and no stack has them: an earlier deployment was destroyed, or a stack was lost. "
            "Take them back with `make adopt` and the same CONTEXT, or delete them"
        )
    for item in alone:
        if not item.kept:
            yield Problem(f"{item.type} {_shown(item)} exists, and no stack has it. It keeps no data: delete it")


def _shown(item: Resource) -> str:
    return "/".join(item.name)


def _owner(cloudformation: Any, item: Resource) -> str:
    """The stack that a resource belongs to, if any."""
    try:
        found = cloudformation.describe_stack_resources(PhysicalResourceId=item.name[-1])["StackResources"]
    except ClientError as exc:
        if exc.response["Error"]["Code"] not in _ABSENT:
            raise
        return ""
    stacks = [str(resource["StackName"]) for resource in found if resource["ResourceType"] == item.type]
    return stacks[0] if stacks else ""


CHECKS: tuple[Callable[[Assembly], Iterator[Problem]], ...] = (
    resource_types,
    states_of_stacks,
    replaced_collections,
    names,
)

Names = Collection[tuple[str, ...]]


def _paged(clients: Clients, service: str, operation: str, key: str, **parameters: Any) -> list[Any]:
    pages = clients(service).get_paginator(operation).paginate(**parameters)
    return [item for page in pages for item in page[key]]


def _tables(clients: Clients, _: Names) -> set[tuple[str, ...]]:
    return {(name,) for name in _paged(clients, "dynamodb", "list_tables", "TableNames")}


def _log_groups(clients: Clients, wanted: Names) -> set[tuple[str, ...]]:
    folders = sorted({name.rsplit("/", 1)[0] + "/" for (name,) in wanted})
    found = [
        _paged(clients, "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=folder) for folder in folders
    ]
    return {(group["logGroupName"],) for groups in found for group in groups}


def _buckets(clients: Clients, wanted: Names) -> set[tuple[str, ...]]:
    """Those of this account: the bucket of another one is refused by a check of the account."""
    found: set[tuple[str, ...]] = set()
    for (name,) in wanted:
        try:
            clients("s3").head_bucket(Bucket=name)
            found.add((name,))
        except ClientError as exc:
            if exc.response["Error"]["Code"] not in ("403", *_ABSENT):
                raise
    return found


def secret_arns(clients: Clients) -> dict[str, str]:
    """ARNs by name of all secrets."""
    return {entry["Name"]: entry["ARN"] for entry in _paged(clients, "secretsmanager", "list_secrets", "SecretList")}


def _secrets(clients: Clients, _: Names) -> set[tuple[str, ...]]:
    return {(name,) for name in secret_arns(clients)}


def search_resources(clients: Clients, kind: str) -> dict[str, str]:
    """Ids by name of all collections or collection groups."""
    client = clients("opensearchserverless")
    operation, key = {
        "AWS::OpenSearchServerless::Collection": (client.list_collections, "collectionSummaries"),
        "AWS::OpenSearchServerless::CollectionGroup": (client.list_collection_groups, "collectionGroupSummaries"),
    }[kind]
    return {item["name"]: item["id"] for item in all_items(operation, key)}


def _of_search(kind: str, clients: Clients, _: Names) -> set[tuple[str, ...]]:
    return {(name,) for name in search_resources(clients, kind)}


def _security_policies(clients: Clients, wanted: Names) -> set[tuple[str, ...]]:
    operation = clients("opensearchserverless").list_security_policies
    kinds = sorted({kind for kind, _ in wanted})
    found = [all_items(partial(operation, type=kind), "securityPolicySummaries") for kind in kinds]
    return {(policy["type"], policy["name"]) for policies in found for policy in policies}


def _schedule_groups(clients: Clients, _: Names) -> set[tuple[str, ...]]:
    return {(group["Name"],) for group in _paged(clients, "scheduler", "list_schedule_groups", "ScheduleGroups")}


def _backup_vaults(clients: Clients, _: Names) -> set[tuple[str, ...]]:
    return {(vault["BackupVaultName"],) for vault in _paged(clients, "backup", "list_backup_vaults", "BackupVaultList")}


_EXISTING: Mapping[str, Callable[[Clients, Names], set[tuple[str, ...]]]] = {
    "AWS::Backup::BackupVault": _backup_vaults,
    "AWS::DynamoDB::Table": _tables,
    "AWS::Logs::LogGroup": _log_groups,
    "AWS::S3::Bucket": _buckets,
    "AWS::OpenSearchServerless::SecurityPolicy": _security_policies,
    "AWS::OpenSearchServerless::Collection": partial(_of_search, "AWS::OpenSearchServerless::Collection"),
    "AWS::OpenSearchServerless::CollectionGroup": partial(_of_search, "AWS::OpenSearchServerless::CollectionGroup"),
    "AWS::Scheduler::ScheduleGroup": _schedule_groups,
    "AWS::SecretsManager::Secret": _secrets,
}
