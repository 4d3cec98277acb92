"""Lists by owner, and calendar entries by scope: nothing is read of any other scope."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import day_text
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ingestion.corpus.calendar import Calendar
from opx.ingestion.corpus.catalog import Catalog, document_item, tag_items
from opx.operations.system import System
from opx.ports import Item, KeyRange, Table
from opx.ports.tables import CALENDAR, DOCUMENTS
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.support.archive_support import services_at
from tests.support.builders import a_document
from tests.support.dynamo_tables import create_table

CATEGORIES = ("postmortems", "runbooks", "runbooks/architecture", "runbooks/procedures", "runbooks_old")
ACME, ACME_SHOP, ACME_TILL = Scope("acme"), Scope("acme", project_id="shop"), Scope("acme", project_id="till")
SCOPES = (Scope(), ACME, ACME_SHOP, ACME_TILL, Scope("acm"), Scope("acme-2", project_id="shop"))
VISIBLE = tuple(scope.key for scope in SCOPES[:3])


class WatchedTable:
    """Notes which items queries give, and how many queries there are."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.read: list[Item] = []
        self.queries = 0

    def query(self, *args: Any, **named: Any) -> Iterator[Item]:
        self.queries += 1
        for item in self._table.query(*args, **named):
            self.read.append(item)
            yield item


def documents(seed: int, number: int = 60) -> list[KnowledgeDocument]:
    chance = random.Random(seed)
    return [
        a_document(
            title=f"Number {name}",
            document_id=f"{chance.getrandbits(32):08x}",
            key=DocumentKey(chance.choice(SCOPES), f"documents/{name}.md"),
            category=chance.choice(CATEGORIES),
            last_updated=f"2026-01-0{chance.randint(1, 4)}T00:00:00Z",
            tags=("a", "b"),
            state=chance.choice((DocumentState.CURRENT, DocumentState.SUPERSEDED)),
        )
        for name in range(number)
    ]


def put(table: Table, found: list[KnowledgeDocument]) -> list[KnowledgeDocument]:
    table.put_many(item for document in found for item in (document_item(document), *tag_items(document)))
    return found


@pytest.fixture
def table(database: Database, time: FakeTime) -> Table:
    return SqliteTable(DOCUMENTS, database, clock=time.clock)


@pytest.fixture
def held(table: Table) -> list[KnowledgeDocument]:
    return put(table, documents(1))


@pytest.fixture
def watched(table: Table, held: list[KnowledgeDocument]) -> WatchedTable:
    return WatchedTable(table)


def catalog_of(table: Any) -> Catalog:
    unused: Any = None
    return Catalog(table, unused, unused, clock=FakeTime().clock, lease_seconds=1, calendar=unused)


@pytest.fixture
def catalog(watched: WatchedTable) -> Catalog:
    return catalog_of(watched)


def places(found: Sequence[KnowledgeDocument]) -> list[tuple[str, str]]:
    return [(document.category, document.last_updated) for document in found]


def in_order(found: Sequence[KnowledgeDocument]) -> list[tuple[str, str]]:
    return sorted(sorted(places(found), key=lambda place: place[1], reverse=True), key=lambda place: place[0])


def test_lists_are_by_category_and_in_each_the_last_updated_first(
    catalog: Catalog, held: list[KnowledgeDocument]
) -> None:
    expected = [document for document in held if document.key.scope.key in VISIBLE]
    found = list(catalog.visible(VISIBLE, categories=CATEGORIES, current_only=False))
    assert {*found} == {*expected}
    assert len(found) == len(expected)
    assert places(found) == in_order(expected)
    current = [document for document in found if document.state is DocumentState.CURRENT]
    assert list(catalog.visible(VISIBLE, categories=CATEGORIES)) == current


def test_a_list_goes_on_anywhere(catalog: Catalog) -> None:
    whole = list(catalog.visible(VISIBLE, categories=CATEGORIES, current_only=False))
    for begin in {*places(whole), ("runbooks", "2026-01-02"), ("runbooks0", "9"), ("a", ""), ("z", "")}:
        rest = [d for d in whole if d.category > begin[0] or (d.category == begin[0] and d.last_updated <= begin[1])]
        found = list(catalog.visible(VISIBLE, categories=CATEGORIES, current_only=False, begin=begin))
        assert places(found) == places(rest)


@pytest.mark.parametrize("categories", [CATEGORIES, CATEGORIES[::2], CATEGORIES[1:4], CATEGORIES[:1], ("none",), ()])
def test_nothing_of_other_scopes_and_categories_is_given(
    catalog: Catalog, watched: WatchedTable, held: list[KnowledgeDocument], categories: tuple[str, ...]
) -> None:
    found = list(catalog.visible(VISIBLE, categories=categories, current_only=False))
    expected = [d for d in held if d.key.scope.key in VISIBLE and d.category in categories]
    assert places(found) == in_order(expected)
    assert {item["scopeKey"] for item in watched.read} <= {*VISIBLE}
    assert len(watched.read) <= len(expected) + len(VISIBLE) * len(CATEGORIES)


def test_empty_categories_are_not_queried(catalog: Catalog, watched: WatchedTable) -> None:
    many = [f"c{number}" for number in range(500)]
    assert list(catalog.visible(VISIBLE, categories=sorted([*CATEGORIES, *many]))) != []
    assert watched.queries <= len(VISIBLE) * (2 * len(CATEGORIES) + 1)


def test_dynamo_gives_the_same_lists(aws: boto3.Session, catalog: Catalog, held: list[KnowledgeDocument]) -> None:
    client: Any = aws.client("dynamodb")
    create_table(client, DOCUMENTS)
    dynamo = catalog_of(DynamoTable(DOCUMENTS, client))
    put(DynamoTable(DOCUMENTS, client), held)
    for categories in (CATEGORIES, CATEGORIES[1:2], ()):
        for begin in ((), ("runbooks", "2026-01-03T00:00:00Z"), ("runbooks0", "9")):
            lists = [list(one.visible(VISIBLE, categories=categories, begin=begin)) for one in (catalog, dynamo)]
            assert places(lists[1]) == places(lists[0])
            assert {*lists[1]} == {*lists[0]}


def test_items_of_an_older_release_are_listed_when_they_are_written_again(table: Table) -> None:
    (document,) = documents(2, number=1)
    item = document_item(document)
    catalog = catalog_of(table)
    filters: dict[str, Any] = {"categories": CATEGORIES, "current_only": False}
    table.put({name: value for name, value in item.items() if name not in ("scopeKey", "categoryUpdated")})
    assert list(catalog.visible([document.key.scope.key], **filters)) == []
    table.put(item)
    assert list(catalog.visible([document.key.scope.key], **filters)) == [document]


def test_the_index_holds_versions_alone(table: Table, held: list[KnowledgeDocument]) -> None:
    index = "scope-category-index"
    found = [item for scope in SCOPES for item in table.query(scope.key, index=index, where=KeyRange(low="a"))]
    assert sorted(item["documentId"] for item in found) == sorted(document.document_id for document in held)


INCIDENTS = "operations/incidents"


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with services_at(tmp_path) as services:
        yield services


def an_incident(services: System, **changes: Any) -> KnowledgeDocument:
    """As the catalog keeps one of an incident, for two years."""
    manager = services.ingestion.manager_of(Scope("acme"))
    manager.ingest_document("internal", INCIDENTS, "# Outage\n\nThe heron.", {"source": "outage"})
    key = DocumentKey(Scope("acme"), f"documents/{INCIDENTS}/outage.md")
    return replace(next(services.corpus.catalog.versions(key)), **changes)


def with_retention(services: System, text: str) -> Calendar:
    knowledge = services.installation.knowledge
    categories = {path: replace(one, retention=text) for path, one in knowledge.categories.items()}
    return Calendar(services.tables.table(CALENDAR), replace(knowledge, categories=categories), services.clock)


def calendar_places(services: System) -> set[str]:
    return {str(item["place"]).partition("#")[0] for item in services.tables.every_item(CALENDAR)}


def test_rows_of_a_scope_are_all_that_was_entered_for_it(services: System) -> None:
    document = an_incident(services, review_by="2030-01-01")
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
    document = an_incident(services)
    with_retention(services, "90d").enter(document)
    services.corpus.calendar.forget(document)
    assert calendar_places(services) == set()


def test_day_that_is_dropped_is_not_found_by_scope_either(services: System) -> None:
    document = an_incident(services)
    (entry,) = services.corpus.calendar.expiring(_expires(services))
    services.corpus.calendar.drop(entry)
    assert calendar_places(services) == set()
    assert services.corpus.calendar.lacks(document)


def test_missing_calendar_entries_are_entered_again(services: System) -> None:
    document = an_incident(services, review_by="2030-01-01")
    assert services.corpus.calendar.lacks(document)
    services.corpus.calendar.complete(document)
    assert not services.corpus.calendar.lacks(document)
    assert calendar_places(services) == {"expiry", "days", "review"}


def test_version_that_was_replaced_is_not_to_be_reviewed(services: System) -> None:
    document = an_incident(services, review_by="2030-01-01", superseded_at="2029-01-01T00:00:00Z")
    services.corpus.calendar.complete(document)
    assert not services.corpus.calendar.lacks(document)
    assert calendar_places(services) == {"expiry", "days", "replaced"}


def test_version_that_is_entered_anew_has_all_that_belongs_to_it(services: System) -> None:
    """Also one of before there was a calendar."""
    document = an_incident(services, review_by="2030-01-01", superseded_at="2029-01-01T00:00:00Z")
    services.corpus.calendar.redate(document)
    assert calendar_places(services) == {"expiry", "days", "replaced"}


@pytest.mark.parametrize("how", ["enter", "complete"])
def test_expired_version_is_entered_for_today(services: System, how: str) -> None:
    """The days before may have been looked at for the last time."""
    document = an_incident(services, expires="2020-01-02", current_since="2019-01-01T00:00:00Z")
    services.corpus.calendar.forget(document)
    getattr(services.corpus.calendar, how)(document)
    today = day_text(int(services.clock() // 86400))
    assert [entry.document_id for entry in services.corpus.calendar.expiring(today)] == [document.document_id]
    assert not services.corpus.calendar.lacks(document)


def _expires(services: System) -> str:
    return next(str(item["at"]) for item in services.tables.every_item(CALENDAR))
