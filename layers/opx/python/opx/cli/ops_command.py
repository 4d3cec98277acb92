"""`opx ops`: what agents may ask about running systems, asked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from opx.cli.output import print_json
from opx.cli.session import Session, pass_session
from opx.domain.scopes import Identity
from opx.tools.declarations import Tool
from opx.tools.operations_group import ANALYZE_TRACES, CORRELATE_METRICS, QUERY_LOGS, SHOWN


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
def ask_logs(session: Session, /, *, as_json: bool, **asked: Any) -> None:
    """Search the lines of LOG_GROUP for the words and "phrases" of QUERY, but without its -words; * is every line."""
    _ask(session, QUERY_LOGS, asked, as_json=as_json)


@ops_command.command("metrics")
@click.argument("metric")
@click.argument("node")
@click.option("--minutes", type=int, default=180, show_default=True, help="How far back to look.")
@click.option("--candidates", default="", metavar="NAMES", help="Metrics to compare with, separated by commas.")
@click.option("--max-lag", type=int, default=30, show_default=True, help="Minutes that one may move before the other.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def ask_metrics(session: Session, /, *, as_json: bool, **asked: Any) -> None:
    """Find which other metrics of NODE moved with METRIC, and which of them moved first."""
    _ask(session, CORRELATE_METRICS, asked, as_json=as_json)


@ops_command.command("traces")
@click.argument("service")
@click.option("--minutes", type=int, default=60, show_default=True, help="How far back to look.")
@click.option("--limit", type=int, default=5, show_default=True, help="Parts of each kind at most.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@pass_session
def ask_traces(session: Session, /, *, as_json: bool, **asked: Any) -> None:
    """Find where requests through SERVICE are slow or fail."""
    _ask(session, ANALYZE_TRACES, asked, as_json=as_json)


def _ask(session: Session, tool: Tool, asked: Mapping[str, Any], *, as_json: bool) -> None:
    from opx.tools.operations_tools import OperationsTools

    identity = Identity(session.settings.client_id, session.settings.project_id)
    reply = OperationsTools(session.services, identity).call(tool, asked.items())
    if as_json:
        print_json(reply.to_json())
    else:
        click.echo(reply.text())
