"""`opx history`: the versions of a document, and when each was current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from opx.cli.documents import find_versions
from opx.cli.output import SHORT_ID, print_json, print_table, printable
from opx.cli.session import Session, pass_session
from opx.domain.documents import DocumentState, KnowledgeDocument


@click.command("history")
@click.argument("document_id", metavar="DOCUMENT_ID")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def history_command(session: Session, document_id: str, *, as_json: bool) -> None:
    """List the versions of a document, the newest first, and from when to when questions were answered from each.

    The beginning of an id is enough for current documents; of a deleted one, give the full id (`opx list
    --all-versions` has it). `opx diff` shows what changed, and `opx restore` puts a version back.
    """
    session.require_knowledge()
    found = find_versions(session.client, document_id)
    if as_json:
        print_json(_as_json(found.document, found.versions))
        return
    click.echo(f"{click.style(printable(found.document.title), bold=True)}  {found.document.key.source}")
    print_table(["version", "document id", "state", "current from", "until", "chunks", "title"], _rows(found.versions))


def _rows(versions: Sequence[KnowledgeDocument]) -> list[list[str]]:
    return [
        [
            str(version.version),
            _shown_id(version),
            version.state.value,
            version.current_since or "not known",
            version.superseded_at or "-",
            str(version.chunk_count),
            printable(version.title),
        ]
        for version in versions
    ]


def _shown_id(version: KnowledgeDocument) -> str:
    """Old versions are found by their full ids alone."""
    return version.document_id[:SHORT_ID] if version.state is DocumentState.CURRENT else version.document_id


def _as_json(document: KnowledgeDocument, versions: Sequence[KnowledgeDocument]) -> dict[str, Any]:
    return {
        "source": document.key.source,
        "scope": document.key.scope.key,
        "versions": [version.to_json() for version in versions],
    }
