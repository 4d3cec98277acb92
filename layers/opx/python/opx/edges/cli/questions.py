"""`opx audit`, `opx gaps`, `opx receipt`: lists queries and knowledge gaps, and replays receipts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.edges.calling import plain
from opx.edges.cli.hits import shorten
from opx.edges.cli.operations import AS_JSON_LINES, OperationGroup, operation_command
from opx.edges.cli.output import (
    NO_ANSWER,
    SHORT_ID,
    TAMPERED,
    UNEXPLAINED,
    CommandFailed,
    plural,
    print_json,
    print_json_lines,
    print_table,
    printable,
    safe,
    warn,
    write_text,
)
from opx.edges.cli.session import SESSION, Session, pass_session
from opx.errors import OpxError, ReceiptNotFoundError
from opx.operations import questions
from opx.operations.search import Query, query
from opx.records.audit import AuditRecord
from opx.records.gaps.listing import NOBODY, GapView, headline, report_lines, settled_because
from opx.records.gaps.log import MAX_CHECKED
from opx.retrieval.receipts import Receipt, Replay, ReplayVerdict, TamperedReceiptError, read_receipt, replay

MAX_BYTES = 5_000_000
_MOST_QUESTION = 100
"""Characters of a question in a table."""
_EXIT_CODES = {ReplayVerdict.SAME: 0, ReplayVerdict.CHANGED: NO_ANSWER, ReplayVerdict.UNEXPLAINED: UNEXPLAINED}

# -- the audit log


@operation_command(
    "audit",
    questions.list_audit_records,
    fields={"document_id": "--document ID", "who": "TEXT", "since": "TIME"},
    items="records",
)
def audit_command(reply: questions.AuditRecords) -> None:
    """List queries, the newest first: who, when, and how many documents were returned. Only a hash of a query's text is
    kept.

    On this machine all are listed, or with --client those of that client (and --project). On a deployed system only those
    of your own scope, with a token that has the scope opx/admin.
    """
    heads = ("RECEIPT", "TIME", "SCOPE", "PRINCIPAL", "RESULTS", "TOP DOCUMENT")
    print_table(heads, list(map(_record_row, reply.records)), "no records")


def _record_row(record: AuditRecord) -> tuple[str, ...]:
    first = record.documents[0].document_id[:SHORT_ID] if record.documents else "-"
    results = f"{record.documents_in_all}{' (partial)' if record.partial else ''}"
    return record.receipt_id[:SHORT_ID], record.asked_at, record.who, record.principal or "-", results, first


# -- gaps


@click.group("gaps", invoke_without_command=True, cls=OperationGroup)
@click.option("--service", default="", metavar="NAME", help="Questions about this service.")
@click.option("--owner", default="", metavar="NAME", help=f"Gaps of this owner, or `{NOBODY}`.")
@click.option("--all", "settled", is_flag=True, help="Include closed and ignored gaps.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write a Markdown report to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help=AS_JSON_LINES)
@click.pass_context
def gaps_command(
    context: click.Context, /, *, report: Path | None, as_json: bool, as_jsonl: bool, **chosen: Any
) -> None:
    """List questions without a good answer, the most important first, or settle them.

    \b
    opx gaps                              list
    opx gaps check                        query them again; close those with an answer now
    opx gaps close ID --because "..."     close one by hand; the same question reopens it
    opx gaps ignore ID                    leave it unanswered for good
    opx gaps reopen ID                    open a closed or ignored one again
    opx gaps assign ID OWNER              give it to a person or team

    The owner is the one that it is assigned to, else that of the service or category in the section `owners` of
    knowledge.yaml, else the author of the nearest document.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.meta[SESSION]
    found = session.call(questions.list_gaps, questions.ListGaps(**chosen))
    if report is not None:
        write_text("\n".join(report_lines(found.gaps)) + "\n", report, "report")
    elif as_json or as_jsonl:
        (print_json_lines if as_jsonl else print_json)(plain(found)["gaps"])
    else:
        heads = ("ID", "ASKED", "LAST", "OWNER", "NEAREST", "QUESTION")
        print_table(heads, list(map(_gap_row, found.gaps)), "no gaps")
    if found.more:
        warn("there are more gaps than one reply holds: narrow them with --service or --owner")
    if found.dropped:
        warn(f"{plural(found.dropped, 'gap')} dropped, as the list is full; close or ignore some")


def _gap_row(gap: GapView) -> tuple[str, ...]:
    state = "" if gap.status == "open" else f" [{gap.status}: {settled_because(gap)}]"
    return (
        gap.gap_id[:SHORT_ID],
        f"{gap.count}x",
        gap.last_asked_at[:10],
        gap.owner or "-",
        f"{gap.nearest_confidence:.2f}",
        shorten(printable(headline(gap)), _MOST_QUESTION) + printable(state),
    )


@gaps_command.operation("check", questions.check_gaps, without=("every_scope",))
@click.option("--limit", type=click.IntRange(min=1), default=MAX_CHECKED, show_default=True)
def check(found: questions.GapCheck) -> None:
    """Query open gaps again, the most important first, and close those of which every wording has an answer now."""
    for gap in found.closed:
        click.echo(safe(f"closed  {gap.question}  <- {gap.closed_by_title}"))
    if found.failed:
        warn(f"{plural(found.failed, 'gap')} could not be checked; for the reason: opx -v gaps check")
    left = f", {found.left:,} not checked" if found.left else ""
    click.echo(f"{plural(found.asked, 'gap')} checked, {len(found.closed):,} closed{left}")


@gaps_command.command("close")
@click.argument("gap_id", metavar="ID")
@click.option("--because", required=True, metavar="TEXT", help="Reason for closing it.")
@pass_session
def close_gap(session: Session, gap_id: str, *, because: str) -> None:
    """Close a gap by hand. The same question without an answer reopens it."""
    _settle(session, questions.SettleGap(gap_id=gap_id, because=because))


@gaps_command.command("ignore")
@click.argument("gap_id", metavar="ID")
@click.option("--because", default="", metavar="TEXT", help="Reason for leaving it unanswered.")
@pass_session
def ignore_gap(session: Session, gap_id: str, *, because: str) -> None:
    """Ignore a gap from now on, however often the question comes."""
    _settle(session, questions.SettleGap(gap_id=gap_id, because=because, ignore=True))


@gaps_command.command("reopen")
@click.argument("gap_id", metavar="ID")
@pass_session
def reopen_gap(session: Session, gap_id: str) -> None:
    """Open a closed or ignored gap again."""
    _settle(session, questions.SettleGap(gap_id=gap_id, reopen=True))


@gaps_command.command("assign")
@click.argument("gap_id", metavar="ID")
@click.argument("owner", metavar="OWNER")
@pass_session
def assign_gap(session: Session, gap_id: str, owner: str) -> None:
    """Assign a gap to a person or team. An empty OWNER (\"\") gives it back to the owner by service and category."""
    found = session.call(questions.assign_gap, questions.AssignGap(gap_id=gap_id, owner=owner))
    click.echo(f"{printable(found.owner or NOBODY)}  {printable(headline(found))}")


def _settle(session: Session, request: questions.SettleGap) -> None:
    settled = session.call(questions.settle_gap, request)
    click.echo(f"{settled.status}  {printable(headline(settled))}")


# -- receipts


@click.group("receipt")
def receipt_command() -> None:
    """Receipts: evidence of an answer, which can be replayed. `opx search --receipt FILE` writes one."""


@receipt_command.command("replay")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--then", is_flag=True, help="Query the knowledge as of the time when the receipt was issued.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@pass_session
def replay_receipt(session: Session, file: Path, *, then: bool, as_json: bool) -> None:
    """Run the query of the receipt in FILE again, under your current identity, and compare the answers.

    Exit codes: 0 the same answer, 1 another answer after a known change, 2 wrong usage or another error, 3 another answer
    without a known change, 4 the receipt was changed after it was issued.
    """
    try:
        receipt = read_receipt(_receipt_text(file))
        _compare_with_record(session, receipt)
    except TamperedReceiptError as exc:
        raise CommandFailed(str(exc), TAMPERED) from exc
    found = replay(receipt, lambda question, config: _replayed(session, question, config), then=then)
    if as_json:
        print_json(found.to_json())
    else:
        _print_replay(receipt, found)
    click.get_current_context().exit(_EXIT_CODES[found.verdict])


def _compare_with_record(session: Session, receipt: Receipt) -> None:
    """Raises `TamperedReceiptError` if the audit log has another answer: a receipt's sha256 can be forged, a record of the
    log can't. Records of a deployed system are not read."""
    if session.is_remote:
        return
    try:
        record = session.call(questions.get_audit_record, questions.GetAuditRecord(receipt_id=receipt["receiptId"]))
    except ReceiptNotFoundError:
        return
    if (record.receipt_id, record.answer_hash) != (receipt["receiptId"], receipt["answerHash"]):
        raise TamperedReceiptError("the audit log has another answer for this receipt: it was not issued in this form")


def _replayed(session: Session, question: str, config: QueryConfig) -> Receipt:
    answer = session.call(query, Query(query=question, config=config, receipt=True))
    if not answer.receipt:
        raise OpxError("the answer has no receipt to compare with: the audit log is off or can't be written")
    return answer.receipt


def _print_replay(receipt: Receipt, found: Replay) -> None:
    verdicts = {
        ReplayVerdict.SAME: "the same answer",
        ReplayVerdict.CHANGED: "another answer",
        ReplayVerdict.UNEXPLAINED: "another answer, without a known change",
    }
    question = printable(receipt["question"])[:200]
    click.echo(f"{verdicts[found.verdict]} as on {receipt['askedAt']}: {question}")
    for cause in found.causes:
        click.echo(safe(f"  {cause}"))
    if found.differences:
        rows = [(each.kind, each.before, each.now, each.title, each.document_id[:12]) for each in found.differences]
        print_table(("WHAT", "THEN", "NOW", "DOCUMENT", "ID"), rows)


def write_receipt(answer: Answer, path: Path) -> None:
    """Write the receipt of an answer. Raises `OpxError` if it has none, or if the file can't be written."""
    if not answer.receipt:
        raise OpxError(
            "this answer has no receipt: either the audit log is off (OPX_AUDIT_DAYS=0), or its record could not be written"
        )
    write_text(json.dumps(dict(answer.receipt), indent=2) + "\n", path, "receipt")


def _receipt_text(path: Path) -> str:
    """The text of a receipt's file. Raises `OpxError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OpxError(f"{path} is no receipt: it is larger than {MAX_BYTES:,} bytes")
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as exc:
        raise OpxError(f"can't read {path}: {exc.strerror or exc}") from exc
