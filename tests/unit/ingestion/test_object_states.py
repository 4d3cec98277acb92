"""Ingestion states of objects, for callers that wait for them, and times of documents that are ingested again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.documents import KnowledgeDocument
from opx.domain.record import replace
from opx.domain.requests import RequestError
from opx.domain.scopes import Identity, Scope
from opx.edges.calling import LocalClient
from opx.edges.loading import LocalLoader
from opx.errors import InvalidScopeError, OpxError
from opx.ingestion.corpus.stores import AnnouncingObjectStore
from opx.ingestion.states import ObjectPhase, ObjectState
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetObjectStates, get_object_states
from opx.operations.documents import ListDocuments, list_documents
from opx.operations.system import System
from opx.settings import Settings
from opx_testing.fake_time import FakeTime
from tests.support.archive_support import PROCEDURES, put, services_at
from tests.support.cli_support import word_services

KEY = "documents/a.md"
SIDECAR = KEY + ".metadata.json"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with word_services(Settings(home=str(tmp_path / "home"))) as services:
        yield services


@pytest.fixture
def client(services: System) -> LocalClient:
    return LocalClient(Context(services, Caller(Identity())))


def state(client: LocalClient) -> ObjectState:
    (found,) = client.call(get_object_states, GetObjectStates(object_keys=(KEY,))).states
    return found


def work(client: LocalClient) -> None:
    list(LocalLoader(client.context).outcomes([]))


def ingest(services: System, client: LocalClient, data: bytes = b"# A\n\ntext\n") -> ObjectState:
    services.store.put(KEY, data)
    work(client)
    return state(client)


def test_object_waits_until_it_is_ingested(services: System, client: LocalClient) -> None:
    services.store.put(KEY, b"# A\n\ntext\n")
    assert state(client) == ObjectState(KEY, ObjectPhase.WAITING)
    work(client)
    found = state(client)
    assert (found.state, found.title, found.chunks) == (ObjectPhase.INGESTED, "A", 1)
    assert found.document_id == client.call(list_documents, ListDocuments()).documents[0].document_id


def test_a_changed_object_waits_again(services: System, client: LocalClient) -> None:
    ingest(services, client)
    services.store.put(KEY, b"# A\n\nother\n")
    assert state(client).state is ObjectPhase.WAITING


def test_a_changed_sidecar_makes_its_document_wait(services: System, client: LocalClient) -> None:
    ingest(services, client)
    services.store.put(SIDECAR, b'{"metadataAttributes": {"title": "Better"}}')
    assert state(client).state is ObjectPhase.WAITING
    work(client)
    assert state(client).title == "Better"


def test_a_deleted_object_waits_until_it_is_gone(services: System, client: LocalClient) -> None:
    ingest(services, client)
    services.store.delete(KEY)
    assert state(client).state is ObjectPhase.WAITING
    work(client)
    assert state(client) == ObjectState(KEY, ObjectPhase.DELETED)


def test_unknown_object_counts_as_deleted(client: LocalClient) -> None:
    assert state(client).state is ObjectPhase.DELETED


def test_failed_object_has_its_reason_and_a_new_mark_each_time(services: System, client: LocalClient) -> None:
    first, second = ingest(services, client, b""), ingest(services, client, b"\x00")
    assert (first.state, second.state) == (ObjectPhase.FAILED, ObjectPhase.FAILED)
    assert "the file is empty" in first.reason
    assert first.mark != second.mark


def test_an_interrupted_attempt_is_waited_for(services: System, client: LocalClient) -> None:
    ingest(services, client)
    services.corpus.catalog.claims.note_unfinished(client.call(list_documents, ListDocuments()).documents[0].key, "")
    assert state(client).state is ObjectPhase.WAITING


@pytest.mark.parametrize(
    ("foreign", "error"),
    [
        ("clients/acme/documents/a.md", InvalidScopeError),
        ("chunks/a.jsonl", InvalidScopeError),
        ("clients//documents/a.md", RequestError),
    ],
)
def test_objects_of_others_are_not_reported(client: LocalClient, foreign: str, error: type[OpxError]) -> None:
    with pytest.raises(error):
        client.call(get_object_states, GetObjectStates(object_keys=(KEY, foreign)))


@pytest.fixture
def archive(tmp_path: Path, time: FakeTime) -> Iterator[System]:
    with services_at(tmp_path, time) as archive:
        yield archive


def current(archive: System) -> KnowledgeDocument:
    return next(archive.corpus.catalog.visible([Scope().key], categories=[PROCEDURES]))


def ingest_all_again(archive: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ingests all documents as after an upgrade with other rules."""
    assert isinstance(archive.store, AnnouncingObjectStore)
    monkeypatch.setattr("opx.ingestion.pipeline.PIPELINE_VERSION", 999)
    archive.store.announce_all()
    assert [outcome.result.value for outcome in archive.manager.work()] == ["ingested"]


def test_generic_title_of_an_older_release_is_completed_when_all_events_are_sent_again(
    archive: System, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(archive.store, AnnouncingObjectStore)
    with monkeypatch.context() as before:
        before.setattr("opx.ingestion.reading.completed", lambda title, _: title)
        put(archive, "cart/README", "The heron.", title="README")
        put(archive, "ledger", "The egret.")
    old = next(one for one in archive.corpus.catalog.in_category(PROCEDURES) if one.title == "README")
    time.sleep(90_000)
    archive.store.announce_all()
    assert sorted(outcome.result.value for outcome in archive.manager.work()) == ["ingested", "unchanged"]
    new = archive.corpus.catalog.version(old.key, old.document_id)
    assert new
    files = {"chunks_checksum": new.chunks_checksum, "outline_checksum": new.outline_checksum}  # they have the title
    assert new == replace(old, title="README (cart)", **files)
    archive.store.announce_all()
    assert {outcome.result.value for outcome in archive.manager.work()} == {"unchanged"}


def test_upgrade_does_not_make_documents_look_new(
    archive: System, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(archive, "one", "The heron.")
    before = current(archive)
    time.sleep(90_000)
    ingest_all_again(archive, monkeypatch)
    assert current(archive) == before


def test_document_that_is_put_with_other_metadata_is_updated(archive: System, time: FakeTime) -> None:
    put(archive, "one", "The heron.")
    before = current(archive)
    time.sleep(90_000)
    put(archive, "one", "The heron.", tags=["birds"])
    after = current(archive)
    assert (after.document_id, after.created_at) == (before.document_id, before.created_at)
    assert after.last_updated > before.last_updated


def test_text_that_comes_back_is_a_version_of_its_own(archive: System, time: FakeTime) -> None:
    for text in ("The heron.", "The egret.", "The heron."):
        put(archive, "one", text)
        time.sleep(90_000)
    versions = list(archive.corpus.catalog.versions(current(archive).key))
    assert [version.version for version in versions] == [3, 2, 1]
    assert versions[0].last_updated > versions[1].last_updated > versions[2].last_updated
