"""Clients, the index and evaluations through the HTTP API of a deployed system: what its functions do and refuse."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest

from lambdas.manage_knowledge.handler import make_handler
from tests.aws.cloud import Cloud
from tests.aws.rebuilt_indexes import TITAN, a_deployment
from tests.support.api_requests import a_token, call, refusal

DISK = "documents/runbooks/disk.md"
TITLE = "Disk full on Linux hosts"
TEXT = f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume."
OPERATOR = a_token(scopes="opx/admin")
CURATOR = a_token(scopes="opx/curate")


def managed(cloud: Cloud, name: str, caller: Any = OPERATOR, **request: Any) -> tuple[int, Any]:
    return call(make_handler(lambda: cloud.services), name, caller=caller, **request)


def test_clients_are_listed_and_admitted_again(cloud: Cloud) -> None:
    cloud.put("clients/acme/documents/runbooks/disk.md", TEXT)
    cloud.deliver()
    status, found = call(cloud.retrieve, "list_clients", caller=OPERATOR)
    assert (status, [(one["clientId"], one["documents"]) for one in found["clients"]]) == (200, [("acme", 1)])
    assert refusal(call(cloud.retrieve, "list_clients", caller=a_token("acme", scopes="opx/admin"))) == (
        403,
        "forbidden",
    )
    assert managed(cloud, "add_client", body={}, clientId="acme")[1]["state"] == "active"


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("get_client", {"clientId": "acme"}),
        ("remove_client", {"clientId": "acme"}),
        ("get_removal_report", {"clientId": "acme"}),
        ("reconcile", {"body": {"repair": True}}),
    ],
)
def test_what_needs_all_stores_is_refused_with_the_way_to_do_it(
    cloud: Cloud, name: str, request_: dict[str, Any]
) -> None:
    cloud.put("clients/acme/documents/runbooks/disk.md", TEXT)
    cloud.deliver()
    status, found = managed(cloud, name, **request_)
    assert (status, found["error"]["code"]) == (400, "invalid_argument")
    assert "OPX_BACKEND=aws" in found["error"]["message"]
    assert call(cloud.retrieve, "list_clients", caller=OPERATOR)[1]["clients"][0]["documents"] == 1


def test_a_new_index_and_the_way_back_are_ordered(aws: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_deployment(aws, monkeypatch) as system:
        handler = make_handler(lambda: system.services)
        for name, body in (("reindex", {"model": TITAN}), ("roll_back_reindex", {})):
            assert call(handler, name, caller=OPERATOR, body=body)[0] == 200
        ordered = [json.loads(system.next_turn() or "") for _ in range(2)]
        status, found = call(handler, "get_index_status", caller=OPERATOR)
    assert sorted(one["do"] for one in ordered) == ["reindex", "rollback"]
    assert next(one["model"] for one in ordered if one["do"] == "reindex") == TITAN
    assert (status, found["target"], found["job"]) == (200, None, None)


def test_an_evaluation_runs_in_the_function_that_searches(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    cloud.deliver()
    document = call(cloud.retrieve, "list_documents", caller=CURATOR)[1]["documents"][0]
    added = {"text": TITLE, "documentIds": [document["documentId"]]}
    assert call(cloud.retrieve, "add_own_question", caller=CURATOR, body=added)[0] == 200
    status, run = call(cloud.retrieve, "run_evaluation", caller=CURATOR, body={})
    assert (status, run["state"], run["asked"]) == (200, "done", 1)
    status, found = call(cloud.retrieve, "get_evaluation", caller=CURATOR, runId=run["runId"])
    assert found["questions"][0]["reply"]["rank"] == 1


def test_an_answer_is_shown_by_its_receipt(cloud: Cloud) -> None:
    cloud.put(DISK, TEXT)
    cloud.deliver()
    body = {"query": TITLE, "config": {"minConfidence": 0}}
    receipt = call(cloud.retrieve, "query", caller=a_token("acme"), body=body, kbId="default")[1]["receiptId"]
    status, found = call(
        cloud.retrieve, "get_answer", caller=a_token("acme"), receiptId=receipt, query={"question": TITLE}
    )
    assert (status, found["isQuestion"], found["passages"][0]["title"]) == (200, True, TITLE)
    assert refusal(call(cloud.retrieve, "get_answer", caller=a_token("other"), receiptId=receipt))[0] == 404
