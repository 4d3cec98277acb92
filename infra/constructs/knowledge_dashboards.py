"""Three dashboards: performance of the knowledge base, its questions, and its coverage."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs import coverage_widgets, performance_widgets
from infra.constructs.dashboard_widgets import DAY, FORTNIGHT, WIDTH, Rows, graph
from infra.constructs.measurements import Measurements
from infra.names import Names
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import SearchMode
from opx.records.daily import owner_labels
from opx.records.gaps.listing import read_owners
from opx.runtime.knowledge_file import load_knowledge
from opx.runtime.metrics import Metric

PERFORMANCE, ANALYTICS, COVERAGE = "Knowledge Base Performance", "Query Analytics", "Document Coverage"


class KnowledgeDashboards(Construct):
    """The dashboards of one environment. CloudWatch allows no spaces in their names: the titles have them."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        measurements: Measurements,
        knowledge: KnowledgeModel,
        alarms: Sequence[cloudwatch.IAlarm],
        functions: Sequence[str],
        queues: Sequence[str],
        dead_letters: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self._board(
            PERFORMANCE,
            [cloudwatch.AlarmStatusWidget(title="Alarms", alarms=list(alarms), width=WIDTH, height=4)],
            *performance_widgets.answers(measurements),
            *performance_widgets.ingestion(measurements, queues, dead_letters),
            *performance_widgets.services(functions),
        )
        self._board(ANALYTICS, *_questions(measurements))
        holdings = coverage_widgets.holdings(measurements, list(knowledge.categories.values()))
        self._board(COVERAGE, *holdings, interval=FORTNIGHT)

    def _board(self, title: str, *rows: Sequence[cloudwatch.IWidget], interval: Duration = DAY) -> None:
        heading = cloudwatch.TextWidget(
            markdown=f"# {title}\n\nEnvironment `{self._names.deployment.environment}`. What the numbers mean and what "
            "to do about them: docs/deploy.md.",
            width=WIDTH,
            height=2,
        )
        cloudwatch.Dashboard(
            self,
            title.replace(" ", ""),
            dashboard_name=self._names.prefix + title.replace(" ", "-"),
            default_interval=interval,
            widgets=[[heading], *map(list, rows)],
        )


def _questions(measured: Measurements) -> Rows:
    """Widgets about questions: their number, the confidence of answers, and those without results."""
    of = measured.of
    by_mode = [of(Metric.QUERIES, "Sum", label=mode, mode=mode) for mode in SearchMode]
    confidences = [of(Metric.CONFIDENCE, name, label=name) for name in ("Average", "p50", "p10")]
    refused = [of(Metric.INVALID_CALLS, "Sum"), of(Metric.API_REFUSED, "Sum")]
    owners = owner_labels(read_owners(load_knowledge()))
    gaps = [of(Metric.OPEN_GAPS, "Maximum", period=DAY, label=owner, owner=owner) for owner in owners]
    today = [
        of(Metric.QUERIES, "Sum", period=DAY, label="questions"),
        of(Metric.ZERO_RESULTS, "Average", period=DAY, label="share without results"),
        of(Metric.CONFIDENCE, "Average", period=DAY, label="average confidence"),
        of(Metric.QUERY_LATENCY, "p95", period=DAY, label="p95 latency (ms)"),
    ]
    return [
        [
            cloudwatch.SingleValueWidget(
                title="Last day", metrics=today, width=WIDTH, height=4, set_period_to_time_range=False
            )
        ],
        [
            graph("Questions", [of(Metric.QUERIES, "Sum", label="all")]),
            graph("Questions by mode", by_mode, stacked=True),
        ],
        [
            graph("Confidence of the best candidate", confidences),
            graph("Share of questions without results", [of(Metric.ZERO_RESULTS, "Average", label="zero results")]),
        ],
        [
            graph("Questions without results", [of(Metric.ZERO_RESULTS, "Sum", label="zero results")]),
            graph("Calls that were wrong in themselves", refused),
        ],
        [
            graph("Open gaps by owner", gaps),
            graph("Answers without their record", [of(Metric.RECORDING_FAILURES, "Sum", label="without a record")]),
        ],
    ]
