"""The process that runs a bulk job is killed at each stage, and started again: nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from opx.errors import BulkBusyError
from opx.operations.system import System
from opx_assurance.capability import assurance
from opx_bulk.capability import Bulk
from opx_bulk.finishing import read_report
from opx_bulk.job import BulkKind, BulkReport, BulkStage
from tests.support.bulk_support import contents, drained, put_pages, run, runner, system_at

PAGES = 110
ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 120.0
MOMENTS = {
    "listing": "shards/00000.jsonl",
    "listed": "shards.json",
    "prepared": "prepared/00000.json",
    "applied": "applied/00000.json",
    "reported": "report.json",
}


def started(home: Path, kind: BulkKind, model: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.bulk_support", str(home), kind.value, model]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def killed_at(home: Path, moment: str, kind: BulkKind, model: str) -> None:
    """Starts a job in another process, and kills it when this file of the job appears."""
    process = started(home, kind, model)
    ends = time.monotonic() + PATIENCE
    while process.poll() is None and not list(home.glob(f"corpus/bulk/*/{moment}")):
        assert time.monotonic() < ends, f"{moment} never appeared"
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def resumed(system: System, job_id: str) -> BulkReport:
    """The report of a killed job that goes on, or that was done when its process was killed. A child that was just being
    started holds that process' lock until it has begun."""
    ends = time.monotonic() + PATIENCE
    while not system.part(Bulk.of).jobs.get(job_id).is_ended:
        try:
            return runner(system, processes=2).run(job_id)
        except BulkBusyError:
            assert time.monotonic() < ends
            time.sleep(0.1)
    report = read_report(system.part(Bulk.of).stages.files(job_id))
    assert report
    return report


def await_files(home: Path, names: set[str]) -> None:
    """Waits until jobs have these files and no others: a child whose parent was killed ends its shard first."""
    ends = time.monotonic() + PATIENCE
    while (found := {path.name for path in home.glob("corpus/bulk/**/*") if path.is_file()}) != names:
        assert time.monotonic() < ends, found
        time.sleep(0.1)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    with system_at(tmp_path_factory.mktemp("ordinary")) as system:
        put_pages(system, PAGES, quiet=False)
        drained(system)
        return contents(system)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_job_goes_on_where_it_was(tmp_path: Path, expected: dict[str, object], moment: str) -> None:
    home = tmp_path / "home"
    with system_at(home) as system:
        put_pages(system, PAGES)
    killed_at(home, MOMENTS[moment], BulkKind.INGEST, "")
    with system_at(home) as system:
        (job,) = system.part(Bulk.of).jobs.all(limit=9)
        report = resumed(system, job.job_id)
        assert (report.documents, report.unsettled, report.failed) == (PAGES, 0, 0)
        assert report.ingested + report.unchanged == PAGES
        assert contents(system) == expected
        assert system.part(assurance).reconciler().run().total == 0
        assert system.part(Bulk.of).jobs.get(job.job_id).stage is BulkStage.DONE
        assert run(system).unchanged == PAGES
        await_files(home, {"report.json", "failures.jsonl"})


@pytest.mark.parametrize("moment", ["listed", "applied"])
def test_a_killed_job_of_a_new_index_goes_on_where_it_was(tmp_path: Path, moment: str) -> None:
    home = tmp_path / "home"
    with system_at(home) as system:
        put_pages(system, PAGES)
        run(system)
        before = contents(system)
    killed_at(home, MOMENTS[moment], BulkKind.REINDEX, "other")
    with system_at(home) as system:
        job = system.part(Bulk.of).jobs.last(BulkKind.REINDEX)
        assert job
        report = resumed(system, job.job_id)
        assert (report.documents, report.ingested, report.unsettled, report.problems) == (PAGES, PAGES, 0, [])
        after = contents(system)
        assert system.indexing.document_embedder.model_id == "words/64/other"
        assert {name: after[name] for name in ("catalog", "entries", "chunks", "graph")} == {
            name: before[name] for name in ("catalog", "entries", "chunks", "graph")
        }
        assert system.part(assurance).reconciler(thorough=True).run().total == 0
