"""Streams whose records become documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import field

from opx.domain.record import Json, Record

QUEUE_OR_STREAM = re.compile(
    r"arn:[a-z0-9-]+:(kinesis:[a-z0-9-]+:\d{12}:stream/|sqs:[a-z0-9-]+:\d{12}:|kafka:[a-z0-9-]+:\d{12}:cluster/[^/\s]+/)"
    r"[A-Za-z0-9_.-]+\Z"
)
BROKERS = re.compile(r"kafka://[A-Za-z0-9.-]+:\d+(,[A-Za-z0-9.-]+:\d+)*\Z")
REDIS = re.compile(r"rediss?://\S+\Z")


class StreamKind(StrEnum):
    """Where records come from. The first three are read by a function of a deployed system."""

    KINESIS = "kinesis"
    SQS = "sqs"
    KAFKA = "kafka"
    REDIS = "redis"


class StreamDefinition(Record, frozen=True, rename=None):
    """`source` is an ARN (Kinesis stream, SQS queue, MSK cluster), `kafka://host:port,...` or a Redis address; `topic`
    is Kafka's, or the key of a Redis stream. `pattern` chooses records, empty: all. `identity` is the JSONPath of what
    names a record's document, so that later ones about the same are its versions; without it every record is a document.

    Records of `operations/baselines` are values, which are added up: `json` says where they have node, metric, value, at
    and unit (JSONPath), if not in fields of these names. Such a stream has neither identity nor tags.

    `password_secret` names Redis' password, `credentials_arn` is a secret of Secrets Manager with Kafka's user, and
    `network` has the ids of subnets and security groups from which Kafka outside of MSK is reached.
    """

    name: str
    source: str
    category: str
    topic: str = ""
    pattern: Mapping[str, Any] = field(default_factory=dict, name="filter")
    identity: str = ""
    tags: tuple[str, ...] = ()
    password_secret: str = ""
    credentials_arn: str = ""
    network: tuple[str, ...] = ()
    json: Mapping[str, str] = field(default_factory=dict)

    def fields(self) -> Json:
        """What knowledge.yaml and rows have of it, all but the name."""
        return {name: value for name, value in self.to_json().items() if name != "name"}

    @property
    def kind(self) -> StreamKind:
        if self.source.startswith("arn:"):
            return StreamKind(self.source.split(":")[2])
        return StreamKind.REDIS if REDIS.match(self.source) else StreamKind.KAFKA

    @property
    def is_fifo(self) -> bool:
        """A queue that keeps the order of its messages."""
        return self.kind is StreamKind.SQS and self.source.endswith(".fifo")

    @property
    def brokers(self) -> frozenset[str]:
        """Hosts and ports of Kafka outside of MSK; empty for all else."""
        return brokers_of(self.source)

    def is_of(self, source: str, topic: str) -> bool:
        """Whether these are its records. Brokers may be listed in any order, and some may be missing."""
        return self.topic == topic and (self.source == source or bool(self.brokers & brokers_of(source)))


def brokers_of(source: str) -> frozenset[str]:
    return frozenset(source.removeprefix("kafka://").split(",")) if BROKERS.match(source) else frozenset()
