"""Calendar entries are found by scope, whatever the policy was when they were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import day_text
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ingestion.corpus.calendar import Calendar
from opx.operations.system import System
from opx.ports.tables import CALENDAR
from tests.support.archive_support import services_at

INCIDENTS = "operations/incidents"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path) as services:
        yield services


def a_document(services: System, **changes: Any) -> KnowledgeDocument:
    """As the catalog keeps one of an incident, for two years."""
    manager = services.ingestion.manager_of(Scope("acme"))
    manager.ingest_document("internal", INCIDENTS, "# Outage\n\nThe heron.", {"source": "outage"})
    key = DocumentKey(Scope("acme"), f"documents/{INCIDENTS}/outage.md")
    return replace(next(services.corpus.catalog.versions(key)), **changes)


def with_retention(services: System, text: str) -> Calendar:
    knowledge = services.installation.knowledge
    categories = {path: replace(one, retention=text) for path, one in knowledge.categories.items()}
    return Calendar(services.tables.table(CALENDAR), replace(knowledge, categories=categories), services.clock)


def places(services: System) -> set[str]:
    return {str(item["place"]).partition("#")[0] for item in services.tables.every_item(CALENDAR)}


def test_rows_of_a_scope_are_all_that_was_entered_for_it(services: System) -> None:
    document = a_document(services, review_by="2030-01-01")
    services.corpus.calendar.enter(document)
    services.corpus.calendar.replaced(
        replace(document, state=DocumentState.SUPERSEDED, superseded_at="2029-01-01T00:00:00Z")
    )
    with_retention(services, "90d").enter(document)
    found = {(item["place"], item["entry"]) for item in services.corpus.calendar.rows_of("client:acme")}
    assert found == {(item["place"], item["entry"]) for item in services.tables.every_item(CALENDAR)}
    assert len([place for place, _ in found if place.startswith("expiry#")]) == 2
    assert list(services.corpus.calendar.rows_of("client:acme-b")) == []


def test_version_that_is_forgotten_leaves_no_day_of_an_earlier_policy(services: System) -> None:
    document = a_document(services)
    with_retention(services, "90d").enter(document)
    services.corpus.calendar.forget(document)
    assert places(services) == set()


def test_day_that_is_dropped_is_not_found_by_scope_either(services: System) -> None:
    document = a_document(services)
    (entry,) = services.corpus.calendar.expiring(_expires(services))
    services.corpus.calendar.drop(entry)
    assert places(services) == set()
    assert services.corpus.calendar.lacks(document)


def test_missing_calendar_entries_are_entered_again(services: System) -> None:
    document = a_document(services, review_by="2030-01-01")
    assert services.corpus.calendar.lacks(document)
    services.corpus.calendar.complete(document)
    assert not services.corpus.calendar.lacks(document)
    assert places(services) == {"expiry", "days", "review"}


def test_version_that_was_replaced_is_not_to_be_reviewed(services: System) -> None:
    document = a_document(services, review_by="2030-01-01", superseded_at="2029-01-01T00:00:00Z")
    services.corpus.calendar.complete(document)
    assert not services.corpus.calendar.lacks(document)
    assert places(services) == {"expiry", "days", "replaced"}


def test_version_that_is_entered_anew_has_all_that_belongs_to_it(services: System) -> None:
    """Also one of before there was a calendar."""
    document = a_document(services, review_by="2030-01-01", superseded_at="2029-01-01T00:00:00Z")
    services.corpus.calendar.redate(document)
    assert places(services) == {"expiry", "days", "replaced"}


@pytest.mark.parametrize("how", ["enter", "complete"])
def test_expired_version_is_entered_for_today(services: System, how: str) -> None:
    """The days before may have been looked at for the last time."""
    document = a_document(services, expires="2020-01-02", current_since="2019-01-01T00:00:00Z")
    services.corpus.calendar.forget(document)
    getattr(services.corpus.calendar, how)(document)
    today = day_text(int(services.clock() // 86400))
    assert [entry.document_id for entry in services.corpus.calendar.expiring(today)] == [document.document_id]
    assert not services.corpus.calendar.lacks(document)


def _expires(services: System) -> str:
    return next(str(item["at"]) for item in services.tables.every_item(CALENDAR))
