"""Metrics of CloudWatch, read back node by node."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from opx.domain.scopes import Identity, reader_of
from opx.errors import StoreUnavailableError
from opx.ports.tables import BASELINES
from opx.ports.telemetry import MetricQuery
from opx_aws import telemetry
from opx_aws.table import DynamoTable
from opx_aws.telemetry import CloudWatchMetrics
from opx_telemetry.baselines.readings import Reading
from opx_telemetry.baselines.store import BaselineStore
from tests.support.dynamo_tables import create_table

DAY = 86_400
CPU = MetricQuery("AWS/EC2", "CPUUtilization", "InstanceId")


@pytest.fixture
def client(aws: boto3.Session) -> Any:
    return aws.client("cloudwatch")


@pytest.fixture
def yesterday() -> float:
    return (time.time() // DAY - 1) * DAY


def put(client: Any, start: float, values: dict[int, float], **dimensions: str) -> None:
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    client.put_metric_data(
        Namespace=CPU.namespace,
        MetricData=[
            {
                "MetricName": CPU.metric,
                "Dimensions": named,
                "Timestamp": datetime.fromtimestamp(start + minute * 60, UTC),
                "Value": value,
            }
            for minute, value in values.items()
        ],
    )


def test_each_node_has_its_values_of_the_day(client: Any, yesterday: float) -> None:
    put(client, yesterday, {0: 10.0, 1: 20.0, 5: 30.0, 1439: 40.0}, InstanceId="i-1")
    put(client, yesterday - DAY, {10: 99.0}, InstanceId="i-1")
    put(client, yesterday, {600: 7.0}, InstanceId="i-2")
    found = {one.node: dict(one.values) for one in CloudWatchMetrics(client).values(CPU, yesterday, yesterday + DAY)}
    assert found == {
        "i-1": {yesterday: 15.0, yesterday + 300: 30.0, yesterday + 86_100: 40.0},
        "i-2": {yesterday + 36_000: 7.0},
    }


def test_metrics_with_other_dimensions_are_not_meant(client: Any, yesterday: float) -> None:
    put(client, yesterday, {0: 1.0}, InstanceId="i-1", Core="0")
    put(client, yesterday, {0: 2.0}, InstanceId="i-2", Core="1")
    reader = CloudWatchMetrics(client)
    assert list(reader.values(CPU, yesterday, yesterday + DAY)) == []
    of_core = MetricQuery("AWS/EC2", "CPUUtilization", "InstanceId", dimensions={"Core": "0"})
    assert [one.node for one in reader.values(of_core, yesterday, yesterday + DAY)] == ["i-1"]


def test_many_nodes_are_queried_in_several_calls(
    client: Any, yesterday: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "METRICS_A_CALL", 2)
    for number in range(5):
        put(client, yesterday, {0: float(number)}, InstanceId=f"i-{number}")
    found = CloudWatchMetrics(client).values(CPU, yesterday, yesterday + DAY)
    assert [(one.node, one.values[0][1]) for one in found] == [(f"i-{n}", float(n)) for n in range(5)]


class TestAnswers:
    """Behaviour that the double lacks: pages and incomplete responses."""

    @pytest.fixture
    def stub(self, client: Any) -> Iterator[Stubber]:
        with Stubber(client) as stub:
            yield stub

    def listed(self, stub: Stubber, *nodes: str, token: str = "", request_token: str = "") -> None:
        metrics = [
            {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization", "Dimensions": [{"Name": "InstanceId", "Value": n}]}
            for n in nodes
        ]
        expected = {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization", "Dimensions": [{"Name": "InstanceId"}]}
        answer = {"Metrics": metrics, **({"NextToken": token} if token else {})}
        stub.add_response(
            "list_metrics", answer, {**expected, **({"NextToken": request_token} if request_token else {})}
        )

    def test_pages_of_metrics_and_of_values_are_read_to_the_end(self, client: Any, stub: Stubber) -> None:
        self.listed(stub, "b", token="more")
        self.listed(stub, "a", request_token="more")
        first, second = (datetime.fromtimestamp(moment, UTC) for moment in (0, 300))
        pages: list[dict[str, Any]] = [
            {"MetricDataResults": [a_result("m0", [first], [1.0], "PartialData")], "NextToken": "next"},
            {"MetricDataResults": [a_result("m0", [second], [2.0]), a_result("m1", [first], [3.0])]},
        ]
        for page in pages:
            stub.add_response("get_metric_data", page)
        found = list(CloudWatchMetrics(client).values(CPU, 0, DAY))
        assert [(one.node, one.values) for one in found] == [("a", ((0, 1.0), (300, 2.0))), ("b", ((0, 3.0),))]
        stub.assert_no_pending_responses()

    def test_metrics_that_are_not_meant_are_not_paid_for(self, client: Any, stub: Stubber) -> None:
        dimensions = [{"Name": name, "Value": "x"} for name in ("InstanceId", "Core")]
        metric = {"Namespace": "AWS/EC2", "MetricName": "CPUUtilization", "Dimensions": dimensions}
        stub.add_response("list_metrics", {"Metrics": [metric]})
        assert list(CloudWatchMetrics(client).values(CPU, 0, DAY)) == []

    @pytest.mark.parametrize("status", ["InternalError", "Forbidden", "PartialData"])
    def test_a_part_is_not_taken_for_all(self, client: Any, stub: Stubber, status: str) -> None:
        self.listed(stub, "a")
        stub.add_response("get_metric_data", {"MetricDataResults": [a_result("m0", [], [], status)]})
        with pytest.raises(StoreUnavailableError, match=status):
            list(CloudWatchMetrics(client).values(CPU, 0, DAY))

    def test_an_error_of_cloudwatch_is_reported(self, client: Any, stub: Stubber) -> None:
        stub.add_client_error("list_metrics", "AccessDenied", http_status_code=403)
        with pytest.raises(StoreUnavailableError, match="list metrics AWS/EC2 CPUUtilization"):
            list(CloudWatchMetrics(client).values(CPU, 0, DAY))


def a_result(key: str, moments: list[datetime], values: list[float], status: str = "Complete") -> dict[str, Any]:
    return {"Id": key, "Timestamps": moments, "Values": values, "StatusCode": status}


def test_a_day_of_a_series_survives_the_table(aws: boto3.Session) -> None:
    client = aws.client("dynamodb")
    create_table(client, BASELINES)
    store = BaselineStore(DynamoTable(BASELINES, client), clock=time.time)
    now = time.time()
    values = [-1e300, 0.0, 1e-300, 41.0, 1e300]
    for _ in range(2):
        store.add([Reading("web-01", "cpu", value, now, "percent") for value in values], batch_id="b")
    store.replace([Reading("web-01", "cpu", 7.0, now)], "cloudwatch")
    found = store.get(reader_of(Identity()), "web-01", "cpu", "1h")
    assert (found.count, found.minimum, found.maximum, found.unit) == (6, -1e300, 1e300, "percent")
    assert [one.metric for one in store.series(reader_of(Identity()))] == ["cpu"]
