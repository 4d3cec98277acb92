"""Builds Lambda's event source mappings of streams."""

from __future__ import annotations

import json
from typing import Any

from opx.domain.sources import StreamDefinition, StreamKind

BATCH_SIZE = 100
FIFO_BATCH_SIZE = 10
"""Lambda's maximum; such queues have no batching window either."""

WINDOW_SECONDS = 5
RETRIES = 3
REPORTED = "ReportBatchItemFailures"

_BODY = {StreamKind.KINESIS: "data", StreamKind.SQS: "body", StreamKind.KAFKA: "value"}
"""Field of the event that holds the record itself."""


def mapping_of(definition: StreamDefinition, function: str, *, failed: str = "") -> dict[str, Any]:
    """Returns the settings of an event source mapping: batches of 100, three retries, then bisected to isolate a poison
    record.

    `failed` is the ARN of the queue for abandoned batches. Queues count deliveries themselves, by their
    redrive policy. Kafka has retries and partial reports only with pollers of its own (AWS Lambda Developer Guide,
    "Configuring error handling controls for Kafka event sources"). Streams are read from their beginning: records that
    arrive while a mapping is being created would be missed otherwise ("Polling and stream starting positions").
    """
    wanted: dict[str, Any] = {
        "BatchSize": FIFO_BATCH_SIZE if definition.is_fifo else BATCH_SIZE,
        "FunctionResponseTypes": [REPORTED],
        **_source(definition, consumer_group(definition, function)),
    }
    if not definition.is_fifo:
        wanted["MaximumBatchingWindowInSeconds"] = WINDOW_SECONDS
    if definition.pattern:
        pattern = json.dumps({_BODY[definition.kind]: definition.pattern}, sort_keys=True)
        wanted["FilterCriteria"] = {"Filters": [{"Pattern": pattern}]}
    if definition.kind is not StreamKind.SQS:
        wanted |= {"MaximumRetryAttempts": RETRIES, "BisectBatchOnFunctionError": True}
        wanted["StartingPosition"] = "TRIM_HORIZON"
        if failed:
            wanted["DestinationConfig"] = {"OnFailure": {"Destination": failed}}
    if definition.kind is StreamKind.KAFKA:
        wanted["ProvisionedPollerConfig"] = {"MinimumPollers": 1}
    return wanted


def consumer_group(definition: StreamDefinition, function: str) -> str:
    """Kafka's consumer group of the function: its own, so that a recreated mapping resumes at its position."""
    return f"{function}-{definition.name}"


def _source(definition: StreamDefinition, group: str) -> dict[str, Any]:
    if definition.kind is not StreamKind.KAFKA:
        return {"EventSourceArn": definition.source}
    found: dict[str, Any] = {"Topics": [definition.topic]}
    access = _access(definition)
    if access:
        found["SourceAccessConfigurations"] = access
    if not definition.brokers:
        managed = {"AmazonManagedKafkaEventSourceConfig": {"ConsumerGroupId": group}}
        return {"EventSourceArn": definition.source, **found, **managed}
    brokers = {"KAFKA_BOOTSTRAP_SERVERS": definition.source.removeprefix("kafka://").split(",")}
    own = {"SelfManagedKafkaEventSourceConfig": {"ConsumerGroupId": group}}
    return {"SelfManagedEventSource": {"Endpoints": brokers}, **found, **own}


def _access(definition: StreamDefinition) -> list[dict[str, str]]:
    """Returns credentials and network of a source. Without credentials, MSK is accessed with the function's role."""
    found = [
        {"Type": "VPC_SUBNET", "URI": f"subnet:{one}"}
        if one.startswith("subnet-")
        else {"Type": "VPC_SECURITY_GROUP", "URI": f"security_group:{one}"}
        for one in definition.network
    ]
    if definition.credentials_arn:
        found.append({"Type": "SASL_SCRAM_512_AUTH", "URI": definition.credentials_arn})
    return found
