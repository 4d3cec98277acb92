"""Streams that a function reads: how it is fed, what it may, and where what is given up is noted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from infra.configuration import ContextError, Deployment
from infra.constructs.layer_contents import ROOT
from infra.streams import streams_to_read
from opx.ports.tables import BASELINES, DELIVERIES, SOURCES
from opx.settings import Settings
from opx_streams.streams.definitions import declared_streams
from tests.infra.templates import Assembly, Resource, lint_findings, listed
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import BUCKET, clients_arn, pairs, table_arns
from tests.support.stream_support import ACCOUNT, BROKERS, FIFO, KINESIS, MSK, REDIS, SQS

SECRET = f"arn:aws:secretsmanager:{ACCOUNT}:secret:kafka-AbCdEf"
IN = "category: operations/incidents"
DECLARED = f"""
streams:
  kinesis: {{source: '{KINESIS}', {IN}, filter: {{severity: [critical]}}}}
  queue: {{source: '{SQS}', {IN}}}
  ordered_queue: {{source: '{FIFO}', {IN}}}
  msk: {{source: '{MSK}', {IN}, topic: orders}}
  brokers: {{source: '{BROKERS}', {IN}, topic: orders, credentials_arn: '{SECRET}', network: [subnet-0a1b2c3d, sg-0a1b2c3d]}}
  live: {{source: '{REDIS}', {IN}, topic: orders}}
"""


Declaring = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def declaring(tmp_path_factory: pytest.TempPathFactory) -> Declaring:
    """Have the knowledge file declare these streams for a while."""
    file = tmp_path_factory.mktemp("knowledge") / "knowledge.yaml"

    @contextmanager
    def declared(text: str) -> Iterator[None]:
        file.write_text(text)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("infra.streams.declared_streams", lambda knowledge: declared_streams(knowledge, file))
            yield

    return declared


@pytest.fixture(scope="module")
def reading(declaring: Declaring, make: Callable[..., Assembly]) -> Assembly:
    with declaring(DECLARED):
        return make()


@pytest.fixture(scope="module")
def subscribable(make: Callable[..., Assembly]) -> Assembly:
    return make(stream_arns=f"{KINESIS}, {SQS}", agent="none", api_auth="none")


def mappings(assembly: Assembly) -> dict[str, Resource]:
    return assembly.resources("streams", "Lambda::EventSourceMapping")


def mapping(assembly: Assembly, source: str) -> Resource:
    (found,) = [one for one in mappings(assembly).values() if one.get("EventSourceArn") == source]
    return found


def rights(assembly: Assembly) -> set[tuple[str, str]]:
    return {
        (action, resource)
        for policy in assembly.resources("streams", "IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }


def test_by_default_no_stream_is_read(default: Assembly) -> None:
    assert "streams" not in default.templates


def test_rules_are_kept(reading: Assembly) -> None:
    assert reading.findings == []
    assert lint_findings(reading, "streams") == []


def test_each_declared_stream_of_aws_feeds_the_function(reading: Assembly) -> None:
    (function,) = reading.resources("streams", "Lambda::Function")
    assert {one["FunctionName"] for one in mappings(reading).values()} == {f"<{function}>"}
    assert len(mappings(reading)) == 5
    assert (ROOT / "lambdas" / "consume_stream" / "handler.py").is_file()


def test_batches_of_a_hundred_three_retries_and_halves_until_the_poison_is_alone(reading: Assembly) -> None:
    for source in (KINESIS, MSK):
        found = mapping(reading, source)
        assert (found["BatchSize"], found["MaximumRetryAttempts"], found["BisectBatchOnFunctionError"]) == (
            100,
            3,
            True,
        )
    assert (mapping(reading, SQS)["BatchSize"], mapping(reading, FIFO)["BatchSize"]) == (100, 10)
    assert all(one["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for one in mappings(reading).values())


def test_failed_records_go_to_a_queue_with_an_alarm(reading: Assembly) -> None:
    ((queue, properties),) = reading.resources("streams", "SQS::Queue").items()
    for source in (KINESIS, MSK):
        assert mapping(reading, source)["DestinationConfig"] == {"OnFailure": {"Destination": f"<{queue}.Arn>"}}
    assert ("sqs:SendMessage", f"<{queue}.Arn>") in rights(reading)
    watched = [
        alarm["Dimensions"][0]["Value"]
        for alarm in reading.resources("observability", "CloudWatch::Alarm").values()
        if alarm.get("Dimensions")
    ]
    assert properties["QueueName"] == "dev-opx-knowledge-streams-failed"
    assert properties["QueueName"] in watched


def test_filters_are_lambdas(reading: Assembly) -> None:
    expected = {"Filters": [{"Pattern": '{"data": {"severity": ["critical"]}}'}]}
    assert mapping(reading, KINESIS)["FilterCriteria"] == expected


def test_other_brokers_are_reached_with_a_user_through_a_network(reading: Assembly) -> None:
    (found,) = [one for one in mappings(reading).values() if "SelfManagedEventSource" in one]
    servers = found["SelfManagedEventSource"]["Endpoints"]["KafkaBootstrapServers"]
    assert servers == ["b-1.example.org:9092", "b-2.example.org:9092"]
    assert {one["Type"] for one in found["SourceAccessConfigurations"]} == {
        "SASL_SCRAM_512_AUTH",
        "VPC_SUBNET",
        "VPC_SECURITY_GROUP",
    }


def test_the_function_may_do_exactly_this(reading: Assembly) -> None:
    logs = reading.only("streams", "Lambda::Function")["LoggingConfig"]["LogGroup"].strip("<>")
    (queue,) = reading.resources("streams", "SQS::Queue")
    documents = {f"{BUCKET}/documents/*", f"{BUCKET}/clients/*/documents/*"}
    topic, group = (MSK.replace(":cluster/", f":{kind}/") for kind in ("topic", "group"))
    network = "CreateNetworkInterface DeleteNetworkInterface DescribeNetworkInterfaces DescribeSecurityGroups "
    kinesis = "DescribeStream DescribeStreamSummary GetRecords GetShardIterator ListShards"
    assert rights(reading) == (
        pairs("logs:CreateLogStream PutLogEvents", {f"<{logs}.Arn>"})
        | pairs("xray:PutTelemetryRecords PutTraceSegments", {"*"})
        | pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:AbortMultipartUpload DeleteObject GetObject PutObject PutObjectTagging", documents)
        | pairs("dynamodb:Query", table_arns(SOURCES))
        | pairs("dynamodb:BatchGetItem BatchWriteItem GetItem PutItem Query", table_arns(BASELINES))
        | pairs("dynamodb:GetItem PutItem", table_arns(DELIVERIES))
        | pairs("dynamodb:GetItem", clients_arn())
        | pairs("sqs:SendMessage", {f"<{queue}.Arn>"})
        | pairs(f"kinesis:{kinesis}", {KINESIS})
        | pairs("sqs:DeleteMessage GetQueueAttributes ReceiveMessage", {SQS, FIFO})
        | pairs("kafka:DescribeClusterV2 GetBootstrapBrokers", {MSK})
        | pairs("kafka-cluster:Connect DescribeClusterDynamicConfiguration", {MSK})
        | pairs("kafka-cluster:DescribeTopic ReadData", {f"{topic}/orders"})
        | pairs("kafka-cluster:AlterGroup DescribeGroup", {f"{group}/dev-opx-consume-stream-msk"})
        | pairs("secretsmanager:GetSecretValue", {SECRET})
        | pairs(f"ec2:{network}DescribeSubnets DescribeVpcs", {"*"})
    )


def test_rights_are_there_before_a_mapping_is_made(reading: Assembly) -> None:
    """Lambda refuses a mapping whose function may not read the stream."""
    (policy,) = reading.resources("streams", "IAM::Policy")
    for resource in reading.templates["streams"]["Resources"].values():
        if resource["Type"] == "AWS::Lambda::EventSourceMapping":
            assert policy in resource["DependsOn"]


def test_its_settings_are_valid(reading: Assembly) -> None:
    settings = Settings.from_environ(environment(reading, "streams"))
    assert (settings.backend, settings.table_prefix) == ("aws", "dev-")


class TestSubscribedLater:
    def test_the_function_may_read_what_may_be_subscribed_to(self, subscribable: Assembly) -> None:
        assert mappings(subscribable) == {}
        assert ("kinesis:GetRecords", KINESIS) in rights(subscribable)
        assert ("sqs:ReceiveMessage", SQS) in rights(subscribable)
        assert not any(action.startswith(("ec2:", "kafka")) for action, _ in rights(subscribable))

    def test_outputs_name_what_a_subscription_needs(self, subscribable: Assembly) -> None:
        assert set(subscribable.templates["streams"]["Outputs"]) == {"StreamFunction", "StreamFailedQueueArn"}

    def test_rules_are_kept(self, subscribable: Assembly) -> None:
        assert subscribable.findings == []
        assert lint_findings(subscribable, "streams") == []

    @pytest.mark.parametrize("arns", ["*", MSK, f"{KINESIS};{SQS}", f"{KINESIS}*"])
    def test_invalid_stream_arns_are_refused(self, arns: str) -> None:
        with pytest.raises(ContextError, match="stream_arns"):
            Deployment(stream_arns=arns)


def test_a_stream_of_redis_alone_needs_no_function(declaring: Declaring) -> None:
    with declaring(f"streams: {{live: {{source: '{REDIS}', {IN}, topic: incidents}}}}"):
        assert streams_to_read() == []
