"""Puts records of streams into the corpus: batches that Lambda reads from Kinesis, SQS or Kafka."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap
from opx_streams.capability import StreamIngestion
from opx_streams.streams.taking import consume_batch


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, list[Any]]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, list[Any]]:  # noqa: ARG001
        services = started()
        found = services.part(StreamIngestion)
        return consume_batch(
            event,
            found.repository.all(),
            services.manager,
            report,
            values_of=found.taker_of_values,
            note=found.note_record,
        )

    return handler


handler = make_handler()
