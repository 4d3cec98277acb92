"""What work taught: events of agents and pipelines, kept until the learning loop has taken them in."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.constructs.queues import SET_ASIDE_DAYS, dead_letter_queue, work_queue
from infra.names import Names

EVENT_SOURCE = "opx.learning"
ARCHIVE_DAYS = 365
"""Events can be replayed for a year, so that a mistake in what was learned from them can be undone."""


class LearningStack(Stack):
    """An event bus for `opx.learning` events, an archive of them, and the queue that they wait in.

    Nothing takes events from the queue yet. Whoever may put events on the bus is given that right by its own role.
    """

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, env: Environment) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: learning")
        self.bus = events.EventBus(self, "Bus", event_bus_name=names.learning_bus)
        self.failed = dead_letter_queue(
            self, "Failed", names.queue("learning-failed"), of="the queue of learning events, and of their rule"
        )
        self.outcomes = work_queue(
            self,
            "Outcomes",
            names.queue("learning"),
            dead_letters=self.failed,
            receives=3,
            kept_days=SET_ASIDE_DAYS,
        )
        pattern = events.EventPattern(source=[EVENT_SOURCE], account=[self.account])
        self.bus.archive(
            "Archive",
            archive_name=names.learning_bus,
            event_pattern=pattern,
            retention=Duration.days(ARCHIVE_DAYS),
        )
        events.Rule(
            self,
            "Learned",
            description="Outcomes, approvals and rejections, for the learning loop",
            event_bus=self.bus,
            event_pattern=pattern,
            targets=[targets.SqsQueue(self.outcomes, dead_letter_queue=self.failed)],
        )
        CfnOutput(self, "BusName", value=self.bus.event_bus_name)
        CfnOutput(self, "OutcomesQueueUrl", value=self.outcomes.queue_url)
