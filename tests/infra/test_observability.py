"""Dashboards and alarms use metrics that functions really report, and alarms reach the topic."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from typing import Any

import boto3
import pytest

from infra.constructs import rights
from lambdas.consume_stream.handler import make_handler as make_stream_handler
from lambdas.learn_from_events.handler import make_handler as make_learn_handler
from lambdas.process_checkpoint.handler import make_handler as make_checkpoint_handler
from lambdas.prune_knowledge.handler import make_handler as make_prune_handler
from lambdas.pull_sources.handler import make_handler as make_pull_handler
from lambdas.record_announcements.handler import make_handler as make_record_handler
from lambdas.report_coverage.handler import make_handler as make_coverage_handler
from lambdas.roll_up_baselines.handler import make_handler as make_roll_up_handler
from lambdas.seal_knowledge.handler import make_handler as make_seal_handler
from opx.domain.queries import SearchMode
from opx.domain.record import replace
from opx.domain.sources import SourceDefinition
from opx.errors import StoreUnavailableError
from opx.graph.daily import RELINK
from opx.ingestion.corpus.announcements import ANNOUNCE_AGAIN
from opx.records.daily import AUTHORS, CHECK
from opx.records.gaps.listing import NOBODY
from opx.retrieval.waking import CANARY, WAKE
from opx.runtime.deadlines import deadline
from opx.runtime.knowledge_file import load_knowledge
from opx.runtime.metrics import NAMESPACE, Metric
from opx_aws.queue import SqsQueue
from opx_streams import capability
from tests.aws.cloud import BUCKET, Cloud, a_cloud
from tests.aws.rebuilt_indexes import Runtime
from tests.aws.test_pull_handler import Guides
from tests.infra.conftest import KEY_ARN
from tests.infra.templates import Assembly, Resource, has_our_code, listed
from tests.support.agent_calls import ask
from tests.support.api_requests import call
from tests.support.cli_support import ROOT
from tests.support.fakes import FakeContext, function_logs
from tests.support.stream_support import a_stream, an_incident, from_kinesis
from tests.support.telemetry_support import Named, measured

STACK = "observability"
REQUIRED = (
    "query-latency",
    "query-confidence",
    "unavailable",
    "answers-failed",
    "store-unavailable",
    "sync-overdue",
    "sources-failing",
    "ingestion-behind",
    "documents-failed",
    "embedding-throttled",
    "ingestion-throttled",
)

OF_AWS = {
    "AWS/Lambda": ({"Duration", "Errors", "Throttles", "ConcurrentExecutions", "IteratorAge"}, {"FunctionName"}),
    "AWS/SQS": ({"ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesVisible"}, {"QueueName"}),
    "AWS/Bedrock": ({"InvocationThrottles", "Invocations"}, {"ModelId"}),
    "AWS/AOSS": ({"SearchOCU", "IndexingOCU"}, {"ClientId"}),
}
"""Metrics of AWS with their dimensions, as its documentation of each service lists them."""


# -- what the template names


def named_by_alarms(assembly: Assembly) -> Iterator[Named]:
    for alarm in assembly.resources(STACK, "CloudWatch::Alarm").values():
        stats = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
        for metric in stats or [alarm]:
            dimensions = frozenset((part["Name"], part["Value"]) for part in metric["Dimensions"])
            yield Named(metric["Namespace"], metric["MetricName"], dimensions)


def dashboards(assembly: Assembly) -> dict[str, list[Resource]]:
    """The widgets of each dashboard."""
    found = assembly.resources(STACK, "CloudWatch::Dashboard").values()
    return {board["DashboardName"]: json.loads(board["DashboardBody"])["widgets"] for board in found}


def named_by_dashboards(assembly: Assembly) -> Iterator[Named]:
    for widgets in dashboards(assembly).values():
        for widget in widgets:
            for row in widget["properties"].get("metrics", []):
                texts = [part for part in row if isinstance(part, str)]
                if texts:  # otherwise it is an expression over the others
                    pairs = zip(texts[2::2], texts[3::2], strict=True)
                    yield Named(texts[0], texts[1], frozenset(pairs))


def named(assembly: Assembly) -> set[Named]:
    return {*named_by_alarms(assembly), *named_by_dashboards(assembly)}


# -- what the functions report


def run_everything(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each function do whatever it can report."""
    _ingest(cloud, monkeypatch)
    _answer(cloud, monkeypatch)
    _pull(cloud)
    _stream(cloud, monkeypatch)
    _learn(cloud)
    _prune(cloud)
    make_roll_up_handler(lambda: cloud.services)({}, FakeContext())
    make_coverage_handler(lambda: cloud.services)({"holdings": True}, FakeContext())
    cloud.retrieve(dict(WAKE), FakeContext())
    cloud.retrieve(dict(CANARY), FakeContext())
    make_record_handler(lambda: cloud.services)(dict(ANNOUNCE_AGAIN), Runtime())


def _pull(cloud: Cloud) -> None:
    """A source that brings documents, loses one, then most of them, and then fails."""
    source = Guides()
    cloud.services.connectors.provide(source, "0 4 * * *", "vendor/linux")
    pulls = cloud.sqs.create_queue(QueueName="pulls")["QueueUrl"]
    cloud.services.ports.functions.pulls = SqsQueue(cloud.sqs, pulls, wait_seconds=0)  # type: ignore[misc]
    connected = cloud.services.connectors.connected

    def complete(definition: SourceDefinition) -> Any:
        """As a source that lists all that it has."""
        found = connected(definition)
        pull = found.connector.pull
        found.connector.pull = lambda request: (replace(page, complete=True) for page in pull(request))  # type: ignore[method-assign]
        return found

    cloud.services.connectors.connected = complete  # type: ignore[method-assign]
    for count, broken in ((10, False), (9, False), (1, False), (1, True)):
        source.count, source.broken = count, broken
        make_pull_handler(lambda: cloud.services)({"Records": [{"body": '{"source": "guides"}'}]}, Runtime())


def _stream(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that become documents, that a filter leaves out, and that come again as the bucket is away."""
    cloud.services.part(capability.StreamIngestion).repository.put(a_stream(filter={"severity": ["critical"]}))
    handler = make_stream_handler(lambda: cloud.services)
    records = [an_incident(1, severity="critical"), an_incident(2, severity="minor")]
    handler(from_kinesis(records), FakeContext())

    def away(*args: Any, **options: Any) -> Any:
        raise StoreUnavailableError("can't be reached")

    with monkeypatch.context() as outage:
        outage.setattr(cloud.services.store, "put", away)
        handler(from_kinesis(records), FakeContext())


def _learn(cloud: Cloud) -> None:
    """An event that is kept, one that is refused, and a checkpoint."""
    whose = {"client_id": "acme", "project_id": "shop"}
    entry = {**whose, "gate_type": "security_review", "approved_approach": "a queue a client"}
    request = {**whose, "checkpoint_type": "manual"}
    for make, kind, detail in (
        (make_learn_handler, "GateApproved", entry),
        (make_learn_handler, "Unheard", entry),
        (make_checkpoint_handler, "Checkpoint", request),
    ):
        body = json.dumps({"source": "opx.learning", "detail-type": kind, "detail": detail})
        received = {"eventSource": "aws:sqs", "attributes": {"ApproximateReceiveCount": "1"}}
        make(lambda: cloud.services)({"Records": [{"messageId": kind, "body": body, **received}]}, FakeContext())


def _prune(cloud: Cloud) -> None:
    cloud.put("documents/runbooks/due.md", "---\nexpires: 2020-01-01\n---\n# Due\n\nText.")
    cloud.deliver()
    make_prune_handler(lambda: cloud.services)({}, Runtime())
    make_seal_handler(lambda: cloud.services)({}, Runtime())


def _ingest(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = "documents/runbooks/disk.md"
    first = cloud.put(disk, "# Disk full\n\nDelete rotated logs.")
    cloud.put("documents/runbooks/empty.md", "")
    for category in load_knowledge().categories.values():
        if category.schedule:
            cloud.put(f"documents/{category.path}/a.md", f"# About {category.path}\n\nText.")
    while cloud.deliver():
        pass
    cloud.send(first)  # a duplicate
    cloud.send(cloud.event(disk))  # nothing has changed
    cloud.send(cloud.event("documents/runbooks/never.md"))  # skipped
    cloud.put("documents/runbooks/gone.md", "# Gone\n\nText.")
    cloud.deliver()
    cloud.delete("documents/runbooks/gone.md")
    cloud.deliver()

    def away(*args: Any, **options: Any) -> Any:
        raise StoreUnavailableError("can't be reached")

    def broken(*args: Any, **options: Any) -> Any:
        raise ZeroDivisionError

    cloud.put(disk, "# Disk full\n\nGrow the volume.")
    with monkeypatch.context() as outage:
        outage.setattr(cloud.services.store, "head", away)
        cloud.deliver()
    cloud.send(cloud.event(disk))
    with monkeypatch.context() as outage:
        outage.setattr(cloud.services.ingestion.worker, "process", broken)
        cloud.deliver()
    cloud.put("documents/runbooks/later.md", "# Later\n\nText.")
    with deadline(1.0):
        cloud.deliver()


def _answer(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.ask("Disk full")
    ask(cloud.retrieve, "get_document_details", document_id="0" * 32)

    def away(*args: Any) -> Any:
        raise StoreUnavailableError("can't be reached")

    def broken(*args: Any) -> Any:
        raise ZeroDivisionError

    for failing in (away, broken):
        with monkeypatch.context() as outage:
            outage.setattr(cloud.services.corpus.catalog, "find", failing)
            ask(cloud.retrieve, "get_document_details", document_id="0" * 32)
            call(cloud.retrieve, "get_document", documentId="0" * 32)
    for mode in SearchMode:  # which the tools don't let an agent choose
        status, _ = call(cloud.retrieve, "search", query={"q": "Disk full", "thoroughness": mode}, kbId="default")
        assert status == 200
    call(cloud.retrieve, "get_document", documentId="nonsense")


@pytest.fixture(scope="module")
def reported(aws_session: boto3.Session) -> set[Named]:
    """The metrics that all functions together report, in an account of their own."""
    from moto import mock_aws

    with ExitStack() as stack:
        printed = stack.enter_context(redirect_stdout(StringIO()))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("OPX_ENVIRONMENT", "dev")
        stack.enter_context(mock_aws())
        stack.enter_context(function_logs())
        run_everything(stack.enter_context(a_cloud(aws_session)), patch)
    return set(measured(printed.getvalue()))


class TestMetrics:
    def test_every_metric_of_ours_is_reported_with_exactly_these_dimensions(
        self, default: Assembly, reported: set[Named]
    ) -> None:
        ours = {metric for metric in named(default) if metric.namespace == NAMESPACE}
        assert len(ours) > 80
        assert not sorted(map(str, ours - reported))

    def test_everything_that_is_declared_is_reported(self, reported: set[Named]) -> None:
        assert {metric.name for metric in reported} == {metric.value for metric in Metric}

    def test_metrics_of_aws_are_documented_ones(self, default: Assembly) -> None:
        theirs = {metric for metric in named(default) if metric.namespace != NAMESPACE}
        assert {metric.namespace for metric in theirs} == set(OF_AWS)
        for metric in theirs:
            names, dimensions = OF_AWS[metric.namespace]
            assert metric.name in names
            assert {name for name, _ in metric.dimensions} == dimensions

    def test_metrics_of_aws_are_about_resources_that_exist(self, default: Assembly) -> None:
        existing = {
            "AWS/Lambda": {resource["FunctionName"] for resource in everywhere(default, "Lambda::Function")},
            "AWS/SQS": {resource["QueueName"] for resource in everywhere(default, "SQS::Queue")},
            "AWS/AOSS": {"<AWS::AccountId>"},
        }
        for metric in named(default):
            if metric.namespace in existing:
                ((_, value),) = metric.dimensions
                assert value in existing[metric.namespace], str(metric)

    def test_environments_are_distinguished(self, ephemeral: Assembly) -> None:
        ours = {metric for metric in named(ephemeral) if metric.namespace == NAMESPACE}
        assert {dict(metric.dimensions)["environment"] for metric in ours} == {"prod"}


def everywhere(assembly: Assembly, kind: str) -> list[Resource]:
    return [r["Properties"] for _, _, r in assembly.all_resources() if r["Type"] == f"AWS::{kind}"]


class TestAlarms:
    @pytest.fixture
    def alarms(self, default: Assembly) -> dict[str, Resource]:
        found = default.resources(STACK, "CloudWatch::Alarm").values()
        return {alarm["AlarmName"].removeprefix("dev-opx-knowledge-"): alarm for alarm in found}

    def test_there_are_no_more_than_the_budget_has(self, alarms: dict[str, Resource]) -> None:
        budget = tomllib.loads((ROOT / ".ci" / "size.toml").read_text("utf-8"))
        assert len(alarms) <= budget["whole"]["alarms"]["most"], budget["whole"]["alarms"]["leave"]

    @pytest.mark.parametrize("kind", REQUIRED)
    def test_there_is_an_alarm(self, alarms: dict[str, Resource], kind: str) -> None:
        assert kind in alarms

    def test_slow_answers(self, alarms: dict[str, Resource]) -> None:
        alarm = alarms["query-latency"]
        assert (alarm["MetricName"], alarm["ExtendedStatistic"], alarm["Threshold"]) == ("QueryLatency", "p95", 2000)
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold"

    def test_unsure_answers_unless_there_are_few(self, alarms: dict[str, Resource]) -> None:
        alarm = alarms["query-confidence"]
        (expression,) = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
        assert expression == "IF(queries >= 10, average, 1)"
        assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0.5, "LessThanThreshold")

    @pytest.mark.parametrize(
        ("kind", "metrics", "condition"),
        [
            ("answers-failed", ["ApiErrors", "ToolErrors"], (0, 1, 1)),
            ("store-unavailable", ["ApiUnavailable", "ToolUnavailable"], (3, 2, 2)),
        ],
    )
    def test_failed_answers_raise_alarms(
        self, alarms: dict[str, Resource], kind: str, metrics: list[str], condition: tuple[int, int, int]
    ) -> None:
        """Of people and of agents, even if only one kind ever asks: what is missing counts as none."""
        alarm = alarms[kind]
        parts = {query["Id"]: query["MetricStat"] for query in alarm["Metrics"] if "MetricStat" in query}
        (expression,) = [query["Expression"] for query in alarm["Metrics"] if "Expression" in query]
        assert expression == " + ".join(f"FILL({name}, 0)" for name in parts)
        assert sorted(part["Metric"]["MetricName"] for part in parts.values()) == metrics
        assert {(part["Stat"], part["Period"]) for part in parts.values()} == {("Sum", 300)}
        assert (alarm["Threshold"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == condition
        assert alarm["ComparisonOperator"] == "GreaterThanThreshold"

    def test_every_dead_letter_queue_has_one(self, default: Assembly, alarms: dict[str, Resource]) -> None:
        queues = [queue["QueueName"] for queue in everywhere(default, "SQS::Queue") if "RedrivePolicy" not in queue]
        assert len(queues) >= 5
        for queue in queues:
            alarm = alarms[f"dead-letters-{queue.removeprefix('dev-opx-knowledge-')}"]
            assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": queue}]
            assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")

    def test_every_function_has_one(self, default: Assembly, alarms: dict[str, Resource]) -> None:
        for function in everywhere(default, "Lambda::Function"):
            alarm = alarms[f"function-{function['FunctionName'].removeprefix('dev-opx-')}"]
            watched = [query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query]
            assert {metric["MetricName"] for metric in watched} == {"Errors", "Throttles"}
            names = {part["Value"] for metric in watched for part in metric["Dimensions"]}
            assert names == {function["FunctionName"]}

    def test_all_notify_the_topic_when_they_begin_and_end(self, default: Assembly, alarms: dict[str, Resource]) -> None:
        (topic,) = default.resources(STACK, "SNS::Topic")
        for alarm in alarms.values():
            assert alarm["AlarmActions"] == alarm["OKActions"] == [f"<{topic}>"]

    def test_idle_system_is_no_alarm(self, alarms: dict[str, Resource]) -> None:
        assert {alarm["TreatMissingData"] for alarm in alarms.values()} == {"notBreaching"}

    def test_all_link_the_documentation(self, alarms: dict[str, Resource]) -> None:
        assert all(alarm["AlarmDescription"].endswith("docs/deploy.md#alarms") for alarm in alarms.values())

    def test_one_late_report_does_not_end_an_overdue_sync(self, alarms: dict[str, Resource]) -> None:
        alarm = alarms["sync-overdue"]
        assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (3600, 3, 1)


class TestTopic:
    def test_cloudwatch_may_publish_and_use_the_key(self, default: Assembly) -> None:
        topic = default.only(STACK, "SNS::Topic")
        ((key, properties),) = default.resources(STACK, "KMS::Key").items()
        assert topic["KmsMasterKeyId"] == f"<{key}.Arn>"
        assert properties["EnableKeyRotation"] is True
        for policy in (properties["KeyPolicy"], default.only(STACK, "SNS::TopicPolicy")["PolicyDocument"]):
            (statement,) = [s for s in policy["Statement"] if s["Principal"] == {"Service": "cloudwatch.amazonaws.com"}]
            assert statement["Condition"] == {"StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"}}

    def test_connections_without_tls_are_refused(self, default: Assembly) -> None:
        statements = default.only(STACK, "SNS::TopicPolicy")["PolicyDocument"]["Statement"]
        (denied,) = [statement for statement in statements if statement["Effect"] == "Deny"]
        assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}

    def test_nobody_is_subscribed_unless_named(self, default: Assembly) -> None:
        assert default.resources(STACK, "SNS::Subscription") == {}

    def test_customers_key_and_address_are_used(self, with_key: Assembly) -> None:
        assert with_key.resources(STACK, "KMS::Key") == {}
        assert with_key.only(STACK, "SNS::Topic")["KmsMasterKeyId"] == KEY_ARN
        subscription = with_key.only(STACK, "SNS::Subscription")
        assert (subscription["Protocol"], subscription["Endpoint"]) == ("email", "ops@example.org")


class TestDashboards:
    def test_there_are_three(self, default: Assembly) -> None:
        headings = {name: widgets[0]["properties"]["markdown"] for name, widgets in dashboards(default).items()}
        assert set(headings) == {
            "dev-Knowledge-Base-Performance",
            "dev-Query-Analytics",
            "dev-Document-Coverage",
        }
        for name, heading in headings.items():
            title = name.removeprefix("dev-").replace("-", " ")
            assert heading.startswith(f"# {title}\n")
            assert re.fullmatch(r"[\w-]+", name)

    def test_performance_shows_all_alarms(self, default: Assembly) -> None:
        widgets = dashboards(default)["dev-Knowledge-Base-Performance"]
        (status,) = [widget for widget in widgets if widget["type"] == "alarm"]
        assert len(status["properties"]["alarms"]) == len(default.resources(STACK, "CloudWatch::Alarm"))

    def test_coverage_has_every_category(self, default: Assembly) -> None:
        shown = {
            dict(metric.dimensions).get("category")
            for metric in named_by_dashboards(default)
            if metric.name in (Metric.DOCUMENTS, Metric.CHUNKS)
        }
        assert shown == set(load_knowledge().categories)


class TestReporter:
    def test_it_is_called_every_hour_and_counts_once_a_day(self, default: Assembly) -> None:
        schedules = list(default.resources(STACK, "Scheduler::Schedule").values())
        own = [schedule for schedule in schedules if schedule["Target"]["Arn"].endswith("report-coverage")]
        inputs = {schedule["ScheduleExpression"]: json.loads(schedule["Target"]["Input"]) for schedule in own}
        assert inputs == {"rate(1 hour)": {}, "cron(40 0 * * ? *)": {"holdings": True}}

    def test_gaps_are_checked_once_a_day_by_the_function_that_searches(self, default: Assembly) -> None:
        targets = [schedule["Target"] for schedule in default.resources(STACK, "Scheduler::Schedule").values()]
        (target,) = [target for target in targets if json.loads(target["Input"]) == CHECK]
        assert target["Arn"].endswith(":function:dev-opx-retrieve-knowledge:live")

    def test_documents_are_linked_again_once_a_day_by_the_function_that_takes_them_in(self, default: Assembly) -> None:
        targets = [schedule["Target"] for schedule in default.resources(STACK, "Scheduler::Schedule").values()]
        (target,) = [target for target in targets if json.loads(target["Input"]) == RELINK]
        assert target["Arn"].endswith(":function:dev-opx-ingest-documents")

    def test_it_may_only_read_six_tables_and_write_its_results_and_progress(self, default: Assembly) -> None:
        may: dict[str, set[str]] = {}
        for policy in default.resources(STACK, "IAM::Policy").values():
            for statement in policy["PolicyDocument"]["Statement"]:
                for resource in filter(lambda one: ":table/" in one, listed(statement["Resource"])):
                    table = resource.split("table/dev-opx-knowledge-")[1].split("/")[0]
                    may.setdefault(table, set()).update(listed(statement["Action"]))
        query = {"dynamodb:Query"}
        assert may == dict.fromkeys(("announcements", "audit", "documents", "failures", "gaps"), query) | {
            "sources": {"dynamodb:BatchGetItem", "dynamodb:GetItem", *query},
            "usage": {"dynamodb:BatchWriteItem"},
            "lifecycle": {*rights.WRITE_ITEMS, "dynamodb:GetItem", *query},
        }


def test_every_function_is_traced_and_knows_its_environment(default: Assembly) -> None:
    for function in filter(has_our_code, everywhere(default, "Lambda::Function")):
        assert function["TracingConfig"] == {"Mode": "Active"}
        assert function["Environment"]["Variables"]["OPX_ENVIRONMENT"] == "dev"


def test_the_bucket_is_no_part_of_a_metric(reported: set[Named]) -> None:
    """Nor is anything else that there is no end of: each value of a dimension is paid for."""
    values = {value for metric in reported for _, value in metric.dimensions}
    assert BUCKET not in values
    known = {"dev", *SearchMode, *load_knowledge().categories, "internal", "specialized", "internet"}
    assert values - known <= {AUTHORS, NOBODY, "lexical", "vector", "embed", "search", "judge", "rerank"}
