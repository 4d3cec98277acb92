"""Requests that schemathesis generates from the OpenAPI document, and checks of their replies."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from requests.adapters import HTTPAdapter
from schemathesis import Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks
from urllib3 import HTTPResponse

from opx.edges import schemas
from opx.operations.system import System
from tests.doubles.api_gateway import answer_of, event_of, route_of
from tests.doubles.http_double import Request
from tests.support.agent_calls import CORPUS, DISK_TITLE
from tests.support.api_requests import ROLE

SCHEMA = schemathesis.openapi.from_dict(schemas.openapi(), config=SchemathesisConfig(seed=1))
OPERATIONS: list[Any] = [found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)]

CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
DECLARED = {"search", "query", "research", "categories", "status", "audit", "gaps", "objects", "sources", "addValues"}
DECLARED |= {"aliases", "merges"}
"""Operations whose every condition is in the document, so that they take whatever fits it."""

KEYS = sorted(key for key in CORPUS if key.startswith("documents/"))
FEED: dict[str, Any] = {"kind": "feed", "category": "web/blogs", "options": {"urls": ["https://example.org/feed.xml"]}}
NAMES: dict[str, Any] = {
    "kbId": "default",
    "tier": "internal",
    "category": "runbooks/procedures",
    "categories": "runbooks",
    "clientId": "acme",
    "projectId": "shop",
    "objectKeys": KEYS[0],
    "updatedFrom": "2026-01-01",
    "updatedBefore": "2100-01-01",
    "asOf": "2026-01-01T12:00Z",
    "timeWindow": "7d",
    "groupId": "grocers",
    "ref": "runbook:disk",
    "from": "runbook:disk",
    "to": "runbook:cpu",
    "since": "1d",
    "until": "2100-01-01",
    "definition": FEED,
    "conclusion": "The volume was too small.",
    "started_at": "2026-03-31T10:00:00Z",
    "finished_at": "2026-03-31T10:30:00Z",
}
"""Values of fields that name existing resources."""

ANSWERED: dict[str, Any] = dict.fromkeys(("q", "query", "topic"), DISK_TITLE)
ANSWERED |= dict.fromkeys(("tag", "tags", "service", "services", "language", "minConfidence", "plain"))
"""Values of fields for queries that have an answer; None omits the field."""

OTHER_NAMES: dict[str, dict[str, Any]] = {
    "pullSource": {"sourceId": "feed"},
    "registerSource": {"sourceId": "blog"},
    "removeSource": {"sourceId": "blog"},
    "crawl": {"urls": "https://example.org/", "category": "web/blogs"},
    "mergeThings": {"from": "service:a", "into": "service:b"},
    "ingest": {"documents": None},
    "retryFailures": {"failureIds": None, "all": True},
}
"""Fields that an operation needs, or that conflict with the others."""


class UnreadQueue:
    """A queue for requested pulls."""

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        """Drops the message."""


def boundary_cases(operation: Any, most: int) -> list[Case[Any]]:
    """Requests at and beyond the boundaries that the document declares, at most so many of them."""
    cases = SCHEMA.iter_coverage_cases(
        operation=operation, generation_modes=list(GenerationMode), generation_config=SCHEMA.config.generation
    )
    return spread(list(cases), most)


def check(case: Case[Any], address: str, session: requests.Session, names: Mapping[str, Any]) -> None:
    """Sends a request, and fails unless the reply is one that the document has."""
    wanted, name = [*CHECKS], case.operation.definition.raw["operationId"]
    names = {**names, **OTHER_NAMES.get(name, {})}
    assert case.meta is not None
    if case.meta.generation.mode is GenerationMode.POSITIVE:
        case.path_parameters = named(case.path_parameters, names)
        case.query, case.body = named(case.query, names), named(case.body, names)
        wanted += [checks.positive_data_acceptance] if name in DECLARED else []
    elif not has_null(case.body):
        if not case.meta.is_negative_at(ParameterLocation.PATH):
            case.path_parameters = named(case.path_parameters, names)
        wanted += [checks.negative_data_rejection]
    case.call_and_validate(address, session, checks=wanted, timeout=100)  # a busy machine is no failure


def spread(cases: list[Case[Any]], most: int) -> list[Case[Any]]:
    """Some of them, from the first to the last."""
    return cases if len(cases) <= most else [cases[position * len(cases) // most] for position in range(most)]


def named(value: Any, names: Mapping[str, Any]) -> Any:
    """The values with names of existing resources."""
    if not isinstance(value, dict):
        return value
    return {
        name: known(names[name], inner) if name in names else named(inner, names)
        for name, inner in value.items()
        if names.get(name, "") is not None
        and (name, type(inner)) != ("after", str)  # a cursor, which only another page has
    }


def known(name: object, value: object) -> object:
    return [name] * len(value) if isinstance(value, list) else name


def has_null(value: object) -> bool:
    """Null is accepted for optional fields, as documented."""
    if isinstance(value, dict):
        return any(inner is None or has_null(inner) for inner in value.values())
    return False


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
