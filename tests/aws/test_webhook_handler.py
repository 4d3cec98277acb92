"""The function that takes deliveries in, on the AWS adapters."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from lambdas.receive_webhook.handler import make_handler
from opx.connectors.deliveries import MAX_BODY_BYTES, Delivery
from opx.ports.tables import DELIVERIES
from opx.runtime.functions import FunctionFailedError
from opx.settings import Settings
from opx.system import bootstrap
from tests.aws.cloud import BUCKET, PREFIX
from tests.support.api_requests import a_request, answered
from tests.support.dynamo_tables import create_table
from tests.support.fakes import FakeContext, function_logs
from tests.support.webhook_support import (
    KNOWLEDGE,
    NOW,
    SECRETS,
    a_comment,
    an_incident,
    an_issue,
    bare,
    github,
    pagerduty,
)

ISSUE = "documents/web/github_issues/webhooks/github/acme/shop/issues/7.md"
Receive = Callable[..., tuple[int, Any]]


@pytest.fixture
def account(aws: boto3.Session) -> boto3.Session:
    aws.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    create_table(aws.client("dynamodb"), DELIVERIES, PREFIX)
    for name, value in SECRETS.items():
        aws.client("secretsmanager").create_secret(Name=f"{PREFIX}opx-knowledge/{name}", SecretString=value)
    return aws


@pytest.fixture
def receive(account: boto3.Session, tmp_path: Path) -> Iterator[Receive]:
    """Hands a delivery to the function as API Gateway does; status and JSON."""
    file = tmp_path / "knowledge.yaml"
    file.write_text(KNOWLEDGE)
    settings = Settings(backend="aws", corpus_bucket=BUCKET, table_prefix=PREFIX, knowledge_file=str(file))
    services = bootstrap(settings, clock=lambda: NOW, aws=lambda service, **_: account.client(service))
    handler = make_handler(lambda: services)

    def received(delivery: Delivery, **changes: Any) -> tuple[int, Any]:
        return answered(handler({**an_event(delivery), **changes}, FakeContext()))

    with function_logs():
        yield received


def an_event(delivery: Delivery) -> dict[str, Any]:
    query = "&".join(f"{name}={value}" for name, value in delivery.query)
    event = a_request("ingest", query=query, caller=None, headers=delivery.headers)
    event["routeKey"] = event["requestContext"]["routeKey"] = "POST /ingest/{tier}/{category+}"
    event["pathParameters"] = {"tier": delivery.tier, "category": delivery.category.replace("/", "%2F")}
    event["body"] = delivery.body.decode()
    return event


def objects(account: boto3.Session) -> list[str]:
    return [found["Key"] for found in account.client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", [])]


def test_a_genuine_delivery_is_put_into_the_bucket(account: boto3.Session, receive: Receive) -> None:
    assert receive(github(an_issue())) == (202, {"state": "accepted", "documents": 1})
    assert objects(account) == [ISSUE]
    body = account.client("s3").get_object(Bucket=BUCKET, Key=ISSUE)["Body"].read()
    assert body.startswith(b"# Pods restart\n")


def test_a_body_in_base64_is_verified_as_it_was_sent(receive: Receive) -> None:
    delivery = github(an_issue(title="Größe"))
    encoded = base64.b64encode(delivery.body).decode()
    assert receive(delivery, body=encoded, isBase64Encoded=True)[0] == 202


def test_again_and_out_of_order_it_changes_nothing(account: boto3.Session, receive: Receive) -> None:
    receive(pagerduty(an_incident("resolved", "2026-01-02T11:00:00Z")))
    assert receive(pagerduty(an_incident("resolved", "2026-01-02T11:00:00Z"))) == (200, {"state": "duplicate"})
    assert receive(pagerduty(an_incident())) == (200, {"state": "outdated"})
    (key,) = objects(account)
    assert b"Status: resolved" in account.client("s3").get_object(Bucket=BUCKET, Key=key)["Body"].read()


def test_comments_are_added_to_the_issue(account: boto3.Session, receive: Receive) -> None:
    for text, at in (("Second.", "2026-01-02T12:00:00Z"), ("First.", "2026-01-02T11:00:00Z")):
        assert receive(github(a_comment(text, at, number=len(text)), "issue_comment"))[0] == 202
    body = account.client("s3").get_object(Bucket=BUCKET, Key=ISSUE)["Body"].read()
    assert body.startswith(b"# Pods restart\n")
    assert 0 < body.index(b"First.") < body.index(b"Second.")


def test_a_deletion_deletes(account: boto3.Session, receive: Receive) -> None:
    receive(github(an_issue()))
    assert receive(github(an_issue("deleted", "2026-01-03T10:00:00Z")))[0] == 202
    assert objects(account) == []


def test_deliveries_are_forgotten_in_time_and_the_order_of_documents_is_not(
    account: boto3.Session, receive: Receive
) -> None:
    receive(github(an_issue()))
    items = [item for item in records(account) if not item["deliveryId"]["S"].startswith("last#")]
    expiring = {item["deliveryId"]["S"].partition("#")[0] == "document": "expiresAt" in item for item in items}
    assert expiring == {True: False, False: True}


def test_a_forged_one_leaves_no_trace_but_that_it_was_refused(account: boto3.Session, receive: Receive) -> None:
    assert receive(github(an_issue(), key="wrong"))[0] == 401
    assert objects(account) == []
    (last,) = records(account)  # of the webhook: refused, and why
    assert last["deliveryId"]["S"] == "last#webhook#github"
    assert set(last["arrivals"]["M"]["refused"]["M"]) == {"at", "count", "reason"}


def records(account: boto3.Session) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = account.client("dynamodb").scan(TableName=PREFIX + DELIVERIES.name)["Items"]
    return found


def test_without_the_table_it_is_to_come_again(account: boto3.Session, receive: Receive) -> None:
    account.client("dynamodb").delete_table(TableName=PREFIX + DELIVERIES.name)
    status, found = receive(github(an_issue()))
    assert status == 503
    assert "github" not in json.dumps(found)
    assert objects(account) == []


def test_without_the_secret_nobody_gets_in(account: boto3.Session, receive: Receive) -> None:
    secrets = account.client("secretsmanager")
    secrets.delete_secret(SecretId=f"{PREFIX}opx-knowledge/hub", ForceDeleteWithoutRecovery=True)
    assert receive(github(an_issue()))[0] == 500
    assert objects(account) == []


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"routeKey": "GET /status"}, 404),
        ({"routeKey": "POST /uploads"}, 404),
        ({"pathParameters": {"tier": "internet"}}, 404),
        ({"pathParameters": {"tier": "internet", "category": "%ff"}}, 400),
        ({"rawQueryString": "a=1&" * 50}, 400),
        ({"body": "no base64!", "isBase64Encoded": True}, 400),
        ({"body": "\ud800"}, 400),
        ({"body": None}, 401),
        ({"headers": None}, 401),
        ({"body": "A" * (2 * MAX_BODY_BYTES + 1)}, 413),
        ({"body": "A" * (MAX_BODY_BYTES + 1)}, 413),
    ],
)
def test_other_requests_are_refused(
    account: boto3.Session, receive: Receive, changes: dict[str, Any], status: int
) -> None:
    assert receive(github(an_issue()), **changes)[0] == status
    assert objects(account) == []


def test_names_of_headers_count_in_any_case(receive: Receive) -> None:
    delivery = github(an_issue())
    shouted = {name.upper(): value for name, value in delivery.headers.items()}
    assert receive(delivery, headers=shouted)[0] == 202


def test_event_that_is_no_request_fails_the_call() -> None:
    with function_logs(), pytest.raises(FunctionFailedError):
        make_handler()({"Records": []}, FakeContext())


def test_an_unsigned_address_is_not_there(receive: Receive) -> None:
    assert receive(bare("nobody"))[0] == 404
