"""Alarms about the knowledge base, each with the action to take."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.constructs.hybrid_index import MAX_OCUS
from infra.constructs.measurements import (
    FIVE_MINUTES,
    Measurements,
    of_collections,
    of_function,
    of_model,
    of_queue,
    of_vault,
)
from infra.names import Names
from opx.ports.queues import KEPT_DAYS
from opx.runtime.metrics import Metric

RUNBOOK = "docs/deploy.md#alarms"

SLOW_MS = 2000
UNSURE = 0.5
FEW_QUERIES = 10
"""Questions per hour: with fewer, a single one would decide the average."""
OFTEN_PARTIAL = 0.2
"""Share of an hour's questions."""
MOSTLY_UNAVAILABLE = 0.5
FEW_UNAVAILABLE = 3
"""Failed calls in five minutes: a collection that wakes up fails a call and its retries."""
WAITED_TOO_LONG_SECONDS = 3600
NOT_INGESTED_SECONDS = 2 * 86400
OLD_MESSAGE_SECONDS = KEPT_DAYS * 86400 / 2
OLD_RECORD_SECONDS = 86400 / 2
"""Half of the day for which a stream of Kinesis keeps its records, unless its owner chose more."""
MANY_THROTTLED = 20
"""Percent of calls. Finding the quota by trying costs up to 5 %."""

MOST_METRICS = 10
"""Metrics that CloudWatch accepts in the expression of an alarm."""

_HOUR = Duration.hours(1)
HALF_AN_HOUR = 30
"""Minutes."""


class KnowledgeAlarms(Construct):
    """Alarms that send to a topic when they begin and when they end.

    Missing data raises no alarm, but for the canary: there were no questions and no work. `alarms` has them in the order of
    a dashboard.
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
        queues: Sequence[str],
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
        self._about_seals()
        self._about_learning()
        self._about_announcements()
        for queue in queues:
            self._about_old_messages(queue)
        reader = names.function("consume_stream")
        if reader in functions:
            self._about_streams(reader)
        self._about_documents()
        self._about_embedding(names.deployment.embedding_model)
        if not names.deployment.search_endpoint:
            self._about_capacity()
        if names.deployment.canary:
            self._about_canary()
        if names.deployment.backup != "none":
            self._about_backups(names.backup_vault)
        for queue in dead_letters:
            self._about_dead_letters(queue)
        for at in range(0, len(dead_letters), MOST_METRICS):
            self._about_old_dead_letters(dead_letters[at : at + MOST_METRICS], at // MOST_METRICS)
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

        self._add(
            "partial-answers",
            self._average_of(Metric.PARTIAL_ANSWERS, "Share of partial answers", few=0),
            f"More than {OFTEN_PARTIAL:.0%} of an hour's answers lacked a part: meaning, words, a later tier, or reranking "
            "was unavailable. The log of the function that answers names the part; each answer says so, too.",
            threshold=OFTEN_PARTIAL,
        )

    def _confidence(self) -> cloudwatch.MathExpression:
        return self._average_of(Metric.CONFIDENCE, "Average confidence", few=1)

    def _average_of(self, metric: Metric, label: str, *, few: float) -> cloudwatch.MathExpression:
        """An hour's average over the questions; `few` if there were too few of them."""
        measured = {
            "average": self._measured.of(metric, "Average", period=_HOUR),
            "queries": self._measured.of(metric, "SampleCount", period=_HOUR),
        }
        expression = f"IF(queries >= {FEW_QUERIES}, average, {few:g})"
        return cloudwatch.MathExpression(expression=expression, using_metrics=measured, period=_HOUR, label=label)

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
            "Changed documents wait for more than an hour to be ingested. See the ingestion function's errors, and the "
            "quota of the embedding model: a large load takes its time, and more concurrency doesn't help there.",
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

    def _about_seals(self) -> None:
        self._add(
            "seal-contradicted",
            self._measured.of(Metric.SEAL_CONTRADICTIONS, "Maximum", period=_HOUR),
            "Something was altered since the last seal that no ingestion explains. The log of seal-knowledge and `opx seal "
            '--verify` name it. Restore it, or accept it by calling the function with {"accept": true}; until then, nothing '
            "is sealed.",
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

    def _about_announcements(self) -> None:
        self._add(
            "announced-not-ingested",
            self._measured.of(Metric.OLDEST_ANNOUNCEMENT, "Maximum", period=_HOUR),
            "A changed document was announced two days ago and is not ingested. See `opx status`, the queues ingest and "
            "ingest-failed, and the log of record-announcements.",
            threshold=NOT_INGESTED_SECONDS,
            periods=3,  # as for overdue sources
        )

    def _about_old_messages(self, queue: str) -> None:
        self._add(
            f"messages-old-{queue.removeprefix(self._prefix + '-')}",
            of_queue("ApproximateAgeOfOldestMessage", queue, "Maximum"),
            f"A message of queue {queue} has waited for half of the {KEPT_DAYS} days after which SQS deletes it, without a "
            "dead letter. See errors, throttles and concurrency of its function.",
            threshold=OLD_MESSAGE_SECONDS,
        )

    def _about_streams(self, function: str) -> None:
        self._add(
            "stream-behind",
            of_function("IteratorAge", function, "Maximum"),
            "A record of a Kinesis stream waited for twelve hours; a stream deletes records after a day, unless its "
            "owner chose more. See errors, throttles and duration of the function.",
            threshold=OLD_RECORD_SECONDS * 1000,
        )

    def _about_documents(self) -> None:
        self._add(
            "documents-failed",
            self._measured.of(Metric.INGESTION_FAILURES, "Sum"),
            "Documents could not be ingested, and are not tried again by themselves. `opx failed` lists them with the "
            "reasons; after removing the cause, `opx failed --retry` sends them again.",
            threshold=0,
        )

    def _about_embedding(self, model: str) -> None:
        self._add(
            "embedding-throttled",
            _share_of(
                "Throttled calls of the embedding model (%)",
                of_model("InvocationThrottles", model, "Sum"),
                of_model("Invocations", model, "Sum"),
            ),
            f"More than {MANY_THROTTLED} % of the calls of {model} were throttled for half an hour: something else in this "
            "account uses its quota too, or queries alone exceed it. Ingestion has slowed down by itself; raising its "
            "concurrency only adds waiting. Raise the quota, or choose a model that embeds many texts a call.",
            threshold=MANY_THROTTLED,
            periods=6,
            datapoints=6,
        )
        self._add(
            "ingestion-throttled",
            _share_of(
                "Throttled calls of ingestion (%)",
                self._measured.of(Metric.EMBEDDING_THROTTLES, "Sum"),
                self._measured.of(Metric.CACHE_MISSES, "Sum"),
            ),
            f"More than {MANY_THROTTLED} % of ingestion's calls of the embedding model were throttled for half an hour, "
            "though it slows down by itself: the quota is far below what was deployed, or used up for the day. Documents "
            "wait, and none is lost. See the account's quota in Service Quotas, and deploy again so that it is read anew.",
            threshold=MANY_THROTTLED,
            periods=6,
            datapoints=6,
        )

    def _about_dead_letters(self, queue: str) -> None:
        self._add(
            f"dead-letters-{queue.removeprefix(self._prefix + '-')}",
            of_queue("ApproximateNumberOfMessagesVisible", queue, "Maximum"),
            f"Queue {queue} has messages that could not be processed. Read one, remove the cause, and redrive the "
            f"queue. SQS deletes a message {KEPT_DAYS} days after it was first sent.",
            threshold=0,
        )

    def _about_old_dead_letters(self, queues: Sequence[str], number: int) -> None:
        ages = {
            f"age{at}": of_queue("ApproximateAgeOfOldestMessage", queue, "Maximum") for at, queue in enumerate(queues)
        }
        self._add(
            "dead-letters-expire" + (f"-{number + 1}" if number else ""),
            cloudwatch.MathExpression(
                expression="MAX([" + ", ".join(f"FILL({name}, 0)" for name in ages) + "])",
                using_metrics=ages,
                period=FIVE_MINUTES,
                label="Age of the oldest dead letter (s)",
            ),
            f"A dead letter is older than half of the {KEPT_DAYS} days after which SQS deletes it. The alarms dead-letters-… "
            "say which queue it is in.",
            threshold=OLD_MESSAGE_SECONDS,
        )

    def _about_capacity(self) -> None:
        for kind, name, meaning in (
            ("search-capacity", "SearchOCU", "Searches are slow or refused (402, 429)"),
            ("indexing-capacity", "IndexingOCU", "Documents are indexed late"),
        ):
            self._add(
                kind,
                of_collections(name),
                f"{name} of the account was at {MAX_OCUS} for half an hour, the most that this environment's collection "
                f"gets. {meaning}. Other collections of the account count, too.",
                threshold=MAX_OCUS,
                comparison=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
                periods=HALF_AN_HOUR,
                datapoints=HALF_AN_HOUR,
            )

    def _about_canary(self) -> None:
        """The one alarm on missing data: it also goes off if there was no question, or no report."""
        self._add(
            "canary",
            self._measured.of(Metric.CANARY_FAILED, "Maximum", period=_HOUR),
            "Two hourly questions in a row were not searched completely, or not sent. See the "
            "log of the function that answers, and the schedule ask-canary.",
            threshold=0,
            periods=2,
            datapoints=2,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def _about_backups(self, vault: str) -> None:
        problems = ("Aborted", "Expired", "Failed")
        self._add(
            "backup-failed",
            _sum_of(
                "Failed backups", **{name.lower(): of_vault(f"NumberOfBackupJobs{name}", vault) for name in problems}
            ),
            f"A backup into vault {vault} failed, was aborted, or was not started in time. The console of AWS Backup lists "
            "the jobs with their reasons.",
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
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
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
            treat_missing_data=missing,
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


def _share_of(label: str, part: cloudwatch.IMetric, others: cloudwatch.IMetric) -> cloudwatch.MathExpression:
    """Percentage of the first in the sum of both in five minutes; missing without any."""
    return cloudwatch.MathExpression(
        expression="100 * FILL(part, 0) / (FILL(part, 0) + FILL(others, 0))",
        using_metrics={"part": part, "others": others},
        period=FIVE_MINUTES,
        label=label,
    )
