"""Processes checkpoints: turns the entries captured for a project into patterns and warnings, when a phase or the project
ends, or on request."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from opx.edges.learning_events import checkpoint, handle_message
from opx.operations.system import System
from opx.runtime.batches import each_message
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], PartialItemFailureResponse]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> PartialItemFailureResponse:  # noqa: ARG001
        system = started()
        do = partial(checkpoint, report=report)
        return each_message(event, lambda body, receives: handle_message(body, receives, system, do, report))

    return handler


handler = make_handler()
