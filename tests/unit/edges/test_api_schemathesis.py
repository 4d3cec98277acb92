"""The HTTP API conforms to its OpenAPI document, also for requests that schemathesis generates from it.

Two kinds of them: every boundary of what the document declares, from both sides, and a few at random.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks

from opx.edges import schemas
from tests.doubles.api_adapter import ADDRESS, session_of
from tests.doubles.api_gateway import UploadAddresses
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of

SCHEMA = schemathesis.openapi.from_dict(schemas.openapi(), config=SchemathesisConfig(seed=1))
OPERATIONS: list[Any] = [found.ok() for found in SCHEMA.get_all_operations() if isinstance(found, Ok)]
every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)

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

CASES, EXAMPLES = 30, 3
"""Of an operation, for time's sake: one has up to 260 boundaries. All of them hold if there is no limit here."""


class UnreadQueue:
    """A queue for requested pulls."""

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        """Drops the message."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[requests.Session]:
    logging.disable(logging.CRITICAL)
    with a_system(tmp_path_factory.mktemp("home")) as services:
        services.corpus.upload_signer = UploadAddresses(services, "https://bucket.example.com")
        services.functions.pulls = UnreadQueue()  # type: ignore[assignment,misc]
        NAMES["documentId"] = id_of(services, DISK)
        opened = session_of(services)
        assert opened.put(f"{ADDRESS}/sources/feed", json={"definition": FEED}).ok
        yield opened
    logging.disable(logging.NOTSET)


@every_operation
def test_declared_boundaries_are_enforced(operation: Any, session: requests.Session) -> None:
    cases = SCHEMA.iter_coverage_cases(
        operation=operation, generation_modes=list(GenerationMode), generation_config=SCHEMA.config.generation
    )
    for case in spread(list(cases), CASES):
        check(case, session, NAMES)


@every_operation
def test_requests_at_random_are_answered_as_declared(operation: Any, session: requests.Session) -> None:
    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Case[Any]) -> None:
        check(case, session, NAMES | ANSWERED)

    ask()


def check(case: Case[Any], session: requests.Session, names: Mapping[str, Any]) -> None:
    """Ask, and see that the answer is one that the document has."""
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
    case.call_and_validate(ADDRESS, session, checks=wanted)


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
