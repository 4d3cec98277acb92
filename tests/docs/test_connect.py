"""docs/connect.md: the commands that it gives to editors serve the tools of an agent."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.docs.pages import ROOT
from tests.support.demo_support import OPX

HOME = "/srv/opx"
PAGE = (ROOT / "docs" / "connect.md").read_text(encoding="utf-8")


def servers(page: str) -> list[dict[str, Any]]:
    """The server of each JSON block: `servers` of VS Code, `mcpServers` of the others."""
    blocks = map(json.loads, re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    return [(block.get("servers") or block["mcpServers"])["opx"] for block in blocks]


STARTED = [server for server in servers(PAGE) if server.get("command") == "opx"]


def test_each_editor_has_a_file_and_that_of_vs_code_states_the_type() -> None:
    assert len(STARTED) == 3
    assert [server.get("type") for server in STARTED] == [None, None, "stdio"]


def test_claude_code_gets_the_same_command_as_the_files() -> None:
    (command,) = re.findall(r"^claude mcp add .* opx -- (.*)$", PAGE, re.MULTILINE)
    assert all(command == " ".join([server["command"], *server["args"]]) for server in STARTED)


@pytest.mark.enable_socket
@pytest.mark.parametrize("server", STARTED[-1:])
def test_the_command_serves_the_tools_that_the_page_lists(server: dict[str, Any], tmp_path: Path) -> None:
    arguments = [str(tmp_path / "home") if argument == HOME else argument for argument in server["args"]]

    async def tools() -> set[str]:
        program = StdioServerParameters(command=str(OPX), args=arguments)
        async with stdio_client(program) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
            await session.initialize()
            return {tool.name for tool in (await session.list_tools()).tools}

    rows = re.findall(r"^\| (`.*`) \|", PAGE, re.MULTILINE)
    assert anyio.run(tools) == set(re.findall(r"`(\w+)`", " ".join(rows)))
