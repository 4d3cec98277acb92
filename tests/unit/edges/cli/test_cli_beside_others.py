"""Tests of commands that run beside others on one home."""

from __future__ import annotations

import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from opx.adapters.embedded.durable_files import held
from tests.support.cli_support import Opx

WRITERS, FILES = 3, 4


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    for writer in range(WRITERS):
        for number in range(FILES):
            opx.write(f"{writer}/{number}.md", f"# Runbook {writer} {number}\n\nRestart service {number}.\n")
    return opx


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def test_writers_and_readers_at_the_same_time_all_end_well(opx: Opx) -> None:
    opx("ingest", opx.write("first.md", "# First\n\nRestart the first service.\n"))
    writers = [opx.start("ingest", opx.folder / "docs" / str(number)) for number in range(WRITERS)]
    readers = [opx.start("search", "restart the first service") for _ in range(WRITERS)]
    for process in readers:
        code, output, errors = finished(process)
        assert (code, "First" in output) == (0, True), errors
    for process in writers:
        code, output, errors = finished(process)
        assert code == 0, errors
        assert " 0 failed; " in output
        assert "left to the workers" not in output


def test_ingest_waits_for_another_process_and_reports_it(opx: Opx) -> None:
    opx("ingest", opx.write("first.md", "# First\n\nRestart the first service.\n"))
    with held(opx.home / "worker.lock"):
        process = opx.start("ingest", opx.folder / "docs" / "0")
        assert process.stderr is not None
        seen = [process.stderr.readline(), process.stderr.readline()]
    code, output, _ = finished(process)
    assert seen[1] == f"another process ingests here: waiting for {FILES} documents\n"
    assert (code, output.split(";")[0]) == (0, f"{FILES} ingested, 0 unchanged, 0 deleted, 0 failed")


def test_documents_that_another_process_ingested_count_as_ingested(opx: Opx) -> None:
    opx("ingest", opx.write("first.md", "# First\n\nRestart the first service.\n"))
    with held(opx.home / "worker.lock"):
        process = opx.start("ingest", opx.folder / "docs" / "0")
        assert process.stderr is not None
        seen = [process.stderr.readline(), process.stderr.readline()]
        services = opx.services()
        services.work.exclusive = nullcontext  # type: ignore[method-assign,assignment]
        drain = services.ingestion.drain
        assert drain is not None
        assert len(list(drain.run())) == FILES
        services.close()
    code, output, errors = finished(process)
    assert seen[1].startswith("another process ingests here")
    assert (code, output.split(";")[0]) == (0, f"{FILES} ingested, 0 unchanged, 0 deleted, 0 failed"), errors
