"""Captures learning events until a checkpoint processes them: batches from the queue of the event bus."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from opx.edges.learning_events import handle_message, learn
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
        return each_message(event, lambda body, receives: handle_message(body, receives, system, learn, report))

    return handler


handler = make_handler()
