"""A server for each file of tests, and things of which each test has its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import count, cycle

import pytest

from tests.console.curation.steps import TEXT, eventually, gaps, written
from tests.console.served import OPX, Console, running

_NUMBERS = count(1)
_SUBJECTS = cycle(
    (
        "boil an egg",
        "tune a violin",
        "fold a paper crane",
        "prune roses",
        "sail a dinghy",
        "knit a scarf",
        "ride a horse",
    )
)


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One server for the tests of a file over a home with one runbook: each test has a document or a gap of its own."""
    folder = tmp_path_factory.mktemp("curated")
    (folder / "runbooks").mkdir()
    (folder / "runbooks" / "disk.md").write_text("# Disk full on a Linux host\n\n1. Delete rotated logs.\n")
    command = [str(OPX), "--home", str(folder / "home"), "ingest", str(folder / "runbooks")]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    with running(folder / "home") as found:
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
def gap(console: Console) -> str:
    """The question of a gap, of which no other is a wording."""
    question = f"how do I {next(_SUBJECTS)}"

    def recorded() -> bool:  # not while documents wait to be ingested
        console.api("POST", "/knowledge/default/query", {"query": question})
        return question in gaps(console)

    eventually(recorded)
    return question
