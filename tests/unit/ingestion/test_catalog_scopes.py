"""Lists by owner: the order of a list by category, and nothing read of any other scope."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.knowledge import Tier
from opx.domain.scopes import Scope
from opx.ingestion.corpus.catalog import Catalog, document_item, tag_items
from opx.ports import Item, KeyRange, Table
from opx.ports.tables import DOCUMENTS
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.aws.tables import create_table
from tests.support.builders import a_version

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
        a_version(
            document_id=f"{chance.getrandbits(32):08x}",
            key=DocumentKey(chance.choice(SCOPES), f"documents/{name}.md"),
            title=f"Number {name}",
            category=chance.choice(CATEGORIES),
            tier=Tier.INTERNAL,
            trust=1.0,
            location="s3://corpus/x.md",
            source_uri="x.md",
            created_at="2026-01-01",
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
def table(tmp_path: Path, time: FakeTime) -> Iterator[Table]:
    database = open_database(tmp_path / "opx.db")
    yield SqliteTable(DOCUMENTS, database, clock=time.clock)
    database.close()


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
