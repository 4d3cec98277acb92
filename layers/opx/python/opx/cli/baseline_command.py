"""`opx baseline`: what is normal for a metric of a node."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opx.cli.exits import NO_ANSWER
from opx.cli.output import plural, print_json, print_table, warn
from opx.cli.session import Session, pass_session
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.domain.anomalies import Distribution, Verdict
    from opx.domain.baselines import AddedValues, BaselineStats
    from opx.knowledge_base import KnowledgeBase

AT_ONCE = 1000
SAID = 20
"""Lines about refused values; the rest is counted."""

Row = tuple[int, Mapping[str, Any] | InvalidInputError]


@click.group("baseline", no_args_is_help=True)
def baseline_command() -> None:
    """What is normal for a metric of a node: what was pushed here, came in a stream, or was rolled up from CloudWatch.

    \b
    opx baseline push web-01 cpu 41.5 --unit percent
    opx baseline push --file values.csv            columns node, metric, value, at, unit
    opx baseline show web-01 cpu --window 7d --value 97.3
    opx baseline list
    """


@baseline_command.command("show")
@click.argument("node")
@click.argument("metric")
@click.option(
    "--window", default="7d", show_default=True, metavar="TIME", help="How far back: 1h to 90d, or weeks: 4w."
)
@click.option("--value", type=float, metavar="NUMBER", help="Say whether this value is out of the ordinary.")
@click.option("--hour", type=click.IntRange(0, 23), metavar="0-23", help="The hour of the day (UTC) that it is of.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@pass_session
def show_baseline(
    session: Session, node: str, metric: str, *, window: str, value: float | None, hour: int | None, as_json: bool
) -> None:
    """Show what is normal for METRIC of NODE. Exit codes: 0 shown, 1 there are no values."""
    if hour is not None and value is None:
        raise InvalidInputError("--hour goes with --value")
    stats = session.existing_base().baseline(node, metric, window)
    verdict = stats.judge(value, hour) if value is not None else None
    if as_json:
        print_json({"baseline": stats.to_json(), **({"verdict": verdict.to_json()} if verdict else {})})
    elif stats.count:
        _print(stats, verdict)
    if not stats.count:
        if not as_json:
            warn(f"no data: {stats.metric} of {stats.node} has no values in the last {window}; see `opx baseline list`")
        click.get_current_context().exit(NO_ANSWER)


def _print(stats: BaselineStats, verdict: Verdict | None) -> None:
    unit = f" ({stats.unit})" if stats.unit else ""
    days = f" of {plural(stats.days, 'day')}" if stats.days else ""
    click.echo(f"{stats.metric} of {stats.node}{unit}, last {stats.time_window}: {plural(stats.count, 'value')}{days}")
    click.echo(f"last seen {stats.last_seen}")
    for note in stats.notes:
        click.echo(f"note: {note}")
    rows = [("all", *_cells(stats)), *((f"{one.hour:02}:00", *_cells(one)) for one in stats.by_hour)]
    print_table(("HOUR (UTC)", "COUNT", "MEAN", "STDDEV", "MIN", "P50", "P95", "P99", "MAX"), rows)
    if verdict is not None:
        said = "out of the ordinary" if verdict.anomalous else "nothing unusual"
        click.echo(f"{said}: {verdict.reason}")


def _cells(values: Distribution) -> list[str]:
    from opx.domain.anomalies import shown

    numbers = (values.mean, values.stddev, values.minimum, values.p50, values.p95, values.p99, values.maximum)
    return [f"{values.count:,}", *("-" if number is None else shown(number) for number in numbers)]


@baseline_command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@pass_session
def list_series(session: Session, *, as_json: bool) -> None:
    """List which metrics of which nodes have values."""
    series = session.existing_base().baseline_series()
    if as_json:
        print_json([one.to_json() for one in series])
    elif not series:
        click.echo(
            "no values yet: `opx baseline push`, a stream of operations/baselines, or `baselines:` in knowledge.yaml"
        )
    else:
        rows = [(one.node, one.metric, one.unit or "-", one.last_seen) for one in series]
        print_table(("NODE", "METRIC", "UNIT", "LAST SEEN"), rows)


@baseline_command.command("push", context_settings={"ignore_unknown_options": True})
@click.argument("node", required=False)
@click.argument("metric", required=False)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("--file", "file", metavar="PATH", help="Values from a file, `-` for stdin.")
@click.option("--format", "kind", metavar="csv|jsonl", help="What the file is.  [default: as its name ends]")
@click.option("--at", metavar="TIME", help="When the values were measured: ISO 8601.  [default: now]")
@click.option("--unit", metavar="NAME", help="Their unit; a series has one.")
@pass_session
def push_values(
    session: Session,
    /,
    node: str | None,
    metric: str | None,
    values: Sequence[str],
    *,
    file: str | None,
    kind: str | None,
    at: str | None,
    unit: str | None,
) -> None:
    """Add values: of one metric (NODE METRIC VALUE...), or from a file with the columns or fields node, metric, value,
    and at and unit if wanted. A file whose values have times may be pushed again: it is counted once.

    Exit codes: 0 all were added, 1 some were refused, 2 wrong usage.
    """
    common = {name: value for name, value in (("at", at), ("unit", unit)) if value}
    if file is None:
        if not (node and metric and values):
            raise InvalidInputError("give NODE METRIC VALUE..., or --file PATH")
        rows: Iterable[Row] = (
            (place, {"node": node, "metric": metric, "value": value, **common}) for place, value in enumerate(values, 1)
        )
        _push(session.base, rows, "value")
        return
    if node:
        raise InvalidInputError("give either NODE METRIC VALUE..., or --file PATH")
    _push(session.base, _rows_of(file, kind, common), "line")


def _rows_of(file: str, kind: str | None, common: Mapping[str, str]) -> Iterator[Row]:
    from opx.telemetry.baselines.files import CSV, FORMATS, JSON_LINES, values_of

    kind = kind or (CSV if file.lower().endswith(".csv") else JSON_LINES)
    if kind not in FORMATS:
        raise InvalidInputError(f"--format must be {' or '.join(FORMATS)}, not {kind!r}")
    try:
        if file == "-":
            yield from _with(common, values_of(sys.stdin, kind))
            return
        with Path(file).open(encoding="utf-8-sig", newline="") as stream:
            yield from _with(common, values_of(stream, kind))
    except OSError as exc:
        raise InvalidInputError(f"{file}: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidInputError(f"{file} is not UTF-8 at byte {exc.start}") from exc


def _with(common: Mapping[str, str], rows: Iterable[Row]) -> Iterator[Row]:
    for line, row in rows:
        yield line, row if isinstance(row, InvalidInputError) else {**common, **row}


def _push(base: KnowledgeBase, rows: Iterable[Row], called: str) -> None:
    """Send values in portions, and say what became of them."""
    added = repeated = 0
    refused: list[tuple[int, str]] = []
    rows = iter(rows)
    while portion := list(islice(rows, AT_ONCE)):
        refused += [(line, str(row)) for line, row in portion if isinstance(row, InvalidInputError)]
        good = [(line, row) for line, row in portion if not isinstance(row, InvalidInputError)]
        for done, lines in _sent(base, good):
            added, repeated = added + done.added, repeated + done.repeated
            refused += [(lines[one.index], one.reason) for one in done.refused]
    for line, reason in sorted(refused)[:SAID]:
        warn(f"{called} {line}: {reason}")
    if len(refused) > SAID:
        warn(f"and {plural(len(refused) - SAID, 'refused value')} more")
    again = f", {repeated:,} had been counted before" if repeated else ""
    click.echo(f"{plural(added, 'value')} added{again}" + (f", {len(refused):,} refused" if refused else ""))
    if refused:
        click.get_current_context().exit(NO_ANSWER)


def _sent(
    base: KnowledgeBase, rows: Sequence[tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[AddedValues, list[int]]]:
    """Send a portion, with the lines that its indexes are of. Values with a time go apart from those of now: the id of
    their batch is then the same whenever they are sent, so that they count once."""
    from opx.domain.ids import stable_hash

    now = time.time()
    timed = [(line, row) for line, row in rows if "at" in row]
    untimed = [(line, {**row, "at": now}) for line, row in rows if "at" not in row]
    for some in (timed, untimed):
        if some:
            values = [row for _, row in some]
            yield base.add_values(values, batch_id=stable_hash("push", *values)), [line for line, _ in some]
