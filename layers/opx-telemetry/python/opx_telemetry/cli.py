"""`opx ops`, `opx baseline`: queries logs, metrics and traces of running systems, and baselines of metrics of nodes."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from opx.domain.baselines import AddedValues, BaselineStats, Distribution, Verdict, shown
from opx.domain.ids import stable_hash
from opx.edges.calling import OperationClient, text_of
from opx.edges.cli.operations import OperationGroup
from opx.edges.cli.output import exit_unless, plural, print_lines, print_table, safe, warn
from opx.edges.cli.session import Session, pass_session
from opx.errors import InvalidInputError
from opx_telemetry import operations as baselines
from opx_telemetry.answers import LogsAnswer, MetricsAnswer, TracesAnswer
from opx_telemetry.operations import analyze_traces, correlate_metrics, query_logs
from opx_telemetry.rules import LogShow

SHOWN = tuple(show.value for show in LogShow)
_ANSWER = "Print the answer as JSON."


@click.group("ops", no_args_is_help=True, cls=OperationGroup)
def ops_command() -> None:
    """Logs, metrics and traces of running systems, as agents see them, limited by the section `telemetry` of knowledge.yaml.

    Metrics are those of Prometheus and logs those of Loki if the section declares them. CloudWatch and X-Ray need
    OPX_BACKEND=aws and the credentials that the AWS command line would use.

    \b
    opx ops logs /ecs/shop 'timeout "connection reset" -healthcheck'
    opx ops metrics CPUUtilization i-0abc --minutes 180
    opx ops traces shop
    """


@ops_command.operation("logs", query_logs, arguments=("log_group", "query"), anywhere=True, json=_ANSWER)
@click.argument("query", default="*")
@click.option("--minutes", type=int, default=60, show_default=True, help="How far back to look.")
@click.option("--limit", type=int, default=50, show_default=True, help="Lines or rows at most.")
@click.option("--show", type=click.Choice(SHOWN), default=SHOWN[0], show_default=True)
def show_logs(reply: LogsAnswer) -> None:
    """Search the lines of LOG_GROUP for the words and "phrases" of QUERY, without its -words; * matches every line."""
    click.echo(safe(text_of(reply)))


@ops_command.operation("metrics", correlate_metrics, arguments=("metric", "node"), anywhere=True, json=_ANSWER)
@click.option("--minutes", type=int, default=180, show_default=True, help="How far back to look.")
@click.option("--candidates", default="", metavar="NAMES", help="Metrics to compare with, separated by commas.")
@click.option("--max-lag", type=int, default=30, show_default=True, help="Largest lag in minutes between two metrics.")
def show_metrics(reply: MetricsAnswer) -> None:
    """Find other metrics of NODE that moved with METRIC, and those that moved first."""
    click.echo(safe(text_of(reply)))


@ops_command.operation("traces", analyze_traces, arguments=("service",), anywhere=True, json=_ANSWER)
@click.option("--minutes", type=int, default=60, show_default=True, help="How far back to look.")
@click.option("--limit", type=int, default=5, show_default=True, help="Parts of each kind at most.")
def show_traces(reply: TracesAnswer) -> None:
    """Find the parts in which requests through SERVICE are slow or fail."""
    click.echo(safe(text_of(reply)))


# -- baselines

MOST_NAMED = 20
"""Refused values that are listed; the rest is counted."""

Row = tuple[int, Mapping[str, Any] | InvalidInputError]


@click.group("baseline", no_args_is_help=True, cls=OperationGroup)
def baseline_command() -> None:
    """Baselines: usual values of a metric of a node, pushed here, received in a stream, or aggregated from CloudWatch or
    Prometheus.

    \b
    opx baseline push web-01 cpu 41.5 --unit percent
    opx baseline push --file values.csv            columns node, metric, value, at, unit
    opx baseline show web-01 cpu --window 7d --value 97.3
    opx baseline list
    """


@baseline_command.operation(
    "show",
    baselines.get_baseline_stats,
    arguments=("node", "metric"),
    fields={"time_window": "--window TIME", "value": "NUMBER", "hour": "0-23"},
)
def show_baseline(reply: baselines.BaselineFound, *, as_json: bool) -> None:
    """Show the baseline of METRIC of NODE. Exit codes: 0 shown, 1 there are no values."""
    stats = reply.baseline
    if stats.count and not as_json:
        _print(stats, reply.verdict)
    elif not as_json:
        empty = f"{stats.metric} of {stats.node} has no values in the last {stats.time_window}"
        warn(f"no data: {empty}; see `opx baseline list`")
    exit_unless(stats.count)


def _print(stats: BaselineStats, verdict: Verdict | None) -> None:
    unit = f" ({stats.unit})" if stats.unit else ""
    days = f" of {plural(stats.days, 'day')}" if stats.days else ""
    click.echo(f"{stats.metric} of {stats.node}{unit}, last {stats.time_window}: {plural(stats.count, 'value')}{days}")
    click.echo(f"last seen {stats.last_seen}")
    print_lines(f"note: {note}" for note in stats.notes)
    rows = [("all", *_cells(stats)), *((f"{one.hour:02}:00", *_cells(one)) for one in stats.by_hour)]
    print_table(("HOUR (UTC)", "COUNT", "MEAN", "STDDEV", "MIN", "P50", "P95", "P99", "MAX"), rows)
    if verdict is not None:
        judged = "anomalous" if verdict.anomalous else "not anomalous"
        click.echo(f"{judged}: {verdict.reason}")


def _cells(values: Distribution) -> list[str]:
    numbers = (values.mean, values.stddev, values.minimum, values.p50, values.p95, values.p99, values.maximum)
    return [f"{values.count:,}", *("-" if number is None else shown(number) for number in numbers)]


@baseline_command.operation("list", baselines.list_baseline_series, without=("after",), items="series")
def list_series(reply: baselines.SeriesPage) -> None:
    """List the metrics of nodes that have values."""
    rows = [(one.node, one.metric, one.unit or "-", one.last_seen) for one in reply.series]
    empty = "no values yet: `opx baseline push`, a stream of operations/baselines, or `baselines:` in knowledge.yaml"
    print_table(("NODE", "METRIC", "UNIT", "LAST SEEN"), rows, empty)


@baseline_command.command("push", context_settings={"ignore_unknown_options": True})
@click.argument("node", required=False)
@click.argument("metric", required=False)
@click.argument("values", nargs=-1, metavar="[VALUE]...")
@click.option("--file", "file", metavar="PATH", help="Values from a file, `-` for stdin.")
@click.option("--format", "kind", metavar="csv|jsonl", help="Format of the file.  [default: by its extension]")
@click.option("--at", metavar="TIME", help="Time of the measurement: ISO 8601.  [default: now]")
@click.option("--unit", metavar="NAME", help="Unit of the values; a series has one.")
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
    **given: str | None,
) -> None:
    """Add values: of one metric (NODE METRIC VALUE...), or from a file with the columns or fields node, metric, value,
    and optionally at and unit. A file whose values have times may be pushed again: it is counted once.

    Exit codes: 0 all were added, 1 some were refused, 2 wrong usage.
    """
    common = {name: value for name, value in given.items() if value}
    if file is None:
        if not (node and metric and values):
            raise InvalidInputError("give NODE METRIC VALUE..., or --file PATH")
        rows: Iterable[Row] = (
            (number, {"node": node, "metric": metric, "value": value, **common})
            for number, value in enumerate(values, 1)
        )
        _push(session.client, rows, "value")
        return
    if node:
        raise InvalidInputError("give either NODE METRIC VALUE..., or --file PATH")
    _push(session.client, _rows_of(file, kind, common), "line")


def _rows_of(file: str, kind: str | None, common: Mapping[str, str]) -> Iterator[Row]:
    from opx_telemetry.baselines.readings import CSV, FORMATS, JSON_LINES, values_of

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


def _push(client: OperationClient, rows: Iterable[Row], called: str) -> None:
    """Sends values in batches, and prints how many were added and refused."""
    added = repeated = 0
    refused: list[tuple[int, str]] = []
    rows = iter(rows)
    while portion := list(islice(rows, baselines.MAX_VALUES)):
        refused += [(line, str(row)) for line, row in portion if isinstance(row, InvalidInputError)]
        good = [(line, row) for line, row in portion if not isinstance(row, InvalidInputError)]
        for done, lines in _sent(client, good):
            added, repeated = added + done.added, repeated + done.repeated
            refused += [(lines[one.index], one.reason) for one in done.refused]
    for line, reason in sorted(refused)[:MOST_NAMED]:
        warn(f"{called} {line}: {reason}")
    if len(refused) > MOST_NAMED:
        warn(f"and {plural(len(refused) - MOST_NAMED, 'refused value')} more")
    again = f", {repeated:,} were counted before" if repeated else ""
    click.echo(f"{plural(added, 'value')} added{again}" + (f", {len(refused):,} refused" if refused else ""))
    exit_unless(not refused)


def _sent(
    client: OperationClient, rows: Sequence[tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[AddedValues, list[int]]]:
    """Sends a batch; yields its reply with the line of each index. Values with a time are sent apart from those of now: the
    id of their batch is then the same whenever they are sent, so that they count once."""
    now = time.time()
    timed = [(line, row) for line, row in rows if "at" in row]
    untimed = [(line, {**row, "at": now}) for line, row in rows if "at" not in row]
    for some in (timed, untimed):
        if some:
            values = tuple(dict(row) for _, row in some)
            request = baselines.AddValues(values=values, batch_id=stable_hash("push", *values))
            yield client.call(baselines.add_values, request), [line for line, _ in some]
