"""A laptop that is switched off during ingestion."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from opx_testing.fake_time import FakeTime
from tests.e2e.mortal_process import ingest, services_of
from tests.e2e.systems import SystemUnderTest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = 30
ROUNDS = 8
LONGEST_SECONDS = 1.6


@pytest.mark.slow
def test_killed_ingestion_goes_on_where_it_was_and_loses_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    with processes(tmp_path) as zygote:
        for number in range(ROUNDS):
            write_files(tmp_path, number)
            kill_after(zygote, chance.uniform(0.02, LONGEST_SECONDS))
            with services_of(tmp_path) as services:
                ingest(services, tmp_path)
                assert_complete(SystemUnderTest(services, FakeTime(), services.store), number)


def write_files(folder: Path, number: int) -> None:
    """All documents change every time; the last two have the same text."""
    (folder / "files").mkdir(exist_ok=True)
    for document in range(DOCUMENTS):
        word = f"doc{min(document, DOCUMENTS - 2)} version{number}"
        body = "".join(f"## Part {part}\n\n{f'{word} part{part} ' * 30}\n\n" for part in range(1 + document % 3))
        (folder / "files" / f"{document}.md").write_text(f"# Title\n\n{body}")


def assert_complete(system: SystemUnderTest, number: int) -> None:
    keys = [f"documents/files/{document}.md" for document in range(DOCUMENTS)]
    assert system.services.queue.waiting() == 0
    assert system.reasons() == {}
    by_key = {key: system.texts(key) for key in keys}
    assert [key for key, texts in by_key.items() if not texts or not all(f"version{number}" in t for t in texts)] == []
    assert sum(map(len, by_key.values())) == len(system.entries())
    current = list(system.services.corpus.catalog.in_category("runbooks/procedures"))
    assert len(current) == DOCUMENTS
    system.assert_consistent(*keys)


@contextmanager
def processes(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.e2e.mortal_process", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as zygote:
        yield zygote
        assert zygote.stdin is not None
        zygote.stdin.close()


def kill_after(zygote: subprocess.Popen[str], seconds: float) -> None:
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    zygote.stdin.write("go\n")
    zygote.stdin.flush()
    pid = int(zygote.stdout.readline())
    time.sleep(seconds)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it was done already
        return
