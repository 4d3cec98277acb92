"""Serves the learning tools to agents, which capture entries and find patterns: from Bedrock action groups of both kinds and
from AgentCore Gateway."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.edges.tools import respond
from opx.operations.registry import LEARNING
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called once, at the first event of a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        return respond(event, context, LEARNING, started, report)

    return handler


handler = make_handler()
