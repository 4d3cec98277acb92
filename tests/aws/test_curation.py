"""Gaps, edits and reviews through the HTTP API, on DynamoDB and S3."""

from __future__ import annotations

from typing import Any

from tests.aws.cloud import Cloud
from tests.support.api_requests import Handler, a_token, call, refusal

SOURCE, KEY = "runbooks/keys.md", "clients/acme/documents/runbooks/keys.md"
TEXT = "---\nreview_by: 2020-01-01\n---\n# Rotate the signing keys\n\nMake a new key. Größe 4096.\n"
CURATOR, OTHER = (a_token(client, scopes="opx/curate opx/write", sub="ada") for client in ("acme", "other"))
WRITER = a_token("acme")


def gap_of(cloud: Cloud) -> dict[str, Any]:
    (found,) = call(cloud.retrieve, "list_gaps", query={"settled": "true"}, caller=CURATOR)[1]["gaps"]
    return dict(found)


def test_gaps_are_assigned_and_settled_by_their_own_curators(cloud: Cloud) -> None:
    call(cloud.retrieve, "query", body={"query": "brew espresso"}, caller=CURATOR, kbId="default")
    gap_id = gap_of(cloud)["gapId"]
    for caller, expected in ((WRITER, (403, "forbidden")), (OTHER, (400, "invalid_argument"))):
        for name, body in (("assign_gap", {"owner": "kitchen"}), ("settle_gap", {"ignore": True})):
            assert refusal(call(cloud.retrieve, name, body=body, caller=caller, gapId=gap_id)) == expected
    assert (gap_of(cloud)["owner"], gap_of(cloud)["status"]) == ("", "open")
    assert call(cloud.retrieve, "assign_gap", body={"owner": "kitchen"}, caller=CURATOR, gapId=gap_id)[0] == 200
    assert call(cloud.retrieve, "settle_gap", body={"because": "no"}, caller=CURATOR, gapId=gap_id)[0] == 200
    found = gap_of(cloud)
    assert (found["owner"], found["status"], found["settledBy"]) == ("kitchen", "closed", "ada")
    call(cloud.retrieve, "query", body={"query": "brew espresso"}, caller=WRITER, kbId="default")
    found = gap_of(cloud)
    assert (found["owner"], found["status"], found["settledBy"], found["count"]) == ("kitchen", "open", "", 2)


def test_a_document_is_edited_and_reviewed_in_the_bucket(cloud: Cloud, manage: Handler) -> None:
    body = {"source": SOURCE, "text": TEXT}
    assert call(manage, "write_text", body=body, caller=CURATOR)[0] == 202
    assert refusal(call(manage, "write_text", body=body, caller=WRITER)) == (409, "conflict")
    document = delivered(cloud)
    assert due(cloud) == ["2020-01-01"]
    assert call(manage, "mark_reviewed", body={"days": 90}, caller=CURATOR, documentId=document["documentId"])[0] == 202
    after = delivered(cloud)
    assert (after["documentId"], after["version"], due(cloud)) == (document["documentId"], 1, [])
    assert after["metadata"] == document["metadata"]
    read = call(manage, "read_text", query={"source": SOURCE}, caller=WRITER)[1]
    assert read["text"] == TEXT
    edit = {"source": SOURCE, "text": TEXT.replace("Make", "Issue"), "expected": read["revision"]}
    assert call(manage, "write_text", body=edit, caller=WRITER)[0] == 202
    assert refusal(call(manage, "write_text", body=edit, caller=CURATOR)) == (409, "conflict")
    assert (delivered(cloud)["version"], due(cloud)) == (2, ["2020-01-01"])


def delivered(cloud: Cloud) -> dict[str, Any]:
    """Sends the bucket's event, and returns the document that is current then."""
    cloud.send(cloud.event(KEY))
    assert cloud.deliver() == []
    (found,) = call(cloud.retrieve, "list_documents", caller=CURATOR)[1]["documents"]
    return dict(found)


def due(cloud: Cloud) -> list[str]:
    return [one["reviewBy"] for one in call(cloud.retrieve, "list_reviews", caller=CURATOR)[1]["items"]]
