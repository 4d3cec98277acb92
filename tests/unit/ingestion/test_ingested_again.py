"""Ingesting an unchanged document again keeps its times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.documents import KnowledgeDocument
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ingestion.corpus.stores import AnnouncingObjectStore
from opx.operations.system import System
from opx_testing.fake_time import FakeTime
from tests.support.archive_support import PROCEDURES, put, services_at


@pytest.fixture
def services(tmp_path: Path, time: FakeTime) -> Iterator[System]:
    with services_at(tmp_path, time) as services:
        yield services


def current(services: System) -> KnowledgeDocument:
    return next(services.corpus.catalog.visible([Scope().key], categories=[PROCEDURES]))


def ingest_all_again(services: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests all documents as after an upgrade with other rules."""
    assert isinstance(services.store, AnnouncingObjectStore)
    monkeypatch.setattr("opx.ingestion.pipeline.PIPELINE_VERSION", 999)
    services.store.announce_all()
    assert [outcome.result.value for outcome in services.manager.work()] == ["ingested"]


def test_generic_title_of_an_older_release_is_completed_when_all_events_are_sent_again(
    services: System, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(services.store, AnnouncingObjectStore)
    with monkeypatch.context() as before:
        before.setattr("opx.ingestion.reading.completed", lambda title, _: title)
        put(services, "cart/README", "The heron.", title="README")
        put(services, "ledger", "The egret.")
    old = next(one for one in services.corpus.catalog.in_category(PROCEDURES) if one.title == "README")
    time.sleep(90_000)
    services.store.announce_all()
    assert sorted(outcome.result.value for outcome in services.manager.work()) == ["ingested", "unchanged"]
    new = services.corpus.catalog.version(old.key, old.document_id)
    assert new
    files = {"chunks_checksum": new.chunks_checksum, "outline_checksum": new.outline_checksum}  # they have the title
    assert new == replace(old, title="README (cart)", **files)
    services.store.announce_all()
    assert {outcome.result.value for outcome in services.manager.work()} == {"unchanged"}


def test_upgrade_does_not_make_documents_look_new(
    services: System, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(services, "one", "The heron.")
    before = current(services)
    time.sleep(90_000)
    ingest_all_again(services, monkeypatch)
    assert current(services) == before


def test_document_that_is_put_with_other_metadata_is_updated(services: System, time: FakeTime) -> None:
    put(services, "one", "The heron.")
    before = current(services)
    time.sleep(90_000)
    put(services, "one", "The heron.", tags=["birds"])
    after = current(services)
    assert (after.document_id, after.created_at) == (before.document_id, before.created_at)
    assert after.last_updated > before.last_updated


def test_text_that_comes_back_is_a_version_of_its_own(services: System, time: FakeTime) -> None:
    for text in ("The heron.", "The egret.", "The heron."):
        put(services, "one", text)
        time.sleep(90_000)
    versions = list(services.corpus.catalog.versions(current(services).key))
    assert [version.version for version in versions] == [3, 2, 1]
    assert versions[0].last_updated > versions[1].last_updated > versions[2].last_updated
