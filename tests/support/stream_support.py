"""Streams for tests: definitions, batches as Lambda hands them over, and a system in a folder that takes them in."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from opx.domain.sources import StreamDefinition
from opx.errors import StoreUnavailableError
from opx.operations.system import System
from opx.ports import ObjectInfo
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from opx_streams import capability
from opx_streams.streams.definitions import stream_of
from opx_streams.streams.taking import consume_batch
from tests.support.fakes import Measured, WordsEmbedder

ACCOUNT = "eu-central-1:123456789012"
KINESIS = f"arn:aws:kinesis:{ACCOUNT}:stream/incidents"
SQS = f"arn:aws:sqs:{ACCOUNT}:incidents"
FIFO = f"{SQS}.fifo"
MSK = f"arn:aws:kafka:{ACCOUNT}:cluster/main/11111111-2222-3333-4444-555555555555-1"
BROKERS = "kafka://b-1.example.org:9092,b-2.example.org:9092"
REDIS = "redis://127.0.0.1:6379/0"


def a_stream(name: str = "incidents", source: str = KINESIS, **given: Any) -> StreamDefinition:
    """A stream of incidents; Kafka's topic is `incidents`."""
    if "kafka" in source or source.startswith("redis"):
        given.setdefault("topic", "incidents")
    return stream_of(name, {"source": source, "category": "operations/incidents", **given}, load_knowledge())


def an_incident(number: int = 1, **more: Any) -> dict[str, Any]:
    return {"id": f"INC-{number}", "title": f"Outage {number}", "content": f"Disk {number} was full.", **more}


def body_of(record: Any) -> bytes:
    return record if isinstance(record, bytes) else json.dumps(record).encode()


def from_kinesis(records: Iterable[Any], source: str = KINESIS, shard: int = 0) -> dict[str, Any]:
    return {
        "Records": [
            {
                "eventSource": "aws:kinesis",
                "eventID": f"shardId-{shard:012}:{number}",
                "eventSourceARN": source,
                "kinesis": {"sequenceNumber": f"{number}", "data": base64.b64encode(body_of(record)).decode()},
            }
            for number, record in enumerate(records)
        ]
    }


def from_sqs(records: Iterable[Any], source: str = SQS, groups: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "Records": [
            {
                "eventSource": "aws:sqs",
                "eventSourceARN": source,
                "messageId": f"m-{number}",
                "body": body_of(record).decode(),
                "attributes": {"MessageGroupId": groups[number]} if groups else {},
            }
            for number, record in enumerate(records)
        ]
    }


def from_kafka(partitions: dict[int, Sequence[Any]], **event: Any) -> dict[str, Any]:
    """Of an MSK cluster, or of `bootstrapServers`. A record that is None has no value."""
    origin = event or {"eventSource": "aws:kafka", "eventSourceArn": MSK}
    return {
        **origin,
        "records": {
            f"incidents-{partition}": [
                {
                    "topic": "incidents",
                    "partition": partition,
                    "offset": offset,
                    "key": base64.b64encode(b"key").decode(),
                    "value": None if record is None else base64.b64encode(body_of(record)).decode(),
                    "headers": [],
                }
                for offset, record in enumerate(records)
            ]
            for partition, records in partitions.items()
        },
    }


@dataclass
class SystemUnderTest:
    """A system in a folder, whose store refuses objects that contain `refused`."""

    home: Path
    refused: bytes = b""
    report: Measured = field(default_factory=Measured)

    @cached_property
    def services(self) -> System:
        made = bootstrap(Settings(home=str(self.home)), embedder=WordsEmbedder())
        put = made.store.put

        def sometimes(key: str, data: Any, **more: Any) -> ObjectInfo:
            if self.refused and self.refused in data:
                raise StoreUnavailableError("can't be reached")
            return put(key, data, **more)

        made.store.put = sometimes  # type: ignore[method-assign]
        return made

    def consume(self, event: Any, *streams: StreamDefinition) -> list[Any]:
        """Records of a batch that are to be delivered again."""
        answer = consume_batch(
            event,
            streams or (a_stream(),),
            self.services.manager,
            self.report,
            values_of=self.services.part(capability.StreamIngestion).taker_of_values,
            note=self.services.part(capability.StreamIngestion).note_record,
        )
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    @property
    def keys(self) -> list[str]:
        return sorted(info.key for info in self.services.store.list("documents/"))

    @property
    def titles(self) -> list[str]:
        """Of the documents, after the pipeline has worked."""
        list(self.services.manager.work())
        return sorted(one.title for one in self.services.corpus.catalog.in_category("operations/incidents"))
