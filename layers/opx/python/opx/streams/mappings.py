"""How a function is to be fed from a stream, as Lambda's API and CloudFormation want it."""

from __future__ import annotations

import json
from typing import Any

from opx.domain.streams import StreamDefinition, StreamKind

BATCH_SIZE = 100
WINDOW_SECONDS = 5
RETRIES = 3
REPORTED = "ReportBatchItemFailures"

_BODY = {StreamKind.KINESIS: "data", StreamKind.SQS: "body", StreamKind.KAFKA: "value"}
"""Where a filter finds the record itself."""


def mapping_of(definition: StreamDefinition) -> dict[str, Any]:
    """The settings of an event source mapping: batches of 100, three retries, a poison record alone at last.

    Queues count deliveries themselves, by their redrive policy. Kafka has retries and partial reports only with pollers
    of its own (AWS Lambda Developer Guide, "Configuring error handling controls for Kafka event sources").
    """
    wanted: dict[str, Any] = {
        "BatchSize": BATCH_SIZE,
        "MaximumBatchingWindowInSeconds": WINDOW_SECONDS,
        "FunctionResponseTypes": [REPORTED],
        **_source(definition),
    }
    if definition.pattern:
        pattern = json.dumps({_BODY[definition.kind]: definition.pattern}, sort_keys=True)
        wanted["FilterCriteria"] = {"Filters": [{"Pattern": pattern}]}
    if definition.kind is not StreamKind.SQS:
        wanted |= {"MaximumRetryAttempts": RETRIES, "BisectBatchOnFunctionError": True, "StartingPosition": "LATEST"}
    if definition.kind is StreamKind.KAFKA:
        wanted["ProvisionedPollerConfig"] = {"MinimumPollers": 1}
    return wanted


def _source(definition: StreamDefinition) -> dict[str, Any]:
    if definition.kind is not StreamKind.KAFKA:
        return {"EventSourceArn": definition.source}
    topics = {"Topics": [definition.topic]}
    if definition.credentials_arn:
        access = {"Type": "SASL_SCRAM_512_AUTH", "URI": definition.credentials_arn}
        topics["SourceAccessConfigurations"] = [access]  # type: ignore[list-item]
    if definition.source.startswith("arn:"):
        return {"EventSourceArn": definition.source, **topics}
    brokers = definition.source.removeprefix("kafka://").split(",")
    return {"SelfManagedEventSource": {"Endpoints": {"KAFKA_BOOTSTRAP_SERVERS": brokers}}, **topics}
