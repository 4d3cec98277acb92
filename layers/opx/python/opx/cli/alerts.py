"""`opx alerts`: rules of alerts taken in, and the alerts that are known with their runbooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from opx.cli.intake import Intake, Tally, warn_of
from opx.cli.operations import OperationGroup, Shape
from opx.cli.output import exit_unless, plural, print_lines, print_table, printable, read_bytes, warn
from opx.cli.reporting import reporter_for_stderr
from opx.cli.session import Session, pass_session
from opx.edges.calling import all_pages
from opx.errors import OpxError
from opx.graph.extraction.alert_rules import CATEGORY, AlertRule, UnreadableRulesError, read_rules
from opx.graph.extraction.references import made
from opx.ingestion.files import FileToIngest
from opx.operations.alerts import AlertPage, Binding, KnownAlert, ListAlerts, list_alerts


@click.group("alerts", cls=OperationGroup)
def alerts_command() -> None:
    """Alerts and their runbooks: rules of Prometheus say which alerts there are, and where each one's runbook is.

    \b
    opx alerts import rules/*.yaml   take rules in, and see which runbooks they lead to
    opx alerts list --unbound        alerts without a runbook
    opx do KafkaLag                  the procedure for an alert
    """


@alerts_command.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@pass_session
def import_alerts(session: Session, paths: tuple[Path, ...]) -> None:
    """Take rules of alerts in, and say which runbook each alert is bound to.

    FILE is a file of Prometheus rules, a PrometheusRule object, or YAML with a list `alerts` of entries with name, runbook,
    severity and summary. It becomes a document of the category operations/alert_rules: changed and taken in again, it
    replaces what it said before, and `opx delete` withdraws it. A runbook is found by its path, by the address that it came
    from, or by the file name at the end of an address.

    Exit codes: 0 done, 1 no file could be read, 2 wrong usage or another error.
    """
    tally = Tally()
    with reporter_for_stderr(uploads=session.is_remote) as reporter:
        intake = Intake(session.client, session.loader, session.place, reporter)
        steps = intake.plan(paths)
        rules = {
            step: found for step in steps if isinstance(step, FileToIngest) and (found := _rules(step.path)) is not None
        }
        intake.put(
            [step for step in steps if not isinstance(step, FileToIngest) or step in rules],
            {"category": CATEGORY},
            tally,
        )
        intake.work(tally)
    warn_of(tally.failures)
    failed = {outcome.object_key for outcome in tally.failures}
    exit_unless(len(tally.outcomes) > len(failed) or tally.left_to_others)
    print_lines(_import_lines([rule for found in rules.values() for rule in found], _known(session)))


def _rules(path: Path) -> list[AlertRule] | None:
    """The alerts of a file; None, and a warning, for one that can't be read."""
    try:
        found = read_rules(read_bytes(path))
    except UnreadableRulesError as exc:
        warn(f"{path}:{exc.line}: {exc}" if exc.line else f"{path}: {exc}")
        return None
    except OpxError as exc:
        warn(str(exc))
        return None
    if not found:
        warn(f"{path}: it defines no alerts")
        return None
    return found


def _known(session: Session) -> dict[str, KnownAlert]:
    pages = all_pages(session.client, list_alerts, ListAlerts())
    return {alert.reference: alert for page in pages for alert in page.alerts}


def _import_lines(rules: Sequence[AlertRule], known: Mapping[str, KnownAlert]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    by_name: dict[str, str] = {}
    for rule in rules:
        by_name[rule.name] = by_name.get(rule.name) or rule.runbook
    for name, runbook in by_name.items():
        alert = known.get(made("alert", name))
        if alert and alert.binding is Binding.NAMES_NONE and runbook:  # it is only known as an end of its edge
            alert = None
        counts[alert.binding if alert else ""] += 1
        yield f"{printable(name)}  {_said_of(alert)}"
    yield (
        f"{plural(counts.total(), 'alert')}: {counts[Binding.BOUND]:,} bound to a runbook, "
        f"{counts[Binding.LEADS_NOWHERE]:,} whose runbook is not here, {counts[Binding.NAMES_NONE]:,} that name none"
        + (f", {counts['']:,} left out" if counts[""] else "")
    )


def _said_of(alert: KnownAlert | None) -> str:
    if alert is None:
        return "left out: the file has more alerts than the graph takes of one; split it"
    if alert.binding is Binding.BOUND:
        return f"bound to {printable(alert.title)} ({printable(alert.path)})"
    if alert.binding is Binding.LEADS_NOWHERE:
        return f"no runbook: its runbook_url leads nowhere here ({printable(alert.runbook)})"
    return "names no runbook"


@alerts_command.operation("list", list_alerts, Shape(without=("limit", "after"), items="alerts"))
def list_known(found: AlertPage) -> None:
    """List the alerts that are known: by rules, by runbooks, and by having fired."""
    print_table(("ALERT", "SEVERITY", "FIRED", "LAST", "RUNBOOK"), list(map(_row, found.alerts)), "no alerts")


def _row(alert: KnownAlert) -> tuple[str, ...]:
    runbook = f"{alert.title} ({alert.path})" if alert.document_id else f"- {alert.runbook}".rstrip()
    cells = (alert.name, alert.severity or "-", str(alert.firings or "-"), alert.last_fired[:10] or "-", runbook)
    return tuple(map(printable, cells))
