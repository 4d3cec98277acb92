"""`opx reconcile`, `opx export` and `opx import`."""

from __future__ import annotations

import hashlib
import json
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
