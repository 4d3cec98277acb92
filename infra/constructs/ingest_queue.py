"""The way of a change in the corpus to the function that takes it in."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.acknowledgements import acknowledge
from infra.names import Names
from opx.ingestion.events import CREATED, DELETED, DOCUMENTS_FOLDER

RECEIVES = 8
"""How often a message is handed out. The function gives up on a document after `max_attempts` and notes why; the
dead-letter queue is for messages with which the function itself fails, or which found the document busy too often."""

VISIBILITY_TIMEOUTS = 6
"""Function timeouts for which a message stays hidden: Lambda's documentation asks for six, since a batch whose
invocation is throttled is tried again before it returns to the queue."""

_KEPT_DAYS = 4
_SET_ASIDE_DAYS = 14
"""The longest that SQS keeps a message."""


class IngestQueue(Construct):
    """Changes of documents in a bucket, from EventBridge into a queue.

    Two dead-letter queues: `failed` has what the function could not handle, `undelivered` what EventBridge could not
    put into the queue. Each is encrypted and refuses connections without TLS.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, function_timeout: int) -> None:
        super().__init__(scope, construct_id)
        self.failed = self._queue("Failed", names.queue("ingest-failed"), _SET_ASIDE_DAYS)
        self.undelivered = self._queue("Undelivered", names.queue("ingest-undelivered"), _SET_ASIDE_DAYS)
        acknowledge(self.undelivered, "SQS3", "it is a dead-letter queue itself, that of the EventBridge target")
        self.queue = self._queue(
            "Queue",
            names.queue("ingest"),
            _KEPT_DAYS,
            visibility_timeout=Duration.seconds(VISIBILITY_TIMEOUTS * function_timeout),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.failed, max_receive_count=RECEIVES),
        )
        self.rule = events.Rule(
            self,
            "DocumentChanged",
            description="Objects below documents/ of the corpus, of everyone and of each client",
            event_pattern=document_changes(names.corpus_bucket),
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.undelivered)],
        )

    def _queue(self, construct_id: str, name: str, kept_days: int, **more: object) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            queue_name=name,
            retention_period=Duration.days(kept_days),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
            **more,  # type: ignore[arg-type]
        )


def document_changes(bucket: str) -> events.EventPattern:
    """Documents and their sidecars, but not the chunk files that taking them in writes beside."""
    folders = [{"prefix": DOCUMENTS_FOLDER}, {"wildcard": f"clients/*/{DOCUMENTS_FOLDER}*"}]
    return events.EventPattern(
        source=["aws.s3"],
        detail_type=[CREATED, DELETED],
        detail={"bucket": {"name": [bucket]}, "object": {"key": folders}},
    )
