"""The commands of README and documentation run, in their order, and show what the pages state."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of, pages
from tests.docs.running import Shell, problems

HOME = ROOT / "build" / "docs-home"
"""A home with the example corpus, kept between the runs of a day: only changed files are ingested again."""
DAY = 24 * 3600

CLIPBOARD = """ALERT KubePodCrashLooping firing
labels: alertname=KubePodCrashLooping namespace=prod pod=checkout-7d9f severity=warning
summary: prod/checkout-7d9f restarts again and again
"""
WITH_COMMANDS = [page for page in pages() if any(block.not_run is None for block in blocks_of(page))]


@pytest.fixture(scope="module")
def demo_home() -> Path:
    if HOME.is_dir() and time.time() - HOME.stat().st_ctime > DAY:
        shutil.rmtree(HOME)
    opx = Path(sys.executable).parent / "opx"
    subprocess.run([str(opx), "--home", str(HOME), "demo"], cwd=ROOT, check=True, capture_output=True, timeout=600)
    return HOME


@pytest.fixture
def shell(tmp_path: Path, demo_home: Path) -> Iterator[Shell]:
    """A checkout's folder after `make demo`, and a clipboard with an alert in it."""
    folder, programs = tmp_path / "checkout", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    shutil.copytree(demo_home, folder / ".opx")
    for name in ("corpus", "tests", "examples", "docs"):
        (folder / name).symlink_to(ROOT / name)
    paste = programs / "pbpaste"
    paste.write_text(f"#!/bin/sh\ncat <<'END'\n{CLIPBOARD}END\n")
    paste.chmod(paste.stat().st_mode | stat.S_IXUSR)
    yield Shell(folder, programs)
    shutil.rmtree(folder)


@pytest.mark.docs
@pytest.mark.enable_socket
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_do_what_the_page_states(page: str, shell: Shell) -> None:
    only = os.environ.get("OPX_DOCS_LINE")
    run = [block for block in blocks_of(page) if block.not_run is None and (not only or block.line == int(only))]
    found = [problem for block in run for problem in problems(block, shell.outcomes(block))]
    assert not found, "\n" + "\n".join(found)
