"""Two versions of the program on one home: a newer home is refused by an older program, and an older one is opened."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from opx import __version__
from opx.adapters.embedded.home_format import FORMAT, NAME
from tests.support.cli_support import Opx


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    found = Opx(tmp_path)
    found.write("disk.md", "# Disk full\n\nRotate the logs.\n")
    assert found("ingest", tmp_path / "docs").exit_code == 0
    return found


@pytest.mark.parametrize("line", [("search", "disk"), ("ingest", "."), ("status",), ("export", "x.zip"), ("prune",)])
def test_home_of_a_newer_program_is_refused_with_both_versions(opx: Opx, line: tuple[str, ...]) -> None:
    newer = {"format": FORMAT + 1, "program": "99.1"}
    (opx.home / NAME).write_text(json.dumps(newer))
    before = {path: path.stat().st_mtime_ns for path in opx.home.rglob("*") if path.is_file()}
    refused = opx(*line)
    assert refused.exit_code == 2
    assert f"written by opx 99.1 with format {FORMAT + 1}; this is opx {__version__}" in refused.output
    assert {path: path.stat().st_mtime_ns for path in opx.home.rglob("*") if path.is_file()} == before


def test_home_without_a_mark_is_opened_and_marked(opx: Opx) -> None:
    (opx.home / NAME).unlink()
    assert opx("search", "disk").exit_code == 0
    assert json.loads((opx.home / NAME).read_bytes()) == {"format": FORMAT, "program": __version__}


DAMAGED = ["", "{", "[1]", "[" * 9999, '{"format": "2"}', '{"format": 0}', "\x00" * 40]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_damaged_mark_is_no_format_and_is_repaired(opx: Opx, damaged: str) -> None:
    (opx.home / NAME).write_text(damaged)
    for line in (("search", "disk"), ("ingest", opx.folder / "docs"), ("status",)):
        refused = opx(*line)
        assert refused.exit_code == 2, refused.output
        assert f"{opx.home / NAME} is damaged" in refused.output
        assert "`opx repair`" in refused.output
    assert (opx.home / NAME).read_text() == damaged
    assert NAME in opx("repair", "--dry-run").output
    assert opx("repair").exit_code == 0
    assert opx("search", "disk").exit_code == 0
    assert json.loads((opx.home / NAME).read_bytes())["format"] == FORMAT


@pytest.mark.parametrize("mark", [None, "", "{"])
def test_newer_home_without_its_mark_is_known_by_its_database(opx: Opx, mark: str | None) -> None:
    with closing(sqlite3.connect(opx.home / "opx.db")) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    (opx.home / NAME).unlink()
    if mark is not None:
        (opx.home / NAME).write_text(mark)
    for line in (("search", "disk"), ("repair",)):
        refused = opx(*line)
        assert refused.exit_code == 2
        assert f"written by a newer opx with format {FORMAT + 1}" in refused.output
    assert not list(opx.home.glob("damaged-*"))
