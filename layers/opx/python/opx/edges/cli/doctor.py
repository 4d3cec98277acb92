"""`opx doctor`: examines the system by using it."""

from __future__ import annotations

import secrets
from itertools import chain

import click

from opx.edges.cli.installed import installation_results
from opx.edges.cli.output import exit_unless, plural, print_either, printable
from opx.edges.cli.session import Session, pass_session
from opx.edges.doctor import CheckResult, Examination, Outcome

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}
_CHECK_WIDTH = 12


@click.command("doctor")
@click.option("--environment", metavar="NAME", help="Environment of a deployed system.")
@click.option("--without", "left_out", type=click.Choice(["alarm"]), multiple=True, help="Leave out a check.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def doctor_command(session: Session, *, environment: str | None, left_out: tuple[str, ...], as_json: bool) -> None:
    """Show what is installed and what is missing, and check the system by using it: index, model, ingestion, searches,
    interfaces, alarms.

    \b
    opx doctor                          the folder of this machine
    opx doctor --environment prod       a deployed system, with an operator's credentials

    It stores documents of two clients, opx-doctor-a and opx-doctor-b, and one of your own scope. It finds them by words
    and by meaning through each interface, and deletes them. It sets an alarm off and back, which notifies its
    subscribers; --without alarm skips that. Exits with 1 if a check failed.
    """
    is_here = not (environment or session.is_remote)
    known = list(installation_results(session)) if is_here else []
    system = (session.of_environment(environment) if environment else session).examined
    results = []
    if not as_json:
        click.echo(f"examining {system.title}")
    for result in chain(known, Examination(system, secrets.token_hex(4)).run(frozenset(left_out))):
        results.append(result)
        if not as_json:
            _print(result)
    failed = sum(result.outcome is Outcome.FAILED for result in results)
    verdict = f"{plural(failed, 'check')} failed" if failed else "everything that was checked works"
    print_either(results, [verdict], as_json=as_json)
    exit_unless(not failed)


def _print(result: CheckResult) -> None:
    outcome = click.style(f"{result.outcome.value:<8}", fg=_COLOURS[result.outcome])
    click.echo(f"{outcome}{result.check:<{_CHECK_WIDTH}}  {printable(result.detail)}")
    if result.remedy:
        click.echo(f"{'':8}{'':{_CHECK_WIDTH}}  do: {result.remedy}")
