"""`opx run`: one process that keeps the knowledge fresh."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import Any

import click

from opx.cli.session import Session, pass_session


@click.command("run")
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
@pass_session
def run_command(session: Session, *, once: bool) -> None:
    """Pull sources at their times and take in what comes, until Ctrl-C. What functions and schedules do on AWS, one
    process does here; a second one waits for what the first has in hand.
    """
    from opx.running import Runner

    services = session.services
    runner = Runner(services, tell=_tell)
    if once:
        while runner.round():
            pass
        return
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    _tell(f"running with {sum(1 for source in services.sources.all() if source.enabled)} sources: Ctrl-C stops")
    with contextlib.suppress(KeyboardInterrupt):
        runner.run(_waiting_for(stop))
    _tell("stopped; what was under way goes on with the next run")


def _waiting_for(stop: threading.Event) -> Any:
    return lambda seconds: stop.wait(seconds) if seconds else stop.is_set()


def _tell(line: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {line}")
