"""`opx gaps`: questions without a good answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from opx.cli.output import SHORT_ID, plural, print_json, print_table, warn
from opx.cli.session import SESSION, Session, pass_session
from opx.edges.calling import plain
from opx.errors import OpxError
from opx.operations.questions import CheckGaps, ListGaps, SettleGap, list_gaps, settle_gap
from opx.operations.questions import check_gaps as ask_gaps_again
from opx.records.gaps.checking import MAX_ASKED
from opx.records.gaps.listing import NOBODY, GapView, report_lines, settled_because


@click.group("gaps", invoke_without_command=True)
@click.option("--service", default="", metavar="NAME", help="Questions about this service.")
@click.option("--owner", default="", metavar="NAME", help=f"What this owner is to see to, or `{NOBODY}`.")
@click.option("--all", "settled", is_flag=True, help="Also those that are closed or ignored.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write a report in Markdown there.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_context
def gaps_command(
    context: click.Context, /, *, service: str, owner: str, settled: bool, report: Path | None, as_json: bool
) -> None:
    """List questions without a good answer, those that matter most first, or settle them.

    \b
    opx gaps                              list
    opx gaps check                        ask them again; what is answered now is closed
    opx gaps close ID --because "..."     close one by hand; asked again, it is open again
    opx gaps ignore ID                    never to be answered here

    An owner is that of the service or category in the section `owners` of knowledge.yaml, else the author of the nearest
    document.
    """
    if context.invoked_subcommand is not None:
        return
    session: Session = context.meta[SESSION]
    found = session.call(list_gaps, ListGaps(service=service, owner=owner, settled=settled))
    if report is not None:
        _write(report, found.gaps)
    elif as_json:
        print_json(plain(found)["gaps"])
    elif not found.gaps:
        click.echo("no gaps")
    else:
        print_table(("ID", "ASKED", "LAST", "OWNER", "NEAREST", "QUESTION"), [_row(gap) for gap in found.gaps])
    if found.more:
        warn("there are more gaps than one reply holds: give --service or --owner")
    if found.dropped:
        warn(f"{plural(found.dropped, 'gap')} had to make room for others; close or ignore some")


def _row(gap: GapView) -> tuple[str, ...]:
    state = "" if gap.status == "open" else f" [{gap.status}: {settled_because(gap)}]"
    return (
        gap.gap_id[:SHORT_ID],
        f"{gap.count}x",
        gap.last_asked_at[:10],
        gap.owner or "-",
        f"{gap.nearest_confidence:.2f}",
        gap.question + state,
    )


def _write(path: Path, found: Sequence[GapView]) -> None:
    try:
        path.write_text("\n".join(report_lines(found)) + "\n", encoding="utf-8")
    except OSError as exc:
        raise OpxError(f"can't write the report to {path}: {exc.strerror or exc}") from exc


@gaps_command.command("check")
@click.option("--limit", type=click.IntRange(min=1), default=MAX_ASKED, show_default=True)
@pass_session
def check_gaps(session: Session, *, limit: int) -> None:
    """Ask open gaps again, those that matter most first, and close those of which every wording has an answer now."""
    found = session.call(ask_gaps_again, CheckGaps(limit=limit))
    for gap in found.closed:
        click.echo(f"closed  {gap.question}  <- {gap.closed_by_title}")
    if found.failed:
        warn(f"{plural(found.failed, 'gap')} could not be asked; for why: opx -v gaps check")
    left = f", {found.left:,} not asked" if found.left else ""
    click.echo(f"{plural(found.asked, 'gap')} asked, {len(found.closed):,} closed{left}")


@gaps_command.command("close")
@click.argument("gap_id", metavar="ID")
@click.option("--because", required=True, metavar="TEXT", help="Why it is none any more.")
@pass_session
def close_gap(session: Session, gap_id: str, *, because: str) -> None:
    """Close a gap by hand. Asked again without an answer, it is open again."""
    _settle(session, gap_id, because, ignore=False)


@gaps_command.command("ignore")
@click.argument("gap_id", metavar="ID")
@click.option("--because", default="", metavar="TEXT", help="Why nobody is going to answer it.")
@pass_session
def ignore_gap(session: Session, gap_id: str, *, because: str) -> None:
    """Leave a gap out from now on, however often it is asked."""
    _settle(session, gap_id, because, ignore=True)


def _settle(session: Session, gap_id: str, because: str, *, ignore: bool) -> None:
    settled = session.call(settle_gap, SettleGap(gap_id=gap_id, because=because, ignore=ignore))
    click.echo(f"{settled.status}  {settled.question}")
