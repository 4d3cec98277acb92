"""Queues: encrypted, for TLS only, and with a dead-letter queue."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.acknowledgements import acknowledge
from opx.ports.queues import KEPT_DAYS


def work_queue(
    scope: Construct,
    construct_id: str,
    name: str,
    *,
    dead_letters: sqs.Queue,
    receives: int,
    visibility: Duration | None = None,
    delay: Duration | None = None,
) -> sqs.Queue:
    """A queue whose messages go to `dead_letters` after `receives` deliveries. Each is delivered after `delay` at the
    earliest. SQS deletes a message `KEPT_DAYS` after it was sent, wherever it is by then."""
    return sqs.Queue(
        scope,
        construct_id,
        queue_name=name,
        retention_period=Duration.days(KEPT_DAYS),
        visibility_timeout=visibility,
        delivery_delay=delay,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        dead_letter_queue=sqs.DeadLetterQueue(queue=dead_letters, max_receive_count=receives),
        removal_policy=RemovalPolicy.DESTROY,
    )


def dead_letter_queue(scope: Construct, construct_id: str, name: str, *, of: str) -> sqs.Queue:
    """A queue for what could not be handled; `of` says what it is the dead-letter queue of."""
    queue = sqs.Queue(
        scope,
        construct_id,
        queue_name=name,
        retention_period=Duration.days(KEPT_DAYS),
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        removal_policy=RemovalPolicy.DESTROY,
    )
    acknowledge(queue, "SQS3", f"it is a dead-letter queue itself, that of {of}")
    return queue
