"""Retention on the command line and over the HTTP API: pruning, holds and reviews."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api_requests import check_described
from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS, opx_at

EXPIRED = "---\nexpires: 2020-01-01\n---\n# Old pool\n\nUse the old pool.\n"
REVIEWED = "---\nreview_by: 2020-01-01\nowner: storage\n---\n# Disk full\n\nGrow the disk.\n"


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def folder(tmp_path: Path) -> Opx:
    return Opx(tmp_path)


def ingest_files(opx: Opx, **texts: str) -> None:
    for name, text in texts.items():
        opx.write(f"{name}.md", text)
    assert opx("ingest", opx.folder / "docs").exit_code == 0


def printed(opx: Opx, *arguments: str) -> Any:
    result = opx(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_documents_due_for_review_are_listed_with_their_owner(opx: Opx) -> None:
    ingest_files(opx, disk=REVIEWED)
    found = printed(opx, "review")
    check_described("list_reviews", found)
    assert [(item["title"], item["owner"]) for item in found["items"]] == [("Disk full", "storage")]
    assert "days overdue" in opx("review").stdout
    assert opx("review", "--owners").stdout.splitlines()[1].split() == ["storage", "1", "1"]
    assert "nothing is to be reviewed" in opx("review", "--owner", "nobody").stdout


def test_a_hold_is_put_in_force_listed_and_lifted(opx: Opx) -> None:
    ingest_files(opx, disk=REVIEWED)
    document = printed(opx, "list")[0]["documentId"]
    added = printed(opx, "hold", "add", "--document", document, "--reason", "case 7")
    check_described("add_hold", added)
    assert [hold["holdId"] for hold in printed(opx, "hold", "list")] == [added["holdId"]]
    refused = opx("delete", document, "-y")
    assert refused.exit_code == 2
    assert f"hold {added['holdId']}" in refused.stderr
    assert opx("hold", "remove", added["holdId"]).exit_code == 0
    assert opx("hold", "list").stdout == "no holds\n"
    assert "case 7" in opx("hold", "list", "--lifted").stdout
    assert opx("hold", "remove", added["holdId"]).exit_code == 2
    assert opx("delete", document, "-y").exit_code == 0


def test_a_document_is_held_under_all_names_that_it_has(opx: Opx) -> None:
    ingest_files(opx, disk=REVIEWED, copy=REVIEWED)
    document = printed(opx, "list")[0]["documentId"]
    added = opx("hold", "add", "--document", document, "--reason", "case 7").stdout
    assert {name for name in ("disk.md", "copy.md") if f"{name} of " in added} == {"disk.md", "copy.md"}
    assert len(printed(opx, "hold", "list")) == 2


def test_a_document_that_has_expired_can_still_be_held(folder: Opx) -> None:
    ingest_files(folder, old=EXPIRED)
    with folder.services() as services:
        (document,) = services.corpus.catalog.in_category("runbooks/procedures")
    held = folder("hold", "add", "--document", document.document_id, "--reason", "case 7")
    assert held.exit_code == 0, held.output
    assert "old.md of global" in held.stdout


def test_a_hold_needs_to_be_on_something(opx: Opx) -> None:
    ingest_files(opx, disk=REVIEWED)
    refused = opx("hold", "add", "--reason", "case")
    assert (refused.exit_code, "nothing to hold" in refused.stderr) == (2, True)


def test_a_deployed_system_prunes_on_schedule_and_reports_to_operators(opx: Opx) -> None:
    ingest_files(opx, disk=REVIEWED)
    assert printed(opx, "prune", "--reports") == []
    if type(opx) is not Opx:
        refused = opx("prune")
        assert (refused.exit_code, "once a day by itself" in refused.stderr) == (2, True)


def test_expired_documents_are_pruned_and_reported(folder: Opx) -> None:
    ingest_files(folder, old=EXPIRED, disk=REVIEWED)
    assert "would be removed: 1 of runbooks/procedures" in folder("prune", "--dry-run").stdout
    assert "removed: 1 of runbooks/procedures" in folder("prune").stdout
    assert "nothing expired before" in folder("prune").stdout
    assert [one["title"] for one in printed(folder, "list", "--all-versions")] == ["Disk full"]


def test_a_stopped_run_reports_the_reason(folder: Opx) -> None:
    ingest_files(folder, **{f"old{number}": EXPIRED.replace("pool", f"pool {number}") for number in range(21)})
    stopped = folder("prune")
    assert stopped.exit_code == 1
    assert "nothing was removed, as too much would be removed at once: 21 of 21" in stopped.stderr
    assert "--allow-share 1" in stopped.stderr
    assert folder("prune", "--allow-share", "1").exit_code == 0
    assert [one["versions"] for one in printed(folder, "prune", "--reports")] == [21, 0]
