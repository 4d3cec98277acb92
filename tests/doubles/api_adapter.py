"""The HTTP API behind `requests`: the functions' code answers, in this process and without a socket."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPResponse

from opx.operations.system import System
from tests.doubles.api_gateway import answer_of, event_of, route_of
from tests.doubles.http_double import Request
from tests.support.api_requests import ROLE

ADDRESS = "http://api.example.com"
_NO_ROUTE = {"statusCode": 404, "headers": {"content-type": "application/json"}, "body": '{"message":"Not Found"}'}


class ApiAdapter(HTTPAdapter):
    """Every request is that of one caller: of an IAM role."""

    def __init__(self, services: System) -> None:
        super().__init__()
        self._services = services

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        reply = self._answer(_received(request))
        found = HTTPResponse(
            BytesIO(reply["body"].encode()), reply["headers"], reply["statusCode"], preload_content=False
        )
        response: requests.Response = self.build_response(request, found)
        return response

    def _answer(self, request: Request) -> Mapping[str, Any]:
        route_key, parameters = route_of(request)
        if not route_key:
            return _NO_ROUTE
        return answer_of(event_of(request, route_key, parameters, ROLE), self._services)


def session_of(services: System) -> requests.Session:
    """A session whose requests to `ADDRESS` are answered by `services`."""
    session = requests.Session()
    session.trust_env = False
    session.mount(ADDRESS, ApiAdapter(services))
    return session


def _received(request: requests.PreparedRequest) -> Request:
    body = request.body or b""
    assert isinstance(body, str | bytes)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    sent = body.encode() if isinstance(body, str) else body
    return Request(str(request.method), urlsplit(request.path_url).path, {}, headers, sent, request.path_url)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
