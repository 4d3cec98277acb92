"""A system of a module whose outcomes each test begins without, and a system that learns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.operations.system import System
from opx_testing.fake_time import FakeTime
from tests.support.agent_calls import a_system
from tests.support.lessons import School, a_school, sqlite_tables
from tests.support.outcome_support import CORPUS, forget_outcomes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def system(home: Path) -> Iterator[System]:
    with a_system(home, CORPUS) as services:
        yield services


@pytest.fixture
def services(system: System) -> Iterator[System]:
    """Without outcomes and warnings of the tests before."""
    yield system
    forget_outcomes(system)


@pytest.fixture
def school(tmp_path: Path, time: FakeTime) -> Iterator[School]:
    found = a_school(tmp_path, sqlite_tables(tmp_path, time), time)
    yield found
    found.services.index.close()  # type: ignore[attr-defined]
