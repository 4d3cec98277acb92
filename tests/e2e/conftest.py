"""Systems for tests that go all the way from an object to a search."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.doubles.chat_completions import ChatCompletionsDouble
from tests.e2e.systems import BACKENDS, SystemUnderTest, a_system, an_empty_home


@pytest.fixture(params=BACKENDS)
def system(request: pytest.FixtureRequest, tmp_path: Path, aws: boto3.Session) -> Iterator[SystemUnderTest]:
    """On every set of adapters."""
    with a_system(request.param, tmp_path, aws) as made:
        yield made


@pytest.fixture(scope="session")
def empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return an_empty_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def embedded(tmp_path: Path, empty_home: Path) -> Iterator[SystemUnderTest]:
    shutil.copytree(empty_home, tmp_path, dirs_exist_ok=True)
    with a_system("embedded", tmp_path, boto3.Session()) as made:
        yield made


@pytest.fixture(params=["embedded", "nextgen"])
def either(request: pytest.FixtureRequest, tmp_path: Path, aws: boto3.Session) -> Iterator[SystemUnderTest]:
    """On one machine and on AWS, for what doesn't depend on how the index gives ids."""
    with a_system(request.param, tmp_path, aws) as made:
        yield made


@pytest.fixture
def model() -> Iterator[ChatCompletionsDouble]:
    with ChatCompletionsDouble() as double:
        yield double
    assert not double.model.mistakes
