"""Tests of the completion in shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.cli_support import Opx, environment

DISK = "# Disk full\n\nDelete old logs, then restart the service.\n"


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    opx.write("runbooks/disk-full.md", DISK)
    opx("ingest", opx.folder / "docs")
    return opx


def completed(opx: Opx, line: str, **environ: str) -> list[str]:
    """Values that the command offers for the last word of a command line, which may be empty."""
    words = f"opx --home {opx.home} {line}"
    request = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1), "_OPX_COMPLETE": "bash_complete"}
    output, errors = opx.start(env=environment(**request, **environ)).communicate(timeout=60)
    assert not errors
    return [found.partition(",")[2] for found in output.split()]


def test_commands_and_options_are_completed(opx: Opx) -> None:
    assert completed(opx, "sear") == ["search"]
    assert completed(opx, "search --mo") == ["--mode"]
    assert completed(opx, "gaps cl") == ["close"]


def test_documents_are_completed_by_file_name_and_by_id(opx: Opx) -> None:
    assert completed(opx, "show dis") == ["disk-full.md"]
    name, short = completed(opx, "show ")
    assert opx("show", short).stdout.startswith("Disk full")
    assert name == "disk-full.md"


def test_categories_are_completed_also_without_knowledge(opx: Opx) -> None:
    shutil.rmtree(opx.home)
    assert "runbooks/procedures" in completed(opx, "search --category runb")
    assert not completed(opx, "show ")
    assert not opx.home.exists()


def test_receipts_are_completed_with_the_last_one_first(opx: Opx) -> None:
    opx("search", "disk full")
    last, short = completed(opx, "outcome record ")
    assert last == "last"
    assert opx("outcome", "record", short, "1", "resolved").exit_code == 0


def test_an_error_completes_nothing_and_prints_nothing(opx: Opx) -> None:
    (opx.home / "opx.db").write_bytes(b"no database " * 4000)
    assert not completed(opx, "show ")
    assert not completed(opx, "show ", OPX_CHUNK_TOKENS="many")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_begins_with_the_way_to_install_it(opx: Opx, shell: str) -> None:
    result = opx("completion", shell)
    assert result.exit_code == 0
    assert f"opx completion {shell}" in result.stdout.splitlines()[1]
    assert f"_OPX_COMPLETE={shell}_complete" in result.stdout


def test_bash_accepts_the_script(opx: Opx) -> None:
    script = opx("completion", "bash").stdout + "complete -p opx\n"
    done = subprocess.run(["bash", "--norc"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith("opx")
