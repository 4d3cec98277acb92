"""Ingestion states of objects, for callers that wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.requests import RequestError
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.edges.loading import LocalLoader
from opx.errors import InvalidScopeError, OpxError
from opx.ingestion.states import ObjectPhase, ObjectState
from opx.operations.context import Caller, Context
from opx.operations.corpus import GetObjectStates, get_object_states
from opx.operations.documents import ListDocuments, list_documents
from opx.operations.system import System
from opx.settings import Settings
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
