"""New names that one process declared and didn't search in earlier documents are searched by the next."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.domain.documents import DocumentKey
from opx.domain.graph import Statements
from opx.domain.scopes import Scope
from opx.errors import IndexUnavailableError, StoreUnavailableError
from opx.graph.relink_queue import WaitingNames
from opx.graph.relinking import OTHERS_SECONDS
from opx.ingestion.events import ObjectEvent
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.fake_time import FakeTime
from tests.aws.cloud import Cloud, a_cloud
from tests.support.fakes import WordsEmbedder, function_logs

INVENTORY, OUTAGE, NEWS = (f"documents/runbooks/{name}.md" for name in ("shop", "outage", "news"))
TEXTS = {
    OUTAGE: "# Outage\n\nThe orders service lost erp-db-01.\n",
    INVENTORY: "---\nservices: [orders]\nhosts: [erp-db-01]\n---\n# Shop\n\nSold by erp-db-01.\n",
    NEWS: "# News\n\nNothing happened.\n",
}
FOUND = {"host:erp-db-01", "service:orders"}


@contextmanager
def opened(home: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(home)), embedder=WordsEmbedder()) as system:
        yield system


def put(system: System, *sources: str) -> None:
    for source in sources:
        system.store.put(source, TEXTS[source].encode())


def ingest(system: System, *sources: str) -> None:
    put(system, *sources)
    assert [outcome.result for outcome in system.manager.work()] == ["ingested"] * len(sources)


def statements(system: System) -> dict[str, Statements]:
    return {source: system.graph.store.statements_of(DocumentKey(Scope(), source).id) for source in TEXTS}


def mentions(system: System) -> set[str]:
    return {edge.target for edge in statements(system)[OUTAGE].edges}


def die(*_: object) -> None:
    raise KeyboardInterrupt


def away(*_: object, **__: object) -> None:
    raise IndexUnavailableError("away")


@pytest.fixture
def interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose last process ended between the declaration of names and their search."""
    with opened(tmp_path / "home") as system:
        ingest(system, OUTAGE)
        put(system, INVENTORY)
        with monkeypatch.context() as patch:
            patch.setattr(system.index, "search", die)
            with pytest.raises(KeyboardInterrupt):
                list(system.manager.work())
        assert mentions(system) == set()
    return tmp_path / "home"


def without_interruption(home: Path) -> dict[str, Statements]:
    with opened(home) as system:
        ingest(system, OUTAGE)
        ingest(system, INVENTORY)
        assert mentions(system) == FOUND
        return statements(system)


def test_the_next_process_searches_names_that_a_killed_one_left(interrupted: Path, tmp_path: Path) -> None:
    with opened(interrupted) as system:
        list(system.manager.work())
        assert statements(system) == without_interruption(tmp_path / "other")
        assert system.graph.relink_queue.waiting() == []


def test_an_ingestion_of_nothing_new_searches_what_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(tmp_path) as system:
        ingest(system, OUTAGE)
        monkeypatch.setattr(system.index, "search", away)
        ingest(system, INVENTORY)
        assert "stay queued" in caplog.text
        assert mentions(system) == set()
    with opened(tmp_path) as system:
        assert list(system.manager.work()) == []
        assert mentions(system) == FOUND
        assert system.graph.relink_queue.waiting() == []


def test_the_full_run_counts_what_it_adds_for_them(interrupted: Path) -> None:
    with opened(interrupted) as system:
        done = system.relinking.relink()
        assert (done.documents, done.mentions) == (2, 3)
        assert system.graph.relink_queue.waiting() == []
        again = system.relinking.relink()
        assert (again.documents, again.mentions) == (0, 0)


def test_names_wait_while_another_worker_has_a_document(interrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(interrupted) as system:
        catalog, key = system.corpus.catalog, DocumentKey(Scope(), OUTAGE)
        monkeypatch.setattr(catalog.claims, "_lease_seconds", 900)
        held = catalog.claim(key, ObjectEvent(OUTAGE, deleted=False, sequencer=""))
        system.relinking.relink_new()
        assert {name for row in system.graph.relink_queue.waiting() for name in row.names} == FOUND
        catalog.claims.release(held, applied=False)
        system.relinking.relink_new()
        assert system.graph.relink_queue.waiting() == []
        assert mentions(system) == FOUND


def test_names_wait_while_the_tables_are_away(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(interrupted) as system:
        with monkeypatch.context() as patch:
            patch.setattr(system.graph.relink_queue, "waiting", away)
            assert system.relinking.relink_new().names == 0
        assert "can't be read: away" in caplog.text
        system.relinking.relink_new()
        assert mentions(system) == FOUND


def test_a_document_that_is_rolled_back_leaves_no_row_and_its_names_are_searched(tmp_path: Path) -> None:
    """The process knows them from then on, and queues them no more."""
    with opened(tmp_path / "home") as system:
        ingest(system, OUTAGE)
        put(system, INVENTORY)
        catalog, finish = system.corpus.catalog, system.corpus.catalog.finish
        calls: list[int] = []

        def failing(*args: Any, **named: Any) -> None:
            calls.append(1)
            if len(calls) == 1:
                raise StoreUnavailableError("away")
            finish(*args, **named)

        catalog.finish = failing  # type: ignore[method-assign]
        list(system.manager.work())
        assert len(calls) == 2
        assert mentions(system) == FOUND
        assert system.graph.relink_queue.waiting() == []


def test_time_that_ends_within_a_row_leaves_the_names_behind(
    interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = FakeTime()
    with opened(interrupted) as system:
        relinker = system.relinking.relinker
        search = relinker._passages_with

        def slow(*args: Any) -> Any:
            time.sleep(10)
            return search(*args)

        monkeypatch.setattr(relinker, "clock", time.clock)
        monkeypatch.setattr(relinker, "_passages_with", slow)
        monkeypatch.setattr(relinker, "seconds", 5.0)
        assert system.relinking.relink_new().left_out == ("1 of 2 new names",)
        (row,) = system.graph.relink_queue.waiting()
        assert mentions(system) | set(row.names) == FOUND
        assert len(row.names) == len(mentions(system)) == 1
        assert system.relinking.relink_new().left_out == ()
        assert mentions(system) == FOUND


# -- functions


@pytest.fixture
def cloud(aws_session: boto3.Session, time: FakeTime) -> Iterator[Cloud]:
    from moto import mock_aws

    with mock_aws(), function_logs(), a_cloud(aws_session, clock=time.clock) as deployed:
        yield deployed


def queued(cloud: Cloud) -> set[str]:
    return {name for row in cloud.services.graph.relink_queue.waiting() for name in row.names}


def test_a_function_searches_names_that_another_left_ten_minutes_ago(
    cloud: Cloud, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (OUTAGE, INVENTORY):
        with monkeypatch.context() as patch:
            patch.setattr("opx.graph.relinking.Relinker._passages_with", away)
            cloud.put(source, TEXTS[source])
            cloud.deliver()
    assert queued(cloud) == FOUND
    time.now += OTHERS_SECONDS - 1
    cloud.put(NEWS, TEXTS[NEWS])
    cloud.deliver()
    assert queued(cloud) == FOUND  # the function that queued them may be about to search them
    time.now += 1
    cloud.put(NEWS, TEXTS[NEWS] + "Again.\n")
    cloud.deliver()
    assert queued(cloud) == set()
    assert mentions(cloud.services) == FOUND


def test_a_function_searches_its_own_names_at_once_in_one_item(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    queue = cloud.services.graph.relink_queue
    add = queue.add

    def counted(*args: Any) -> list[WaitingNames]:
        rows = add(*args)
        written.extend(len(row.names) for row in rows)
        return rows

    monkeypatch.setattr(queue, "add", counted)
    for source in (OUTAGE, INVENTORY, NEWS):
        cloud.put(source, TEXTS[source])
        cloud.deliver()
    assert written == [2]
    assert mentions(cloud.services) == FOUND
    assert queued(cloud) == set()
    assert "relink#" not in json.dumps(cloud.items("opx-knowledge-graph"))
