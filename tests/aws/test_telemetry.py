"""Logs, metrics and traces of AWS: on doubles where these answer, else requests checked against the descriptions of the
services, with answers as the services document them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from opx.errors import StoreUnavailableError
from opx.ports.telemetry import FoundTraces, LogQuery, MetricId, TraceSummary
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.clients import client
from opx_aws.telemetry import CloudWatchLogs, CloudWatchSeries, XRayTraces, filter_expression
from opx_telemetry.capability import telemetry
from opx_telemetry.logs import LogQuestion, LogSearch
from opx_telemetry.rules import TelemetryRules

NOW = 1_795_000_000
GROUP = "/ecs/shop"
CPU = MetricId("AWS/EC2", "CPUUtilization", "InstanceId", "i-1")
NET = MetricId("AWS/EC2", "NetworkIn", "InstanceId", "i-1", "Sum")


def stubbed(session: boto3.Session, service: str) -> tuple[Any, Stubber]:
    made = client(service, session=session, attempts=1)
    return made, Stubber(made)


class TestLogs:
    QUERY = LogQuery(GROUP, NOW - 60, NOW, ("error",), limit=5)

    def test_lines_of_a_group_are_found_the_newest_first(self, aws: boto3.Session) -> None:
        logs = aws.client("logs")
        logs.create_log_group(logGroupName=GROUP)
        logs.create_log_stream(logGroupName=GROUP, logStreamName="web")
        now = int(datetime.now(UTC).timestamp())  # the double drops events that are old by its own clock
        messages = ["error: connection reset", "all is well", "error=timeout"]
        events = [{"timestamp": 1000 * (now - 30 + n), "message": text} for n, text in enumerate(messages)]
        logs.put_log_events(logGroupName=GROUP, logStreamName="web", logEvents=events)
        search = LogSearch(
            CloudWatchLogs(logs), TelemetryRules(log_groups=(GROUP,)), clock=lambda: now, sleep=lambda _: None
        )
        answer = search.answer(LogQuestion('error "connection reset"', GROUP, minutes=5))
        assert [(row["message"], row["stream"]) for row in answer.rows] == [("error: connection reset", "web")]
        assert [row["message"] for row in search.answer(LogQuestion("error", GROUP)).rows] == [messages[2], messages[0]]

    def test_query_is_sent_for_one_group_with_its_times_and_limit(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "logs")
        sent = {
            "logGroupNames": [GROUP],
            "startTime": NOW - 60,
            "endTime": NOW,
            "queryString": "filter @message like /(?i)error/ | fields @timestamp, @logStream, @message"
            " | sort @timestamp desc | limit 5",
            "limit": 5,
        }
        stub.add_response("start_query", {"queryId": "q-1"}, sent)
        with stub:
            assert CloudWatchLogs(made).start(self.QUERY) == "q-1"

    def test_progress_has_rows_and_statistics(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "logs")
        row = [
            {"field": "@timestamp", "value": "2026-11-22 08:00:00.000"},
            {"field": "@message", "value": "error"},
            {"field": "@logStream", "value": "web"},
            {"field": "@ptr", "value": "abc"},
        ]
        pattern = [{"field": "@pattern", "value": "x <*>"}, {"field": "@sampleCount", "value": "3"}]
        statistics = {"recordsMatched": 7.0, "recordsScanned": 9.0, "bytesScanned": 1234.0}
        answer = {"status": "Running", "results": [row, pattern], "statistics": statistics}
        stub.add_response("get_query_results", answer, {"queryId": "q-1"})
        with stub:
            progress = CloudWatchLogs(made).progress("q-1")
        assert progress.rows == (
            {"time": "2026-11-22 08:00:00.000", "message": "error", "stream": "web"},
            {"pattern": "x <*>", "lines": "3"},
        )
        assert (progress.is_done, progress.matched, progress.scanned_bytes, progress.failed) == (False, 7, 1234, "")

    @pytest.mark.parametrize(
        ("status", "done", "failed"),
        [("Complete", True, ""), ("Scheduled", False, ""), ("Failed", False, "failed"), ("Timeout", False, "timeout")],
    )
    def test_the_status_decides_if_the_query_is_done(
        self, aws_session: boto3.Session, status: str, done: bool, failed: str
    ) -> None:
        made, stub = stubbed(aws_session, "logs")
        stub.add_response("get_query_results", {"status": status}, {"queryId": "q-1"})
        with stub:
            progress = CloudWatchLogs(made).progress("q-1")
        assert (progress.is_done, progress.failed) == (done, failed)

    def test_query_that_has_ended_need_not_be_stopped(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "logs")
        stub.add_client_error("stop_query", "InvalidParameterException", http_status_code=400)
        with stub:
            CloudWatchLogs(made).stop("q-1")
        stub.assert_no_pending_responses()

    @pytest.mark.parametrize("code", ["LimitExceededException", "ServiceUnavailableException", "AccessDeniedException"])
    def test_refusal_is_an_error_of_the_library(self, aws_session: boto3.Session, code: str) -> None:
        made, stub = stubbed(aws_session, "logs")
        stub.add_client_error("start_query", code, http_status_code=400)
        with stub, pytest.raises(StoreUnavailableError, match=f"can't start a log query.*{code}"):
            CloudWatchLogs(made).start(self.QUERY)


class TestMetrics:
    def test_values_are_found_by_the_start_of_their_period(self, aws: boto3.Session) -> None:
        cloudwatch = aws.client("cloudwatch")
        for minute, value in ((0, 10.0), (0, 30.0), (2, 50.0)):
            at = datetime.fromtimestamp(NOW - NOW % 60 + 60 * minute + 5, UTC)
            for metric in (CPU, NET):
                data = {
                    "MetricName": metric.name,
                    "Timestamp": at,
                    "Value": value,
                    "Dimensions": [{"Name": metric.dimension, "Value": metric.node}],
                }
                cloudwatch.put_metric_data(Namespace=metric.namespace, MetricData=[data])
        start = NOW - NOW % 60
        other = MetricId("AWS/EC2", "CPUUtilization", "InstanceId", "i-2")
        found = CloudWatchSeries(cloudwatch).series([CPU, NET, other], start=start, end=start + 300, period=60)
        assert found.values == {CPU: {start: 20.0, start + 120: 50.0}, NET: {start: 40.0, start + 120: 50.0}}

    def test_all_pages_are_read(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "cloudwatch")
        for token, at in (("more", 0), ("", 60)):
            result = {"Id": "m0", "Timestamps": [datetime.fromtimestamp(at, UTC)], "Values": [1.0]}
            stub.add_response(
                "get_metric_data", {"MetricDataResults": [result], **({"NextToken": token} if token else {})}
            )
        with stub:
            found = CloudWatchSeries(made).series([CPU], start=0, end=120, period=60)
            stub.assert_no_pending_responses()
        assert found.values == {CPU: {0: 1.0, 60: 1.0}}

    def test_refusal_is_an_error_of_the_library(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "cloudwatch")
        stub.add_client_error("get_metric_data", "AccessDenied", http_status_code=403)
        with stub, pytest.raises(StoreUnavailableError, match="can't read metrics"):
            CloudWatchSeries(made).series([CPU], start=0, end=60, period=60)


class TestTraces:
    @staticmethod
    def page(*ids: str, token: str = "") -> dict[str, Any]:
        found = [{"Id": trace_id, "Duration": 1.5, "HasFault": trace_id.endswith("f")} for trace_id in ids]
        return {"TraceSummaries": found, **({"NextToken": token} if token else {})}

    def find(self, session: boto3.Session, *pages: dict[str, Any], most: int = 100, clock: int = 0) -> FoundTraces:
        made, stub = stubbed(session, "xray")
        sent = {
            "StartTime": datetime.fromtimestamp(NOW - 60, UTC),
            "EndTime": datetime.fromtimestamp(NOW, UTC),
            "FilterExpression": 'service("shop")',
            "Sampling": False,
        }
        token = ""
        for page in pages:
            stub.add_response("get_trace_summaries", page, {**sent, **({"NextToken": token} if token else {})})
            token = page.get("NextToken", "")
        with stub:
            store = XRayTraces(made, lambda: float(clock))
            found = store.find("shop", start=NOW - 60, end=NOW, deadline=10.0, most=most)
            stub.assert_no_pending_responses()
        return found

    def test_summaries_of_all_pages_are_found(self, aws_session: boto3.Session) -> None:
        found = self.find(aws_session, self.page("1-a", token="more"), self.page("1-bf"))
        assert found == FoundTraces((TraceSummary("1-a", 1.5), TraceSummary("1-bf", 1.5, failed=True)))

    def test_listing_ends_once_there_are_enough(self, aws_session: boto3.Session) -> None:
        found = self.find(aws_session, self.page("1-a", "1-b", token="more"), most=2)
        assert (len(found.summaries), found.complete) == (2, False)

    def test_listing_ends_at_the_deadline(self, aws_session: boto3.Session) -> None:
        assert not self.find(aws_session, self.page("1-a", token="more"), clock=11).complete

    def test_segments_are_read_and_what_is_no_json_is_left_out(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "xray")
        documents = [json.dumps({"name": "shop"}), "{", "[]"]
        segments = [{"Id": str(at), "Document": document} for at, document in enumerate(documents)]
        stub.add_response("batch_get_traces", {"Traces": [{"Id": "1-a", "Segments": segments}]}, {"TraceIds": ["1-a"]})
        with stub:
            (trace,) = XRayTraces(made, lambda: 0.0).traces(["1-a"])
        assert (trace.trace_id, trace.segments) == ("1-a", ({"name": "shop"},))

    @pytest.mark.parametrize("name", ['a"', "a\\"])
    def test_name_that_could_end_its_quotes_is_never_sent(self, name: str) -> None:
        with pytest.raises(ValueError, match="quote or a backslash"):
            filter_expression(name)

    def test_throttling_is_an_error_of_the_library(self, aws_session: boto3.Session) -> None:
        made, stub = stubbed(aws_session, "xray")
        stub.add_client_error("get_trace_summaries", "ThrottledException", http_status_code=429)
        with stub, pytest.raises(StoreUnavailableError, match="can't list traces for now"):
            XRayTraces(made, lambda: 0.0).find("shop", start=0, end=1, deadline=1.0, most=1)


@pytest.mark.usefixtures("aws")
def test_system_on_aws_has_all_three(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    services = bootstrap(Settings(backend="aws"))
    stores = services.part(telemetry).stores
    assert stores is not None
    assert isinstance(stores.logs, CloudWatchLogs)
    assert isinstance(stores.metrics, CloudWatchSeries)
    assert isinstance(stores.traces, XRayTraces)


def test_system_on_a_laptop_has_none(tmp_path: Any) -> None:
    with bootstrap(Settings(home=str(tmp_path))) as services:
        assert services.part(telemetry).stores is None
