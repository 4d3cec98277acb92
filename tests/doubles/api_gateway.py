"""A double of a deployed system: API Gateway and the bucket's presigned URLs over HTTP, with its workers and stores.

The functions' code answers, with events as API Gateway makes them. What API Gateway checks is checked here: Signature
Version 4 with the secret, tokens, routes, and the limits on sizes.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from opx.domain.ids import stable_hash
from opx.edges.http import respond
from opx.errors import ObjectNotFoundError
from opx.operations import load
from opx.operations.registry import HttpRoute
from opx.operations.system import System
from opx.ports import SignedUpload
from opx.runtime.metrics import unreported
from tests.doubles.http_double import HttpDouble, Request, Response
from tests.support.api_requests import ROLE

REGION = "eu-central-1"
KEY_ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
MAX_REQUEST_BYTES = 10_000_000
MAX_EVENT_BYTES = MAX_REPLY_BYTES = 6_000_000
_FORBIDDEN, _UNAUTHORIZED = Response(403, {"message": "Forbidden"}), Response(401, {"message": "Unauthorized"})
_BUCKET = "/bucket/"


ARRIVED = "f" * 32
"""The id of an upload whose only part, of ten bytes, has arrived."""


@dataclass
class UploadAddresses:
    """An `UploadSigner` whose addresses lead to the double's bucket. `given` has what each is good for, by secret."""

    services: System
    endpoint: str = ""
    given: dict[str, tuple[str, Mapping[str, str], Mapping[str, str]]] = field(default_factory=dict)

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedUpload:
        secret = secrets.token_hex(8)
        checksum = base64.b64encode(bytes.fromhex(sha256)).decode()
        headers = {"content-length": str(size), "x-amz-checksum-sha256": checksum}
        self.given[secret] = (key, headers, dict(metadata or {}))
        return SignedUpload(f"{self.endpoint}{_BUCKET}{quote(key)}?X-Amz-Signature={secret}", headers)

    def sha256_of(self, key: str) -> str:
        info = self.services.store.head(key)
        return info.etag if info else ""  # a folder's etags are just that

    # -- in parts: each key has one upload, and one of `ARRIVED` has its only part

    def begin(self, key: str, *, metadata: Mapping[str, str] | None = None) -> str:
        return stable_hash("upload", key)

    def sign_part(
        self, key: str, upload_id: str, number: int, *, size: int, sha256: str, seconds: int = 900
    ) -> SignedUpload:
        return self.sign_put(f"{key}.{upload_id}.{number}", size=size, sha256=sha256, seconds=seconds)

    def arrived(self, key: str, upload_id: str) -> Mapping[int, int]:
        if upload_id == ARRIVED:
            return {1: 10}
        if upload_id != stable_hash("upload", key):
            raise ObjectNotFoundError(f"there is no upload {upload_id} of {key}")
        return {}

    def complete(self, key: str, upload_id: str) -> None:
        self.services.store.put(key, b"0123456789")


class DeployedSystem(HttpDouble):
    """`tokens` are those that the authorizer accepts, with their claims; without any it checks signatures.

    Workers ingest new objects before each request for object states, unless they are `asleep`.
    """

    def __init__(self, services: System, *, tokens: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        super().__init__("execute-api")
        self.services = services
        self.tokens = tokens
        self.asleep = False
        self.bucket = UploadAddresses(services, self.endpoint)
        services.corpus.upload_signer = self.bucket

    def _answer(self, request: Request) -> Response:
        if request.path.startswith(_BUCKET):
            return self._stored(request)
        route_key, parameters = route_of(request)
        if not route_key:
            return Response(404, {"message": "Not Found"})
        authorizer = self._authorizer(request)
        if authorizer is None:
            return _FORBIDDEN if self.tokens is None else _UNAUTHORIZED
        if len(request.body) > MAX_REQUEST_BYTES:
            return Response(413, {"message": "Request Entity Too Large"})
        if request.path == "/objects/states" and not self.asleep:
            self.work()
        return self._called(event_of(request, route_key, parameters, authorizer))

    def work(self) -> None:
        """Runs the workers until no event is left."""
        for _ in self.services.manager.work():
            pass

    def _called(self, event: dict[str, Any]) -> Response:
        if len(json.dumps(event)) > MAX_EVENT_BYTES:
            return Response(413, {"message": "Request Entity Too Large"})
        reply = answer_of(event, self.services)
        if len(json.dumps(reply)) > MAX_REPLY_BYTES:
            return Response(500, {"message": "Internal Server Error"})
        headers = tuple((name.title(), value) for name, value in reply["headers"].items() if name != "content-type")
        return Response(reply["statusCode"], json.loads(reply["body"]), headers)

    def _authorizer(self, request: Request) -> dict[str, Any] | None:
        if self.tokens is None:
            return ROLE if is_signed(request) else None
        claims = self.tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        return None if claims is None else {"jwt": {"claims": dict(claims), "scopes": None}}

    def _stored(self, request: Request) -> Response:
        """Put an object as S3 does: with the address's own headers, and only the bytes that the checksum is of."""
        known = self.bucket.given.get(request.parameters.get("X-Amz-Signature", ""))
        if known is None or known[0] != request.path.removeprefix(_BUCKET):
            return _refused(403, "SignatureDoesNotMatch")
        key, headers, metadata = known
        if any(request.headers.get(name) != value for name, value in headers.items()):
            return _refused(403, "SignatureDoesNotMatch")
        if base64.b64encode(hashlib.sha256(request.body).digest()).decode() != headers["x-amz-checksum-sha256"]:
            return _refused(400, "BadDigest")
        self.services.store.put(key, request.body, metadata=metadata)
        return Response(200)


def is_signed(request: Request) -> bool:
    """True if the request has the signature that botocore makes for it with the same secret."""
    given = request.headers.get("authorization", "")
    found = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})", given)
    moment = request.headers.get("x-amz-date", "")
    if not found or found[1] != f"{KEY_ID}/{moment[:8]}/{REGION}/execute-api/aws4_request":
        return False
    signed = {name: request.headers.get(name, "") for name in found[2].split(";")}
    if not {"host", "x-amz-date"} <= signed.keys():
        return False
    url = f"http://{request.headers['host']}{request.target}"
    again = AWSRequest(request.method, url, data=request.body, headers=signed)
    again.context["timestamp"] = moment
    signer = SigV4Auth(Credentials(KEY_ID, SECRET), "execute-api", REGION)
    expected = signer.signature(signer.string_to_sign(again, signer.canonical_request(again)), again)
    return hmac.compare_digest(expected, found[3])


def routes() -> dict[str, HttpRoute]:
    """The routes that are deployed, by their keys."""
    return {key: one.route for key, one in load().routes.items() if one.route}


def answer_of(event: dict[str, Any], services: System) -> dict[str, Any]:
    """The reply of the function that serves the event's route."""
    return respond(event, routes()[event["routeKey"]].function, lambda: services, unreported)


def route_of(request: Request) -> tuple[str, dict[str, str]]:
    """The key of the route that a request goes to and its path's parameters; "" if there is none."""
    path = urlsplit(request.target).path
    for key, route in routes().items():
        pattern = re.sub(r"{(\w+)\+}", r"(?P<\1>.+)", route.path)
        pattern = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", pattern)
        found = re.fullmatch(pattern, path)
        if found and route.method == request.method:
            return key, {name: unquote(value) for name, value in found.groupdict().items()}
    return "", {}


def event_of(
    request: Request, route_key: str, parameters: dict[str, str], authorizer: Mapping[str, Any]
) -> dict[str, Any]:
    """As API Gateway sends it, payload format 2.0."""
    target = urlsplit(request.target)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": target.path,
        "rawQueryString": target.query,
        "headers": request.headers,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdefghij",
            "authorizer": dict(authorizer),
            "http": {"method": request.method, "path": target.path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1"},
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": route_key,
            "stage": "$default",
        },
        "isBase64Encoded": False,
    }
    if parameters:
        event["pathParameters"] = parameters
    if request.body:
        try:
            event["body"] = request.body.decode()
        except UnicodeDecodeError:
            event |= {"body": base64.b64encode(request.body).decode(), "isBase64Encoded": True}
    return event


def _refused(status: int, code: str) -> Response:
    """Without S3's XML: only the code counts."""
    return Response(status, f"<Error><Code>{code}</Code></Error>")
