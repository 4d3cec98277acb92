"""`opx edit` and `opx reviewed`, on a folder and against a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS, opx_at

DISK = "---\nreview_by: 2020-01-01\n---\n# Disk full\n\nGrow the disk.\n"


@pytest.fixture(params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opx]:
    with opx_at(request.param, tmp_path, monkeypatch) as made:
        made.write("disk.md", DISK)
        assert made("ingest", made.folder / "docs").exit_code == 0
        yield made


@pytest.fixture
def use_editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets an editor that is a shell script; its file is $1."""

    def use(script: str) -> None:
        path = tmp_path / "editor.sh"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(path))

    return use


def source_of(opx: Opx) -> str:
    return str(json.loads(opx("list", "--json").stdout)[0]["key"]).removeprefix("documents/")


def test_a_document_is_reviewed_and_leaves_the_list(opx: Opx) -> None:
    assert len(json.loads(opx("review", "--json").stdout)["items"]) == 1
    assert "to be reviewed again by" in opx("reviewed", "disk.md", "--days", "90").stdout
    assert json.loads(opx("review", "--json").stdout)["items"] == []
    assert len(json.loads(opx("review", "--days", "90", "--json").stdout)["items"]) == 1
    assert "last by" in opx("why", "disk.md").stdout
    assert "1 unchanged" in opx("ingest", opx.folder / "docs").stdout
    assert json.loads(opx("review", "--json").stdout)["items"] == []


def test_a_text_is_edited_as_a_new_version(opx: Opx, use_editor: Callable[[str], None]) -> None:
    use_editor("sed -i s/Grow/Shrink/ $1")
    edited = opx("edit", source_of(opx))
    assert (edited.exit_code, "is written" in edited.stdout) == (0, True), edited.output
    assert "Shrink the disk" in opx("show", "disk.md").stdout
    use_editor("touch $1")
    assert "unchanged" in opx("edit", source_of(opx)).stdout


def test_a_new_document_is_written_and_none_replaced(opx: Opx, use_editor: Callable[[str], None]) -> None:
    use_editor("printf '# Fan fails\\n\\nReplace it.\\n' > $1")
    assert opx("edit", "docs/fan.md").exit_code != 0  # there is none
    assert opx("edit", "docs/fan.md", "--new").exit_code == 0
    refused = opx("edit", source_of(opx), "--new")
    assert (refused.exit_code, "already" in refused.stderr) == (2, True), refused.output
    kept = Path(refused.stderr.split("Your text is in ")[1].strip())
    assert kept.read_text() == "# Fan fails\n\nReplace it.\n"
    kept.unlink()
    assert "Grow the disk" in opx("show", "disk.md").stdout
