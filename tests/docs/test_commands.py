"""The commands of README and documentation run, in their order, and show what the pages state."""

from __future__ import annotations

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

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


CONNECT = (ROOT / "docs" / "connect.md").read_text(encoding="utf-8")


def declared_servers(page: str) -> list[dict[str, Any]]:
    """The server of each JSON block: `servers` of VS Code, `mcpServers` of the others."""
    blocks = map(json.loads, re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    return [(block.get("servers") or block["mcpServers"])["opx"] for block in blocks]


STARTED = [server for server in declared_servers(CONNECT) if server.get("command") == "opx"]


def test_each_editor_has_a_file_and_that_of_vs_code_states_the_type() -> None:
    assert len(STARTED) == 3
    assert [server.get("type") for server in STARTED] == [None, None, "stdio"]


def test_claude_code_gets_the_same_command_as_the_files() -> None:
    (command,) = re.findall(r"^claude mcp add .* opx -- (.*)$", CONNECT, re.MULTILINE)
    assert all(command == " ".join([server["command"], *server["args"]]) for server in STARTED)


@pytest.mark.enable_socket
@pytest.mark.parametrize("server", STARTED[-1:])
def test_the_command_serves_the_tools_that_the_page_lists(server: dict[str, Any], tmp_path: Path) -> None:
    arguments = [str(tmp_path / "home") if argument == "/srv/opx" else argument for argument in server["args"]]

    async def tools() -> set[str]:
        program = StdioServerParameters(command=str(OPX), args=arguments)
        async with stdio_client(program) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
            await session.initialize()
            return {tool.name for tool in (await session.list_tools()).tools}

    rows = re.findall(r"^\| (`.*`) \|", CONNECT, re.MULTILINE)
    assert anyio.run(tools) == set(re.findall(r"`(\w+)`", " ".join(rows)))
