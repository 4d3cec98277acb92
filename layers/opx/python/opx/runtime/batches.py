"""Processes messages of a queue one by one with Powertools' batch processor: those that fail are delivered again, alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response

from opx.errors import OpxError

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


class DeliverAgainError(OpxError):
    """A message isn't done; the reason is in the log already."""


def each_message(event: Any, process: Callable[[str, int], bool]) -> PartialItemFailureResponse:
    """Calls `process` with the body and the deliveries of each message of an SQS event, in order.

    The reply names messages for which it returned False or raised: the queue delivers only these again. `process` logs its
    errors, as Powertools' own lines would quote their messages. A batch in which every message failed is no failure of
    the function, whose alarm is for other errors.
    """

    def done(record: SQSRecord) -> None:
        if not process(record.body, int(record.attributes.approximate_receive_count)):
            raise DeliverAgainError(record.message_id)

    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event, done, processor)
