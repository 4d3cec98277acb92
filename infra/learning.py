"""Learning from work: the event bus, its archive and queues, and the functions that capture entries and run checkpoints."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.constructs.code import LayerSource
from infra.constructs.ingest_queue import VISIBILITY_TIMEOUTS
from infra.constructs.learning_functions import (
    CHECKPOINT_SECONDS,
    CHECKPOINTS,
    EVENT_SECONDS,
    LEARNING_FAILED,
    LearningTools,
    Parts,
    learn_from_events,
    process_checkpoint,
    tools_are_wanted,
)
from infra.constructs.managed_search import ManagedBase
from infra.constructs.queues import dead_letter_queue, work_queue
from infra.constructs.use_case_function import FindEngine
from infra.names import Names
from opx.edges.learning_events import LAST_WAIT
from opx.learning.fields import SOURCE, EntryKind

ARCHIVE_DAYS = 365
"""Events can be replayed for a year, so that errors in processing them can be repaired."""

RECEIVES = LAST_WAIT + 2
"""An event may arrive before the one that creates its entry: it is refused with that reason before the queue's deliveries
are used up."""

EVENTS_A_BATCH = 10
CHECKPOINT_DELAY = Duration.minutes(2)
"""Entries sent right before a checkpoint take another queue: the delay lets them be stored before the checkpoint begins."""

CHECKPOINTS_AT_ONCE = 2
"""Concurrent checkpoints, each of which embeds its entries. Lambda accepts no smaller number."""


class LearningStack(Stack):
    """An event bus for `opx.learning` events, an archive of them, and the two functions that handle them: one captures
    entries, the other processes checkpoints.

    Each has a queue; unusable events end in a third one, with the reason. Senders of events get the right to put them from
    their own roles. The function with the tools of agents exists if knowledge.yaml grants one to some agent.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        engine: FindEngine,
        source: LayerSource,
        env: Environment,
        managed: ManagedBase | None = None,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: learning")
        collection = engine(self)
        self.bus = events.EventBus(self, "Bus", event_bus_name=names.learning_bus)
        self.failed = dead_letter_queue(
            self, "Failed", names.queue(LEARNING_FAILED), of="the queues of learning events, and of their rules"
        )
        self.outcomes = self._queue("Outcomes", names.queue("learning"), EVENT_SECONDS)
        queue = names.queue(CHECKPOINTS)
        self.checkpoints = self._queue("Checkpoints", queue, CHECKPOINT_SECONDS, CHECKPOINT_DELAY)
        self._archive(names)
        kind = EntryKind.CHECKPOINT.value
        # Unknown types included: they are refused with the reason, and not lost.
        others = events.Match.anything_but(kind)
        self._route("Learned", "Learning events, for the function that captures entries", self.outcomes, others)
        self._route("Checkpoint", "Ends of phases and of projects", self.checkpoints, [kind])
        parts = Parts(names, source, collection, managed)
        self.learn = learn_from_events(self, parts, self.failed.queue_url)
        self.checkpoint = process_checkpoint(self, parts, self.failed.queue_url)
        self.learn.consume(self.outcomes, batch_size=EVENTS_A_BATCH)
        self.checkpoint.consume(self.checkpoints, max_concurrency=CHECKPOINTS_AT_ONCE)
        self.tools = LearningTools(self, "LearningTools", parts) if tools_are_wanted() else None
        CfnOutput(self, "BusName", value=self.bus.event_bus_name)
        CfnOutput(self, "OutcomesQueueUrl", value=self.outcomes.queue_url)
        CfnOutput(self, "CheckpointsQueueUrl", value=self.checkpoints.queue_url)

    @property
    def tools_arn(self) -> str:
        """The function that agents invoke; "" if none may."""
        return self.tools.target_arn if self.tools else ""

    def _queue(self, construct_id: str, name: str, seconds: int, delay: Duration | None = None) -> sqs.Queue:
        return work_queue(
            self,
            construct_id,
            name,
            dead_letters=self.failed,
            receives=RECEIVES,
            visibility=Duration.seconds(VISIBILITY_TIMEOUTS * seconds),
            delay=delay,
        )

    def _archive(self, names: Names) -> None:
        pattern = events.EventPattern(source=[SOURCE], account=[self.account])
        retention = Duration.days(ARCHIVE_DAYS)
        self.bus.archive("Archive", archive_name=names.learning_bus, event_pattern=pattern, retention=retention)

    def _route(self, construct_id: str, about: str, queue: sqs.Queue, detail_type: list[str]) -> None:
        pattern = events.EventPattern(source=[SOURCE], account=[self.account], detail_type=detail_type)
        events.Rule(
            self,
            construct_id,
            description=about,
            event_bus=self.bus,
            event_pattern=pattern,
            targets=[targets.SqsQueue(queue, dead_letter_queue=self.failed)],
        )
