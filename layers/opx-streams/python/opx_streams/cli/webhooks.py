"""`opx webhook`: manages webhooks of other services."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opx.domain.record import replace
from opx.edges.calling import plain
from opx.edges.cli.output import exit_unless, print_json, print_table
from opx.edges.cli.session import Session, pass_session
from opx_streams.arrivals import WEBHOOK, last_shown
from opx_streams.capability import arrivals

if TYPE_CHECKING:
    from opx_streams.webhooks.setup import WebhookSetup
    from opx_streams.webhooks.views import WebhookView


@click.group("webhook", no_args_is_help=True)
def webhook_command() -> None:
    """Webhooks: deliveries of other services, declared in knowledge.yaml (section `webhooks`).

    \b
    opx webhook list          addresses, and the state of secrets
    opx webhook secret NAME   generate a secret, and show it once
    opx webhook test NAME     send a signed delivery to a running `opx run --listen`
    """


@webhook_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_webhooks(session: Session, *, as_json: bool) -> None:
    """List webhooks with their addresses."""
    views = _with_arrivals(session, _setup(session).views())
    if as_json:
        print_json([plain(view) for view in views])
        return
    rows = [
        (view.name, view.format, view.category, view.address, _secret_states(view), last_shown(view.last))
        for view in views
    ]
    if not rows:
        click.echo("no webhooks: declare them in knowledge.yaml, section `webhooks`", err=True)
        return
    print_table(("NAME", "FORMAT", "CATEGORY", "ADDRESS", "SECRETS", "LAST DELIVERY"), rows)


def _with_arrivals(session: Session, views: Sequence[WebhookView]) -> list[WebhookView]:
    """Webhooks with their last deliveries, if this machine has them."""
    if session.is_remote or session.settings.backend == "aws" or not views:
        return list(views)
    last = session.services.part(arrivals).last(WEBHOOK, [one.name for one in views])
    return [replace(one, last=last.get(one.name)) for one in views]


@webhook_command.command("secret")
@click.argument("name")
@click.option("--of", "wanted", metavar="SECRET", help="Name of the secret.  [default: the first that isn't set]")
@click.option("--replace", is_flag=True, help="Replace a secret that is set: deliveries signed with it are refused.")
@pass_session
def make_secret(session: Session, name: str, wanted: str | None, *, replace: bool) -> None:
    """Generate a secret of the webhook NAME, store it, and show it once, to be entered at the service.

    To replace one without refusing a delivery: add a second name in knowledge.yaml, make that secret, enter it at the
    service, and then remove the first name.
    """
    made = _setup(session).make_secret(name, wanted or "", replace=replace)
    if made.kept:
        click.echo(f"stored as {made.name}; enter it at the service:", err=True)
    else:
        click.echo(f"set the secret {made.name} in Secrets Manager to this value, and enter it at the service:")
    click.echo(made.value)


@webhook_command.command("test")
@click.argument("name")
@click.option(
    "--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Send this file instead of a sample."
)
@pass_session
def test(session: Session, name: str, file: Path | None) -> None:
    """Send a signed delivery to the webhook NAME, and print the answer. A sample becomes a document titled "Test
    delivery"."""
    found = _setup(session).send(name, file.read_bytes() if file else None, time.time())
    click.echo(f"{found.address}: {found.status} {found.answer}")
    exit_unless(found.status < 400)


def _setup(session: Session) -> WebhookSetup:
    """Setup of webhooks. If functions receive deliveries, secrets are in Secrets Manager and the system isn't started."""
    from opx_streams.webhooks.setup import webhook_setup

    on_aws = session.is_remote or session.settings.backend == "aws"
    return webhook_setup(session.settings, lambda: session.services.ports.secrets, on_aws=on_aws)


def _secret_states(view: WebhookView) -> str:
    if not view.secrets:
        return "signed by AWS"
    states = {True: " (set)", False: " (not set)", None: ""}
    return ", ".join(f"{secret.name}{states[secret.is_set]}" for secret in view.secrets)
