"""Streams whose records become documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from opx.domain.knowledge import Tier

QUEUE_OR_STREAM = re.compile(r"arn:[a-z0-9-]+:(?P<service>kinesis|sqs|kafka):[a-z0-9-]+:\d{12}:(?P<rest>\S+)\Z")
BROKERS = re.compile(r"kafka://[A-Za-z0-9.-]+:\d+(,[A-Za-z0-9.-]+:\d+)*\Z")
REDIS = re.compile(r"rediss?://\S+\Z")


class StreamKind(StrEnum):
    """Where records come from. The first three are read by a function of a deployed system."""

    KINESIS = "kinesis"
    SQS = "sqs"
    KAFKA = "kafka"
    REDIS = "redis"


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """`source` is an ARN (Kinesis stream, SQS queue, MSK cluster), `kafka://host:port,...` or a Redis address; `topic`
    is Kafka's, or the key of a Redis stream. `pattern` chooses records, empty: all. `identity` is the JSONPath of what
    names a record's document, so that later ones about the same are its versions; without it every record is a document.

    `password_secret` names Redis' password, `credentials_arn` is a secret of Secrets Manager with Kafka's user.
    """

    name: str
    source: str
    category: str
    tier: Tier
    topic: str = ""
    pattern: Mapping[str, Any] = field(default_factory=dict)
    identity: str = ""
    tags: tuple[str, ...] = ()
    password_secret: str = ""
    credentials_arn: str = ""

    @property
    def kind(self) -> StreamKind:
        arn = QUEUE_OR_STREAM.match(self.source)
        if arn:
            return StreamKind(arn["service"])
        return StreamKind.REDIS if REDIS.match(self.source) else StreamKind.KAFKA
