"""`opx bulk`: a folder is loaded with a plan first, its progress is shown, and it is cancelled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opx.settings import Settings
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkKind, BulkWork
from tests.support.cli_support import Opx, word_services


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    for number in range(5):
        opx.write(f"page-{number}.md", f"# Disk full {number}\n\nDelete old archive logs of host-{number}.\n")
    return opx


def unfinished(opx: Opx) -> str:
    """The id of a job that was begun and not run."""
    with word_services(Settings(home=str(opx.home))) as system:
        return system.part(Bulk.of).begin(BulkWork(kind=BulkKind.INGEST, prefix="documents/x/"), "tester").job_id


def test_a_folder_is_loaded_and_found(opx: Opx) -> None:
    result = opx("bulk", "start", opx.folder / "docs", "--yes")
    assert result.exit_code == 0, result.output
    assert "5 of 5 settled" in result.stdout
    assert "5 ingested, 0 unchanged" in result.stdout
    assert "Disk full 3" in opx("search", "logs of host-3", "--min-confidence", "0").stdout
    again = opx("bulk", "start", opx.folder / "docs", "--yes")
    assert "0 ingested, 5 unchanged" in again.stdout
    assert "nothing changed" in opx("ingest", opx.folder / "docs").stdout


def test_the_plan_is_shown_and_needs_consent(opx: Opx) -> None:
    refused = opx("bulk", "start", opx.folder / "docs", stdin="n\n")
    assert refused.exit_code == 1
    assert "not started" in refused.stderr
    assert "documents" in refused.stdout
    assert "assumed: chunks and tokens by 5 documents" in refused.stdout
    assert "no bulk jobs" in opx("bulk", "status").stdout
    assert opx("bulk", "start", stdin="y\n").exit_code == 0


def test_a_plan_is_an_estimate_in_json(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs" / "page-0.md")
    opx("bulk", "start", opx.folder / "docs", stdin="n\n")
    plan = json.loads(opx("bulk", "plan", "--json").stdout)
    assert (plan["documents"], plan["chunks"], plan["dollars"]) == (5, 4, {})
    assert plan["counted"]["settled"] == 1
    assert plan["tokens"] > 0


def test_the_plan_of_a_folder_stores_nothing(opx: Opx) -> None:
    for number in range(5, 45):
        opx.write(f"page-{number}.md", f"# Disk full {number}\n\nDelete old archive logs of host-{number}.\n")
    plan = json.loads(opx("bulk", "plan", opx.folder / "docs", "--json").stdout)
    size = sum(path.stat().st_size for path in (opx.folder / "docs").iterdir())
    assert (plan["documents"], plan["bytes"], plan["counted"]["sampled"], plan["dollars"]) == (45, size, 20, {})
    assert plan["chunks"] == pytest.approx(45, abs=1)
    assert not opx.home.exists()
    refused = opx("bulk", "plan", opx.folder / "docs", "--kind", "reindex")
    assert refused.exit_code == 2
    assert "paths are for a job that ingests them" in refused.stderr
    opx("bulk", "start", opx.folder / "docs", "--yes")
    assert json.loads(opx("bulk", "plan", "--json").stdout)["counted"]["settled"] == 20


def test_stores_are_compared_by_a_job(opx: Opx) -> None:
    opx("bulk", "start", opx.folder / "docs", "--yes")
    clean = opx("bulk", "start", "--kind", "reconcile", "--yes")
    assert clean.exit_code == 0, clean.output
    assert "5 objects, 5 documents, 5 chunk files" in clean.stdout
    (opx.home / "corpus" / "documents" / "docs" / "page-3.md").unlink()
    (chunks, *_) = sorted((opx.home / "corpus" / "chunks").glob("*.jsonl"))
    chunks.unlink()
    differing = opx("bulk", "start", "--kind", "reconcile", "--yes")
    assert differing.exit_code == 1
    assert "documents/docs/page-3.md: the catalog has a document whose object is gone" in differing.stderr
    repaired = opx("bulk", "start", "--kind", "reconcile", "--repair", "--yes")
    assert "1 held back" in repaired.stdout
    again = json.loads(opx("bulk", "start", "--kind", "reconcile", "--yes", "--json").stdout)
    assert set(again["report"]["reconciled"]["counts"]) == {"object_missing"}


def test_documents_that_failed_are_shown_with_an_exit_code(opx: Opx) -> None:
    opx.write("empty.md", "")
    result = opx("bulk", "start", opx.folder / "docs", "--yes")
    assert result.exit_code == 1
    assert "5 ingested" in result.stdout
    assert "failed: documents/docs/empty.md: " in result.stderr


def test_jobs_are_listed_and_shown(opx: Opx) -> None:
    opx("bulk", "start", opx.folder / "docs", "--yes")
    (job,) = json.loads(opx("bulk", "status", "--json").stdout)
    assert (job["stage"], job["documents"], job["work"]["kind"]) == ("done", 5, "ingest")
    assert job["jobId"] in opx("bulk", "status").stdout
    shown = json.loads(opx("bulk", "status", job["jobId"], "--json").stdout)
    assert (shown["settled"], shown["report"]["ingested"], shown["failures"], shown["next"]) == (5, 5, [], None)
    assert "5 of 5 settled" in opx("bulk", "status", job["jobId"]).stdout


def test_another_job_is_refused_by_name_and_a_cancelled_one_is_not(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    job_id = unfinished(opx)
    refused = opx("bulk", "start", "--yes")
    assert refused.exit_code == 2
    assert job_id in refused.stderr
    cancelled = opx("bulk", "cancel", job_id)
    assert cancelled.exit_code == 0
    assert "cancelled" in cancelled.stdout
    assert opx("bulk", "start", "--yes").exit_code == 0


def test_an_unfinished_job_is_continued_without_a_question(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    job_id = unfinished(opx)
    result = opx("bulk", "start", "--prefix", "documents/x/")
    assert result.exit_code == 0
    assert job_id in result.stdout


def test_a_new_index_is_built(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    result = opx("bulk", "start", "--kind", "reindex", "--yes")
    assert result.exit_code == 0, result.output
    assert "5 ingested" in result.stdout
    assert "Disk full 3" in opx("search", "logs of host-3", "--min-confidence", "0").stdout
    assert "previous" in opx("reindex", "--status").stdout


def test_options_of_the_other_kind_are_refused(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    result = opx("bulk", "start", "--kind", "reindex", "--prefix", "documents/", "--yes")
    assert result.exit_code == 2
    assert "prefix is not for a job of kind reindex" in result.stderr


def test_an_unknown_job_is_refused(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    assert "no bulk job nope" in opx("bulk", "status", "nope").stderr
    assert "no bulk job nope" in opx("bulk", "cancel", "nope").stderr
