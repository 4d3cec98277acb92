"""Starts ingestion jobs of the knowledge base for new copies: batches of requests from a queue."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from opx.ingestion.states import sync_batch
from opx.ports import IndexSync
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse


def start() -> IndexSync:
    """The knowledge base that the environment names."""
    return bootstrap(function_settings()).ports.index_sync


def make_handler(start: Callable[[], IndexSync] = start) -> Callable[[Any, Any], PartialItemFailureResponse]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> PartialItemFailureResponse:  # noqa: ARG001
        records = event["Records"]
        done = sync_batch((record["body"] for record in records), started())
        again = [] if done else records
        return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in again]}

    return handler


handler = make_handler()
