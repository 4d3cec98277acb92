"""`opx stream`: manages streams whose records become documents."""

from __future__ import annotations

import json
from typing import Any

import click

from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import print_table
from opx.errors import InvalidInputError
from opx_streams.arrivals import last_shown
from opx_streams.operations import streams


@click.group("stream", no_args_is_help=True, cls=OperationGroup)
def stream_command() -> None:
    """Streams whose records become documents: Redis streams here, read by `opx run`; Kinesis, SQS and Kafka are declared
    in knowledge.yaml and read by a function of the deployed system (`docs/deploy.md`).

    \b
    opx stream add redis://127.0.0.1:6379/0 --topic incidents --category incidents --filter '{"severity": ["critical"]}'
    opx stream list
    opx stream remove NAME
    """


@stream_command.operation(
    "add",
    streams.subscribe_stream,
    arguments=("source",),
    fields={
        "pattern": "--filter",
        "tags": "--tag TAG",
        "source": "ADDRESS",
        "category": "NAME",
        "topic": "KEY",
        "name": "NAME  Name of the stream.  [default: a hash of its address]",
        "identity": "JSONPATH  Identifier of a document, so that records become its versions.",
        "password_secret": "NAME  The secret with the password (`opx secret set`).",
    },
    anywhere=True,
    json="",
)
@click.option(
    "--filter",
    "pattern",
    metavar="JSON",
    callback=lambda _context, _param, text: _pattern(text),
    help="Filter of records, in the syntax of Lambda's event filters.",
)
def add_stream(found: streams.Subscribed) -> None:
    """Add a stream whose records become documents: Redis is read by `opx run`, others by the deployed system."""
    click.echo(f"added {found.name}: {'the deployed system' if found.deployed else '`opx run`'} reads it")


@stream_command.operation("list", streams.list_streams, items="streams", anywhere=True, json="Print them as JSON.")
def list_subscribed(found: streams.Streams) -> None:
    """List streams."""
    rows = [
        (
            s.name,
            s.kind.value,
            s.topic or "-",
            s.category,
            json.dumps(dict(s.pattern)),
            last_shown(found.last.get(s.name)),
        )
        for s in found.streams
    ]
    empty = "no streams yet: `opx stream add`, or `streams:` in knowledge.yaml"
    print_table(("NAME", "KIND", "TOPIC", "CATEGORY", "FILTER", "LAST RECORD"), rows, empty)


@stream_command.operation("remove", streams.end_stream, arguments=("name",), anywhere=True, json="")
def remove_stream(found: streams.EndedStream) -> None:
    """End a subscription; its documents stay."""
    click.echo(f"removed {found.removed}; its documents stay")


def _pattern(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError as exc:
        raise InvalidInputError(f"--filter is not JSON: {exc}") from exc
