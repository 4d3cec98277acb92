"""`opx receipt`: is what was answered then still the answer?"""

from __future__ import annotations

from pathlib import Path

import click

from opx.cli.output import NO_ANSWER, TAMPERED, UNEXPLAINED, CommandFailed, print_json, print_table
from opx.cli.receipts import receipt_text
from opx.cli.session import Session, pass_session
from opx.domain.queries import QueryConfig
from opx.errors import OpxError, ReceiptNotFoundError
from opx.operations.questions import GetAuditRecord, get_audit_record
from opx.operations.search import Query, query
from opx.retrieval.receipts import Receipt, TamperedReceiptError, read_receipt
from opx.retrieval.replaying import Replay, Verdict, replay

_EXIT_CODES = {Verdict.SAME: 0, Verdict.CHANGED: NO_ANSWER, Verdict.UNEXPLAINED: UNEXPLAINED}


@click.group("receipt")
def receipt_command() -> None:
    """Receipts: evidence of an answer that can be asked for again. `opx search --receipt FILE` writes one."""


@receipt_command.command("replay")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--then", is_flag=True, help="Ask as of when it was given out: what does the knowledge of then say?")
@click.option("--json", "as_json", is_flag=True, help="Print what came of it as JSON.")
@pass_session
def replay_receipt(session: Session, file: Path, *, then: bool, as_json: bool) -> None:
    """Ask the question of the receipt in FILE again, as whoever you are now, and compare the answers.

    Exit codes: 0 the same answer, 1 another one as something has changed since, 2 wrong usage or another error, 3 another
    one although nothing is known to have changed, 4 the receipt was changed after it was given out.
    """
    try:
        receipt = read_receipt(receipt_text(file))
        _compare_with_record(session, receipt)
    except TamperedReceiptError as exc:
        raise CommandFailed(str(exc), TAMPERED) from exc
    found = replay(receipt, lambda question, config: _ask(session, question, config), then=then)
    if as_json:
        print_json(found.to_json())
    else:
        _print(receipt, found)
    click.get_current_context().exit(_EXIT_CODES[found.verdict])


def _compare_with_record(session: Session, receipt: Receipt) -> None:
    """The sha256 of a receipt can be made anew by anybody, a record of the audit log can't. Where the log has one, it
    has the last word. Of a deployed system it isn't asked for."""
    if session.is_remote:
        return
    try:
        record = session.call(get_audit_record, GetAuditRecord(receipt_id=receipt["receiptId"]))
    except ReceiptNotFoundError:
        return
    if record.answer_hash != receipt["answerHash"]:
        raise TamperedReceiptError("the audit log has another answer for this receipt: it was not given out like this")


def _ask(session: Session, question: str, config: QueryConfig) -> Receipt:
    answer = session.call(query, Query(query=question, config=config, receipt=True))
    if not answer.receipt:
        raise OpxError("the answer has no receipt to compare with: the audit log is off, or can't be written")
    return answer.receipt


def _print(receipt: Receipt, found: Replay) -> None:
    said = {
        Verdict.SAME: "the same answer",
        Verdict.CHANGED: "another answer",
        Verdict.UNEXPLAINED: "another answer, although nothing is known to have changed",
    }
    click.echo(f"{said[found.verdict]} as on {receipt['askedAt']}: {' '.join(receipt['question'].split())[:200]}")
    for cause in found.causes:
        click.echo(f"  {cause}")
    if found.differences:
        rows = [(each.kind, each.before, each.now, each.title, each.document_id[:12]) for each in found.differences]
        print_table(("WHAT", "THEN", "NOW", "DOCUMENT", "ID"), rows)
