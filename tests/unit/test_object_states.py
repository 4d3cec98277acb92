"""How objects stand that were put, for those who wait for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.scopes import Identity
from opx.errors import InvalidScopeError
from opx.ingestion.states import ObjectPhase, ObjectState
from opx.knowledge_base import no_progress
from opx.local_knowledge_base import LocalKnowledgeBase
from opx.services import Services
from opx.settings import Settings
from tests.unit.cli_support import word_services

KEY = "documents/a.md"
SIDECAR = KEY + ".metadata.json"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    with word_services(Settings(home=str(tmp_path / "home"))) as services:
        yield services


@pytest.fixture
def base(services: Services) -> LocalKnowledgeBase:
    return LocalKnowledgeBase(services, Identity())


def state(base: LocalKnowledgeBase) -> ObjectState:
    (found,) = base.object_states([KEY])
    return found


def work(base: LocalKnowledgeBase) -> None:
    list(base.work([], no_progress))


def taken_in(services: Services, base: LocalKnowledgeBase, data: bytes = b"# A\n\ntext\n") -> ObjectState:
    services.store.put(KEY, data)
    work(base)
    return state(base)


def test_what_was_put_waits_until_it_is_taken_in(services: Services, base: LocalKnowledgeBase) -> None:
    services.store.put(KEY, b"# A\n\ntext\n")
    assert state(base) == ObjectState(KEY, ObjectPhase.WAITING)
    work(base)
    found = state(base)
    assert (found.state, found.title, found.chunks) == (ObjectPhase.INGESTED, "A", 1)
    assert found.document_id == base.documents().items[0].document_id


def test_a_changed_object_waits_again(services: Services, base: LocalKnowledgeBase) -> None:
    taken_in(services, base)
    services.store.put(KEY, b"# A\n\nother\n")
    assert state(base).state is ObjectPhase.WAITING


def test_a_changed_sidecar_makes_its_document_wait(services: Services, base: LocalKnowledgeBase) -> None:
    taken_in(services, base)
    services.store.put(SIDECAR, b'{"metadataAttributes": {"title": "Better"}}')
    assert state(base).state is ObjectPhase.WAITING
    work(base)
    assert state(base).title == "Better"


def test_a_deleted_object_waits_until_it_is_gone(services: Services, base: LocalKnowledgeBase) -> None:
    taken_in(services, base)
    services.store.delete(KEY)
    assert state(base).state is ObjectPhase.WAITING
    work(base)
    assert state(base) == ObjectState(KEY, ObjectPhase.DELETED)


def test_what_never_was_counts_as_deleted(base: LocalKnowledgeBase) -> None:
    assert state(base).state is ObjectPhase.DELETED


def test_what_failed_has_its_reason_and_a_mark_for_each_time(services: Services, base: LocalKnowledgeBase) -> None:
    first, second = taken_in(services, base, b""), taken_in(services, base, b"\x00")
    assert (first.state, second.state) == (ObjectPhase.FAILED, ObjectPhase.FAILED)
    assert "the file is empty" in first.reason
    assert first.mark != second.mark


def test_an_interrupted_attempt_is_waited_for(services: Services, base: LocalKnowledgeBase) -> None:
    taken_in(services, base)
    services.catalog.note_unfinished(base.documents().items[0].key, "")
    assert state(base).state is ObjectPhase.WAITING


@pytest.mark.parametrize("foreign", ["clients/acme/documents/a.md", "chunks/a.jsonl", "clients//documents/a.md"])
def test_objects_of_others_are_not_told_of(base: LocalKnowledgeBase, foreign: str) -> None:
    with pytest.raises(InvalidScopeError):
        base.object_states([KEY, foreign])
