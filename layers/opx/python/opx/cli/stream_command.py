"""`opx stream`: streams whose records become documents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from opx.cli.output import print_json, print_table
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError


@click.group("stream", no_args_is_help=True)
def stream_command() -> None:
    """Streams whose records become documents: Redis streams here, read by `opx run`; Kinesis, SQS and Kafka are declared
    in knowledge.yaml and read by a function of the deployed system (`docs/deploy.md`).

    \b
    opx stream add redis://127.0.0.1:6379/0 --topic incidents --category incidents --filter '{"severity": ["critical"]}'
    opx stream list
    opx stream remove NAME
    """


@stream_command.command("add")
@click.argument("source", metavar="ADDRESS")
@click.option("--category", required=True, metavar="NAME", help="The category of its documents.")
@click.option("--topic", default="", metavar="KEY", help="The key of a Redis stream, or Kafka's topic.")
@click.option("--name", metavar="NAME", default="", help="What to call it.  [default: a hash of its address]")
@click.option("--filter", "pattern", metavar="JSON", help="Which records are wanted, as Lambda's event filters say it.")
@click.option(
    "--identity", metavar="JSONPATH", default="", help="What names a document, so that records are its versions."
)
@click.option("--password-secret", metavar="NAME", default="", help="The secret with the password (`opx secret set`).")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="For all of its documents.")
@pass_session
def add_stream(
    session: Session, /, source: str, *, category: str, name: str, pattern: str | None, tags: Sequence[str], **more: str
) -> None:
    """Have the records of a stream become documents: of Redis while `opx run` runs, the others in the deployed system."""
    from opx.operations.sources import SubscribeStream, subscribe_stream

    request = SubscribeStream(
        source=source, category=category, name=name, pattern=_pattern(pattern), tags=tuple(tags), **more
    )
    found = session.client.call(subscribe_stream, request)
    click.echo(f"added {found.name}: {'the deployed system' if found.deployed else '`opx run`'} reads it")


@stream_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_streams(session: Session, *, as_json: bool) -> None:
    """List streams."""
    from opx.operations.sources import ListStreams
    from opx.operations.sources import list_streams as listed

    streams = session.client.call(listed, ListStreams()).streams
    if as_json:
        print_json([stream.to_json() for stream in streams])
    elif not streams:
        click.echo("no streams yet: `opx stream add`, or `streams:` in knowledge.yaml")
    else:
        rows = [(s.name, s.kind.value, s.topic or "-", s.category, json.dumps(dict(s.pattern))) for s in streams]
        print_table(("NAME", "KIND", "TOPIC", "CATEGORY", "FILTER"), rows)


@stream_command.command("remove")
@click.argument("name")
@pass_session
def remove_stream(session: Session, name: str) -> None:
    """End a subscription; its documents stay."""
    from opx.operations.sources import EndStream, end_stream

    session.client.call(end_stream, EndStream(name=name))
    click.echo(f"removed {name}; its documents stay")


def _pattern(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError as exc:
        raise InvalidInputError(f"--filter is not JSON: {exc}") from exc
