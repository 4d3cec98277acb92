"""`opx run`, `opx mcp`, `opx status`: runs scheduled work, serves tools to agents, and shows the state of the system."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import click

from opx.domain.record import Json
from opx.domain.scopes import Identity
from opx.edges.cli.output import aligned, print_json, print_lines, readable_size, some_fields, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.operations.corpus import GetStatus, Status, get_status


@click.command("run")
@click.option("--once", is_flag=True, help="Do the work that is due now, and exit.")
@click.option("--listen", metavar="HOST:PORT", help="Receive webhooks at this address, such as 127.0.0.1:8321.")
@pass_session
def run_command(session: Session, *, once: bool, listen: str | None) -> None:
    """Pull sources on schedule, follow watched directories, ingest documents, and once a day prune, calibrate if due,
    count the use of clients, and seal what is stored, until Ctrl-C.

    One process does the work of AWS functions and schedules; a second one waits for work that the first has claimed.
    """
    services = session.services
    with ExitStack() as stack:
        connectors, lifecycle = services.connectors, services.lifecycle
        daily = (
            lifecycle.daily_pruning(),
            lifecycle.daily_calibration(),
            lifecycle.daily_usage(),
            lifecycle.daily_seal(),
        )
        feeds = (connectors.directory_feed(), *connectors.stream_feeds(), *daily)
        runner = services.runner(_log, feeds)
        if once:
            while runner.round():
                pass
            return
        woken, stopped = threading.Event(), threading.Event()
        if listen:
            from opx.connectors.webhooks.wsgi import LocalServer

            server = stack.enter_context(LocalServer(connectors.webhook_receiver, listen, woken.set))
            _log(f"webhooks arrive at http://{server.address}")
            warn(*filter(None, [server.remark]))

        def stop(*_: object) -> None:
            stopped.set()
            woken.set()

        signal.signal(signal.SIGTERM, stop)
        enabled = sum(source.enabled for source in connectors.sources.all())
        _log(f"running with {enabled} sources: Ctrl-C stops")
        with contextlib.suppress(KeyboardInterrupt):
            runner.run(_waiting(woken, stopped))
    _log("stopped; unfinished work continues with the next run")


def _waiting(woken: threading.Event, stopped: threading.Event) -> Callable[[float], bool]:
    """A wait of some seconds, which ends early on a delivery; it returns True to stop."""

    def wait(seconds: float) -> bool:
        if seconds and woken.wait(seconds):
            woken.clear()
        return stopped.is_set()

    return wait


def _log(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")


# -- tools for agents


@click.command("mcp")
@click.option("--listen", metavar="HOST:PORT", help="Serve over HTTP at this address instead of standard input.")
@click.option("--agent", default="", metavar="NAME", help="Serve the tools that knowledge.yaml grants this agent.")
@click.option("--token-secret", default="", metavar="NAME", help="Require this secret as bearer token (HTTP).")
@pass_session
def mcp_command(session: Session, /, listen: str | None, agent: str, token_secret: str) -> None:
    """Serve the tools to an agent over the Model Context Protocol, on standard input and output until it disconnects.

    \b
    {"mcpServers": {"opx": {"command": "opx", "args": ["--home", "/srv/opx", "mcp"]}}}

    The agent sees the documents of --client and --project. With --listen 127.0.0.1:8765 the address is
    http://127.0.0.1:8765/mcp.
    """
    session.require_local("opx mcp serves this machine's knowledge; a deployed system has a gateway for agents")
    import anyio

    from opx.edges.mcp import http_app, make_server, serve_stdio, tools_for
    from opx.operations.context import Caller, Context

    services = session.services
    identity = Identity(session.settings.client_id, session.settings.project_id, agent)
    context = Context(services, Caller(identity, agent=agent))
    tools = tools_for(context)
    if not tools:
        raise InvalidInputError(f"agent {agent!r} may use no tool: grant some in the section agents of knowledge.yaml")
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


# -- status


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def status_command(session: Session, *, as_json: bool) -> None:
    """Show the location of the knowledge, its size, and the number of waiting and failed documents."""
    facts = _remote_facts(session) if session.is_remote else _local_facts(session)
    if as_json:
        print_json(facts)
        return
    if not session.has_knowledge:
        click.echo(f"no knowledge in {facts['home']}: run `opx ingest PATH...`")
        return
    print_lines(_lines(facts))


def _remote_facts(session: Session) -> Json:
    status = session.client.call(get_status, GetStatus())
    return {
        "backend": "api",
        "api": session.location,
        "scope": status.scope,
        **_facts(status),
        "keptOut": _kept_out(session),
    }


def _local_facts(session: Session) -> Json:
    settings = session.settings
    facts = {"backend": settings.backend, "home": session.location, "exists": session.has_knowledge}
    if not session.has_knowledge:
        return facts
    if settings.own_addresses:
        facts["addresses"] = settings.own_addresses
    size = _size(settings.home_path) if settings.backend == "embedded" else None
    status = _facts(session.client.call(get_status, GetStatus()))
    return {**facts, "bytes": size, **status, "keptOut": _kept_out(session)}


def _facts(status: Status) -> Json:
    names = (
        "documents",
        "categories",
        "expired",
        "waiting",
        "backlog",
        "failed",
        "chunks",
        "embeddingModel",
        "confidence",
        "index",
    )
    return some_fields(status, names)


def _lines(facts: Json) -> Iterator[str]:
    chunks = "unknown" if facts["chunks"] is None else f"{facts['chunks']:,}"
    rows = [
        *_location_rows(facts),
        ("documents", f"{facts['documents']:,}"),
        *((f"  {name}", f"{count:,}") for name, count in facts["categories"].items()),
        *_retention_rows(facts),
        ("chunks", chunks),
        ("embedding model", facts["embeddingModel"] or "unknown"),
        ("confidence", facts["confidence"] or "unknown"),
        ("index", facts["index"]),
        *_waiting_row(facts),
        *_backlog_row(facts),
        ("failed", f"{facts['failed']:,}" + (" (see `opx failed`)" if facts["failed"] else "")),
    ]
    return aligned(rows)


def _retention_rows(facts: Json) -> Iterator[tuple[str, str]]:
    """Documents past their retention: those that are stored and hidden, and those of sources that were never stored."""
    for name, count in facts["expired"].items():
        yield "expired", f"{count:,} of {name}: hidden by its retention (see `opx list --remarks any`)"
    for source_id, line in facts["keptOut"].items():
        yield "kept out", f"source {source_id}: {line}"


def _kept_out(session: Session) -> Json:
    from opx.edges.cli.sources import kept_out_line, kept_out_sources

    return {view.source_id: kept_out_line(view) for view in kept_out_sources(session)}


def _location_rows(facts: Json) -> Iterator[tuple[str, str]]:
    if "api" in facts:
        yield "api", facts["api"]
        yield "your documents", facts["scope"]
        return
    size = f" ({readable_size(facts['bytes'])})" if facts["bytes"] is not None else ""
    yield "home", facts["home"] + size
    yield "backend", facts["backend"]
    yield from ((f"  {port}", address) for port, address in facts.get("addresses", {}).items())


def _waiting_row(facts: Json) -> Iterator[tuple[str, str]]:
    """Waiting documents of all clients; absent if the caller may only see those of one."""
    if facts["waiting"] is not None:
        yield "waiting", f"{facts['waiting']:,}" + (f" ({_worker_hint(facts)})" if facts["waiting"] else "")


def _backlog_row(facts: Json) -> Iterator[tuple[str, str]]:
    """Changes that the bucket announced and that are not ingested; on one machine, the waiting documents are all."""
    backlog = facts["backlog"]
    if backlog is None or facts["backend"] == "embedded":
        return
    more = " or more" if backlog["more"] else ""
    since = (
        f" of over 15 minutes ago, the oldest of {backlog['oldest']} (see `announced-not-ingested` in docs/deploy.md)"
    )
    yield "not yet ingested", f"{backlog['changes']:,}{more} announced changes{since if backlog['oldest'] else ''}"


def _worker_hint(facts: Json) -> str:
    return (
        "in the whole system; its workers ingest them"
        if "api" in facts
        else "the next `opx ingest` continues with them"
    )


def _size(folder: Path) -> int:
    """Bytes of all files; those that vanish meanwhile don't count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(parent, name).stat().st_size
            except OSError:
                continue
    return total
