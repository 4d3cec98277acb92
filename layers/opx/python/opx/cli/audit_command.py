"""`opx audit`: who asked when, and what was returned."""

from __future__ import annotations

import click

from opx.cli.operations import Shape, operation_command
from opx.cli.output import SHORT_ID, print_table
from opx.operations.questions import AuditRecords, list_audit_records
from opx.records.audit import AuditRecord


@operation_command(
    "audit",
    list_audit_records,
    Shape(
        options={"document_id": "--document"},
        metavars={"who": "TEXT", "since": "TIME", "document_id": "ID"},
        items="records",
    ),
)
def audit_command(reply: AuditRecords) -> None:
    """List questions, the newest first: who asked when, and how many documents were returned. Questions themselves are
    not kept, but for a hash.

    On this machine all are listed, or with --client those of that client (and --project). Of a deployed system those of
    your own scope; it takes a token with the scope opx/admin.
    """
    if not reply.records:
        click.echo("no records")
        return
    print_table(("RECEIPT", "ASKED AT", "WHO", "BY", "RESULTS", "FIRST"), [_row(record) for record in reply.records])


def _row(record: AuditRecord) -> tuple[str, ...]:
    first = record.documents[0].document_id[:SHORT_ID] if record.documents else "-"
    results = f"{record.documents_in_all}{' (partial)' if record.partial else ''}"
    return record.receipt_id[:SHORT_ID], record.asked_at, record.who, record.principal or "-", results, first
