"""An account as the checks before a deployment see it: CloudFormation's registry and stacks, and resources by name.

Real clients of botocore validate the requests; answers are validated by its models.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import EndpointConnectionError

from tests.doubles.service_shapes import answer_problem

NOW = datetime(2026, 11, 24, tzinfo=UTC)
ACCOUNT = "111122223333"
Given = Mapping[str, Any]
Answer = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class RefusedError(Exception):
    """An error of the service, by its code."""


def answering_client(service: str, region: str, answer: Answer) -> Any:
    """A client of botocore whose requests are answered by a function of operation and parameters."""
    client = boto3.client(  # type: ignore[call-overload]
        service, region_name=region, aws_access_key_id="x", aws_secret_access_key="x"
    )

    def keep(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["given"] = dict(params)

    def respond(model: Any, params: Mapping[str, Any], **_: Any) -> tuple[AWSResponse, Mapping[str, Any]]:
        try:
            body = answer(xform_name(model.name), params["context"]["given"])
        except RefusedError as exc:
            return _response(400), {"Error": {"Code": str(exc), "Message": str(exc)}}
        problem = answer_problem(service, model.name, body) if body else ""
        assert not problem, problem
        return _response(200), body

    client.meta.events.register("before-parameter-build", keep)
    client.meta.events.register("before-call", respond)
    return client


@dataclass(frozen=True)
class StackDouble:
    """`resources`: types and physical ids by logical id. `state`: that of each resource. `template`: the resources of its
    template."""

    resources: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    status: str = "CREATE_COMPLETE"
    state: str = "CREATE_COMPLETE"
    template: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class AwsAccountDouble:
    """`types`: the registry of the region. `items`: the item of a table. `errors`: codes by operation, in place of an answer;
    `unreachable`: services without an endpoint. `keys`: descriptions by id. Lists come in pages of two, as all lists may."""

    types: frozenset[str] = frozenset()
    stacks: Mapping[str, StackDouble] = field(default_factory=dict)
    tables: Sequence[str] = ()
    items: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    buckets: Sequence[str] = ()
    log_groups: Sequence[str] = ()
    collections: Mapping[str, str] = field(default_factory=dict)
    collection_groups: Mapping[str, int] = field(default_factory=dict)
    policies: Sequence[tuple[str, str]] = ()
    schedule_groups: Sequence[str] = ()
    backup_vaults: Sequence[str] = ()
    secrets: Sequence[str] = ()
    quotas: Mapping[str, float] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    unreachable: frozenset[str] = frozenset()
    region: str = "eu-west-2"
    calls: list[str] = field(default_factory=list)

    def __call__(self, service: str) -> Any:
        def answer(operation: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
            self.calls.append(operation)
            if service in self.unreachable:
                raise EndpointConnectionError(endpoint_url=f"https://{service}.{self.region}.amazonaws.com/")
            if code := self.errors.get(operation):
                raise RefusedError(code)
            found: Mapping[str, Any] = getattr(self, f"_{operation}")(given)
            return found

        return answering_client(service, self.region, answer)

    # -- CloudFormation

    def _describe_type(self, given: Given) -> dict[str, Any]:
        if given["TypeName"] not in self.types:
            raise RefusedError("TypeNotFoundException")
        return {"TypeName": given["TypeName"]}

    def _get_template(self, given: Given) -> dict[str, Any]:
        return {"TemplateBody": json.dumps({"Resources": self._stack(given["StackName"]).template})}

    def _describe_stacks(self, given: Given) -> dict[str, Any]:
        stack = self._stack(given["StackName"])
        return {"Stacks": [{"StackName": given["StackName"], "CreationTime": NOW, "StackStatus": stack.status}]}

    def _list_stack_resources(self, given: Given) -> dict[str, Any]:
        stack = self._stack(given["StackName"])
        found = [
            {
                "LogicalResourceId": logical_id,
                "PhysicalResourceId": physical_id,
                "ResourceType": kind,
                "LastUpdatedTimestamp": NOW,
                "ResourceStatus": stack.state,
            }
            for logical_id, (kind, physical_id) in stack.resources.items()
        ]
        return _page("StackResourceSummaries", found, given, "NextToken", "NextToken")

    def _describe_stack_resources(self, given: Given) -> dict[str, Any]:
        for name, stack in self.stacks.items():
            for logical_id, (kind, physical_id) in stack.resources.items():
                if physical_id == given["PhysicalResourceId"] and stack.state == "CREATE_COMPLETE":
                    found = {"LogicalResourceId": logical_id, "ResourceType": kind, "StackName": name}
                    return {
                        "StackResources": [{**found, "Timestamp": NOW, "ResourceStatus": "CREATE_COMPLETE"}],
                    }
        raise RefusedError("ValidationError")

    def _stack(self, name: str) -> StackDouble:
        if name not in self.stacks:
            raise RefusedError("ValidationError")
        return self.stacks[name]

    # -- resources by name

    def _get_item(self, given: Given) -> dict[str, Any]:
        if given["TableName"] not in self.tables:
            raise RefusedError("ResourceNotFoundException")
        found = self.items.get(given["TableName"])
        return {"Item": found} if found else {}

    def _list_tables(self, given: Given) -> dict[str, Any]:
        return _page("TableNames", self.tables, given, "ExclusiveStartTableName", "LastEvaluatedTableName")

    def _describe_log_groups(self, given: Given) -> dict[str, Any]:
        found = [{"logGroupName": name} for name in self.log_groups if name.startswith(given["logGroupNamePrefix"])]
        return _page("logGroups", found, given, "nextToken", "nextToken")

    def _head_bucket(self, given: Given) -> dict[str, Any]:
        if given["Bucket"] not in self.buckets:
            raise RefusedError("404")
        return {}

    def _list_collections(self, given: Given) -> dict[str, Any]:
        found = [{"name": name, "id": found} for name, found in self.collections.items()]
        return _page("collectionSummaries", found, given, "nextToken", "nextToken")

    def _list_collection_groups(self, given: Given) -> dict[str, Any]:
        found = [
            {"name": name, "id": f"group{number}", "numberOfCollections": count}
            for number, (name, count) in enumerate(self.collection_groups.items())
        ]
        return _page("collectionGroupSummaries", found, given, "nextToken", "nextToken")

    def _list_security_policies(self, given: Given) -> dict[str, Any]:
        found = [{"type": kind, "name": name} for kind, name in self.policies if kind == given["type"]]
        return _page("securityPolicySummaries", found, given, "nextToken", "nextToken")

    def _list_schedule_groups(self, given: Given) -> dict[str, Any]:
        return _page(
            "ScheduleGroups", [{"Name": name} for name in self.schedule_groups], given, "NextToken", "NextToken"
        )

    def _list_backup_vaults(self, given: Given) -> dict[str, Any]:
        found = [{"BackupVaultName": name} for name in self.backup_vaults]
        return _page("BackupVaultList", found, given, "NextToken", "NextToken")

    def _list_secrets(self, given: Given) -> dict[str, Any]:
        arn = f"arn:aws:secretsmanager:{self.region}:{ACCOUNT}:secret"
        found = [{"Name": name, "ARN": f"{arn}:{name}-aBcDeF"} for name in self.secrets]
        return _page("SecretList", found, given, "NextToken", "NextToken")

    # -- quotas and keys

    def _list_service_quotas(self, given: Given) -> dict[str, Any]:
        found = [{"QuotaName": name, "Value": value} for name, value in self.quotas.items()]
        return _page("Quotas", found if given["ServiceCode"] == "aoss" else [], given, "NextToken", "NextToken")

    def _list_aws_default_service_quotas(self, given: Given) -> dict[str, Any]:
        return _page("Quotas", [], given, "NextToken", "NextToken")

    def _get_resources(self, given: Given) -> dict[str, Any]:
        found = [{"ResourceARN": f"arn:aws:kms:{self.region}:{ACCOUNT}:key/{key}"} for key in self.keys]
        return _page("ResourceTagMappingList", found, given, "PaginationToken", "PaginationToken")

    def _describe_key(self, given: Given) -> dict[str, Any]:
        key = given["KeyId"].rsplit("/", 1)[-1]
        return {"KeyMetadata": {"KeyId": key, "Description": self.keys[key], "KeyState": "Enabled"}}


def _page(key: str, items: Sequence[Any], given: Mapping[str, Any], sent: str, returned: str) -> dict[str, Any]:
    """Two items from where the last page ended, whose number is the token."""
    start = int(given.get(sent, 0) or 0) if str(given.get(sent, 0)).isdigit() else 0
    if key == "TableNames" and given.get(sent):
        start = list(items).index(given[sent]) + 1
    part = list(items[start : start + 2])
    if start + 2 >= len(items):
        return {key: part}
    return {key: part, returned: part[-1] if key == "TableNames" else str(start + 2)}


def _response(status: int) -> AWSResponse:
    return AWSResponse("https://aws.example", status, HTTPHeaders(), None)
