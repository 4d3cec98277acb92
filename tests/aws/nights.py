"""A deployment whose next-generation collection can be put to sleep, on simulated time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3

from opx.ports import Embedder, SearchIndex
from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import INDEX, Cloud, a_cloud
from tests.doubles.sleeping_collection import SleepingCollection, connect
from tests.support.fakes import FakeContext, function_logs

FUNCTION_SECONDS = 30.0


@dataclass
class TimedContext(FakeContext):
    """A call that ends after `seconds` of the simulated time."""

    time: FakeTime = field(default_factory=FakeTime)
    seconds: float = FUNCTION_SECONDS

    def __post_init__(self) -> None:
        self._end = self.time.clock() + self.seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(1000 * (self._end - self.time.clock()))


@dataclass
class Night:
    """A deployment with a few documents, whose collection can be put to sleep."""

    cloud: Cloud
    collection: SleepingCollection
    time: FakeTime

    def call(self, event: Any, seconds: float = FUNCTION_SECONDS) -> dict[str, Any]:
        return self.cloud.retrieve(event, TimedContext(time=self.time, seconds=seconds))

    def call_asleep(self, event: Any) -> tuple[dict[str, Any], float]:
        """The reply to a call while the collection is asleep, and the seconds that it took."""
        self.collection.sleep_now()
        before = self.time.clock()
        return self.call(event), self.time.clock() - before

    def await_knock(self) -> None:
        """Returns when the thread that wakes the collection has ended."""
        for thread in threading.enumerate():
            if thread.name == "wake":
                thread.join(10)


@contextmanager
def a_night(aws: boto3.Session, documents: dict[str, str], **chosen: Any) -> Iterator[Night]:
    """A deployment with these documents by key; `chosen` are further settings."""
    time = FakeTime()
    collection = SleepingCollection(time)

    def index(embedder: Embedder) -> SearchIndex:
        client = connect(
            opensearch_client("https://sleepy.aoss.eu-central-1.on.aws", aws.get_credentials(), "eu-central-1"),
            collection,
        )
        ensure_index(
            client, INDEX, model_id=embedder.model_id, dimension=embedder.dimension, sleep=time.sleep, clock=time.clock
        )
        return OpenSearchIndex(client, INDEX, sleep=time.sleep, clock=time.clock)

    with collection, function_logs(), a_cloud(aws, index, **chosen) as cloud:
        for key, text in documents.items():
            cloud.put(key, text)
        assert cloud.deliver() == []
        yield Night(cloud, collection, time)
