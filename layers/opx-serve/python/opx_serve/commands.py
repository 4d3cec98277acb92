"""`opx run`, `opx serve`, `opx mcp`: processes that stay, to do scheduled work and to answer programs and agents."""

from __future__ import annotations

import contextlib
import logging
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opx.domain.record import replace
from opx.domain.scopes import Identity
from opx.edges.cli.output import warn
from opx.edges.cli.session import LOG_FORMAT, Session, pass_session
from opx.errors import InvalidInputError
from opx_serve.console import KEY, PREFIX, ConsoleFiles, ConsoleSessions, write_redirect

if TYPE_CHECKING:
    from opx.connectors.runner import Runner
    from opx.operations.context import Caller
    from opx.operations.system import System
    from opx_serve.routes import KnowledgeBase
    from opx_serve.tokens import Callers


def _refuse_port(_context: click.Context, _param: click.Parameter, value: str | None) -> None:
    if value is not None:
        port = value if value.isdecimal() else "8321"
        raise click.UsageError(f"there is no option --port: give address and port, as in --listen 127.0.0.1:{port}")


_no_port = click.option("--port", hidden=True, expose_value=False, callback=_refuse_port)
"""Refuses `--port`, which other servers have, with a hint of `--listen`."""

# -- scheduled work


@click.command("run")
@_no_port
@click.option("--once", is_flag=True, help="Do the work that is due now, and exit.")
@click.option("--listen", metavar="HOST:PORT", help="Receive webhooks at this address, such as 127.0.0.1:8321.")
@pass_session
def run_command(session: Session, *, once: bool, listen: str | None) -> None:
    """Pull sources on schedule, follow watched directories, and ingest documents, until Ctrl-C. Once a day, prune,
    calibrate if due, count the use of clients, roll metrics of Prometheus up, and seal the stored data.

    One process does the work of AWS functions and schedules; a second one waits for work that the first has claimed.
    """
    services = session.services
    runner = _runner(services)
    if once:
        while runner.round():
            pass
        return
    woken, stopped = threading.Event(), threading.Event()
    with ExitStack() as stack:
        if listen:
            stack.enter_context(_deliveries_server(services, listen, woken.set))
        _stop_on_sigterm(woken, stopped)
        enabled = sum(source.enabled for source in services.connectors.sources.all())
        _log(f"running with {enabled} sources: Ctrl-C stops")
        with contextlib.suppress(KeyboardInterrupt):
            runner.run(_waiting(woken, stopped))
    _log("stopped; unfinished work continues with the next run")


def _runner(services: System) -> Runner:
    """The work of schedules and functions, in rounds."""
    from opx.operations import feeds

    connectors, lifecycle = services.connectors, services.lifecycle
    daily = (lifecycle.daily_pruning(), lifecycle.daily_calibration(), lifecycle.daily_usage())
    of_core = (connectors.directory_feed(), *connectors.stream_feeds(), *daily)
    return services.runner(_log, (*of_core, *feeds(services)))


def _deliveries_server(
    services: System, listen: str, arrived: Callable[[], object]
) -> contextlib.AbstractContextManager[object]:
    from opx.edges.client import is_loopback
    from opx_serve.application import deliveries_application
    from opx_serve.deliveries import LocalDeliveries
    from opx_serve.listening import HttpServer, address_of, listening_socket

    webhooks = services.needed_part("webhooks")
    deliveries = LocalDeliveries(lambda: webhooks, arrived)
    server = HttpServer(deliveries_application(deliveries), listening_socket(listen))
    _log(f"webhooks arrive at http://{server.address}")
    if not is_loopback(address_of(listen)[0]):
        warn(
            f"others can reach {server.address}, which has no TLS: deliveries are verified by their signatures, but a "
            "proxy with TLS on this machine, and --listen 127.0.0.1, are safer"
        )
    return server


def _stop_on_sigterm(woken: threading.Event, stopped: threading.Event) -> None:
    def stop(*_: object) -> None:
        stopped.set()
        woken.set()

    signal.signal(signal.SIGTERM, stop)


def _waiting(woken: threading.Event, stopped: threading.Event) -> Callable[[float], bool]:
    """A wait of some seconds, which ends early on a delivery; it returns True to stop."""

    def wait(seconds: float) -> bool:
        if seconds and woken.wait(seconds):
            woken.clear()
        return stopped.is_set()

    return wait


def _log(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")


# -- everything over HTTP

_workers = click.option(
    "--workers",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Processes that answer simultaneous questions; by default one for each core, at most 8.",
)

AGAIN_SECONDS = 60.0
"""Pause of scheduled work after an error."""


@click.command("serve")
@_no_port
@click.option("--listen", metavar="HOST:PORT", default="127.0.0.1:8321", show_default=True, help="Address to serve at.")
@click.option(
    "--token-secret",
    default="",
    metavar="NAME",
    help="Require this secret as bearer token, of an administrator; more are declared in knowledge.yaml (tokens).",
)
@click.option(
    "--base",
    "bases",
    multiple=True,
    metavar="ID=HOME",
    help="Also answer /knowledge/ID/... from this home, or from the system at this https address. May be repeated.",
)
@click.option("--answers-only", is_flag=True, help="Leave scheduled work and queued documents to `opx run`.")
@_workers
@pass_session
def serve_command(
    session: Session,
    /,
    listen: str,
    token_secret: str,
    bases: tuple[str, ...],
    *,
    answers_only: bool,
    workers: int | None,
) -> None:
    """Serve all operations over REST, the tools for agents over MCP, and webhooks, until Ctrl-C. Also do the work of
    `opx run`.

    \b
    http://127.0.0.1:8321/docs              the routes, as a page; /openapi.json for programs
    http://127.0.0.1:8321/mcp               the tools, for agents
    http://127.0.0.1:8321/webhooks/ingest/  webhooks of other services
    http://127.0.0.1:8321/metrics           for Prometheus; /healthz for load balancers

    Every request needs a token, except for webhooks. On loopback it is the one in the file `token` of the home, until
    you configure another. At other addresses you must configure one. Put a proxy with TLS in front of the server.
    """
    session.require_local("opx serve serves this machine's knowledge; a deployed system has its own HTTP API")
    known = _callers(session, listen, token_secret)

    def announce(address: str) -> None:
        _log(f"http://{address}/docs lists the routes, /mcp serves agents: Ctrl-C stops")
        if known.is_private:
            click.echo(f"    curl --header {_header(session)} http://{address}/status")

    _serve(session, listen, known, announce, bases=bases, answers_only=answers_only, workers=workers)


def _header(session: Session) -> str:
    """The header with the token of the home, for a shell."""
    from opx.edges.client import HOME_FILE

    return f'"Authorization: Bearer $(cat {shlex.quote(str(session.settings.home_path / HOME_FILE))})"'


def _home(session: Session, listen: str) -> Path | None:
    """The home; None if others can reach the address."""
    from opx.edges.client import is_loopback
    from opx_serve.listening import address_of

    return session.settings.home_path if is_loopback(address_of(listen)[0]) else None


@click.command("console")
@_no_port
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:0", show_default=True, help="Address on this machine."
)
@click.option("--no-browser", is_flag=True, help="Print the address, but don't open a browser.")
@click.option("--answers-only", is_flag=True, help="Leave scheduled work and queued documents to `opx run`.")
@pass_session
def console_command(session: Session, /, listen: str, *, no_browser: bool, answers_only: bool) -> None:
    """Open the console in a browser: ask, read, curate. It serves everything that `opx serve` does, until Ctrl-C.

    The printed address works once, within two minutes, so that nobody else on this machine can use it later. Press
    Enter for another one.
    """
    session.require_local("the console of a deployed system is at its own address: see the outputs of its stacks")

    if _home(session, listen) is None:
        raise InvalidInputError(
            "the console is for this machine: listen on 127.0.0.1, and reach it through ssh -L, from the same port"
        )
    ConsoleFiles().check()
    sessions = ConsoleSessions()
    redirect = session.settings.home_path / "console.html"

    def opened(address: str) -> None:
        def place() -> str:
            return f"http://{address}{PREFIX}?{KEY}={sessions.new_key()}"

        def more() -> None:
            for _ in sys.__stdin__ or ():  # commands that the socket answers have streams of their own
                click.echo(f"    {place()}")

        first = place()
        click.echo(f"The console, for one browser (Enter prints another address, Ctrl-C stops):\n    {first}")
        threading.Thread(target=more, name="addresses", daemon=True).start()
        if not no_browser:
            try:
                write_redirect(redirect, place())
                click.launch(redirect.as_uri())
            except OSError as exc:
                warn(f"no browser is opened, as {redirect} can't be written: {exc.strerror or exc}")

    try:
        _serve(session, listen, _callers(session, listen, "", sessions), opened, answers_only=answers_only)
    finally:
        redirect.unlink(missing_ok=True)


def _serve(
    session: Session,
    listen: str,
    known: Callers,
    announce: Callable[[str], object],
    *,
    bases: Sequence[str] = (),
    answers_only: bool = False,
    workers: int | None = None,
) -> None:
    """Serves until Ctrl-C or SIGTERM. `announce` is called with the address when it listens."""
    from opx_serve.application import application
    from opx_serve.command_socket import CommandSocket
    from opx_serve.composition import serve
    from opx_serve.listening import STOP_SECONDS, HttpServer, listening_socket
    from opx_serve.workers import AnswerProcesses, usual_workers

    woken, stopped = threading.Event(), threading.Event()
    with ExitStack() as stack:
        _log_errors(stack)
        processes = AnswerProcesses(session.services, session.start, workers or usual_workers())
        stack.callback(processes.close)
        found = _bases(session, stack, bases, known.own)
        record = session.services.records.deferred()  # before the other thread makes records of its own
        loading = threading.Thread(target=_load, args=(session.services, not answers_only), daemon=True)
        stack.callback(loading.join, STOP_SECONDS)
        loading.start()
        served = serve(
            session.services, known, found, woken.set, workers=processes, ready=lambda: not loading.is_alive()
        )
        server = HttpServer(application(served), listening_socket(listen), after=record)
        if not answers_only:
            _work_beside(session.services, woken, stopped, stack)
        commands = stack.enter_context(CommandSocket(session.services, session.settings))
        warn(*filter(None, [commands.remark]))
        signal.signal(signal.SIGTERM, lambda *_: server.stop())  # once it runs, it has a handler of its own
        announce(server.address)
        with contextlib.suppress(KeyboardInterrupt):
            server.run()
    _log("stopped")


def _load(services: System, works: bool) -> None:
    """Loads what answers need, and the code of scheduled work, which would slow the first ones down."""
    from opx_serve.workers import warm_up

    warm_up(services)
    if works:
        with contextlib.suppress(Exception):  # the work itself reports it
            _runner(services)


def _log_errors(stack: ExitStack) -> None:
    """Writes errors to stderr until the stack is closed, also without `-v`: replies say that they were logged."""
    logger = logging.getLogger("opx")
    if any(isinstance(one, logging.StreamHandler) for one in logger.handlers):
        return
    handler = logging.StreamHandler()
    handler.setLevel(logging.ERROR)
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    logger.addHandler(handler)
    stack.callback(logger.removeHandler, handler)


def _work_beside(services: System, woken: threading.Event, stopped: threading.Event, stack: ExitStack) -> None:
    """Does scheduled work in a thread until the stack is closed; a round in progress is finished first. After an error it
    goes on in a minute; the server answers meanwhile."""
    wait = _waiting(woken, stopped)

    def work() -> None:
        while not stopped.is_set():
            try:
                _runner(services).run(wait)
            except Exception as exc:  # noqa: BLE001 - the thread's edge: the error is reported, and the work tried again
                _log(f"scheduled work failed, and is tried again in a minute: {type(exc).__name__}: {exc}")
                stopped.wait(AGAIN_SECONDS)

    thread = threading.Thread(target=work, name="work", daemon=True)

    def end() -> None:
        stopped.set()
        woken.set()
        thread.join(timeout=60)

    stack.callback(end)
    thread.start()


def _callers(session: Session, listen: str, token_secret: str, sessions: ConsoleSessions | None = None) -> Callers:
    from opx_serve.tokens import callers, read_tokens

    home = _home(session, listen)
    own = Identity(session.settings.client_id, session.settings.project_id, session.user)
    declared = session.services.installation.declared(read_tokens)
    _open(session.services)
    return callers(declared, session.services.ports.secrets, own, token_secret, sessions, home=home)


def _open(system: System) -> None:
    """Opens tables and index: a home that can't be used is refused before anything listens. Raises `OpxError`."""
    from opx.ports import SearchFilter

    next(system.corpus.clients.all(), None)
    system.indexing.index.count(SearchFilter(scopes=("global",)))


def _bases(session: Session, stack: ExitStack, named: Sequence[str], own: Caller) -> dict[str, KnowledgeBase]:
    """The knowledge bases by id. Raises `InvalidInputError`."""
    from opx.operations.registry import DEFAULT_KNOWLEDGE_BASE
    from opx_serve.routes import LocalBase, RemoteBase

    found: dict[str, KnowledgeBase] = {DEFAULT_KNOWLEDGE_BASE: LocalBase(session.services)}
    for text in named:
        base_id, _, place = text.partition("=")
        if not base_id.replace("-", "").isalnum() or not place or base_id in found:
            raise InvalidInputError(f"--base {base_id[:60]!r}: give each ID once, as ID=HOME or ID=https://ADDRESS")
        if "://" in place:
            client = session.connect_to(place)
            stack.callback(client.close)
            found[base_id] = RemoteBase(client, own)
        elif Path(place).is_dir():
            system = session.start(replace(session.settings, home=place))
            stack.callback(system.close)
            _open(system)
            found[base_id] = LocalBase(system)
        else:
            raise InvalidInputError(f"--base {base_id}: there is no folder {place}")
    return found


# -- tools for agents


@click.command("mcp")
@_no_port
@click.option("--listen", metavar="HOST:PORT", help="Serve over HTTP at this address instead of standard input.")
@click.option("--agent", default="", metavar="NAME", help="Serve the tools that knowledge.yaml grants this agent.")
@click.option("--token-secret", default="", metavar="NAME", help="Require this secret as bearer token (HTTP).")
@pass_session
def mcp_command(session: Session, /, listen: str | None, agent: str, token_secret: str) -> None:
    """Serve the tools to an agent over the Model Context Protocol, on standard input and output until it disconnects.

    \b
    {"mcpServers": {"opx": {"command": "opx", "args": ["--home", "/srv/opx", "mcp"]}}}

    The agent sees the documents of --client and --project. With --listen 127.0.0.1:8765 the address is
    http://127.0.0.1:8765/mcp. Each request then needs a token: the one in the file `token` of the home, or that of
    --token-secret.
    """
    session.require_local("opx mcp serves this machine's knowledge; a deployed system has a gateway for agents")
    import anyio

    from opx.operations.context import Caller, Context
    from opx_serve.mcp import http_app, make_server, serve_stdio, tools_for

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
    from opx_serve.listening import HttpServer, listening_socket, own_addresses
    from opx_serve.tokens import home_token

    home = _home(session, listen)
    token = services.ports.secrets.get(token_secret) if token_secret else home_token(home)
    opened = listening_socket(listen)
    app = http_app(server, token, own_addresses(opened.getsockname()[1]) if home else ())
    http = HttpServer(app, opened, after=services.records.deferred())
    click.echo(f"{len(tools)} tools at http://{http.address}/mcp: Ctrl-C stops", err=True)
    if not token_secret:
        click.echo(f"    each request needs the header {_header(session)}", err=True)
    http.run()
