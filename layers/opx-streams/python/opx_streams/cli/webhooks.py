"""`opx webhook`, `opx secret`: manages webhooks of other services, and credentials on this machine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import click

from opx.domain.record import replace
from opx.domain.sources import ArrivalState, LastArrival
from opx.edges.calling import plain
from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import SHORT_ID, exit_unless, plural, print_json, print_lines, print_table, read_bytes, warn
from opx.edges.cli.session import Session, pass_session
from opx.operations.masked_secrets import MaskedDocuments, ProtectedOriginals, list_masked_secrets, protect_originals
from opx_streams.arrivals import WEBHOOK
from opx_streams.operations.webhooks import (
    SecretChanged,
    SecretNames,
    SetSecret,
    list_secrets,
    remove_secret,
    set_secret,
)

if TYPE_CHECKING:
    from opx.domain.sources import WebhookView
    from opx_streams.webhooks.setup import WebhookSetup

_ELSEWHERE = "secrets of a deployed system are in Secrets Manager: set them there"
_PROTECTED_ELSEWHERE = (
    "run it with the settings of the deployment, OPX_BACKEND=aws: its functions encrypt (docs/secrets.md)"
)


@click.group("webhook", no_args_is_help=True)
def webhook_command() -> None:
    """Webhooks: deliveries of other services, declared in knowledge.yaml (section `webhooks`).

    \b
    opx webhook list             addresses, and the state of secrets
    opx webhook secret NAME      generate a secret, and show it once
    opx webhook test NAME        send a signed delivery to a running `opx run --listen`
    opx webhook sign NAME FILE   print the headers of a signed delivery of FILE
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
    last = session.services.connectors.arrivals.last(WEBHOOK, [one.name for one in views])
    return [replace(one, last=last.get(one.name)) for one in views]


def last_shown(last: LastArrival | None) -> str:
    """The latest arrival in a cell of a table: `2026-03-31T09:12:00Z accepted (12)`."""
    found = {state: getattr(last, state.value) for state in ArrivalState} if last else {}
    known = [(one.at, state.value, one) for state, one in found.items() if one]
    if not known:
        return "-"
    at, state, one = max(known, key=lambda each: each[0])
    return " ".join(filter(None, (at, state, one.reason, f"({one.count:,})")))


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


@webhook_command.command("sign")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@pass_session
def sign(session: Session, name: str, file: Path) -> None:
    """Print the headers of a signed delivery of FILE (- for a pipe) to the webhook NAME, one per line."""
    proof = _setup(session).signed(name, read_bytes(file), time.time())
    print_lines(f"{header}: {value}" for header, value in proof.headers.items())
    print_lines(f"?{urlencode({parameter: value})}" for parameter, value in proof.query.items())


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


# -- secrets


@click.group("secret", no_args_is_help=True, cls=OperationGroup)
def secret_command() -> None:
    """Manage credentials of sources in a file that only you can read. On AWS they are in Secrets Manager.

    \b
    opx secret set github-token      prompts for the value, or reads it from a pipe
    opx secret list                  names, never values
    opx secret remove github-token
    opx secret found                 documents with masked secrets, and what to do about them
    opx secret protect               encrypt their originals
    """


@secret_command.command("set")
@click.argument("name")
@pass_session
def set_one(session: Session, name: str) -> None:
    """Set a secret. The value is prompted for, or read from a pipe: on a command line others could see it."""
    is_prompted = sys.stdin.isatty()
    value = click.prompt("value", hide_input=True, err=True) if is_prompted else sys.stdin.read()
    session.require_local(_ELSEWHERE)
    session.client.call(set_secret, SetSecret(name=name, value=value))
    click.echo(f"set {name}")


@secret_command.operation("list", list_secrets, elsewhere=_ELSEWHERE, anywhere=True)
def list_names(found: SecretNames) -> Sequence[str]:
    """List the names of the secrets."""
    return found.names


@secret_command.operation("found", list_masked_secrets, items="documents", without=("limit", "after"))
def found_secrets(found: MaskedDocuments) -> Iterator[str]:
    """List documents with masked secrets by owner: kinds and lines, never the secrets, and what to do."""
    if not found.documents:
        yield "no document has masked secrets"
        return
    for (scope, owner), documents in groupby(found.documents, lambda one: (one.scope, one.owner)):
        yield f"{scope}, {owner or 'no owner'}"
        for one in documents:
            yield f"  {one.document_id[:SHORT_ID]}  {one.source}, version {one.version}, original: {one.original.value}"
            yield from (f"    {secret.place}: {secret.kind} ({secret.fingerprint})" for secret in one.secrets)
            yield from ((f"    {one.more}",) if one.more else ())
    yield "What to do:"
    yield from (f"- {remedy}" for remedy in dict.fromkeys(each for one in found.documents for each in one.remedies))


@secret_command.operation("protect", protect_originals, elsewhere=_PROTECTED_ELSEWHERE, json="")
def protect(done: ProtectedOriginals) -> None:
    """Encrypt the originals of all documents with masked secrets, so that only ingestion can read them."""
    click.echo(protected_line(done))
    warn(*done.problems)


def protected_line(done: ProtectedOriginals) -> str:
    """Counts of originals that were encrypted, or are to be."""
    waiting = f", {done.queued:,} queued for ingestion" if done.queued else ""
    return f"{done.encrypted:,} of {plural(done.documents, 'original')} encrypted now{waiting}"


@secret_command.operation("remove", remove_secret, arguments=("name",), elsewhere=_ELSEWHERE, anywhere=True, json="")
def remove_one(removed: SecretChanged) -> None:
    """Remove a secret."""
    click.echo(f"removed {removed.name}")
