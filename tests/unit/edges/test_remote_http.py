"""Requests to the API: headers and bodies, retries, and the error of each refusal."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from opx.adapters.connections import Connections
from opx.domain.knowledge import Tier
from opx.edges.client import ATTEMPTS, ApiClient, RemoteClient, bearer, error_of, pause_before
from opx.errors import (
    AccessDeniedError,
    ConditionFailedError,
    DocumentNotFoundError,
    InvalidInputError,
    OpxError,
    StoreUnavailableError,
    UnknownCategoryError,
)
from opx.operations.corpus import (
    GetStatus,
    Ingest,
    ListObjects,
    PrepareUpload,
    get_status,
    ingest,
    list_objects,
    prepare_upload,
)
from opx.operations.documents import ReadChunks, read_chunks
from tests.doubles.http_double import HttpDouble, Request, Response


class Echo(HttpDouble):
    """Answers with the received request."""

    def _answer(self, request: Request) -> Response:
        return Response(200, {"target": request.target, "headers": request.headers, "body": request.body.decode()})


@pytest.fixture
def server() -> Iterator[Echo]:
    with Echo("none") as server:
        yield server


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def api(server: Echo, pauses: list[float]) -> Iterator[ApiClient]:
    connections = Connections(connect_seconds=1, read_seconds=0.3)
    yield ApiClient(server.endpoint, bearer("secret"), connections, pause=pauses.append)
    connections.close()


def refused(code: str, message: str = "what is wrong") -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


@pytest.fixture
def client(server: Echo) -> Iterator[RemoteClient]:
    client = RemoteClient(server.endpoint, bearer("secret"), Connections())
    yield client
    client.close()


def test_paths_and_parameters_are_escaped(client: RemoteClient, server: Echo) -> None:
    server.inject(Response(200, {"chunks": []}))
    client.call(read_chunks, ReadChunks(document_id="a/b ä?"))
    server.inject(Response(200, {"objectKeys": []}))
    client.call(list_objects, ListObjects(under="x y&z/+", after="a"))
    assert [request.target for request in server.requests] == [
        "/documents/a%2Fb%20%C3%A4%3F/chunks",
        "/objects?under=x%20y%26z%2F%2B&after=a",
    ]


@pytest.mark.parametrize("document_id", ["", ".", "..", "a/../b", "a//b"])
def test_document_id_that_would_change_the_address_is_refused(
    client: RemoteClient, server: Echo, document_id: str
) -> None:
    with pytest.raises(InvalidInputError, match="is not a document id"):
        client.call(read_chunks, ReadChunks(document_id=document_id))
    assert server.requests == []


def test_a_body_is_json_and_the_token_goes_with_it(client: RemoteClient, server: Echo) -> None:
    server.inject(Response(200, {"state": "unchanged", "objectKey": "documents/ä"}))
    client.call(prepare_upload, PrepareUpload(source="ä", sha256="0" * 64, size=1))
    (request,) = server.requests
    assert request.json() == {"source": "ä", "sha256": "0" * 64, "size": 1, "metadata": {}}
    assert request.headers["content-type"] == "application/json"
    assert request.headers["authorization"] == "Bearer secret"


def test_halves_of_surrogate_pairs_come_and_go(client: RemoteClient, server: Echo) -> None:
    server.inject(Response(202, {"accepted": [{"objectKey": "\ud800"}], "refused": []}))
    request = Ingest(tier=Tier.INTERNAL, category="runbooks", documents=("half \ud800",))
    assert client.call(ingest, request).accepted[0].object_key == "\ud800"
    assert server.requests[0].json() == {"documents": ["half \ud800"]}


@pytest.mark.parametrize("token", ["a b", "tökén", "a\nb"])
def test_a_token_that_no_header_can_hold_is_refused(token: str) -> None:
    with pytest.raises(AccessDeniedError, match="OPX_API_TOKEN"):
        bearer(token)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_temporary_error_is_retried(api: ApiClient, server: Echo, pauses: list[float], status: int) -> None:
    server.inject(Response(status, {"message": "busy"}), times=ATTEMPTS - 1)
    assert api.send("GET", "/status", None)
    assert len(pauses) == ATTEMPTS - 1


def test_after_some_attempts_the_last_answer_counts(api: ApiClient, server: Echo, pauses: list[float]) -> None:
    server.inject(Response(503, refused("unavailable", "the index sleeps")), times=ATTEMPTS)
    with pytest.raises(StoreUnavailableError, match="the index sleeps"):
        api.send("GET", "/status", None)
    assert (len(server.requests), len(pauses)) == (ATTEMPTS, ATTEMPTS - 1)


def test_a_request_without_an_answer_is_tried_again(api: ApiClient, server: Echo) -> None:
    server.inject(Response(hang_up=True), times=2)
    assert api.send("POST", "/uploads", b"{}")
    assert len(server.requests) == 3


def test_a_server_that_takes_too_long_is_unavailable(api: ApiClient, server: Echo) -> None:
    server.inject(Response(200, {}, delay=1.0), times=ATTEMPTS)
    with pytest.raises(StoreUnavailableError, match="took too long"):
        api.send("GET", "/status", None)


def test_a_server_that_is_not_there_is_unavailable(pauses: list[float]) -> None:
    with Echo("none") as gone:
        endpoint = gone.endpoint
    api = ApiClient(endpoint, bearer("secret"), Connections(connect_seconds=1), pause=pauses.append)
    with pytest.raises(StoreUnavailableError, match="no connection to 127"):
        api.send("GET", "/status", None)
    assert len(pauses) == ATTEMPTS - 1


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 500])
def test_permanent_error_is_not_retried(api: ApiClient, server: Echo, status: int) -> None:
    server.inject(Response(status, {}))
    with pytest.raises(OpxError):
        api.send("GET", "/status", None)
    assert len(server.requests) == 1


def test_the_pause_follows_retry_after(api: ApiClient, server: Echo, pauses: list[float]) -> None:
    server.inject(Response(503, {}, (("Retry-After", "7"),)))
    api.send("GET", "/status", None)
    assert pauses == [7]


@pytest.mark.parametrize(
    ("attempt", "headers", "shortest", "longest"),
    [
        (1, {}, 0.25, 0.5),
        (2, {}, 0.5, 1.0),
        (4, {}, 2.0, 4.0),
        (30, {}, 10.0, 20.0),
        (1, {"Retry-After": "9999"}, 20, 20),
        (1, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.25, 0.5),
        (1, {"Retry-After": "²"}, 0.25, 0.5),
    ],
)
def test_pauses_double_and_have_an_end(
    attempt: int, headers: Mapping[str, str], shortest: float, longest: float
) -> None:
    assert all(shortest <= pause_before(attempt, headers) <= longest for _ in range(20))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_argument", InvalidInputError),
        (400, "unknown_category", UnknownCategoryError),
        (404, "not_found", DocumentNotFoundError),
        (409, "conflict", ConditionFailedError),
        (413, "too_large", InvalidInputError),
        (403, "forbidden", AccessDeniedError),
    ],
)
def test_an_error_of_the_api_keeps_its_message(
    api: ApiClient, server: Echo, status: int, code: str, kind: type[OpxError]
) -> None:
    server.inject(Response(status, refused(code)))
    with pytest.raises(kind) as caught:
        api.send("GET", "/status", None)
    assert (caught.type, str(caught.value)) == (kind, "what is wrong")


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (401, AccessDeniedError, "doesn't accept the token of OPX_API_TOKEN (401, no)"),
        (403, AccessDeniedError, "refused GET /status (403, no)"),
        (404, OpxError, "knows no GET /status (404, no): it is no such API, or was deployed from an older version"),
        (413, InvalidInputError, "too large for the API"),
        (418, OpxError, "with status 418, no"),
        (500, StoreUnavailableError, "with status 500, no, request abc; its log may have details"),
    ],
)
def test_an_error_of_api_gateway_is_explained(
    api: ApiClient, server: Echo, status: int, kind: type[OpxError], text: str
) -> None:
    server.inject(Response(status, {"message": "no"}, (("apigw-requestid", "abc"),)))
    with pytest.raises(kind, match=re.escape(text)):
        api.send("GET", "/status", None)


def test_a_missing_permission_is_named() -> None:
    url = "https://abc123.execute-api.eu-central-1.amazonaws.com/documents/0f"
    error = error_of(403, b'{"message":"Forbidden"}', {}, "DELETE", url)
    assert "execute-api:Invoke on arn:aws:execute-api:eu-central-1:*:abc123/*/DELETE/documents/0f" in str(error)


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"\xff", b'{"error": "x"}', b""])
def test_a_refusal_in_another_form_is_a_refusal(body: bytes) -> None:
    assert isinstance(error_of(403, body, {}, "GET", "https://x.test/status"), AccessDeniedError)


def test_an_answer_that_is_not_json_is_an_error(client: RemoteClient, server: Echo) -> None:
    server.inject(Response(200, None))
    with pytest.raises(OpxError, match="is it the API's address"):
        client.call(get_status, GetStatus())


def test_a_redirect_is_not_followed(api: ApiClient, server: Echo) -> None:
    server.inject(Response(302, None, (("Location", "/elsewhere"),)))
    with pytest.raises(OpxError, match="status 302"):
        api.send("GET", "/status", None)
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "url", ["http://api.test", "ftp://api.test", "api.test", "https://", "https://api.test?x=1", ""]
)
def test_an_address_that_would_show_the_token_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="is no address of an API"):
        ApiClient(url, bearer("secret"), Connections())


def test_a_stage_in_the_address_stays_in_it(server: Echo) -> None:
    api = ApiClient(server.endpoint + "/prod/", bearer("secret"), Connections())
    assert json.loads(api.send("GET", "/status", None))["target"] == "/prod/status"


def test_requests_go_through_the_proxy_of_this_machine(server: Echo, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", server.endpoint)
    api = ApiClient("http://localhost:9", bearer("secret"), Connections(connect_seconds=1))
    assert json.loads(api.send("GET", "/status", None))["target"] == "http://localhost:9/status"


def test_a_server_that_can_not_prove_who_it_is_is_not_talked_to(server: Echo) -> None:
    api = ApiClient(server.endpoint.replace("http:", "https:"), bearer("secret"), Connections(connect_seconds=1))
    with pytest.raises(OpxError, match="no trusted connection to 127"):
        api.send("GET", "/status", None)
    assert server.requests == []
