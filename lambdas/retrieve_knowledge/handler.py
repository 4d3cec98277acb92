"""Answers tool calls of agents, from Bedrock action groups of both kinds and from AgentCore Gateway, and reading requests of
the HTTP API. Once a day it checks open gaps again; it wakes the index when an alarm goes off, and asks as a canary."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.edges import http, tools
from opx.operations import load
from opx.operations.registry import KNOWLEDGE, Function
from opx.operations.system import System
from opx.records.daily import check_gaps, is_check
from opx.retrieval.waking import ask_canary, is_canary, is_wake, wake
from opx.runtime.functions import around_snapshot, function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap
from opx_quality.canaries import ask_canaries


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called once: before a snapshot, or at the first event of a cold start."""
    started = cache(start)
    around_snapshot(started, load)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        if http.is_http(event, context):
            return http.respond(event, Function.RETRIEVE, started, report)
        if is_wake(event, context):
            return wake(started().indexing, report)
        if is_check(event, context):
            return check_gaps(started().questions, started().records)
        if is_canary(event, context):
            result = ask_canary(started().questions, report, started().clock)
            ask_canaries(started())
            return result
        return tools.respond(event, context, KNOWLEDGE, started, report)

    return handler


handler = make_handler()
