"""`opx resource`: shows what is known of a node, workload, service or queue."""

from __future__ import annotations

from collections.abc import Iterator

import click

from opx.domain.ids import shortened
from opx.edges.cli.hits import SHORT_ID
from opx.edges.cli.operations import operation_command
from opx.edges.cli.output import Screen, exit_unless, printable, warn
from opx.operations.resources import KnownResource, get_resource


@operation_command("resource", get_resource, arguments=("resource",), fields={"resource": "NAME", "since": "TIME"})
def resource_command(found: KnownResource, *, as_json: bool) -> Iterator[str]:
    """Show what is known of a node, pod, workload, service, database or queue NAME: pages about it, what happened to it and
    what was tried, its relations in the graph, and the usual values of its metrics.

    \b
    opx resource web-server-01                 pages, incidents, changes and alerts of a node
    opx resource web-server-01 --since 2w      only what happened in the last two weeks
    opx resource orders-7c9f8d6b5-x2k9q        a pod: what is known of its workload
    opx show ID                                one of the listed documents

    Exit codes: 0 shown, 1 nothing is known of it, 2 any other error.
    """
    if not as_json:
        warn(*found.notes)
        width = Screen.current().width
        for title, lines in found.sections(id_digits=SHORT_ID):
            yield click.style(title, bold=True)
            yield from (shortened(f"  {printable(line)}", width) for line in lines)
    exit_unless(found.is_known)
