"""Two versions of the program on one home: a newer home is refused by an older program, and an older one is opened."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("damaged", ["", "{", "[1]", '{"format": "2"}', "\x00" * 40])
def test_damaged_mark_bars_nobody(opx: Opx, damaged: str) -> None:
    (opx.home / NAME).write_text(damaged)
    assert opx("search", "disk").exit_code == 0
    assert json.loads((opx.home / NAME).read_bytes())["format"] == FORMAT
