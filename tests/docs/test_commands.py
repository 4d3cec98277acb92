"""The commands of README and documentation run, in their order, and show what the pages state."""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of, pages
from tests.docs.running import Shell, problems
from tests.support.demo_support import OPX, demo_home_at

BUSY = "(the embedding model is unavailable)"
"""A note of answers on a machine that is too busy to load the model in time: the page is run again."""
ATTEMPTS = 3

CLIPBOARD = """ALERT KubePodCrashLooping firing
labels: alertname=KubePodCrashLooping namespace=prod pod=checkout-7d9f severity=warning
summary: prod/checkout-7d9f restarts again and again
"""
WITH_COMMANDS = [page for page in pages() if any(block.not_run is None for block in blocks_of(page))]


@pytest.fixture(scope="module")
def demo_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return demo_home_at(tmp_path_factory.mktemp("demo") / "home")


@contextmanager
def served(shell: Shell) -> Iterator[None]:
    """Until the end, `opx serve` answers the commands of the folder."""
    command = [str(OPX), "serve", "--listen", "127.0.0.1:0", "--answers-only"]
    with subprocess.Popen(command, cwd=shell.folder, env=shell.variables, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert b"lists the routes" in process.stdout.readline()
        try:
            yield
        finally:
            process.terminate()


@pytest.fixture
def new_shell(page: str, tmp_path: Path, demo_home: Path) -> Iterator[Callable[[], Shell]]:
    """Makes a checkout's folder after `make demo`, and a clipboard with an alert in it. Commands of README start by
    themselves, those of other pages are answered by a server beside them, which takes a fraction of the time."""
    programs = tmp_path / "programs"
    programs.mkdir()
    paste = programs / "pbpaste"
    paste.write_text(f"#!/bin/sh\ncat <<'END'\n{CLIPBOARD}END\n")
    paste.chmod(paste.stat().st_mode | stat.S_IXUSR)
    folders: list[Path] = []

    def make() -> Shell:
        folders.append(tmp_path / f"checkout-{len(folders)}")
        shutil.copytree(demo_home, folders[-1] / ".opx")
        for name in ("corpus", "tests", "examples", "docs"):
            (folders[-1] / name).symlink_to(ROOT / name)
        shell = Shell(folders[-1], programs)
        if page != "README.md":
            servers.enter_context(served(shell))
        return shell

    servers = ExitStack()
    with servers:
        yield make
    for folder in folders:
        shutil.rmtree(folder)


@pytest.mark.docs
@pytest.mark.enable_socket
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", WITH_COMMANDS)
def test_commands_do_what_the_page_states(page: str, new_shell: Callable[[], Shell]) -> None:
    run = [block for block in blocks_of(page) if block.not_run is None]
    for _ in range(ATTEMPTS):
        shell = new_shell()
        outcomes = [shell.outcomes(block) for block in run]
        if not any(BUSY in outcome.output for some in outcomes for outcome in some):
            break
    found = [each for block, some in zip(run, outcomes, strict=True) for each in problems(block, some)]
    assert not found, "\n" + "\n".join(found)
