"""`opx alerts`: imports alert rules and lists known alerts with their runbooks."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import click

from opx.domain.knowledge import ALERT_RULES_CATEGORY
from opx.edges.calling import all_pages
from opx.edges.cli.intake import Intake, IntakeTally, canonical, source_of, warn_of
from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import exit_unless, plural, print_lines, print_table, printable, read_bytes, warn
from opx.edges.cli.reporting import reporter_for_stderr
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.formats.data import alert_rules
from opx.formats.data.alert_rules import MAX_BYTES, AlertRule, RuleFile
from opx.graph.bindings import BoundBy
from opx.graph.extraction.own_node import make_reference
from opx.ingestion.events import EventOutcome
from opx.ingestion.files import FileToIngest
from opx.operations.alert_bindings import MAX_RULES
from opx.operations.alerts import AlertPage, Binding, KnownAlert, ListAlerts, list_alerts

_NAME = re.compile(r"\w[\w.-]{0,99}")


@click.group("alerts", cls=OperationGroup)
def alerts_command() -> None:
    """Alerts and their runbooks, from the alert rules of Prometheus, Grafana, CloudWatch or Datadog.

    \b
    opx alerts import rules/         import rules, and list the runbook of each alert
    opx alerts list --unbound        alerts without a runbook
    opx do KafkaLag                  the procedure for an alert
    """


@alerts_command.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@click.option(
    "--name", default="standard-input", show_default=True, metavar="NAME", help="The source name of rules read from -."
)
@pass_session
def import_alerts(session: Session, paths: tuple[Path, ...], *, name: str) -> None:
    """Import alert rules, and print the runbook that each alert is bound to.

    FILE is a file of rules, a folder with such files (.yaml, .yml, .json, .rules), or - for standard input. It may have
    rules of Prometheus, PrometheusRule objects, the reply of /api/v1/rules, Alertmanager's /api/v2/alerts, an export of
    Grafana, the JSON of `aws cloudwatch describe-alarms`, alarms of a CloudFormation template, or monitors of Datadog.
    It may also be YAML with a list `alerts`, whose entries have name, runbook, severity and summary. If a template
    isn't YAML before it is rendered, its rules are read line by line. A large export becomes several documents of 1,000
    alerts each.

    A file becomes a document of the category operations/alert_rules. Import it again after a change, and it replaces
    its former version; `opx delete` withdraws it. An alert is bound by url to the page that its rule names. The rule
    may have the path of the page, the address that it came from, or an address that ends with the file name. Otherwise
    it is bound by title, to the only page with the name of the alert (`KafkaDown`, `Runbook: KafkaDown`, kafka-down.md)
    or with a title that ends with it (`Broker down (KafkaDown)`). Otherwise it is bound by text, to the page that
    declares the alert.

    Exit codes: 0 done, 1 no file could be read, 2 wrong usage or another error.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"--name takes letters, digits and . _ - only, not {name[:60]!r}")
    tally = IntakeTally()
    before = _Known.of(session)
    with tempfile.TemporaryDirectory() as folder, reporter_for_stderr(uploads=session.is_remote) as reporter:
        intake = Intake(session.client, session.loader, session.working_folder, reporter)
        standard_input = FileToIngest(Path(folder) / "rules", f"alert-rules/{name}.rules")
        whole = list(_found(intake, paths, standard_input, before))
        found = dict(_parts(whole, Path(folder)))
        intake.remove(_stale(intake, whole, before), tally)
        intake.put(list(found), {"category": ALERT_RULES_CATEGORY}, tally)
        intake.work(tally)
    warn_of(tally.failures)
    failed = {outcome.object_key for outcome in tally.failures}
    exit_unless(len(tally.outcomes) > len(failed) or tally.left_to_others)
    files = {step.source.lstrip("/"): rules for step, rules in found.items() if isinstance(step, FileToIngest)}
    print_lines(_import_lines(files, before, _Known.of(session)))


# -- rule files


def _found(
    intake: Intake, paths: Sequence[Path], standard_input: FileToIngest, before: _Known
) -> Iterator[tuple[FileToIngest | EventOutcome, alert_rules.RuleFile]]:
    """Files that define alerts, or did before, and the problems of paths."""
    for path in paths:
        name = ""
        if str(path) == "-":
            name = "standard input"
            standard_input.path.write_bytes(read_bytes(path))
        files = [standard_input] if name else intake.plan([path])
        is_folder = not name and canonical(path).is_dir()
        defining = False
        for step in files:
            if isinstance(step, EventOutcome):
                yield step, alert_rules.RuleFile()
            elif not is_folder or step.path.suffix.lower() in alert_rules.EXTENSIONS:
                found = _read(step.path, name or str(step.path))
                needed = found and (found.rules or before.defined_in(step.source.lstrip("/")))
                defining = defining or bool(needed)
                if found and needed:
                    yield step, found
                elif found and not is_folder:
                    warn(f"{name or path}: it defines no alerts")
        if is_folder and not defining:
            warn(f"{path}: no file in it defines alerts")


def _parts(
    found: Iterable[tuple[FileToIngest | EventOutcome, alert_rules.RuleFile]], folder: Path
) -> Iterator[tuple[FileToIngest | EventOutcome, alert_rules.RuleFile]]:
    """The files, those that are too large for one document in parts."""
    for step, rules in found:
        if isinstance(step, FileToIngest) and must_be_split(rules, step.path.stat().st_size):
            yield from parts_of(step, rules, folder)
        else:
            yield step, rules


def _stale(
    intake: Intake, found: Iterable[tuple[FileToIngest | EventOutcome, alert_rules.RuleFile]], before: _Known
) -> list[str]:
    """Keys of documents that an earlier import made of these files, and this one doesn't replace."""
    keys: list[str] = []
    for step, rules in found:
        if isinstance(step, FileToIngest):
            split = must_be_split(rules, step.path.stat().st_size)
            parts = -(-len(rules.rules) // RULES_A_PART) if split else 0
            for file in stale_parts(step, before.files, parts):
                keys.extend(intake.stored_at(file))
    return keys


def _read(path: Path, name: str) -> alert_rules.RuleFile | None:
    """The rules of a file; None, and a warning, for one that can't be read."""
    try:
        with path.open("rb") as stream:
            found = alert_rules.read_rules(stream.read(MAX_IMPORT_BYTES + 1), max_bytes=MAX_IMPORT_BYTES)
    except alert_rules.UnreadableRulesError as exc:
        warn(f"{name}:{exc.line}: {exc}" if exc.line else f"{name}: {exc}")
        return None
    except OSError as exc:
        warn(f"can't read {name}: {exc.strerror}")
        return None
    warn(*(f"{name}: {problem}" for problem in found.problems))
    return found


# -- bindings before and after an import


@dataclass(frozen=True)
class _Known:
    """All known alerts, by reference."""

    alerts: Mapping[str, KnownAlert]

    @classmethod
    def of(cls, session: Session) -> _Known:
        pages = all_pages(session.client, list_alerts, ListAlerts())
        return cls({alert.reference: alert for page in pages for alert in page.alerts})

    @cached_property
    def _by_file(self) -> Mapping[str, Mapping[str, KnownAlert]]:
        found: dict[str, dict[str, KnownAlert]] = {}
        for reference, alert in self.alerts.items():
            for file in alert.rules:
                found.setdefault(source_of(file).lstrip("/"), {})[reference] = alert
        return found

    @property
    def files(self) -> Collection[str]:
        """Names of the files that define alerts."""
        return self._by_file

    def defined_in(self, file: str) -> Mapping[str, KnownAlert]:
        """The alerts that a file of rules defines."""
        return self._by_file.get(file, {})


def _import_lines(files: Mapping[str, alert_rules.RuleFile], before: _Known, now: _Known) -> Iterator[str]:
    """A line for each alert: those that are bound, those that aren't, and those that are gone."""
    defined: dict[str, KnownAlert | None] = {}
    for file, found in files.items():
        known = now.defined_in(file)
        for rule in found.rules:
            defined[rule.name] = known.get(make_reference("alert", rule.name)) or defined.get(rule.name)
    lines: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for name, alert in defined.items():
        kind = _kind(alert, before)
        counts[kind] += 1
        lines.setdefault(kind, []).extend((f"{printable(name)}  {_binding_text(alert)}", *_by_labels(alert)))
    for file in files:
        for reference in before.defined_in(file).keys() - now.defined_in(file).keys():
            counts["removed"] += 1
            name = before.alerts[reference].name
            lines.setdefault("removed", []).append(
                f"{printable(name)}  removed: {printable(file)} no longer defines it"
            )
    for kind in _KINDS:
        shown_lines = lines.get(kind, [])
        yield from shown_lines[:_MOST_LINES]
        if len(shown_lines) > _MOST_LINES:
            yield f"... and {len(shown_lines) - _MOST_LINES:,} more {kind}: `opx alerts list` has all"
    shown = (f"{counts[kind]:,} {kind}" for kind in _KINDS if counts[kind] or kind not in ("left out", "removed"))
    yield f"{plural(len(defined), 'alert')}: {', '.join(shown)}"


_MOST_LINES = 500
"""Lines of a kind that are printed."""

_KINDS = ("bound", "already bound", "without a runbook", "left out", "removed")


def _kind(alert: KnownAlert | None, before: _Known) -> str:
    if alert is None:
        return "left out"
    if alert.binding is not Binding.BOUND:
        return "without a runbook"
    known = before.alerts.get(alert.reference)
    return "already bound" if known and known.rules and known.path == alert.path else "bound"


def _binding_text(alert: KnownAlert | None) -> str:
    if alert is None:
        return "left out: the file has more alerts than the graph accepts from one document; split it"
    if alert.binding is Binding.BOUND:
        return f"bound by {_BY[alert.bound_by]} to {printable(alert.title)} ({printable(alert.path)})"
    if alert.binding is Binding.SEVERAL:
        return f"no runbook: several pages match its name: {printable(', '.join(alert.candidates))}"
    if alert.binding is Binding.LEADS_NOWHERE:
        return f"no runbook: its runbook_url matches no document here ({printable(alert.runbook)})"
    return "no runbook: its rule names none, and no page matches by title or text"


_BY = {BoundBy.URL: "url", BoundBy.TITLE: "title", BoundBy.PAGE: "the page's text", None: "nothing"}


def _by_labels(alert: KnownAlert | None) -> Iterator[str]:
    """One line for each runbook of an alert whose rules name several."""
    for one in alert.runbooks if alert else ():
        labels = ", ".join(f"{name}={text}" for name, text in one.labels.items()) or "no labels"
        leads = f"{one.title} ({one.path})" if one.path else f"no document here ({one.runbook})"
        yield f"  {printable(labels)}: {printable(leads)}"


@alerts_command.operation("list", list_alerts, without=("limit", "after"), items="alerts")
def list_known(found: AlertPage) -> None:
    """List known alerts: defined by rules, named by runbooks, or fired before."""
    rows = [row for alert in found.alerts for row in _rows(alert)]
    print_table(("ALERT", "SEVERITY", "FIRED", "LAST", "RUNBOOK"), rows, "no alerts match")


def _rows(alert: KnownAlert) -> Iterator[tuple[str, ...]]:
    """A row for an alert; one for each of its rules where they name several runbooks."""
    fired = (str(alert.firings or "-"), alert.last_fired[:10] or "-")
    if not alert.runbooks:
        unbound = f"several pages: {', '.join(alert.candidates)}" if alert.candidates else alert.runbook
        runbook = f"{alert.title} ({alert.path})" if alert.document_id else f"- {unbound}".rstrip()
        yield tuple(map(printable, (alert.name, alert.severity or "-", *fired, runbook)))
    for one in alert.runbooks:
        labels = ", ".join(f"{name}={text}" for name, text in one.labels.items() if name != "severity")
        runbook = f"{one.title} ({one.path})" if one.path else f"- {one.runbook}"
        cells = (alert.name, one.labels.get("severity", "-"), *fired, f"{runbook} for {labels}" if labels else runbook)
        yield tuple(map(printable, cells))
        fired = ("", "")


MAX_IMPORT_BYTES = 256 * 1024 * 1024
"""Size of the largest export that is read, of about a million alerts."""

RULES_A_PART = MAX_RULES // 2
FOLDER = ".parts/"


def must_be_split(found: RuleFile, size: int) -> bool:
    """True if a document can't have all of these rules, or is too large."""
    return size > MAX_BYTES or len(found.rules) > 2 * RULES_A_PART


def parts_of(step: FileToIngest, found: RuleFile, folder: Path) -> Iterator[tuple[FileToIngest, RuleFile]]:
    """The parts of an export as files in `folder`, named after it, so that another import replaces them."""
    for number, first in enumerate(range(0, len(found.rules), RULES_A_PART), start=1):
        rules = found.rules[first : first + RULES_A_PART]
        path = folder / f"{step.path.name}-{number:04}.json"
        path.write_text(json.dumps({"alerts": list(map(_entry, rules))}, ensure_ascii=False))
        yield FileToIngest(path, f"{step.source}{FOLDER}{number:04}.json"), RuleFile(rules)


def stale_parts(step: FileToIngest, known: Iterable[str], parts: int) -> list[str]:
    """Files that an earlier import made of this one: parts beyond those of now, and the whole file if it is split now."""
    source = step.source.lstrip("/")
    kept = {f"{source}{FOLDER}{number:04}.json" for number in range(1, parts + 1)} or {source}
    return [file for file in known if (file == source or file.startswith(source + FOLDER)) and file not in kept]


def _entry(rule: AlertRule) -> Mapping[str, Any]:
    texts = {name: getattr(rule, name) for name in ("name", "severity", "summary", "expr", "runbook", "owner")}
    return {**{name: text for name, text in texts.items() if text}, "labels": dict(rule.labels)}
