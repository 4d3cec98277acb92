"""Questions to a collection that shows writes ten seconds late and keeps a byte of each number of a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest

from opx.domain.results import Answer, RetrievalResult
from opx.edges.calling import decoded
from opx.ports import Embedder, SearchIndex
from opx_aws.opensearch import OpenSearchIndex, ensure_index, opensearch_client
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import INDEX, Cloud, a_cloud
from tests.doubles.sleeping_collection import SleepingCollection, connect
from tests.support.api_requests import a_request
from tests.support.fakes import FakeContext, function_logs

LAG_SECONDS = 10.0
PAGES = {
    "disk": "# Disk full on Linux hosts\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume.",
    "inodes": "# No inodes left on Linux hosts\n\nFind directories with many small files. Delete old sessions.",
    "cpu": "# High CPU load\n\nLook at top. Restart the process that spins.",
    "dns": "# DNS names do not resolve\n\nFlush the cache of the resolver, then compare its answers.",
    "keys": "# Rotate the signing keys\n\nMake a new key. Remove the old one after a day.",
}
QUESTION = "which directories fill the disk of linux hosts"


class Lagging:
    """A deployment with these pages, whose collection has just accepted them."""

    def __init__(self, cloud: Cloud, time: FakeTime) -> None:
        self.cloud = cloud
        self.time = time
        for name, text in PAGES.items():
            cloud.put(f"documents/runbooks/{name}.md", text)
        assert cloud.deliver() == []

    def results(self) -> list[RetrievalResult]:
        request = a_request("query", body={"query": QUESTION, "config": {"minConfidence": 0.0}}, kbId="default")
        reply: Any = self.cloud.retrieve(request, FakeContext())
        answer: Answer = decoded(str(reply["body"]).encode(), Answer)
        assert not answer.partial
        return list(answer.results)


@pytest.fixture
def lagging(aws: boto3.Session) -> Iterator[Callable[..., Lagging]]:
    with ExitStack() as stack:

        def make(**options: Any) -> Lagging:
            time = FakeTime()
            collection = stack.enter_context(SleepingCollection(time, **options))

            def index(embedder: Embedder) -> SearchIndex:
                address = "https://lagging.aoss.eu-central-1.on.aws"
                client = connect(opensearch_client(address, aws.get_credentials(), "eu-central-1"), collection)
                made = {"model_id": embedder.model_id, "dimension": embedder.dimension}
                ensure_index(client, INDEX, **made, sleep=time.sleep, clock=time.clock)  # type: ignore[arg-type]
                return OpenSearchIndex(client, INDEX, sleep=time.sleep, clock=time.clock)

            return Lagging(stack.enter_context(a_cloud(aws, index)), time)

        with function_logs():
            yield make


def test_what_was_ingested_is_found_when_the_collection_shows_it(lagging: Callable[..., Lagging]) -> None:
    found = lagging(visible_after=LAG_SECONDS)
    assert found.results() == []
    found.time.now += LAG_SECONDS
    assert found.results()[0].source.endswith("disk.md")


def test_compressed_vectors_leave_the_order_and_the_meaning_of_answers(lagging: Callable[..., Lagging]) -> None:
    found = lagging(compresses=True).results()
    assert [one.source.rpartition("/")[2] for one in found[:2]] == ["disk.md", "inodes.md"]
    assert [one.parts.vector_rank for one in found[:2] if one.parts] == [1, 2]
