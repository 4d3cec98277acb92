"""`opx outcome`: record and show outcomes of acting upon documents that were found."""

from __future__ import annotations

import click

from opx.cli.operations import Shape, operation_command
from opx.cli.output import printable, warn
from opx.domain.outcomes import DocumentOutcomes, OutcomeReport
from opx.operations.outcomes import get_document_outcomes, record_outcome


@click.group("outcome", no_args_is_help=True)
def outcome_command() -> None:
    """Whether documents that were found helped. What helps is found more easily, once enough is known.

    \b
    opx outcome record RECEIPT_ID DOCUMENT_ID resolved --incident INC-7
    opx outcome record RECEIPT_ID DOCUMENT_ID made_worse --step "restart the broker"
    opx outcome show DOCUMENT_ID
    """


@outcome_command.add_command
@operation_command(
    "record",
    record_outcome,
    Shape(
        arguments=("receipt_id", "document_id", "result"),
        metavars={"section": "NAME", "step": "TEXT", "incident": "ID", "note": "TEXT", "occurrence": "ID"},
    ),
)
def show_report(report: OutcomeReport) -> None:
    """Tell what came of acting upon a document of an answer. The answer's receipt id is in `opx search --json`, and in
    `opx audit`. Told again it counts once; told otherwise, it is corrected."""
    click.echo(f"{report.counted}: {printable(report.title)} {report.result.value.replace('_', ' ')}")
    click.echo(f"known of it: {report.standing.explanation}")
    if report.warning_id:
        warn(f"the next checkpoint makes a warning of it (entry {report.warning_id})")


@outcome_command.add_command
@operation_command("show", get_document_outcomes, Shape(arguments=("document_id",)))
def show_outcomes(found: DocumentOutcomes) -> None:
    """Show what is known of a document, and what that does to its score."""
    click.echo(found.explanation)
    for section, tally in sorted(found.sections.items()):
        click.echo(f"  {printable(section)}: {tally.explained()}")
    for one in found.latest:
        where = f"  {one.incident}" if one.incident else ""
        note = f"  {one.note}" if one.note else ""
        click.echo(printable(f"{one.at[:16]}  {one.result.value}{where}{note}"))
