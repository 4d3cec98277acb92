"""Ingests changes in the corpus bucket: batches of S3 events from the queue that EventBridge fills. Once a day it links
mentions of nodes that were declared after a document.

A batch goes through the pipeline together, as the index commits once per batch. Powertools' batch processors call a
function per record, which would commit once per record, so that only their form of answer is used. Its idempotency
records skip exact duplicates; the catalog keeps the order, by sequencer and claim. An event to retry isn't recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from opx.graph.daily import is_relink, relink
from opx.ingestion.indexing.embedding_cache import reported_cache
from opx.ingestion.worker import HandledEvents, QueueMessage, process_batch
from opx.operations.system import System
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse


def start() -> tuple[System, HandledEvents]:
    """The system that the environment describes."""
    from opx.adapters.aws.clients import client
    from opx.adapters.aws.handled_events import DynamoHandledEvents

    settings = function_settings()
    return bootstrap(settings), DynamoHandledEvents(client("dynamodb"), table_prefix=settings.table_prefix)


def make_handler(
    start: Callable[[], tuple[System, HandledEvents]] = start,
) -> Callable[[Any, Any], PartialItemFailureResponse | dict[str, int]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> PartialItemFailureResponse | dict[str, int]:  # noqa: ARG001
        services, handled = started()
        if is_relink(event):
            return relink(services.relinking)
        deliveries = [_delivery(record) for record in event["Records"]]
        with reported_cache(services.indexing.document_embedder, report):
            unfinished = process_batch(deliveries, services.ingestion.worker, services.queue, handled, report)
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in unfinished]}

    return handler


def _delivery(record: Mapping[str, Any]) -> QueueMessage:
    receives = record["attributes"]["ApproximateReceiveCount"]
    return QueueMessage(record["messageId"], record["body"], record["receiptHandle"], int(receives))


handler = make_handler()
