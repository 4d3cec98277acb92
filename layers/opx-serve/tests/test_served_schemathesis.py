"""A running server conforms to its OpenAPI document, also for requests that schemathesis generates from it.

Fewer requests than of the same operations behind API Gateway (`test_api_schemathesis.py`): what differs is the way to them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.support.agent_calls import DISK, a_system, id_of
from tests.support.schemathesis_support import FEED, NAMES, OPERATIONS, UnreadQueue, boundary_cases, check
from tests.support.serving_support import OWN_TOKEN, serving

CASES = 6
"""Of an operation, for time's sake."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    logging.disable(logging.CRITICAL)
    with a_system(tmp_path_factory.mktemp("home")) as services:
        services.ports.functions.pulls = UnreadQueue()  # type: ignore[assignment,misc]
        with serving(services) as server:
            NAMES["documentId"] = id_of(services, DISK)
            assert server("PUT", "/sources/feed", {"definition": FEED}).status == 200
            yield f"http://{server.address}"
    logging.disable(logging.NOTSET)


def authorized(request: requests.PreparedRequest) -> requests.PreparedRequest:
    request.headers["authorization"] = f"Bearer {OWN_TOKEN}"
    return request


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as opened:
        opened.trust_env = False
        opened.auth = authorized  # after the headers, some of which are generated
        yield opened


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_declared_boundaries_are_enforced(operation: Any, address: str, session: requests.Session) -> None:
    for case in boundary_cases(operation, CASES):
        check(case, address, session, NAMES)
