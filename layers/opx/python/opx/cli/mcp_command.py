"""`opx mcp`: the agent's tools for everything that speaks the Model Context Protocol."""

from __future__ import annotations

import logging

import click

from opx.cli.session import Session, pass_session
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError


@click.command("mcp")
@click.option("--listen", metavar="HOST:PORT", help="Serve over HTTP at this address instead of standard input.")
@click.option("--agent", default="", metavar="NAME", help="Serve the tools that knowledge.yaml grants this agent.")
@click.option(
    "--token-secret", default="", metavar="NAME", help="Callers must have this secret as bearer token (HTTP)."
)
@pass_session
def mcp_command(session: Session, /, listen: str | None, agent: str, token_secret: str) -> None:
    """Serve the tools to an agent over the Model Context Protocol, on standard input and output until it goes away.

    \b
    {"mcpServers": {"opx": {"command": "opx", "args": ["--home", "/srv/opx", "mcp"]}}}

    What the agent sees is what --client and --project see. With --listen 127.0.0.1:8765 the address is
    http://127.0.0.1:8765/mcp.
    """
    if session.is_remote:
        raise InvalidInputError("opx mcp serves this machine's knowledge; a deployed system has a gateway for agents")
    import anyio

    from opx.edges.mcp import http_app, make_server, serve_stdio, tools_for
    from opx.operations.context import Caller, Context

    services = session.services
    identity = Identity(session.settings.client_id, session.settings.project_id, agent)
    context = Context(services, Caller(identity, agent=agent))
    tools = tools_for(context)
    if not tools:
        raise InvalidInputError(f"agent {agent!r} may use no tool: see section agents of knowledge.yaml")
    server = make_server(tools, context)
    if listen is None:
        anyio.run(serve_stdio, server)
        return
    host, port = _address(listen)
    app = http_app(server, host, services.secrets.get(token_secret) if token_secret else "")
    import uvicorn

    click.echo(f"{len(tools)} tools at http://{listen}/mcp: Ctrl-C stops", err=True)
    uvicorn.run(app, host=host, port=port, log_level=logging.WARNING, access_log=False)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidInputError(f"--listen takes HOST:PORT, such as 127.0.0.1:8765, not {text!r}")
    return host.strip("[]"), int(port)
