"""Ingests changes in the corpus bucket: batches of S3 events from the queue that EventBridge fills. Once a day it links
mentions of nodes that were declared after a document; for an operator it measures the embedding model.

A batch is committed once, so Powertools' batch processors, which call a function per record, don't fit: their form of
answer is used, and idempotency records for exact duplicates. An event to retry isn't recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from opx.graph.daily import is_relink, relink
from opx.ingestion.indexing.embedding_cache import reported_cache
from opx.ingestion.indexing.measuring import is_measure, measure_embedding
from opx.ingestion.worker import HandledEvents, QueueMessage, process_batch
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.runtime.speed_limit import reported_limits
from opx.system import bootstrap

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse


def start() -> tuple[System, HandledEvents]:
    """The system that the environment describes."""
    from opx_aws.clients import client
    from opx_aws.handled_events import DynamoHandledEvents

    settings = function_settings()
    return bootstrap(settings), DynamoHandledEvents(client("dynamodb"), table_prefix=settings.table_prefix)


def make_handler(
    start: Callable[[], tuple[System, HandledEvents]] = start,
) -> Callable[[Any, Any], PartialItemFailureResponse | dict[str, Any]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> PartialItemFailureResponse | dict[str, Any]:  # noqa: ARG001
        services, handled = started()
        if is_relink(event):
            return relink(services.relinking)
        if is_measure(event):
            return measure_embedding(services).to_json()
        found, cache = (
            [QueueMessage.of_record(record) for record in event["Records"]],
            services.indexing.document_embedder,
        )
        with reported_limits(services.ports.speed_limits, report), reported_cache(cache, report):
            unfinished = process_batch(found, services.ingestion.worker, services.queue, handled, report)
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}

    return handler


handler = make_handler()
