"""The examination of a damaged folder names the cause, and a next step that helps."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest

from opx import __version__
from opx.edges.doctor import REMEDIES
from opx.edges.examined_folder import REMEDIES as OF_A_FOLDER
from opx.runtime.extras import EXTRAS
from tests.support.cli_support import Opx

TEXT = "# Disk full\n\nFind the biggest directories with du. Delete rotated logs."


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    """The command, with a document."""
    found = Opx(tmp_path)
    found.write("runbooks/disk.md", TEXT)
    assert found("ingest", tmp_path / "docs").exit_code == 0
    return found


def line_of(check: str, output: str) -> str:
    return next(line for line in output.splitlines() if line[8:].startswith(check))


def test_an_undamaged_folder_has_no_failure(opx: Opx) -> None:
    found = opx("doctor")
    assert found.exit_code == 0
    assert "failed" not in found.output


def test_its_clients_are_not_among_those_of_the_installation(opx: Opx) -> None:
    assert opx("doctor").exit_code == 0
    assert json.loads(opx("client", "list", "--json").stdout) == []


def test_an_index_that_was_lost_is_a_failure_and_the_next_step_repairs_it(opx: Opx) -> None:
    shutil.rmtree(opx.home / "index")
    found = opx("doctor")
    assert found.exit_code == 1
    assert line_of("index", found.output).startswith("failed")
    assert "the catalog has 1 documents with 1 chunks: none is found" in found.output
    assert "opx reconcile --repair" in found.output
    assert opx("reconcile", "--repair").exit_code == 0
    assert "Disk full" in opx("search", "disk full").output
    assert opx("doctor").exit_code == 0


@pytest.mark.parametrize("name", ["opx.db", "index/index.db"])
def test_a_damaged_file_is_named(opx: Opx, name: str) -> None:
    (opx.home / name).write_bytes(b"no database " * 4000)
    found = opx("doctor")
    assert found.exit_code == 1
    assert f"{opx.home / name}: the file is no SQLite database" in line_of("ingestion", found.output)


def test_a_damaged_log_of_questions_is_named_and_fails_no_search(opx: Opx) -> None:
    (opx.home / "questions.db").write_bytes(b"no database " * 4000)
    found = opx("doctor")
    assert found.exit_code == 1
    assert "questions.db: file is not a database" in line_of("home", found.output)
    assert "ok" in line_of("words", found.output)


def test_a_home_of_a_newer_version_is_refused_and_not_called_broken(opx: Opx) -> None:
    (opx.home / "format.json").write_text('{"format": 99, "program": "9.9.9"}')
    found = opx("doctor")
    assert (found.exit_code, "was written by opx 9.9.9" in found.stderr) == (2, True)
    assert "repair" not in found.output


def test_next_steps_of_a_folder_are_none_of_a_deployed_system(opx: Opx) -> None:
    shutil.rmtree(opx.home / "index")
    (opx.home / "index").write_text("a file")
    found = opx("doctor")
    assert found.exit_code == 1
    for word in ("bucket", "queue", "the log of", "OCU", "Bedrock"):
        assert word not in found.output
    checks = {
        line[8:].split("  ")[0].strip() for line in found.output.splitlines() if line.startswith(("ok", "failed"))
    }
    assert {"index", "ingestion"} <= checks


def test_each_check_that_a_folder_can_fail_has_a_next_step_of_its_own() -> None:
    assert REMEDIES.keys() - OF_A_FOLDER.keys() == {"gateway", "tokens", "HTTP API", "alarm"}


def test_versions_extras_plugins_counts_and_model_come_first(opx: Opx) -> None:
    lines = opx("doctor").output.splitlines()[1:6]
    assert [line[8:21].strip() for line in lines] == ["versions", "extras", "plugins", "home", "model"]
    assert f"opx {__version__}, Python {platform.python_version()}" in lines[0]
    assert lines[3].endswith("1 document, 1 chunk")
    assert "words/1" in lines[4]


def test_an_extra_that_is_missing_is_named_with_the_way_to_install_it(
    opx: Opx, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXTRAS, "serve", "uvicorn no_such_module")
    found = {one["check"]: one for one in json.loads(opx("doctor", "--json").output)}["extras"]
    assert found["outcome"] == "skipped"
    assert "serve (no no_such_module)" in found["detail"]
    assert "pip install 'opx-knowledge[serve]'" in found["remedy"]


def test_a_home_that_does_not_exist_yet_comes_with_the_way_to_begin(tmp_path: Path) -> None:
    found = {one["check"]: one for one in json.loads(Opx(tmp_path)("doctor", "--json").output)}["home"]
    assert (found["outcome"], found["remedy"]) == ("skipped", "opx ingest PATH..., or opx demo")
