"""Searches through MCP with the official Python SDK: starts `opx mcp` and speaks to its standard input and output.

    OPX_HOME=.opx python -m examples.mcp_client "disk full on a Linux host"

Any MCP client takes the same command: {"mcpServers": {"opx": {"command": "opx", "args": ["--home", ".opx", "mcp"]}}}
"""

from __future__ import annotations

import os
import sys

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

COMMAND = ["-c", "from opx.system import command; command()", "mcp"]
"""`opx mcp`, with the Python that runs this."""


async def search(question: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=COMMAND, env=dict(os.environ))
    async with stdio_client(server) as (incoming, outgoing), ClientSession(incoming, outgoing) as session:
        await session.initialize()
        tools = await session.list_tools()
        print("tools:", ", ".join(tool.name for tool in tools.tools))
        reply = await session.call_tool("search_runbooks", {"query": question})
        print("\n".join(block.text for block in reply.content if block.type == "text"))


if __name__ == "__main__":
    anyio.run(search, " ".join(sys.argv[1:]))
