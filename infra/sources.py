"""What is pulled from outside, and when."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.constructs.queues import SET_ASIDE_DAYS, dead_letter_queue, work_queue
from infra.constructs.schedules import Schedules
from infra.names import Names
from opx.domain.knowledge import KnowledgeModel
from opx.knowledge_file import load_knowledge
from opx.sources.schedules import scheduler_cron


class SourcesStack(Stack):
    """The group of this environment's schedules, and a schedule for each category that is pulled.

    A pull is a message with the category's name in the queue `pulls`. Schedules are followed for the categories in
    `connected`, those with a source to pull from; the others keep their times and send nothing.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        env: Environment,
        knowledge: KnowledgeModel | None = None,
        connected: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: sources")
        group = scheduler.CfnScheduleGroup(self, "Group", name=names.schedule_group)
        self.failed = dead_letter_queue(
            self, "Failed", names.queue("pulls-failed"), of="the queue of pulls, and of the scheduler"
        )
        self.pulls = work_queue(
            self,
            "Pulls",
            names.queue("pulls"),
            dead_letters=self.failed,
            receives=3,
            kept_days=SET_ASIDE_DAYS,
        )
        schedules = Schedules(
            self,
            "Schedules",
            names=names,
            target=self.pulls.queue_arn,
            action="sqs:SendMessage",
            dead_letters=self.failed,
        )
        for category in (knowledge or load_knowledge()).categories.values():
            if category.schedule:
                schedule = schedules.add(
                    f"pull-{category.path.replace('/', '-')}",
                    scheduler_cron(category.schedule),
                    description=f"Pull the sources of {category.path}",
                    payload={"category": category.path},
                    enabled=category.path in connected,
                )
                schedule.add_resource_dependency(group)
        CfnOutput(self, "PullsQueueUrl", value=self.pulls.queue_url)
