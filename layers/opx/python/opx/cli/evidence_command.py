"""`opx evidence`: what agents found out, from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from opx.cli.output import NO_ANSWER, warn
from opx.cli.session import Session, pass_session
from opx.domain.evidence import Evidence
from opx.errors import InvalidInputError, OpxError
from opx.ingestion.outcomes import Result
from opx.operations.evidence import PutEvidence, put_evidence
from opx.operations.requests import read_record


@click.command("evidence")
@click.argument("files", nargs=-1, required=True, type=click.Path(allow_dash=True, dir_okay=False, path_type=Path))
@pass_session
@click.pass_context
def evidence_command(context: click.Context, session: Session, files: tuple[Path, ...]) -> None:
    """Take in what an agent found out: JSON objects in FILES (- for a pipe). Rules of knowledge.yaml say as what.

    \b
    {"agent_type": "investigator", "outcome": "resolved", "verified": true,
     "problem": "The disk was full.", "solution": "Rotate the logs.", "incident": "INC-7"}
    """
    put: dict[str, Path] = {}
    session.loader.note_failures()
    failed = False
    for file in files:
        try:
            put[session.client.call(put_evidence, _read(file)).object_key] = file
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
            click.echo(f"{outcome.document_id}  {outcome.object_key}")
    if failed:
        context.exit(NO_ANSWER)


def _read(file: Path) -> PutEvidence:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        given = json.loads(data)
    except OSError as exc:
        raise OpxError(f"can't read {file}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise InvalidInputError(f"not JSON: {exc}") from exc
    if not isinstance(given, dict):
        raise InvalidInputError("not a JSON object")
    return PutEvidence.of(read_record(Evidence, given))
