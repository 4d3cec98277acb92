"""`opx learn capture`, `opx evidence`, `opx outcome`: records learned entries, agents' findings and outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from opx.domain.learning import EntryType, TriedEffect
from opx.domain.outcomes import DocumentOutcomes, OutcomeReport
from opx.domain.requests import read_request
from opx.edges.cli.operations import OperationGroup, request_of
from opx.edges.cli.output import exit_unless, print_either, print_json, printable, read_bytes, safe, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx.ingestion.events import Result
from opx.ingestion.evidence_reading import read_evidence
from opx.operations.learning import CaptureEntry, PutEvidence, capture_entry, put_evidence
from opx.operations.outcomes import get_document_outcomes, record_outcome

_COMMON = (
    click.Option(["--for", "project_id"], default="", metavar="PROJECT", help="The project of the entry."),
    click.Option(["--agent", "agent_type"], default="", metavar="TYPE", help="Type of the agent."),
    click.Option(["--task-type"], default="", metavar="TYPE", help="Type of the task."),
    click.Option(["--technology"], default="", metavar="NAME", help="Technology of the entry."),
    click.Option(["--incident"], default="", metavar="ID", help="The incident's id."),
    click.Option(
        ["--occurrence"], default="", metavar="ID", help="Idempotency key: entries with the same one are kept once."
    ),
    click.Option(["--json", "as_json"], is_flag=True, help="Print the entry's id and state as JSON."),
)
"""Options that every entry type accepts."""


@click.group("capture", no_args_is_help=True)
def capture_command() -> None:
    """Capture an entry: a fix, a failure, a decision, a warning. The same entry within a day is kept once. Prints its id.

    \b
    opx learn capture failure "the deploy hangs" --error "exit 124" --step "raise the timeout" --for checkout
    opx learn capture rejection security_review --feedback "no plain passwords" --approach "use the secret store"
    opx learn capture approval architecture_review --approach "one queue a client"
    opx learn capture warning "restart the broker" --effect made_worse --problem "consumers lag" --incident INC-7
    opx learn capture json entry.json
    """


def _captures(name: str, entry_type: EntryType) -> Callable[[Callable[[], None]], None]:
    """Turns a function that has a help and options of its own into a command that captures entries of a type."""

    @pass_session
    def capture(session: Session, /, *, as_json: bool, **given: Any) -> None:
        fields = {name: value for name, value in given.items() if value not in ("", False)}
        request = request_of(CaptureEntry, {"entry_type": entry_type.value, **fields})
        captured = session.client.call(capture_entry, request)
        if as_json:
            print_json(captured.to_json())
        else:
            click.echo(captured.id)
            click.echo(captured.note, err=True)  # scripts read the id alone

    def make(function: Callable[[], None]) -> None:
        params = [*reversed(getattr(function, "__click_params__", [])), *_COMMON]
        capture_command.add_command(click.Command(name, params=params, callback=capture, help=function.__doc__))

    return make


@_captures("failure", EntryType.FAILURE_SOLUTION)
@click.argument("failure_description", metavar="WHAT_FAILED")
@click.option("--error", "error_message", default="", metavar="TEXT", help="The error, copied as it was.")
@click.option(
    "--step", "solution_steps", multiple=True, metavar="TEXT", help="A step of the solution; may be repeated."
)
@click.option("--verified", "success_verified", is_flag=True, help="The solution was seen to work.")
def capture_failure() -> None:
    """Capture a failure and its solution. The entry waits for `opx learn verify`, unless it is --verified."""


@_captures("rejection", EntryType.GATE_REJECTION)
@click.argument("gate_type", metavar="GATE")
@click.option("--feedback", "human_feedback", default="", metavar="TEXT", help="The reviewer's feedback.")
@click.option("--approach", "revision_approach", default="", metavar="TEXT", help="The change that followed.")
def capture_rejection() -> None:
    """Capture a rejection at a review, with the reason."""


@_captures("approval", EntryType.GATE_APPROVAL)
@click.argument("gate_type", metavar="GATE")
@click.option("--approach", "approved_approach", required=True, metavar="TEXT", help="What was approved.")
def capture_approval() -> None:
    """Capture an approval at the first attempt."""


@_captures("warning", EntryType.WARNING)
@click.argument("tried", metavar="WHAT_WAS_TRIED")
@click.option(
    "--effect", required=True, type=click.Choice([effect.value for effect in TriedEffect]), help="The outcome."
)
@click.option("--problem", default="", metavar="TEXT", help="The problem that it was tried for.")
@click.option("--reference", default="", metavar="SOURCE", help="The document that has the step.")
def capture_warning() -> None:
    """Capture a step that had no effect or made things worse. The warning is shown before that step."""


@capture_command.command("json")
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the ids as JSON.")
@pass_session
def capture_json(session: Session, /, file: Path, *, as_json: bool) -> None:
    """Capture the entries in FILE (- for a pipe): a JSON object or a list of them, up to the first invalid one.

    \b
    {"entry_type": "failure_solution", "failure_description": "...", "solution_steps": ["..."]}
    """
    found = _read_json(file, f"{file} is not JSON")
    entries = found if isinstance(found, list) else [found]
    ids: list[str] = []
    try:
        ids.extend(_captured(session, entry) for entry in entries)
    except InvalidInputError as exc:
        if len(entries) == 1:
            raise
        raise InvalidInputError(
            f"entry {len(ids) + 1} of {len(entries)}: {exc} (the entries before it are kept)"
        ) from exc
    finally:
        print_either(ids, ids, as_json=as_json)


def _captured(session: Session, given: object) -> str:
    if not isinstance(given, Mapping):
        raise InvalidInputError("an entry must be a JSON object")
    return session.client.call(capture_entry, read_request(CaptureEntry, given)).id


def _read_json(file: Path, problem: str) -> Any:
    """The JSON value of a file. Raises `OpxError` if it can't be read, and an `InvalidInputError` that begins with `problem`
    if it is not JSON."""
    try:
        return json.loads(read_bytes(file))
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"{problem}: {exc}") from exc


# -- evidence


@click.command("evidence")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True, dir_okay=False, path_type=Path))
@pass_session
def evidence_command(session: Session, files: tuple[Path, ...]) -> None:
    """Ingest findings of an agent: JSON objects in FILES (- for a pipe). Rules in knowledge.yaml select their category.

    \b
    {"agent_type": "investigator", "outcome": "resolved", "verified": true,
     "problem": "The disk was full.", "solution": "Rotate the logs.", "incident": "INC-7"}
    """
    put: dict[str, Path] = {}
    session.loader.note_failures()
    failed = False
    for file in files:
        try:
            put[session.client.call(put_evidence, _read_evidence(file)).object_key] = file
        except InvalidInputError as exc:
            warn(f"{file}: {exc}")
            failed = True
    for outcome in session.loader.outcomes(tuple(put)):
        if outcome.object_key not in put:
            continue
        if outcome.result is Result.FAILED:
            warn(f"{put[outcome.object_key]}: {outcome.reason}")
            failed = True
        else:
            click.echo(safe(f"{outcome.document_id}  {outcome.object_key}"))
    exit_unless(not failed)


def _read_evidence(file: Path) -> PutEvidence:
    given = _read_json(file, "not JSON")
    if not isinstance(given, dict):
        raise InvalidInputError("not a JSON object")
    return PutEvidence.of(read_evidence(given))


# -- outcomes


@click.group("outcome", no_args_is_help=True, cls=OperationGroup)
def outcome_command() -> None:
    """Record and show outcomes. Documents that helped rank higher, once there are enough outcomes.

    \b
    opx outcome record last resolved          the first document of your last answer
    opx outcome record 4b7d9a21 2 resolved    the second of an earlier one
    opx outcome record 4b7d9a21 3f9a5e made_worse --step "restart the broker"
    opx outcome show 3f9a5e
    """


def _at_most_one(context: click.Context, _param: click.Parameter, value: Sequence[str]) -> str | None:
    if len(value) > 1:
        raise click.UsageError(f"only one document can be named, not {' '.join(value)}", context)
    return value[0] if value else None


@outcome_command.operation(
    "record",
    record_outcome,
    arguments=("receipt_id", "document_id", "result"),
    fields={"section": "NAME", "step": "TEXT", "incident": "ID", "note": "TEXT", "occurrence": "ID"},
)
@click.argument("document_id", nargs=-1, metavar="[DOCUMENT]", callback=_at_most_one)
def show_report(report: OutcomeReport) -> None:
    """Record whether a document of an answer helped. RECEIPT_ID is the id printed by `opx search`, or `last`; DOCUMENT
    is its rank in that answer (the first if omitted), or its id.

    A repeated outcome counts once; another result replaces the former one."""
    click.echo(f"{report.counted}: {printable(report.title)} {report.result.value.replace('_', ' ')}")
    click.echo(f"outcomes so far: {report.standing.explanation}")
    if report.warning_id:
        warn(f"the next checkpoint turns it into a warning (entry {report.warning_id})")


@outcome_command.operation("show", get_document_outcomes, arguments=("document_id",))
def show_outcomes(found: DocumentOutcomes) -> Iterator[str]:
    """Show the outcomes of a document, and their effect on its score."""
    yield found.explanation
    yield from (f"  {printable(section)}: {tally.explained()}" for section, tally in sorted(found.sections.items()))
    for one in found.latest:
        where = f"  {one.incident}" if one.incident else ""
        note = f"  {one.note}" if one.note else ""
        yield printable(f"{one.at[:16]}  {one.result.value}{where}{note}")
