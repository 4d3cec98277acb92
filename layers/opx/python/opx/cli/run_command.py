"""`opx run`: one process that keeps the knowledge fresh."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

import click

from opx.cli.session import Session, pass_session


@click.command("run")
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
@click.option("--listen", metavar="HOST:PORT", help="Take webhooks in at this address, such as 127.0.0.1:8321.")
@pass_session
def run_command(session: Session, *, once: bool, listen: str | None) -> None:
    """Pull sources at their times, follow watched directories, take in what comes, and prune once a day, until Ctrl-C.

    What functions and schedules do on AWS, one process does here; a second one waits for what the first has in hand.
    """
    services = session.services
    with ExitStack() as stack:
        connectors = services.connectors
        feeds = (connectors.directory_feed(), *connectors.stream_feeds(), services.lifecycle.daily_pruning())
        runner = services.runner(_tell, feeds)
        if once:
            while runner.round():
                pass
            return
        woken, stopped = threading.Event(), threading.Event()
        if listen:
            from opx.webhooks.wsgi import LocalServer

            server = stack.enter_context(LocalServer(connectors.webhook_receiver, listen, woken.set))
            _tell(f"webhooks arrive at http://{server.address}")

        def stop(*_: object) -> None:
            stopped.set()
            woken.set()

        signal.signal(signal.SIGTERM, stop)
        enabled = sum(source.enabled for source in connectors.sources.all())
        _tell(f"running with {enabled} sources: Ctrl-C stops")
        with contextlib.suppress(KeyboardInterrupt):
            runner.run(_waiting(woken, stopped))
    _tell("stopped; what was under way goes on with the next run")


def _waiting(woken: threading.Event, stopped: threading.Event) -> Callable[[float], bool]:
    """Waits for so long or until something arrives, and says whether to stop."""

    def wait(seconds: float) -> bool:
        if seconds and woken.wait(seconds):
            woken.clear()
        return stopped.is_set()

    return wait


def _tell(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")
