"""Dashboards, alarms with their topic, and the function that reports holdings and freshness."""

from __future__ import annotations

from typing import TypeVar

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from infra.constructs import rights
from infra.constructs.alarm_topic import AlarmTopic
from infra.constructs.code import LayerSource
from infra.constructs.knowledge_alarms import KnowledgeAlarms
from infra.constructs.knowledge_dashboards import KnowledgeDashboards
from infra.constructs.measurements import Measurements
from infra.constructs.monthly_budget import MonthlyBudget
from infra.constructs.schedules import invocations
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, table_settings
from infra.constructs.waking import Waking
from infra.ingestion import INGEST_DOCUMENTS
from infra.names import GAPS_FAILED, RELINK_FAILED, Names
from opx.graph.daily import RELINK
from opx.ports.tables import ANNOUNCEMENTS, AUDIT, DOCUMENTS, FAILURES, GAPS, LIFECYCLE, SOURCES, USAGE
from opx.records.daily import CHECK
from opx.retrieval.waking import CANARY
from opx.runtime.knowledge_file import load_knowledge

READ_TABLES = (ANNOUNCEMENTS, AUDIT, DOCUMENTS, FAILURES, GAPS)

_ON_PROGRESS = ("dynamodb:GetItem", "dynamodb:Query", *rights.WRITE_ITEMS)
"""On a count of documents that isn't finished."""

REPORT_COVERAGE = FunctionSpec(
    use_case="report_coverage",
    dependencies="ingest",  # it parses schedules
    description="Reports the coverage of the knowledge base and overdue sources",
    memory=1024,
    timeout=900,
)

EVERY_HOUR, EVERY_DAY = "rate(1 hour)", "cron(40 0 * * ? *)"
COVERAGE_FAILED = "coverage-failed"
GAPS_CHECKED = "cron(10 0 * * ? *)"
"""Before the gaps are counted."""

CANARY_ASKED = "cron(35 * * * ? *)"
"""On time, so that each hour of the metric has one."""

RELINKED = "cron(20 1 * * ? *)"

C = TypeVar("C")


class ObservabilityStack(Stack):
    """Dashboards, alarms, their topic, and the function that reports metrics which need counting.

    Every function and every queue that is in the app by now is monitored: this stack comes last.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        source: LayerSource,
        env: Environment,
        retrieve_arn: str,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: dashboards and alarms")
        self._report_coverage(names, source)
        self._ask(names, retrieve_arn)
        if names.deployment.may_sleep:
            Waking(self, "Waking", names=names, function_arn=retrieve_arn)
        self._relink(names)
        functions = [function.function_name or "" for function in _all(scope, lambda_.CfnFunction)]
        queues = _all(scope, sqs.CfnQueue)
        # A queue without a redrive policy is a dead-letter queue.
        dead_letters = [queue.queue_name or "" for queue in queues if queue.redrive_policy is None]
        working = [queue.queue_name or "" for queue in queues if queue.redrive_policy is not None]
        measurements = Measurements(names.deployment.environment)
        self.alarm_topic = AlarmTopic(self, "AlarmTopic", names=names)
        if dollars := names.deployment.budget_usd:
            topic = self.alarm_topic.topic
            MonthlyBudget(self, "Budget", names=names, dollars=dollars, topic=topic)
        alarms = KnowledgeAlarms(
            self,
            "Alarms",
            names=names,
            measurements=measurements,
            topic=self.alarm_topic.topic,
            functions=functions,
            dead_letters=dead_letters,
            queues=working,
        )
        KnowledgeDashboards(
            self,
            "Dashboards",
            names=names,
            measurements=measurements,
            knowledge=load_knowledge(),
            alarms=alarms.alarms,
            functions=functions,
            queues=working,
            dead_letters=dead_letters,
        )
        CfnOutput(self, "AlarmTopicArn", value=self.alarm_topic.topic.topic_arn)

    def _report_coverage(self, names: Names, source: LayerSource) -> None:
        """Schedules the coverage report. It never queries the index: that would keep an idle collection awake."""
        reporter = UseCaseFunction(
            self,
            REPORT_COVERAGE,
            names=names,
            source=source,
            settings=table_settings(names),
            rights=[
                rights.on_tables(names, READ_TABLES, ["dynamodb:Query"]),
                rights.on_tables(names, (USAGE,), ["dynamodb:BatchWriteItem"]),
                rights.on_tables(names, (LIFECYCLE,), _ON_PROGRESS),
                rights.on_tables(names, (SOURCES,), rights.READ_ITEMS),
                rights.send_to(names, COVERAGE_FAILED),
            ],
        )
        arn, failed = reporter.target_arn, ("Failed", COVERAGE_FAILED)
        schedules = invocations(self, "Schedules", names=names, function_arn=arn, failed=failed, function=reporter)
        schedules.add("report-freshness", EVERY_HOUR, description="Report failed items and overdue sources")
        schedules.add(
            "report-holdings",
            EVERY_DAY,
            description="Count documents, chunks, and the use of clients",
            payload={"holdings": True},
        )

    def _ask(self, names: Names, retrieve_arn: str) -> None:
        """Schedules the daily check of gaps by the function that searches, which wakes a sleeping collection only if there
        are gaps, and the canary's question, which wakes it every hour."""
        failed = ("GapsFailed", GAPS_FAILED)
        schedules = invocations(self, "GapSchedules", names=names, function_arn=retrieve_arn, failed=failed)
        schedules.add("check-gaps", GAPS_CHECKED, description="Query open gaps again", payload=CHECK)
        if names.deployment.canary:
            about = "Ask a question that has to be searched"
            schedules.add("ask-canary", CANARY_ASKED, description=about, payload=CANARY, on_time=True)

    def _relink(self, names: Names) -> None:
        """Schedules the daily relinking by the ingesting function, which may write statements of documents."""
        arn = names.function_arn(INGEST_DOCUMENTS.use_case)
        failed = ("RelinkFailed", RELINK_FAILED)
        schedules = invocations(self, "RelinkSchedules", names=names, function_arn=arn, failed=failed)
        about = "Link documents to nodes that were declared after them"
        schedules.add("relink-graph", RELINKED, description=about, payload=RELINK)


def _all(scope: IConstruct, kind: type[C]) -> list[C]:
    return [construct for construct in scope.node.find_all() if isinstance(construct, kind)]
