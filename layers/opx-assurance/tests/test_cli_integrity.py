"""`opx repair`, `opx seal` and other commands on damaged files; `opx reconcile`, `opx export` and `opx import`."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path

import pytest

from tests.support.cli_support import Opx


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    opx.write("disk.md", "# Disk full\n\nDelete old logs.")
    opx.write("pods.md", "# Pods\n\nRead the log of the pod.")
    assert opx("ingest", tmp_path / "docs").exit_code == 0
    return opx


def truncate_chunks(opx: Opx) -> None:
    for path in opx.home.glob("corpus/chunks/*.jsonl"):
        path.write_bytes(path.read_bytes()[:40])


def overwrite_database(opx: Opx) -> None:
    path = opx.home / "opx.db"
    path.write_bytes(b"\x00" * path.stat().st_size)
    for beside in opx.home.glob("opx.db-*"):
        beside.unlink()


# -- repair


def test_stores_in_order_are_left_alone(opx: Opx) -> None:
    result = opx("repair")
    assert result.exit_code == 0, result.output
    assert result.stdout == "all stores are in order\n"
    assert not list(opx.home.glob("damaged-*"))


def test_a_damaged_chunk_file_is_named_where_it_is_read(opx: Opx) -> None:
    truncate_chunks(opx)
    result = opx("show", "disk")
    assert result.exit_code == 2
    assert "is damaged in line 1: `opx repair`" in result.stderr
    found = opx("reconcile", "--thorough")
    assert found.exit_code == 1
    assert "the chunk file of the current version is damaged" in found.stdout


def test_a_repair_reports_its_work(opx: Opx) -> None:
    truncate_chunks(opx)
    result = opx("repair")
    assert result.exit_code == 0, result.output
    assert "repaired: 2 differences of the kind chunks damaged" in result.stdout
    assert "Delete old logs." in opx("show", "disk").stdout


def test_a_database_that_cannot_be_opened_is_made_of_the_documents(opx: Opx) -> None:
    overwrite_database(opx)
    for command in ("status", "list", "reconcile", "rebuild"):
        result = opx(command)
        assert result.exit_code == 2
        assert "`opx repair`" in result.stderr
    result = opx("repair")
    assert result.exit_code == 1
    assert "lost for good, unless a backup has it: all rows of opx.db" in result.stdout
    assert "Disk full" in opx("search", "disk full").stdout
    assert opx("repair").stdout == "all stores are in order\n"


def test_a_dry_run_changes_nothing(opx: Opx) -> None:
    overwrite_database(opx)
    result = opx("repair", "--dry-run")
    assert result.exit_code == 1
    assert "damaged: opx.db: file is not a database" in result.stdout
    assert opx("status").exit_code == 2


def test_a_damaged_index_names_the_repair_that_makes_it_again(opx: Opx) -> None:
    for path in (opx.home / "index" / "terms").glob("*"):
        path.write_bytes(path.read_bytes()[:10])
    for command in (("search", "disk full"), ("ingest", opx.folder / "docs")):
        result = opx(*command)
        assert result.exit_code == 2
        assert "`opx repair`" in result.stderr
    assert opx("repair").exit_code == 0
    assert "Disk full" in opx("search", "disk full").stdout


def test_the_report_comes_as_json(opx: Opx) -> None:
    shutil.rmtree(opx.home / "index")
    report = json.loads(opx("repair", "--json").stdout)
    assert report["repaired"]["index_differs"] == 2
    assert report["left"] == []


def test_a_repair_of_nothing_makes_no_folder(tmp_path: Path) -> None:
    assert Opx(tmp_path)("repair").exit_code == 2
    assert not (tmp_path / ".opx").exists()


# -- seal


def test_a_seal_is_shown_and_what_differs_later_is_named(opx: Opx) -> None:
    sealed = opx("seal")
    assert sealed.exit_code == 0, sealed.output
    assert "not signed: set OPX_SIGNING_KEY" in sealed.stdout
    assert opx("seal", "--verify").exit_code == 0
    path = next(path for path in opx.home.glob("corpus/chunks/*.jsonl") if "log" in path.read_text())
    path.write_text(path.read_text().replace("log", "LOG"))
    found = opx("seal", "--verify")
    assert found.exit_code == 1
    assert "altered: versions: version 1 of documents/" in found.stdout


def test_what_use_adds_is_listed_apart_and_is_no_difference(opx: Opx) -> None:
    assert opx("search", "read the log of the pod").exit_code == 0
    assert opx("seal").exit_code == 0
    time.sleep(1.1)  # times of versions are seconds
    opx("search", "disk full")
    opx("search", "what does ERR-77123 mean")
    opx("search", "what does ERR-77123 mean", "--mode", "quick")
    for _ in range(2):
        assert opx("outcome", "record", "last", "1", "resolved", "--occurrence", "once").exit_code == 0
    opx.write("new.md", "# New\n\nA page of today.")
    opx.write("pods.md", "# Pods\n\nRead the log of the pod, and its events.")
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    found = opx("seal", "--verify")
    assert found.exit_code == 0, found.output
    for kind in ("audit", "gaps", "outcomes", "documents", "versions"):
        assert f"added since the seal: {kind}" in found.stdout
    assert "all is as it was sealed on" in found.stdout
    assert "items that use added since" in found.stdout


@pytest.mark.parametrize("damage", ["alter", "remove", "place"])
def test_what_use_does_not_explain_is_a_difference_among_additions(opx: Opx, damage: str) -> None:
    opx("seal")
    opx("search", "disk full")
    path = next(opx.home.glob("corpus/documents/**/pods.md"))
    if damage == "alter":
        path.write_text(path.read_text().replace("log", "LOG"))
    elif damage == "remove":
        path.unlink()
    else:
        path.with_name("placed.md").write_text("# Placed\n\nBy nobody.")
    found = opx("seal", "--verify")
    assert found.exit_code == 1
    assert found.stdout.splitlines()[0].split(":")[0] in ("altered", "removed", "added")
    assert "1 difference on" in found.stdout
    assert "added since the seal: audit" in found.stdout


def test_a_signed_seal_is_verified_by_its_public_key(opx: Opx, tmp_path: Path) -> None:
    key = str(tmp_path / "key.pem")
    public = opx("seal", "--new-key", key).stdout.split()[-1]
    assert f"signed by {public}" in opx("seal", OPX_SIGNING_KEY=key).stdout
    result = opx("seal", "--verify", "--public-key", public)
    assert result.exit_code == 0
    assert "all is as it was sealed" in result.stdout
    other = opx("seal", "--verify", "--public-key", "00" * 32)
    assert other.exit_code == 2
    assert "was signed by another key" in other.stderr


def test_options_that_belong_to_a_verification_are_refused_without_it(opx: Opx) -> None:
    assert opx("seal", "--root", "00").exit_code == 2
    assert opx("seal", "--verify", "--new-key", "x.pem").exit_code == 2


def test_the_background_loop_seals(opx: Opx) -> None:
    assert opx("seal", "--verify").exit_code == 2
    result = opx("run", "--once")
    assert result.exit_code == 0
    assert "sealed: root " in result.stdout
    assert opx("seal", "--verify").exit_code == 0


def test_a_receipt_is_proved_by_the_seal(opx: Opx, tmp_path: Path) -> None:
    receipt = tmp_path / "incident.json"
    opx("search", "disk full", "--receipt", receipt)
    opx("seal")
    result = opx("seal", "--receipt", receipt)
    assert result.exit_code == 0, result.output
    assert "is as it was issued, by the seal of" in result.stdout
    receipt.write_text("[]")
    assert opx("seal", "--receipt", receipt).exit_code == 2


# -- comparison, export and import


def elsewhere(opx: Opx) -> Opx:
    (opx.folder / "elsewhere").mkdir()
    return Opx(opx.folder / "elsewhere")


def lose_an_object(opx: Opx) -> None:
    next(opx.home.glob("corpus/documents/**/disk.md")).unlink()


def test_stores_that_agree_end_with_zero(opx: Opx) -> None:
    result = opx("reconcile")
    assert result.exit_code == 0
    assert "2 objects, 2 documents of the catalog" in result.stdout
    assert "0 differences" in result.stdout


def test_differences_are_reported_and_repaired_on_request(opx: Opx) -> None:
    lose_an_object(opx)
    result = opx("reconcile")
    assert result.exit_code == 1
    assert (
        "disk.md: the catalog has a document whose object is gone; repair: the document is withdrawn" in result.stdout
    )
    assert opx("reconcile", "--repair").exit_code == 0
    assert opx("reconcile").exit_code == 0
    assert "disk" not in opx("list").stdout


def test_differences_come_as_json(opx: Opx) -> None:
    lose_an_object(opx)
    (one,) = json.loads(opx("reconcile", "--json").stdout)["differences"]
    assert one["problem"] == "object_missing"
    assert one["object"].endswith("disk.md")


def test_reconciling_nothing_makes_no_folder(tmp_path: Path) -> None:
    assert Opx(tmp_path)("reconcile").exit_code == 2
    assert not (tmp_path / ".opx").exists()


def test_archive_brings_everything_to_another_folder(opx: Opx) -> None:
    archive = opx.folder / "all.opx"
    result = opx("export", archive)
    assert result.exit_code == 0
    assert "2 documents in 2 versions" in result.stdout
    other = elsewhere(opx)
    dry = other("import", archive, "--dry-run")
    assert (dry.exit_code, "2 documents would be restored" in dry.stdout) == (0, True)
    result = other("import", archive)
    assert (result.exit_code, "2 documents restored" in result.stdout) == (0, True)
    assert "Delete old logs" in other("search", "disk full").stdout
    assert other("import", archive).exit_code == 2
    assert other("import", archive, "--merge").exit_code == 0


def test_damaged_archive_is_refused_in_one_line(opx: Opx) -> None:
    archive = opx.folder / "all.opx"
    opx("export", archive)
    data = bytearray(archive.read_bytes())
    data[200] ^= 0xFF
    archive.write_bytes(data)
    result = elsewhere(opx)("import", archive)
    assert result.exit_code == 2
    assert result.stderr.startswith("opx: ")
    assert result.stderr.count("\n") == 1


def test_report_of_an_export_is_json_with_the_checksum_of_the_file(opx: Opx) -> None:
    archive = opx.folder / "all.opx"
    report = json.loads(opx("export", archive, "--json").stdout)
    assert report["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    imported = json.loads(elsewhere(opx)("import", archive, "--json").stdout)
    assert imported["documents"] == {"restored": 2}
