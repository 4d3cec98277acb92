"""`opx list`: which documents there are."""

from __future__ import annotations

import click

from opx.cli.output import SHORT_ID, print_json, print_table
from opx.cli.remarks import KINDS, has_remark
from opx.cli.session import Session, pass_session
from opx.edges.calling import all_pages
from opx.operations.documents import ListDocuments, list_documents


@click.command("list")
@click.option("--category", default="", metavar="NAME", help="Only this category or what is below it.")
@click.option("--tag", default="", metavar="TAG", help="Only documents with this tag.")
@click.option("--remarks", type=click.Choice(KINDS), help="Only documents with such remarks.")
@click.option("--all-versions", is_flag=True, help="Also versions that were replaced or deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON, with full ids.")
@pass_session
def list_command(
    session: Session, *, category: str, tag: str, remarks: str | None, all_versions: bool, as_json: bool
) -> None:
    """List the documents that you may see, by category."""
    session.require_knowledge()
    request = ListDocuments(category=category, all_versions=all_versions)
    found = [
        document
        for page in all_pages(session.client, list_documents, request)
        for document in page.documents
        if (not tag or tag in document.tags) and has_remark(document.remarks, remarks)
    ]
    if as_json:
        print_json([document.to_json() for document in found])
        return
    rows = [
        (
            document.document_id[:SHORT_ID] if not all_versions else document.document_id,
            document.category,
            str(document.version),
            document.state.value,
            str(document.chunk_count),
            document.last_updated[:10],
            document.title,
        )
        for document in found
    ]
    print_table(("DOCUMENT ID", "CATEGORY", "VERSION", "STATE", "CHUNKS", "UPDATED", "TITLE"), rows)
