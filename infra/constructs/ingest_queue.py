"""Delivery of changes in the corpus to the ingesting function: rule, queue and dead-letter queues."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.constructs.queues import dead_letter_queue, work_queue
from infra.names import Names
from opx.ingestion.events import CREATED, DELETED, DOCUMENTS_FOLDER

RECEIVES = 8
"""Deliveries of a message. The function gives up on a document after `max_attempts` and records the reason; the dead-letter
queue is for messages with which the function itself fails, or which found the document busy too often."""

VISIBILITY_TIMEOUTS = 6
"""Visibility timeout in function timeouts: Lambda's documentation recommends six, since a batch whose invocation is
throttled is retried before it returns to the queue."""


class IngestQueue(Construct):
    """Changes of documents in a bucket, from EventBridge into a queue.

    Two dead-letter queues: `failed` for messages that the function could not handle, `undelivered` for events that
    EventBridge could not put into the queue. Each is encrypted and refuses connections without TLS.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, function_timeout: int) -> None:
        super().__init__(scope, construct_id)
        self.failed = dead_letter_queue(self, "Failed", names.queue("ingest-failed"), of="the queue of changes")
        self.undelivered = dead_letter_queue(
            self, "Undelivered", names.queue("ingest-undelivered"), of="the EventBridge target"
        )
        self.queue = work_queue(
            self,
            "Queue",
            names.queue("ingest"),
            dead_letters=self.failed,
            receives=RECEIVES,
            visibility=Duration.seconds(VISIBILITY_TIMEOUTS * function_timeout),
        )
        self.rule = events.Rule(
            self,
            "DocumentChanged",
            description="Objects below documents/ of the corpus, of everyone and of each client",
            event_pattern=document_changes(names.corpus_bucket),
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.undelivered)],
        )


def document_changes(bucket: str) -> events.EventPattern:
    """Documents and their sidecars, but not the chunk files that ingestion writes."""
    folders = [{"prefix": DOCUMENTS_FOLDER}, {"wildcard": f"clients/*/{DOCUMENTS_FOLDER}*"}]
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=[CREATED, DELETED],
        detail={"bucket": {"name": [bucket]}, "object": {"key": folders}},
    )
