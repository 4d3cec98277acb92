"""`opx webhook`: which services may deliver, with which secrets, and whether a delivery arrives."""

from __future__ import annotations

import secrets as randomness
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

import click

from opx.cli.exits import NO_ANSWER
from opx.cli.output import print_table
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError, SecretNotFoundError

if TYPE_CHECKING:
    from opx.webhooks.definitions import WebhookDefinition

_SECRET_BYTES = 32
_SECONDS = 30.0
_PLAIN_ENVIRONMENT, _DEFAULT_ENVIRONMENT = "prod", "dev"


@click.group("webhook", no_args_is_help=True)
def webhook_command() -> None:
    """Services that deliver by themselves, as knowledge.yaml declares them (section `webhooks`).

    \b
    opx webhook list             addresses, and whether the secrets are set
    opx webhook secret NAME      make up a secret, and show it once
    opx webhook test NAME        send a signed delivery to a running `opx run --listen`
    opx webhook sign NAME FILE   the headers with which another program would send FILE
    """


@webhook_command.command("list")
@pass_session
def list_webhooks(session: Session) -> None:
    """List webhooks with their addresses."""
    rows = [
        (each.name, each.format, each.category, _address(session, each), _secret_states(session, each))
        for each in _declared(session).values()
    ]
    if not rows:
        click.echo("no webhooks: declare them in knowledge.yaml, section `webhooks`", err=True)
        return
    print_table(("NAME", "FORMAT", "CATEGORY", "ADDRESS", "SECRETS"), rows)


@webhook_command.command("secret")
@click.argument("name")
@click.option("--of", "wanted", metavar="SECRET", help="Which of its secrets.  [default: the first that isn't set]")
@click.option(
    "--replace", is_flag=True, help="Replace one that is set: what the service signs with it no longer counts."
)
@pass_session
def make_secret(session: Session, name: str, wanted: str | None, *, replace: bool) -> None:
    """Make up a secret of the webhook NAME, keep it, and show it once, to be entered at the service.

    To replace one without refusing a delivery: add a second name in knowledge.yaml, make that secret, enter it at the
    service, and then remove the first name.
    """
    definition = _one(session, name)
    chosen = _chosen(session, definition, wanted, replace=replace)
    value = randomness.token_hex(_SECRET_BYTES)
    if _is_on_aws(session):
        click.echo(
            f"set the secret {_name_on_aws(session, chosen)} in Secrets Manager to this, and enter it at the service:"
        )
    else:
        session.services.secrets.put(chosen, value)  # type: ignore[attr-defined]  # those of a folder can be set
        click.echo(f"kept as {chosen}; enter it at the service:", err=True)
    click.echo(value)


@webhook_command.command("sign")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@pass_session
def sign(session: Session, name: str, file: Path) -> None:
    """Print the headers with which FILE (- for a pipe) is a genuine delivery to the webhook NAME, one a line."""
    from opx.webhooks.signing import proof_of

    definition = _one(session, name)
    body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    proof = proof_of(definition, _key(session, definition), body, time.time())
    for header, value in proof.headers.items():
        click.echo(f"{header}: {value}")
    for parameter, value in proof.query.items():
        click.echo(f"?{urlencode({parameter: value})}")


@webhook_command.command("test")
@click.argument("name")
@click.option("--file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Send this, not a sample.")
@pass_session
@click.pass_context
def test(context: click.Context, session: Session, name: str, file: Path | None) -> None:
    """Send a signed delivery to the webhook NAME, and print the answer. A sample becomes a document called "Test
    delivery"."""
    from opx.webhooks.formats import sample
    from opx.webhooks.signing import proof_of

    definition = _one(session, name)
    key = _key(session, definition)
    body, headers = sample(definition)
    if file:
        body = file.read_bytes()
    proof = proof_of(definition, key, body, time.time())
    address = _address(session, definition)
    full = f"{address}&{urlencode(proof.query)}" if proof.query else address
    status, answer = _sent(full, body, {**headers, **proof.headers})
    click.echo(f"{address}: {status} {answer}")
    if status >= 400:
        context.exit(NO_ANSWER)


def _sent(address: str, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    """Status and text of the answer. Raises `InvalidInputError` if there is none."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise InvalidInputError(f"{address} is no address of a server: set OPX_WEBHOOK_URL to https://...")
    request = urllib.request.Request(address, data=body, headers=headers, method="POST")  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:  # noqa: S310
            return reply.status, reply.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode("utf-8", "replace")
    except OSError as exc:
        place = urlsplit(address).netloc
        raise InvalidInputError(
            f"nothing answers at {place} ({exc}): start `opx run --listen`, or set OPX_WEBHOOK_URL"
        ) from exc


# -- what is declared


def _declared(session: Session) -> dict[str, WebhookDefinition]:
    from opx.knowledge_file import load_knowledge
    from opx.webhooks.definitions import load_webhooks

    file = Path(session.settings.knowledge_file) if session.settings.knowledge_file else None
    return load_webhooks(load_knowledge(file), file)


def _one(session: Session, name: str) -> WebhookDefinition:
    declared = _declared(session)
    if name not in declared:
        raise InvalidInputError(f"there is no webhook {name!r}; declared are: {', '.join(declared) or 'none'}")
    return declared[name]


def _address(session: Session, definition: WebhookDefinition) -> str:
    from opx.webhooks.endpoints import webhook_endpoint

    base = session.settings.webhook_url or ("$OPX_WEBHOOK_URL" if _is_on_aws(session) else "")
    return webhook_endpoint(base, definition.tier.value, definition.category, definition.name)


# -- secrets


def _is_on_aws(session: Session) -> bool:
    return session.is_remote or session.settings.backend == "aws"


def _name_on_aws(session: Session, name: str) -> str:
    environment = session.settings.environment or _DEFAULT_ENVIRONMENT
    prefix = "" if environment == _PLAIN_ENVIRONMENT else f"{environment}-"
    return f"{prefix}opx-knowledge/{name}"


def _chosen(session: Session, definition: WebhookDefinition, wanted: str | None, *, replace: bool) -> str:
    """Which secret is to be set. Raises `InvalidInputError` for one that is set, unless it is to be replaced."""
    names = definition.secrets
    if not names:
        raise InvalidInputError(f"webhook {definition.name} has no secret: AWS signs what it delivers")
    if wanted is not None and wanted not in names:
        raise InvalidInputError(f"webhook {definition.name} has no secret {wanted!r}; it has: {', '.join(names)}")
    chosen = [wanted] if wanted else list(names)
    if _is_on_aws(session) or (replace and len(chosen) == 1):
        return chosen[0]
    unset = [name for name in chosen if not _is_set(session, name)]
    if not unset:
        raise InvalidInputError(f"{' and '.join(chosen)} set already: to replace one, name it with --of, and --replace")
    return unset[0]


def _is_set(session: Session, name: str) -> bool:
    try:
        session.services.secrets.get(name)
    except SecretNotFoundError:
        return False
    return True


def _secret_states(session: Session, definition: WebhookDefinition) -> str:
    if not definition.secrets:
        return "signed by AWS"
    if _is_on_aws(session):
        return ", ".join(_name_on_aws(session, name) for name in definition.secrets)
    return ", ".join(f"{name} ({'set' if _is_set(session, name) else 'not set'})" for name in definition.secrets)


def _key(session: Session, definition: WebhookDefinition) -> str:
    """A secret that is set. Raises `InvalidInputError` without one."""
    if not definition.secrets:
        raise InvalidInputError(f"deliveries of format {definition.format} can only be signed by AWS")
    for name in definition.secrets:
        if _is_set(session, name):
            return session.services.secrets.get(name)
    raise InvalidInputError(f"no secret of webhook {definition.name} is set: `opx webhook secret {definition.name}`")
