"""Functions: one that answers for the services of a module, and one that has no rights to write."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambdas.retrieve_knowledge.handler import make_handler
from opx.operations.system import System
from tests.support.agent_calls import a_system
from tests.support.api_requests import Handler
from tests.support.writing_support import a_kept_system, a_refusing_handler


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with a_system(tmp_path_factory.mktemp("home")) as system:
        yield system


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A shared system for tests that write nothing, as setup is slow."""
    with a_kept_system(tmp_path_factory.mktemp("kept")) as system:
        yield system


@pytest.fixture
def refusing(kept: System) -> Iterator[Handler]:
    with a_refusing_handler(kept) as handler:
        yield handler


@pytest.fixture
def handler(services: System) -> Handler:
    return make_handler(lambda: services)
