"""`opx outcome`: what came of acting upon a document that was found."""

from __future__ import annotations

import click

from opx.cli.output import print_json, printable, warn
from opx.cli.session import Session, pass_session
from opx.domain.outcomes import OutcomeResult

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")


@click.group("outcome", no_args_is_help=True)
def outcome_command() -> None:
    """Whether documents that were found helped. What helps is found more easily, once enough is known.

    \b
    opx outcome record RECEIPT_ID DOCUMENT_ID resolved --incident INC-7
    opx outcome record RECEIPT_ID DOCUMENT_ID made_worse --step "restart the broker"
    opx outcome show DOCUMENT_ID
    """


@outcome_command.command("record")
@click.argument("receipt_id", metavar="RECEIPT_ID")
@click.argument("document_id", metavar="DOCUMENT_ID")
@click.argument("result", type=click.Choice([result.value for result in OutcomeResult]))
@click.option("--section", default="", metavar="NAME", help="The section that was acted upon.")
@click.option("--step", default="", metavar="TEXT", help="The step that was decisive, as the document has it.")
@click.option("--incident", default="", metavar="ID", help="The incident's id.")
@click.option("--note", default="", metavar="TEXT", help="What else is to be known.")
@click.option(
    "--occurrence", default="", metavar="ID", help="Where an answer was acted upon more than once: which time."
)
@as_json_option
@pass_session
def record_outcome(
    session: Session, /, receipt_id: str, document_id: str, result: str, *, as_json: bool, **more: str
) -> None:
    """Tell what came of acting upon a document of an answer. The answer's receipt id is in `opx search --json`, and in
    `opx audit`. Told again it counts once; told otherwise, it is corrected."""
    given = {name: text for name, text in more.items() if text}
    report = session.existing_base().record_outcome(receipt_id, document_id, result, **given)
    if as_json:
        print_json(report.to_json())
        return
    click.echo(f"{report.counted}: {printable(report.title)} {report.result.value.replace('_', ' ')}")
    click.echo(f"known of it: {report.standing.explanation}")
    if report.warning_id:
        warn(f"the next checkpoint makes a warning of it (entry {report.warning_id})")


@outcome_command.command("show")
@click.argument("document_id", metavar="DOCUMENT_ID")
@as_json_option
@pass_session
def show_outcomes(session: Session, /, document_id: str, *, as_json: bool) -> None:
    """Show what is known of a document, and what that does to its score."""
    found = session.existing_base().document_outcomes(document_id)
    if as_json:
        print_json(found.to_json())
        return
    click.echo(found.explanation)
    for section, tally in sorted(found.sections.items()):
        click.echo(f"  {printable(section)}: {tally.explained()}")
    for one in found.latest:
        where = f"  {one.incident}" if one.incident else ""
        note = f"  {one.note}" if one.note else ""
        click.echo(printable(f"{one.at[:16]}  {one.result.value}{where}{note}"))
