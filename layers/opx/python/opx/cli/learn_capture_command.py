"""`opx learn capture`: keep what work taught until a checkpoint takes it in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from opx.cli.output import print_json
from opx.cli.session import Session, pass_session
from opx.domain.learning import Effect, EntryType
from opx.errors import InvalidInputError, OpxError
from opx.operations.learning import CaptureEntry, capture_entry
from opx.operations.requests import read_request

F = TypeVar("F", bound=Callable[..., Any])

_COMMON = (
    click.option("--for", "project_id", default="", metavar="PROJECT", help="The project that it was learned in."),
    click.option("--agent", "agent_type", default="", metavar="TYPE", help="What kind of agent it was."),
    click.option("--task-type", default="", metavar="TYPE", help="What kind of task."),
    click.option("--technology", default="", metavar="NAME", help="What it is about."),
    click.option("--incident", default="", metavar="ID", help="The incident's id."),
    click.option("--occurrence", default="", metavar="ID", help="Told again with the same, it is kept once."),
    click.option("--json", "as_json", is_flag=True, help="Print the entry's id as JSON."),
)


def common_options(command: F) -> F:
    """What every type of entry may have."""
    for option in reversed(_COMMON):
        command = option(command)
    return command


@click.group("capture", no_args_is_help=True)
def capture_command() -> None:
    """Keep what work taught. The same again within a day is kept once. Prints the id of the entry.

    \b
    opx learn capture failure "the deploy hangs" --error "exit 124" --step "raise the timeout" --for checkout
    opx learn capture rejection security_review --feedback "no plain passwords" --approach "use the secret store"
    opx learn capture approval architecture_review --approach "one queue a client"
    opx learn capture warning "restart the broker" --effect made_worse --problem "consumers lag" --incident INC-7
    opx learn capture json entry.json
    """


@capture_command.command("failure")
@click.argument("failure_description", metavar="WHAT_FAILED")
@click.option("--error", "error_message", default="", metavar="TEXT", help="The error, copied as it was.")
@click.option("--step", "solution_steps", multiple=True, metavar="TEXT", help="What was done; may be repeated.")
@click.option("--verified", "success_verified", is_flag=True, help="It was seen to work.")
@common_options
@pass_session
def capture_failure(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Keep what failed and what was done about it. It waits for `opx learn verify`, unless it is --verified."""
    _capture(session, EntryType.FAILURE_SOLUTION, given, as_json=as_json)


@capture_command.command("rejection")
@click.argument("gate_type", metavar="GATE")
@click.option("--feedback", "human_feedback", default="", metavar="TEXT", help="What the person said.")
@click.option("--approach", "revision_approach", default="", metavar="TEXT", help="What was changed for it.")
@common_options
@pass_session
def capture_rejection(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Keep what a person rejected at a review, and why."""
    _capture(session, EntryType.GATE_REJECTION, given, as_json=as_json)


@capture_command.command("approval")
@click.argument("gate_type", metavar="GATE")
@click.option("--approach", "approved_approach", required=True, metavar="TEXT", help="What was approved.")
@common_options
@pass_session
def capture_approval(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Keep what a person approved at the first attempt."""
    _capture(session, EntryType.GATE_APPROVAL, given, as_json=as_json)


@capture_command.command("warning")
@click.argument("tried", metavar="WHAT_WAS_TRIED")
@click.option(
    "--effect", required=True, type=click.Choice([effect.value for effect in Effect]), help="What came of it."
)
@click.option("--problem", default="", metavar="TEXT", help="What it was tried against.")
@click.option("--reference", default="", metavar="SOURCE", help="The document that it is from.")
@common_options
@pass_session
def capture_warning(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Keep what was tried without effect, or made things worse. It is shown before the step that it warns of."""
    _capture(session, EntryType.WARNING, given, as_json=as_json)


@capture_command.command("json")
@click.argument("file", type=click.Path(allow_dash=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the ids as JSON.")
@pass_session
def capture_json(session: Session, /, file: Path, *, as_json: bool) -> None:
    """Keep what FILE says (- for a pipe): an entry as a JSON object, or a list of them, up to the first that is wrong.

    \b
    {"entry_type": "failure_solution", "failure_description": "...", "solution_steps": ["..."]}
    """
    found = _read(file)
    entries = found if isinstance(found, list) else [found]
    ids: list[str] = []
    try:
        ids.extend(_captured(session, entry) for entry in entries)
    except InvalidInputError as exc:
        if len(entries) == 1:
            raise
        raise InvalidInputError(f"entry {len(ids) + 1} of {len(entries)}: {exc} (those before it are kept)") from exc
    finally:
        if as_json:
            print_json(ids)
        for entry_id in () if as_json else ids:
            click.echo(entry_id)


def _capture(session: Session, entry_type: EntryType, given: Mapping[str, Any], *, as_json: bool) -> None:
    fields = {name: _plain(value) for name, value in given.items() if value not in ("", (), False)}
    entry_id = _captured(session, {"entry_type": entry_type.value, **fields})
    if as_json:
        print_json({"id": entry_id})
    else:
        click.echo(entry_id)


def _captured(session: Session, given: object) -> str:
    if not isinstance(given, Mapping):
        raise InvalidInputError("what is captured must be a JSON object")
    return session.client.call(capture_entry, read_request(CaptureEntry, given)).id


def _plain(value: object) -> object:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


def _read(file: Path) -> Any:
    try:
        return json.loads(sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes())
    except OSError as exc:
        raise OpxError(f"can't read {file}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"{file} is not JSON: {exc}") from exc
