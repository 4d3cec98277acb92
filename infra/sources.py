"""Sources: their schedules, the queue of pulls, and the function that pulls."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.queues import dead_letter_queue, work_queue
from infra.constructs.schedules import Schedules
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, corpus_settings, reaching_settings
from infra.names import PULLS, PULLS_FAILED, Names
from opx.connectors.repository import declared_sources
from opx.connectors.states import scheduler_cron
from opx.domain.knowledge import KnowledgeModel
from opx.ports.tables import SOURCES
from opx.runtime.knowledge_file import load_knowledge

LONGEST = 900
"""Seconds that a function may run, and that a pull's lease of its source lasts without renewal: the message of a killed
function must be delivered again after both, or it would find the source busy."""

PULL_SOURCES = FunctionSpec(
    use_case="pull_sources",
    dependencies="ingest",
    description="Pulls sources into the corpus",
    memory=1024,
    timeout=LONGEST,  # Lambda's maximum: a first pull takes hours, and continues in the next invocation
)
AT_ONCE = 4
"""Sources that are pulled at the same time; each source by one function at a time."""


class SourcesStack(Stack):
    """The group of this environment's schedules, a schedule for each declared source, and the function that pulls.

    A pull is a message with the source's id in the queue `pulls`. Disabled sources keep disabled
    schedules. Sources registered at run time get schedules in the same group, from the function that registers them.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        source: LayerSource,
        env: Environment,
        knowledge: KnowledgeModel | None = None,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: sources")
        group = scheduler.CfnScheduleGroup(self, "Group", name=names.schedule_group)
        self.failed = dead_letter_queue(
            self, "Failed", names.queue(PULLS_FAILED), of="the queue of pulls, and of the scheduler"
        )
        self.pulls = work_queue(
            self,
            "Pulls",
            names.queue(PULLS),
            dead_letters=self.failed,
            receives=3,
            visibility=Duration.seconds(2 * PULL_SOURCES.timeout + 60),
        )
        self._schedule(names, group, knowledge or load_knowledge())
        self.pull = self._function(names, source)
        CfnOutput(self, "PullsQueueUrl", value=self.pulls.queue_url)

    def _schedule(self, names: Names, group: scheduler.CfnScheduleGroup, knowledge: KnowledgeModel) -> None:
        schedules = Schedules(
            self,
            "Schedules",
            names=names,
            target=self.pulls.queue_arn,
            action="sqs:SendMessage",
            dead_letters=self.failed,
            role_name=names.role("source-schedules"),
        )
        for definition in declared_sources(knowledge).values():
            if definition.schedule:
                schedule = schedules.add(
                    f"pull-{definition.source_id}",
                    scheduler_cron(definition.schedule),
                    time_zone=definition.time_zone,
                    description=f"Pull {definition.source_id} into {definition.category}",
                    payload={"source": definition.source_id},
                    enabled=definition.enabled,
                )
                schedule.add_resource_dependency(group)

    def _function(self, names: Names, source: LayerSource) -> UseCaseFunction:
        function = UseCaseFunction(
            self,
            PULL_SOURCES,
            names=names,
            source=source,
            settings={
                **corpus_settings(names),
                "pull_queue_url": self.pulls.queue_url,
                **reaching_settings(names),
            },
            rights=_rights(names, self.pulls.queue_arn),
            folders=rights.DOCUMENT_FOLDERS,
        )
        function.consume(self.pulls, max_concurrency=AT_ONCE, report_failures=False)
        rights.acknowledge_secrets(function.role, names)
        for arn in names.source_bucket_arns:
            acknowledge_wildcard(function.role, f"{arn}/*", "the source selects the objects")
        return function


def _rights(names: Names, pulls: str) -> list[iam.PolicyStatement]:
    """Rights of the function that pulls. Of the corpus, it reads sidecars and documents uploaded in parts. Listing
    distinguishes a missing object (404) from a forbidden one (403)."""
    sources = names.source_bucket_arns
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn, *sources),
        *([rights.allow(["s3:GetObject"], *(f"{arn}/*" for arn in sources))] if sources else []),
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, rights.PUT_DOCUMENTS),
        rights.on_tables(names, (SOURCES,), rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.look_clients_up(names),
        rights.allow(["sqs:SendMessage"], pulls),
        rights.read_secrets(names),
    ]
