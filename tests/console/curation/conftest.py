"""A server for each file of tests, and things of which each test has its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.console.curation.steps import TEXT, gaps, written
from tests.console.served import Console, running

_NUMBERS = count(1)


@pytest.fixture(scope="module")
def console(demo_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One server for the tests of a file: each has a document or a gap of its own."""
    home = tmp_path_factory.mktemp("curated") / "home"
    shutil.copytree(demo_home, home)
    with running(home) as found:
        yield found


@pytest.fixture
def name() -> str:
    """A word that no other document has."""
    return f"zorblax{next(_NUMBERS)}"


@pytest.fixture
def source(name: str) -> str:
    return f"runbooks/{name}.md"


@pytest.fixture
def document(console: Console, name: str, source: str) -> str:
    """The id of a document with an overdue review."""
    return written(console, source, TEXT.format(name=name))


@pytest.fixture
def gap(console: Console, name: str) -> str:
    """The question of a gap: a page about another thing is near, or none is."""
    question = f"how many eggs fit into the {name}"
    console.api("POST", "/knowledge/default/query", {"query": question})
    assert question in gaps(console)
    return question
