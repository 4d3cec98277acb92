"""`opx audit`: who asked when, and what was returned."""

from __future__ import annotations

import click

from opx.cli.output import SHORT_ID, print_json, print_table
from opx.cli.session import Session, pass_session
from opx.records.audit import MAX_RECORDS, AuditRecord


@click.command("audit")
@click.option("--who", default="", metavar="TEXT", help="Scopes and callers that have this in their names.")
@click.option("--since", default="", metavar="TIME", help="From this day or time on, e.g. 2026-03-31.")
@click.option("--document", default="", metavar="ID", help="Where this document was returned.")
@click.option("--limit", type=click.IntRange(1, MAX_RECORDS), default=100, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
@pass_session
def audit_command(session: Session, *, who: str, since: str, document: str, limit: int, as_json: bool) -> None:
    """List questions, the newest first: who asked when, and how many documents were returned. Questions themselves are
    not kept, but for a hash.

    On this machine all are listed, or with --client those of that client (and --project). Of a deployed system those of
    your own scope; it takes a token with the scope opx/admin.
    """
    records = session.existing_base().audit_records(
        who=who, since=since, document=document, limit=limit, every_scope=session.sees_every_scope
    )
    if as_json:
        print_json([record.to_json() for record in records])
    elif not records:
        click.echo("no records")
    else:
        print_table(("RECEIPT", "ASKED AT", "WHO", "BY", "RESULTS", "FIRST"), [_row(record) for record in records])


def _row(record: AuditRecord) -> tuple[str, ...]:
    first = record.documents[0].document_id[:SHORT_ID] if record.documents else "-"
    results = f"{record.documents_in_all}{' (partial)' if record.partial else ''}"
    return record.receipt_id[:SHORT_ID], record.asked_at, record.who, record.principal or "-", results, first
