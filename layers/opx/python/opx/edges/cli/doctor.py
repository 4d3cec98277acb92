"""`opx doctor`: examines the system by using it."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from opx.edges.cli.output import plural, print_json, printable
from opx.edges.cli.session import Session, pass_session

if TYPE_CHECKING:
    from opx.edges.doctor import Finding

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}
_CHECK_WIDTH = 12


@click.command("doctor")
@click.option("--environment", metavar="NAME", help="Environment of a deployed system.")
@click.option("--without", "left_out", type=click.Choice(["alarm"]), multiple=True, help="Leave out a check.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def doctor_command(session: Session, *, environment: str | None, left_out: tuple[str, ...], as_json: bool) -> None:
    """Check the system by using it: index, model, ingestion, searches, interfaces, alarms.

    \b
    opx doctor                          the folder of this machine
    opx doctor --environment prod       a deployed system, with an operator's credentials

    Documents of two clients, opx-doctor-a and opx-doctor-b, and one of your own scope are stored, found by words and by
    meaning through each interface, and deleted. An alarm is set off and back, which notifies its subscribers; --without alarm
    leaves that out. Exits with 1 if a check failed.
    """
    from opx.edges.doctor import Examination, Outcome

    system = (session.of_environment(environment) if environment else session).examined
    findings = []
    if not as_json:
        click.echo(f"examining {system.title}")
    for finding in Examination(system, secrets.token_hex(4)).run(frozenset(left_out)):
        findings.append(finding)
        if not as_json:
            _print(finding)
    failed = sum(finding.outcome is Outcome.FAILED for finding in findings)
    if as_json:
        print_json([finding.to_json() for finding in findings])
    else:
        click.echo(f"{plural(failed, 'check')} failed" if failed else "everything that was checked works")
    if failed:
        click.get_current_context().exit(1)


def _print(finding: Finding) -> None:
    outcome = click.style(f"{finding.outcome.value:<8}", fg=_COLOURS[finding.outcome])
    click.echo(f"{outcome}{finding.check:<{_CHECK_WIDTH}}  {printable(finding.detail)}")
    if finding.remedy:
        click.echo(f"{'':8}{'':{_CHECK_WIDTH}}  do: {finding.remedy}")
