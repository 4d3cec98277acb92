"""Bulk jobs of a folder whose index is on a node of OpenSearch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from opx.ingestion.events import Result
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_bulk.capability import Bulk
from opx_bulk.local import LocalRunner
from tests.doubles.http_double import Request, Response, ServiceFailure
from tests.doubles.opensearch import OpenSearchDouble
from tests.support.bulk_support import begun, contents, drained, put_pages
from tests.support.fakes import WordsEmbedder

PAGES = 60


class Node(OpenSearchDouble):
    """A node, which needs no signature, and takes ids."""

    def __init__(self) -> None:
        super().__init__("classic", assigns_ids=False)

    def _answer(self, request: Request) -> Response:
        try:
            return self.answer(request)
        except ServiceFailure as failure:
            return failure.response


def on_a_node(home: str, address: str) -> System:
    return bootstrap(Settings(home=home, index=address), embedder=WordsEmbedder())


@contextmanager
def opened(home: str, address: str) -> Iterator[Bulk]:
    with on_a_node(home, address) as system:
        yield system.part(Bulk.of)


@pytest.fixture
def addresses() -> Iterator[list[str]]:
    with Node() as one, Node() as other:
        yield [f"opensearch://{urlsplit(double.endpoint).netloc}/opx-knowledge" for double in (one, other)]


def test_a_bulk_job_makes_the_same_index_on_a_node_as_ordinary_ingestion(tmp_path: Path, addresses: list[str]) -> None:
    homes = [str(tmp_path / "ordinary"), str(tmp_path / "bulk")]
    with on_a_node(homes[0], addresses[0]) as ordinary, on_a_node(homes[1], addresses[1]) as system:
        put_pages(ordinary, PAGES, quiet=False)
        assert {outcome.result for outcome in drained(ordinary)} == {Result.INGESTED}
        put_pages(system, PAGES)
        child = partial(opened, homes[1], addresses[1])
        runner = LocalRunner(system.part(Bulk.of).stages, system.work, opened=child, processes=2)
        report = runner.run(begun(system).job_id)
        assert (report.ingested, report.failed, report.unsettled, report.embedded) == (PAGES, 0, 0, 0)
        assert contents(system) == contents(ordinary)
