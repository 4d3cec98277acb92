"""Searches through AgentCore Gateway with MCP's Python SDK, with a token of the issuer that the gateway trusts.

    GATEWAY_URL=https://...gateway.bedrock-agentcore.eu-central-1.amazonaws.com/mcp GATEWAY_TOKEN=... \\
        python -m examples.agentcore_gateway "disk full on a Linux host"

`make deploy` prints the gateway's address. The caller's client and project come from the token, never from an argument.
"""

from __future__ import annotations

import os
import sys

import anyio
import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client


async def search(question: str) -> None:
    headers = {"authorization": f"Bearer {os.environ['GATEWAY_TOKEN']}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        streamable_http_client(os.environ["GATEWAY_URL"], http_client=http) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools]
        print("tools:", ", ".join(names))
        tool = next(name for name in names if name.endswith("___search_runbooks"))  # TARGET___TOOL
        reply = await session.call_tool(tool, {"query": question})
        print("\n".join(block.text for block in reply.content if block.type == "text"))


if __name__ == "__main__":
    anyio.run(search, " ".join(sys.argv[1:]))
