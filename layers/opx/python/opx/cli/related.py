"""What an evidence pack adds to an answer, for people: relations in words, with the text that proves them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from opx.cli.output import printable
from opx.domain.evidence_pack import EvidenceItem, EvidencePack, EvidenceSource

_INDENT = "   "
_LINES = 4
"""Of a passage."""


def related_lines(pack: EvidencePack) -> Iterator[str]:
    """A summary, how the question was understood, and each relation with where it is from."""
    yield ""
    yield click.style(pack.summary, bold=True)
    if pack.understood:
        yield f"The graph says: {printable(pack.understood)}"
    for item in relations(pack):
        yield ""
        yield from _item_lines(item)


def relations(pack: EvidencePack) -> tuple[EvidenceItem, ...]:
    """The items that the graph gave."""
    return tuple(item for item in pack.items if item.source is EvidenceSource.GRAPH)


def _item_lines(item: EvidenceItem) -> Iterator[str]:
    told, _, text = item.content.partition("\n\n")
    when = f", {printable(item.at)}" if item.at else ""
    yield click.style(f"- {printable(told)}", bold=item.answers) + f"  ({item.confidence:.2f}{when})"
    if item.untrusted:
        yield _INDENT + click.style(f"untrusted: from outside ({item.tier})", fg="yellow")
    lines = [line for line in map(printable, text.splitlines()) if line]
    yield from (f"{_INDENT}| {line}" for line in lines[:_LINES])
    if item.document_id:
        yield _INDENT + click.style(f"{printable(item.title)}  [Document ID: {item.document_id}]", dim=True)
