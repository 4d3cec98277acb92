"""Serves the writing routes of the HTTP API: uploads, deletions, sources, names and holds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.edges.http import is_http, respond
from opx.errors import InvalidInputError
from opx.operations.registry import Function
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:
        if not is_http(event, context):
            raise InvalidInputError("this function answers requests of the HTTP API alone")
        return respond(event, Function.MANAGE, started, report)

    return handler


handler = make_handler()
