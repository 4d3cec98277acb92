"""Streams whose records become documents: event source mappings and the function that consumes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.queues import dead_letter_queue
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, corpus_settings
from infra.names import STREAMS_FAILED, Names
from opx.domain.sources import StreamDefinition, StreamKind
from opx.ports.tables import BASELINES, DELIVERIES, SOURCES
from opx.runtime.knowledge_file import load_knowledge
from opx_aws.event_source_mappings import consumer_group, mapping_of
from opx_streams.streams.definitions import declared_streams

CONSUME_STREAM = FunctionSpec(
    use_case="consume_stream",
    dependencies="ingest",
    description="Stores records of streams in the corpus",
    memory=512,
    timeout=60,  # visibility timeouts of queues must be longer
)

READ_KINESIS = (
    "kinesis:DescribeStream",
    "kinesis:DescribeStreamSummary",
    "kinesis:GetRecords",
    "kinesis:GetShardIterator",
    "kinesis:ListShards",
)
READ_QUEUE = ("sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage")
FIND_CLUSTER = ("kafka:DescribeClusterV2", "kafka:GetBootstrapBrokers")
JOIN_NETWORK = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)
"""Actions of Lambda in the role's name: the managed policies AWSLambdaKinesisExecutionRole, AWSLambdaSQSQueueExecutionRole
and AWSLambdaMSKExecutionRole without their rights on logs, listing and fan-out."""

_NETWORK_REASON = "Lambda connects to brokers through network interfaces, which have no names before they are made"


def streams_to_read() -> list[StreamDefinition]:
    """Declared streams that a function consumes: all but those of Redis."""
    declared = declared_streams(load_knowledge()).values()
    return [stream for stream in declared if stream.kind is not StreamKind.REDIS]


class StreamsStack(Stack):
    """A mapping for each stream, the function, and the queue for batches that failed three retries.

    The function may read these streams, and those of `stream_arns`, which may be subscribed to at run time.
    """

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        source: LayerSource,
        env: Environment,
        streams: Sequence[StreamDefinition],
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: streams")
        self.failed = dead_letter_queue(
            self, "Failed", names.queue(STREAMS_FAILED), of="the mappings of Kinesis and Kafka"
        )
        self.consume = self._function(names, source, streams)
        policy = self.consume.role.node.find_child("DefaultPolicy")
        for stream in streams:
            mapping = _mapping(self, stream, names)
            mapping.node.add_dependency(policy)  # Lambda checks the role's rights when it makes a mapping
        CfnOutput(self, "StreamFunction", value=self.consume.function.function_name)
        CfnOutput(self, "StreamFailedQueueArn", value=self.failed.queue_arn)

    def _function(self, names: Names, source: LayerSource, streams: Sequence[StreamDefinition]) -> UseCaseFunction:
        function = UseCaseFunction(
            self,
            CONSUME_STREAM,
            names=names,
            source=source,
            settings=corpus_settings(names),
            rights=_rights(names, self.failed.queue_arn),
            polling=_reading(names, streams),
            folders=rights.DOCUMENT_FOLDERS,
        )
        if any(map(_joins_network, streams)):
            acknowledge_wildcard(function.role, "*", _NETWORK_REASON)
        return function


def _mapping(stack: StreamsStack, stream: StreamDefinition, names: Names) -> lambda_.CfnEventSourceMapping:
    """The library's event source mapping as a CloudFormation resource."""
    name = "".join(part.title() for part in stream.name.replace("_", "-").split("-"))
    function = stack.consume.function.function_name
    made = lambda_.CfnEventSourceMapping(stack, f"Read{name}", function_name=function)
    wanted: dict[str, Any] = mapping_of(stream, names.function(CONSUME_STREAM.use_case), failed=stack.failed.queue_arn)
    brokers = wanted.get("SelfManagedEventSource", {}).get("Endpoints")
    if brokers:
        brokers["KafkaBootstrapServers"] = brokers.pop("KAFKA_BOOTSTRAP_SERVERS")
    for key, value in wanted.items():
        made.add_property_override(key, value)
    return made


def _rights(names: Names, failed: str) -> list[iam.PolicyStatement]:
    """Listing distinguishes a missing object (404) from a forbidden one (403)."""
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, rights.PUT_DOCUMENTS),
        rights.on_tables(names, (SOURCES,), ("dynamodb:Query",)),
        rights.on_tables(names, (BASELINES,), rights.ADD_VALUES),
        rights.on_tables(names, (DELIVERIES,), ("dynamodb:GetItem", "dynamodb:PutItem")),
        rights.look_clients_up(names),
        rights.allow(["sqs:SendMessage"], failed),
    ]


def _reading(names: Names, streams: Sequence[StreamDefinition]) -> list[iam.PolicyStatement]:
    """Rights to read these streams, and those that may be subscribed to at run time."""
    by_kind: dict[str, list[str]] = {"kinesis": [], "sqs": []}
    for arn in [*names.deployment.subscribable, *(stream.source for stream in streams)]:
        by_kind.get(arn.split(":")[2] if arn.startswith("arn:") else "", []).append(arn)
    found = [
        rights.allow(actions, *sorted(set(by_kind[kind])))
        for kind, actions in (("kinesis", READ_KINESIS), ("sqs", READ_QUEUE))
        if by_kind[kind]
    ]
    for stream in streams:
        if stream.kind is StreamKind.KAFKA:
            found += _reading_kafka(names, stream)
    if any(map(_joins_network, streams)):
        found.append(rights.allow(JOIN_NETWORK, "*"))
    return found


def _reading_kafka(names: Names, stream: StreamDefinition) -> list[iam.PolicyStatement]:
    """Rights to read a topic. For a user with credentials, Kafka checks the rights; for a role, MSK checks them with IAM."""
    found = []
    if stream.credentials_arn:
        found.append(rights.allow(["secretsmanager:GetSecretValue"], stream.credentials_arn))
    if stream.brokers:
        return found
    found.append(rights.allow(FIND_CLUSTER, stream.source))
    if not stream.credentials_arn:
        function = names.function(CONSUME_STREAM.use_case)
        topic = f"{stream.source.replace(':cluster/', ':topic/')}/{stream.topic}"
        group = f"{stream.source.replace(':cluster/', ':group/')}/{consumer_group(stream, function)}"
        found += [
            rights.allow(["kafka-cluster:Connect", "kafka-cluster:DescribeClusterDynamicConfiguration"], stream.source),
            rights.allow(["kafka-cluster:DescribeTopic", "kafka-cluster:ReadData"], topic),
            rights.allow(["kafka-cluster:AlterGroup", "kafka-cluster:DescribeGroup"], group),
        ]
    return found


def _joins_network(stream: StreamDefinition) -> bool:
    """True if Lambda connects through a VPC: always for MSK, for other brokers if they name one."""
    return stream.kind is StreamKind.KAFKA and (not stream.brokers or bool(stream.network))
