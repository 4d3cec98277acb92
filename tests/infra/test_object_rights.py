"""Calls of AWS by functions that put and delete documents are within their roles' rights.

The adapters run on doubles that allow everything, so that the calls are recorded and looked up in the templates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.domain.documents import DocumentKey, DocumentState
from opx.lifecycle.versions.differences import Restorer
from opx.operations.system import System
from opx.ports.tables import DELIVERIES, PROJECTS
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.object_store import PART_BYTES
from opx_streams import capability
from opx_streams.webhooks.receiving import answer
from tests.infra.templates import Assembly, listed
from tests.infra.test_ingestion import BUCKET
from tests.support.builders import a_document
from tests.support.dynamo_tables import create_table
from tests.support.webhook_support import KNOWLEDGE, NOW, SecretsInMemory, an_issue, github

Pair = tuple[str, str]
NAME = "corpus"
TABLES = "arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/"
LONG = [f"a tag of some length, number {number} of many" for number in range(40)]
CATEGORY = "web/github_issues"

ACTIONS = {
    "AbortMultipartUpload": ("AbortMultipartUpload",),
    "CompleteMultipartUpload": ("PutObject",),
    "CopyObject": ("GetObjectVersion", "PutObject"),
    "CreateMultipartUpload": ("PutObject",),
    "DeleteObject": ("DeleteObject",),
    "GetObject": ("GetObject", "ListBucket"),
    "HeadObject": ("GetObject", "ListBucket"),
    "ListObjectVersions": ("ListBucketVersions",),
    "ListObjectsV2": ("ListBucket",),
    "PutObject": ("PutObject",),
    "UploadPart": ("PutObject",),
}
"""Of S3, after "Required permissions for Amazon S3 API operations". Without listing, a missing object is a 403."""


@dataclass
class Account:
    """An account in memory that records calls: actions and resources."""

    session: boto3.Session
    calls: set[Pair] = field(default_factory=set)

    def client(self, service: str, **_: object) -> Any:
        client: Any = self.session.client(service)  # type: ignore[call-overload]
        client.meta.events.register(f"provide-client-params.{service}", self._note)
        return client

    def _note(self, params: Mapping[str, Any], model: Any, **_: object) -> None:
        if "TableName" in params:
            self.calls.add((f"dynamodb:{model.name}", TABLES + params["TableName"]))
            return
        for action in ACTIONS[model.name]:
            resource = BUCKET if action.startswith("ListBucket") else f"{BUCKET}/{params['Key']}"
            self.calls.add((f"s3:{action}", resource))


@pytest.fixture
def account(aws: boto3.Session) -> Account:
    aws.client("s3").create_bucket(Bucket=NAME, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    for spec in (DELIVERIES, PROJECTS):
        create_table(aws.client("dynamodb"), spec, "dev-")
    return Account(aws)


@pytest.fixture(params=["", "acme"], ids=["for everyone", "for a client"])
def services(account: Account, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[System]:
    file = tmp_path / "knowledge.yaml"
    file.write_text(KNOWLEDGE)
    settings = Settings(
        backend="aws", corpus_bucket=NAME, table_prefix="dev-", knowledge_file=str(file), client_id=request.param
    )
    with bootstrap(settings, clock=lambda: NOW, secrets=SecretsInMemory(), aws=account.client) as made:
        yield made


@pytest.fixture(scope="module")
def deployed(make: Callable[..., Assembly]) -> Assembly:
    return make(webhooks="true", stream_arns="arn:aws:sqs:eu-central-1:123456789012:incidents")


def allowed(assembly: Assembly, stack: str, role: str) -> set[Pair]:
    """Rights of the role with this prefix of its logical id."""
    return {
        (action, resource)
        for policy in assembly.resources(stack, "IAM::Policy").values()
        if any(str(name).strip("<>").startswith(role) for name in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def refused(calls: set[Pair], rights: set[Pair]) -> set[Pair]:
    """Recorded calls that the rights don't allow; resources of rights may have wildcards."""
    return {
        (action, resource)
        for action, resource in calls
        if not any(action == may and fnmatchcase(resource, pattern) for may, pattern in rights)
    }


def put_and_delete(services: System) -> None:
    """All that is done with documents of sources, streams and callers of the API."""
    manager = services.manager
    for metadata in ({}, {}, {"tags": LONG}, {}):
        key = manager.put_document(CATEGORY, "# A", {"source": "a.md", **metadata})
    manager.put_document(CATEGORY, "# A", {"source": "a.md", "tags": LONG})
    manager.delete_object(key)


def deliver(services: System) -> None:
    """A document, its update, one with metadata beside it, and its end."""
    receiver = services.part(capability.WebhookIngestion).receiver
    many = [{"name": f"label {number} " + "ü" * 52} for number in range(20)]
    answers = [
        answer(lambda: receiver, github(an_issue(action, f"2026-01-02T1{hour}:00:00Z", labels=labels)))
        for hour, (action, labels) in enumerate(
            [("opened", []), ("edited", []), ("labeled", many), ("unlabeled", []), ("labeled", many), ("deleted", [])]
        )
    ]
    assert [found.status for found in answers] == [202] * 6


@pytest.mark.parametrize(
    ("stack", "role"),
    [("sources", "PullSourcesRole"), ("streams", "ConsumeStreamRole"), ("api", "ManageKnowledgeRole")],
)
def test_roles_that_put_documents_have_all_the_rights_they_need(
    deployed: Assembly, account: Account, services: System, stack: str, role: str
) -> None:
    put_and_delete(services)
    assert {"s3:DeleteObject", "s3:GetObject", "s3:ListBucket", "s3:PutObject"} == {
        action for action, _ in account.calls if action.startswith("s3:")
    }
    assert refused(account.calls, allowed(deployed, stack, role)) == set()


def test_role_that_restores_documents_has_all_the_rights_it_needs(
    deployed: Assembly, account: Account, services: System
) -> None:
    versioned: Any = {"Status": "Enabled"}
    account.session.client("s3").put_bucket_versioning(Bucket=NAME, VersioningConfiguration=versioned)
    manager = services.manager
    for text, metadata in (("# A", {"tags": LONG}), ("# B", {})):
        key = manager.put_document(CATEGORY, text, {"source": "a.md", **metadata})
    known = DocumentKey(services.installation.scope, key.removeprefix(services.installation.scope.prefix))
    document = a_document(key=known, state=DocumentState.SUPERSEDED, current_since="2999-01-01T00:00:00Z")
    restorer = Restorer(store=services.store, writer=manager, past=services.storage.past)
    assert restorer.restore(document).original
    assert {"s3:GetObjectVersion", "s3:ListBucketVersions"} <= {action for action, _ in account.calls}
    assert refused(account.calls, allowed(deployed, "api", "ManageKnowledgeRole")) == set()


def test_sources_may_upload_in_parts(deployed: Assembly, account: Account, services: System) -> None:
    services.manager.put_document(CATEGORY, b"x" * PART_BYTES, {"source": "large.pdf"})
    assert any(action == "s3:GetObject" and resource.endswith("large.pdf") for action, resource in account.calls)
    assert refused(account.calls, allowed(deployed, "sources", "PullSourcesRole")) == set()


def test_the_receiver_of_webhooks_may_do_all_that_a_delivery_takes(
    deployed: Assembly, account: Account, services: System
) -> None:
    deliver(services)
    assert any(
        resource.endswith(".metadata.json") and action == "s3:DeleteObject" for action, resource in account.calls
    )
    assert refused(account.calls, allowed(deployed, "webhooks", "ReceiveWebhookRole")) == set()
