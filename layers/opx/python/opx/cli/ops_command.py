"""`opx ops`: what agents may ask about running systems, asked by hand."""

from __future__ import annotations

from typing import Any

import click

from opx.cli.operations import request_of
from opx.cli.output import print_json
from opx.cli.session import Session, pass_session
from opx.edges.calling import plain, text_of
from opx.operations.registry import Run
from opx.operations.telemetry import (
    AnalyzeTraces,
    CorrelateMetrics,
    QueryLogs,
    analyze_traces,
    correlate_metrics,
    query_logs,
)
from opx.ports.telemetry import LogShow

SHOWN = tuple(show.value for show in LogShow)


@click.group("ops", no_args_is_help=True)
def ops_command() -> None:
    """Logs, metrics and traces of running systems, as agents get them: within the section `telemetry` of knowledge.yaml.

    Works with OPX_BACKEND=aws and the credentials that the AWS command line would use.

    \b
    opx ops logs /ecs/shop 'timeout "connection reset" -healthcheck'
    opx ops metrics CPUUtilization i-0abc --minutes 180
    opx ops traces shop
    """


@ops_command.command("logs")
@click.argument("log_group")
@click.argument("query", default="*")
@click.option("--minutes", type=int, default=60, show_default=True, help="How far back to look.")
@click.option("--limit", type=int, default=50, show_default=True, help="Lines or rows at most.")
@click.option("--show", type=click.Choice(SHOWN), default=SHOWN[0], show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def ask_logs(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Search the lines of LOG_GROUP for the words and "phrases" of QUERY, but without its -words; * is every line."""
    _ask(session, query_logs, request_of(QueryLogs, given), as_json=as_json)


@ops_command.command("metrics")
@click.argument("metric")
@click.argument("node")
@click.option("--minutes", type=int, default=180, show_default=True, help="How far back to look.")
@click.option("--candidates", default="", metavar="NAMES", help="Metrics to compare with, separated by commas.")
@click.option("--max-lag", type=int, default=30, show_default=True, help="Minutes that one may move before the other.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def ask_metrics(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Find which other metrics of NODE moved with METRIC, and which of them moved first."""
    _ask(session, correlate_metrics, request_of(CorrelateMetrics, given), as_json=as_json)


@ops_command.command("traces")
@click.argument("service")
@click.option("--minutes", type=int, default=60, show_default=True, help="How far back to look.")
@click.option("--limit", type=int, default=5, show_default=True, help="Parts of each kind at most.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def ask_traces(session: Session, /, *, as_json: bool, **given: Any) -> None:
    """Find where requests through SERVICE are slow or fail."""
    _ask(session, analyze_traces, request_of(AnalyzeTraces, given), as_json=as_json)


def _ask(session: Session, run: Run[Any, Any], request: Any, *, as_json: bool) -> None:
    reply = session.client.call(run, request)
    if as_json:
        print_json(plain(reply))
    else:
        click.echo(text_of(reply))
