"""The HTTP API conforms to its OpenAPI document, also for requests that schemathesis generates from it.

Two kinds of them: every boundary of what the document declares, from both sides, and a few at random.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from hypothesis import Phase, given, settings
from schemathesis import Case, GenerationMode

from tests.doubles.api_gateway import UploadAddresses
from tests.support.agent_calls import DISK, a_system, id_of
from tests.support.schemathesis_support import (
    ADDRESS,
    ANSWERED,
    FEED,
    NAMES,
    OPERATIONS,
    UnreadQueue,
    boundary_cases,
    check,
    session_of,
)

every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)

CASES, EXAMPLES = 30, 3
"""Of an operation, for time's sake: one has up to 260 boundaries. All of them hold if there is no limit here."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[requests.Session]:
    logging.disable(logging.CRITICAL)
    with a_system(tmp_path_factory.mktemp("home")) as services:
        services.corpus.upload_signer = UploadAddresses(services, "https://bucket.example.com")
        services.ports.functions.pulls = UnreadQueue()  # type: ignore[assignment,misc]
        NAMES["documentId"] = id_of(services, DISK)
        opened = session_of(services)
        assert opened.put(f"{ADDRESS}/sources/feed", json={"definition": FEED}).ok
        yield opened
    logging.disable(logging.NOTSET)


@every_operation
def test_declared_boundaries_are_enforced(operation: Any, session: requests.Session) -> None:
    for case in boundary_cases(operation, CASES):
        check(case, ADDRESS, session, NAMES)


@every_operation
def test_requests_at_random_are_answered_as_declared(operation: Any, session: requests.Session) -> None:
    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Case[Any]) -> None:
        check(case, ADDRESS, session, NAMES | ANSWERED)

    ask()
