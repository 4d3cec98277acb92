"""Alarms about the knowledge base, each with the action to take."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.measurements import FIVE_MINUTES, Measurements, of_function, of_queue
from infra.names import Names
from opx.runtime.metrics import Metric

RUNBOOK = "docs/deploy.md#alarms"

SLOW_MS = 2000
UNSURE = 0.5
FEW_QUERIES = 10
"""Questions per hour: with fewer, a single one would decide the average."""
MOSTLY_UNAVAILABLE = 0.5
FEW_UNAVAILABLE = 3
"""Failed calls in five minutes: a collection that wakes up fails a call and its retries."""
WAITED_TOO_LONG_SECONDS = 3600

_HOUR = Duration.hours(1)


class KnowledgeAlarms(Construct):
    """Alarms that send to a topic when they begin and when they end.

    Missing data raises no alarm: then there were no questions and no work. `alarms` has them in the order of a dashboard.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        measurements: Measurements,
        topic: sns.ITopic,
        functions: Sequence[str],
        dead_letters: Sequence[str],
    ) -> None:
        super().__init__(scope, construct_id)
        self._prefix = f"{names.prefix}opx-knowledge"
        self._function_prefix = names.function("")
        self._measured = measurements
        self._action = actions.SnsAction(topic)
        self.alarms: list[cloudwatch.Alarm] = []
        self._about_queries()
        self._about_failed_answers()
        self._about_sources(names.queue("ingest"))
        self._about_retention()
        self._about_learning()
        for queue in dead_letters:
            self._about_dead_letters(queue)
        for function in functions:
            self._about_function(function)

    def _about_queries(self) -> None:
        self._add(
            "query-latency",
            self._measured.of(Metric.QUERY_LATENCY, "p95"),
            f"95 % of questions should be answered in {SLOW_MS} ms. See which stage and which leg is slow.",
            threshold=SLOW_MS,
            periods=3,
            datapoints=2,
        )
        self._add(
            "query-confidence",
            self._confidence(),
            "The best results are unlikely to answer the queries. See which queries are gaps, and whether ingestion or "
            "the embedding model fails.",
            threshold=UNSURE,
            comparison=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
        )
        self._add(
            "unavailable",
            self._measured.of(Metric.SEARCH_UNAVAILABLE, "Average"),
            "At least half of the questions were not searched for, twice within an hour. See the log of the function "
            "that answers for what can't be reached: search index, or tables.",
            threshold=MOSTLY_UNAVAILABLE,
            comparison=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            periods=12,
            datapoints=2,
        )

    def _confidence(self) -> cloudwatch.MathExpression:
        """Expression for the average confidence; 1 if there were too few questions."""
        measured = {
            "confidence": self._measured.of(Metric.CONFIDENCE, "Average", period=_HOUR),
            "queries": self._measured.of(Metric.CONFIDENCE, "SampleCount", period=_HOUR),
        }
        expression = f"IF(queries >= {FEW_QUERIES}, confidence, 1)"
        return cloudwatch.MathExpression(
            expression=expression, using_metrics=measured, period=_HOUR, label="Average confidence"
        )

    def _about_failed_answers(self) -> None:
        """Alarms on failed answers. The answering functions report errors to the caller without failing, so that Lambda
        counts none."""
        self._add(
            "answers-failed",
            _sum_of(
                "Failed answers",
                api=self._measured.of(Metric.API_ERRORS, "Sum"),
                tools=self._measured.of(Metric.TOOL_ERRORS, "Sum"),
            ),
            "A request of the HTTP API or a tool call failed for a reason that nobody foresaw. See the errors and their "
            "tracebacks in the logs of the functions that answer; after a deployment, roll back.",
            threshold=0,
        )
        self._add(
            "store-unavailable",
            _sum_of(
                "Answers without a store",
                api=self._measured.of(Metric.API_UNAVAILABLE, "Sum"),
                tools=self._measured.of(Metric.TOOL_UNAVAILABLE, "Sum"),
            ),
            "Requests or tool calls go unanswered as a store can't be reached or throttles, for ten minutes. See the "
            "logs of the functions that answer for which: tables, bucket, search index, or embedding model.",
            threshold=FEW_UNAVAILABLE,
            periods=2,
            datapoints=2,
        )

    def _about_sources(self, queue: str) -> None:
        self._add(
            "sync-overdue",
            self._measured.of(Metric.SYNC_OVERDUE, "Maximum", period=_HOUR),
            "A source was not synchronised when its schedule wanted it. The coverage function's log names it; see "
            "whether its pull failed or was never started.",
            threshold=0,
            periods=3,  # reports come hourly, but not to the minute: an hour without one must not end the alarm
        )
        self._add(
            "sources-failing",
            _sum_of(
                "Pulls that failed or were flagged",
                failed=self._measured.of(Metric.PULL_FAILURES, "Sum"),
                flagged=self._measured.of(Metric.SOURCES_FLAGGED, "Sum"),
            ),
            "A source could not be pulled, or its listing suddenly misses so many documents that none was withdrawn. "
            "`opx source list` shows the source and the reason; failed pulls are retried, a flag needs an operator.",
            threshold=0,
        )
        self._add(
            "ingestion-behind",
            of_queue("ApproximateAgeOfOldestMessage", queue, "Maximum"),
            "Changed documents wait for more than an hour to be ingested. See the ingestion function's errors, "
            "retries and concurrency.",
            threshold=WAITED_TOO_LONG_SECONDS,
            periods=3,
            datapoints=3,
        )

    def _about_retention(self) -> None:
        self._add(
            "prune-stopped",
            self._measured.of(Metric.PRUNE_STOPPED, "Maximum", period=_HOUR),
            "Far more versions than usual are past their retention, so that none was removed. The function's log has the "
            'categories: correct the policy in knowledge.yaml, or call the function with {"allowShare": 1}.',
            threshold=0,
        )

    def _about_learning(self) -> None:
        self._add(
            "learning-refused",
            self._measured.of(Metric.ENTRIES_REFUSED, "Sum"),
            "A checkpoint refused some captured entries. The function's log names the project; a checkpoint by "
            "hand (`opx learn checkpoint`) lists the entries and the reasons.",
            threshold=0,
        )

    def _about_dead_letters(self, queue: str) -> None:
        self._add(
            f"dead-letters-{queue.removeprefix(self._prefix + '-')}",
            of_queue("ApproximateNumberOfMessagesVisible", queue, "Maximum"),
            f"Queue {queue} has messages that could not be processed. Read one, remove the cause, and redrive the "
            "queue; they are kept for 14 days.",
            threshold=0,
        )

    def _about_function(self, function: str) -> None:
        self._add(
            f"function-{function.removeprefix(self._function_prefix)}",
            _sum_of(
                "Errors and throttles",
                errors=of_function("Errors", function, "Sum"),
                throttles=of_function("Throttles", function, "Sum"),
            ),
            f"Function {function} failed, ran out of time or memory, or was throttled. See its log group "
            f"/aws/lambda/{function}, and its concurrency.",
            threshold=0,
        )

    def _add(
        self,
        kind: str,
        metric: cloudwatch.IMetric,
        about: str,
        *,
        threshold: float,
        comparison: cloudwatch.ComparisonOperator = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        periods: int = 1,
        datapoints: int = 1,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            "".join(part.title() for part in kind.split("-")),
            alarm_name=f"{self._prefix}-{kind}",
            alarm_description=f"{about} {RUNBOOK}",
            metric=metric,
            threshold=threshold,
            comparison_operator=comparison,
            evaluation_periods=periods,
            datapoints_to_alarm=datapoints,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        alarm.add_alarm_action(self._action)
        alarm.add_ok_action(self._action)
        self.alarms.append(alarm)


def _sum_of(label: str, **metrics: cloudwatch.IMetric) -> cloudwatch.MathExpression:
    """Of all in five minutes. One that is missing counts as 0: without that, the sum of the others is missing too."""
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({name}, 0)" for name in metrics),
        using_metrics=metrics,
        period=FIVE_MINUTES,
        label=label,
    )
