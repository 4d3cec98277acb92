"""The HTTP API as deployed: signed requests, routes, rights."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.deployment.emulator import REGION
from tests.deployment.system import SystemUnderTest, eventually

OWNER = Credentials("test", "test")


class Api:
    """A caller that signs with the account owner's credentials, or not at all."""

    def __init__(self, system: SystemUnderTest) -> None:
        self._emulator = system.emulator
        found = system.emulator.client("apigatewayv2").get_apis()["Items"]
        (self.base,) = (api["ApiEndpoint"] for api in found if api["Name"] == system.names.stack("api"))

    def send(self, method: str, path: str, body: Any = None, *, signed: bool = True) -> tuple[int, Any]:
        """Status and answer."""
        data = None if body is None else json.dumps(body).encode()
        request = AWSRequest(method, self.base + path, data=data, headers={"Content-Type": "application/json"})
        if signed:
            SigV4Auth(OWNER, "execute-api", REGION).add_auth(request)
        return self._emulator.call(self.base, request.prepare())


@pytest.fixture(scope="session")
def api(system: SystemUnderTest) -> Api:
    return Api(system)


def test_an_unsigned_request_is_refused(api: Api) -> None:
    status, _ = api.send("GET", "/categories", signed=False)
    assert status == 403


def test_a_document_sent_in_is_found_by_a_question_and_gone_when_it_was_deleted(
    api: Api, system: SystemUnderTest
) -> None:
    document = "# Bearing temperature\n\nGrease the bearing of the exhaust fan."
    status, answer = api.send("POST", "/ingest/internal/runbooks/procedures", {"document": document})
    assert status == 202, answer

    def found() -> list[dict[str, Any]]:
        status, answer = api.send("GET", "/knowledge/default/search?q=bearing%20temperature")
        assert status == 200, answer
        return [hit for hit in answer["results"] if "exhaust fan" in json.dumps(hit)]

    hits = eventually(found)
    document_id = hits[0]["metadata"]["documentId"]
    status, answer = api.send("GET", f"/documents/{document_id}")
    assert status == 200, answer
    status, answer = api.send("DELETE", f"/documents/{document_id}")
    assert status == 200, answer
    eventually(lambda: not found())


def test_the_status_counts_what_there_is(api: Api, system: SystemUnderTest) -> None:
    system.put("documents/runbooks/counted.md", "# Counted\n\nThis document is counted.")
    system.ingested("documents/runbooks/counted.md", "is counted")
    status, answer = api.send("GET", "/status")
    assert status == 200, answer
    assert (answer["index"], answer["scope"]) == ("ok", "global")
    assert answer["documents"] >= 1
    assert answer["chunks"] >= 1


def test_a_malformed_question_is_the_caller_s_mistake(api: Api) -> None:
    status, answer = api.send("GET", "/knowledge/default/search?q=x&limit=none")
    assert status == 400
    assert "limit" in json.dumps(answer)
