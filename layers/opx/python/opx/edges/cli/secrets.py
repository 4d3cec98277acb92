"""`opx secret`: manages credentials on this machine, and shows documents with masked secrets."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import groupby

import click

from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import SHORT_ID, plural, warn
from opx.edges.cli.session import Session, pass_session
from opx.operations.masked_secrets import MaskedDocuments, ProtectedOriginals, list_masked_secrets, protect_originals
from opx.operations.secrets import SecretChanged, SecretNames, SetSecret, list_secrets, remove_secret, set_secret

_ELSEWHERE = "secrets of a deployed system are in Secrets Manager: set them there"
_PROTECTED_ELSEWHERE = (
    "run it with the settings of the deployment, OPX_BACKEND=aws: its functions encrypt (docs/secrets.md)"
)


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
