"""A real node that goes away while the functions write to it and search it, and comes back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from opensearchpy import OpenSearch

from opx.ingestion.worker import RetryRules
from opx.ports import Embedder, SearchFilter, SearchIndex
from opx.ports.tables import FAILURES
from opx.retrieval.citations import NOTHING_FOUND
from opx.runtime.metrics import Metric
from opx_aws.opensearch_bulk import BulkLimits
from opx_aws.vendor_errors import Backoff
from tests.aws.cloud import Cloud, a_cloud
from tests.opensearch.indices import RefreshedIndex, create_node_index, node_client
from tests.opensearch.node import LocalNode
from tests.support.fakes import function_logs

DISK = "documents/runbooks/disk.md"
TITLE = "Disk full on Linux hosts"
TEXT = f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume."
OTHERS = {
    f"documents/runbooks/{name}.md": f"# Check the {name}\n\nRestart the {name}." for name in ("dns", "cpu", "ntp")
}
EVERYTHING = SearchFilter(scopes=("global",))
SHORT = Backoff(attempts=2, base=0.01)
pytestmark = pytest.mark.opensearch


@pytest.fixture
def node_again(node: LocalNode) -> Iterator[LocalNode]:
    """The node, which is started again after the test in any case."""
    yield node
    node.start()


@pytest.fixture
def search(node_again: LocalNode) -> Iterator[OpenSearch]:
    """A client of this test alone: an outage breaks its connections."""
    with node_client(node_again.endpoint) as made:
        yield made


@pytest.fixture
def cloud(
    aws: boto3.Session, search: OpenSearch, names: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cloud]:
    """The functions, whose index is on the node, one write a request; items are retried at once, three times in all."""

    def index(embedder: Embedder) -> SearchIndex:
        name = names()
        create_node_index(search, name, model_id=embedder.model_id, dimension=embedder.dimension)
        limits = BulkLimits(actions=1, timeout=5.0)
        return RefreshedIndex(search, name, limits=limits, backoff=SHORT, timeout=2.0, vectors_of=embedder)

    with function_logs(), a_cloud(aws, index) as deployed:
        monkeypatch.setattr(deployed.services.ingestion.worker, "rules", RetryRules(attempts=3, base_seconds=0.0))
        yield deployed


def reported(output: str) -> set[str]:
    """Names of the metrics that a function printed."""
    lines = [json.loads(line) for line in output.splitlines() if '"_aws"' in line]
    directives = [directive for line in lines for directive in line["_aws"]["CloudWatchMetrics"]]
    return {metric["Name"] for directive in directives for metric in directive["Metrics"]}


class TestIngestion:
    def test_item_is_reported_and_ingested_when_the_node_is_back(
        self, cloud: Cloud, node_again: LocalNode, capsys: pytest.CaptureFixture[str]
    ) -> None:
        event = cloud.put(DISK, TEXT)
        node_again.stop()
        assert cloud.deliver() == [event]
        assert Metric.INGESTION_RETRIES in reported(capsys.readouterr().out)
        node_again.start()
        assert cloud.deliver() == []
        assert cloud.ask(TITLE).startswith(f"Source: {TITLE}\n")
        assert cloud.items(FAILURES.name) == []

    def test_node_that_dies_between_two_writes_costs_nothing(
        self, cloud: Cloud, node_again: LocalNode, search: OpenSearch, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        events = [cloud.put(key, text) for key, text in {DISK: TEXT, **OTHERS}.items()]
        with monkeypatch.context() as outage:
            dies_at(outage, search, node_again, write=3)
            assert sorted(cloud.deliver()) == sorted(events)
        node_again.start()
        assert cloud.services.index.count(EVERYTHING) == 2  # what the node had acknowledged
        assert cloud.deliver() == []
        assert cloud.services.index.count(EVERYTHING) == len(events)
        assert [f"Source: Check the {name}" in cloud.ask(f"Check the {name}") for name in ("dns", "cpu", "ntp")]

    def test_item_that_outlasted_its_attempts_is_listed_until_its_event_comes_again(
        self, cloud: Cloud, node_again: LocalNode
    ) -> None:
        event = cloud.put(DISK, TEXT)
        node_again.stop()
        while cloud.deliver():
            pass
        (item,) = cloud.items(FAILURES.name)
        assert item["objectKey"]["S"] == DISK
        assert "Connection refused" in item["reason"]["S"]
        node_again.start()
        cloud.send(event)
        assert cloud.deliver() == []
        assert f"Source: {TITLE}" in cloud.ask(TITLE)
        assert cloud.items(FAILURES.name) == []

    def test_document_that_was_deleted_meanwhile_is_gone_when_the_node_is_back(
        self, cloud: Cloud, node_again: LocalNode
    ) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        event = cloud.delete(DISK)
        node_again.stop()
        assert cloud.deliver() == [event]
        node_again.start()
        assert f"Source: {TITLE}" in cloud.ask(TITLE)
        assert cloud.deliver() == []
        assert cloud.services.index.count(EVERYTHING) == 0


class TestSearch:
    def test_answer_is_marked_and_the_outage_is_measured(
        self, cloud: Cloud, node_again: LocalNode, capsys: pytest.CaptureFixture[str]
    ) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        node_again.stop()
        capsys.readouterr()
        answer = cloud.ask(TITLE)
        assert {Metric.SEARCH_UNAVAILABLE, Metric.PARTIAL_ANSWERS} <= reported(capsys.readouterr().out)
        assert "nothing was searched" in answer
        assert NOTHING_FOUND not in answer
        node_again.start()
        assert cloud.ask(TITLE).startswith(f"Source: {TITLE}\n")

    def test_node_that_takes_too_long_is_an_outage(self, cloud: Cloud, node_again: LocalNode) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        with node_again.paused():
            assert "nothing was searched" in cloud.ask(TITLE)
        assert cloud.ask(TITLE).startswith(f"Source: {TITLE}\n")

    def test_index_that_is_gone_is_an_outage(self, cloud: Cloud, search: OpenSearch) -> None:
        cloud.put(DISK, TEXT)
        cloud.deliver()
        search.indices.delete(index=cloud.services.index._name)  # type: ignore[attr-defined]
        assert "nothing was searched" in cloud.ask(TITLE)


def dies_at(monkeypatch: pytest.MonkeyPatch, client: OpenSearch, node: LocalNode, *, write: int) -> None:
    """Let the node die just before this one of the client's bulk requests."""
    bulk = client.bulk
    done = 0

    def dying(**arguments: Any) -> Any:
        nonlocal done
        done += 1
        if done == write:
            node.kill()
        return bulk(**arguments)

    monkeypatch.setattr(client, "bulk", dying)
