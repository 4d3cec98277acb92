"""Pages that another call continues, and scans of whole tables: part of `TableContract`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from opx.errors import InvalidInputError
from opx.ports import Item, ItemPage, Table
from opx_testing.fake_time import FakeTime
from opx_testing.things import a_key, a_thing, names

LARGE = 300_000
"""Four items of this size are more than a page of DynamoDB has; the fixture of SQLite has smaller pages than usual."""


def a_large_thing(name: str, **attributes: Any) -> Item:
    return a_thing(name, text="x" * LARGE, **attributes)


def pages(table: Table, partition: str, **options: Any) -> Iterator[ItemPage]:
    page = table.page(partition, **options)
    yield page
    while page.next:
        page = table.page(partition, begin=page.next, **options)
        yield page


class WholeTable(Table, Protocol):
    def scan(self) -> Iterator[Item]: ...


class PageContract:
    def test_empty_partition_is_an_empty_last_page(self, table: Table) -> None:
        assert table.page("ada") == ItemPage([], None)
        assert table.page("new", index="status-size-index") == ItemPage([], None)

    def test_pages_have_each_item_of_the_query_once(self, table: Table) -> None:
        expected = [f"{number:02}" for number in range(12)]
        table.put_many(a_large_thing(name) for name in expected)
        found = list(pages(table, "ada"))
        assert len(found) > 2
        assert [name for page in found for name in names(page.items)] == expected

    def test_ties_in_an_index_are_on_one_page_each(self, table: Table) -> None:
        table.put_many(a_large_thing(f"{number:02}", status="new", size=7) for number in range(12))
        found = list(pages(table, "new", index="status-size-index"))
        assert len(found) > 2
        assert sorted(name for page in found for name in names(page.items)) == [f"{number:02}" for number in range(12)]

    def test_index_without_sort_attribute_has_pages(self, table: Table) -> None:
        table.put_many(a_large_thing(f"{number:02}", group="g") for number in range(8))
        found = list(pages(table, "g", index="group-index"))
        assert len(found) > 1
        assert len({name for page in found for name in names(page.items)}) == 8

    def test_position_can_be_stored_and_is_good_for_other_fields(self, table: Table) -> None:
        table.put_many(a_large_thing(f"{number:02}", status="new", size=number) for number in range(8))
        first = table.page("new", index="status-size-index")
        table.put(a_thing("position", owner="bob", next=first.next))
        stored = table.get(a_key("position", owner="bob"))
        assert stored is not None
        second = table.page("new", index="status-size-index", begin=stored["next"], fields=("name",))
        assert second.items[0] == {"name": f"{len(first.items):02}"}

    def test_removed_item_is_still_a_position(self, table: Table) -> None:
        table.put_many(a_large_thing(f"{number:02}") for number in range(8))
        first = table.page("ada")
        table.delete(a_key(names(first.items)[-1]))
        assert names(table.page("ada", begin=first.next).items)[0] == f"{len(first.items):02}"

    def test_items_have_the_named_fields_alone(self, table: Table) -> None:
        table.put(a_thing("a", status="new", size=2.0, other=3.0, ttl=2**40))
        table.put(a_thing("b", status="new", size=5, name_of_nothing=1.0))
        found = table.page("new", index="status-size-index", fields=("size", "missing"))
        assert found.items == [{"size": 2.0}, {"size": 5}]
        assert [type(item["size"]) for item in found.items] == [float, int]
        assert found.next is None

    def test_expired_item_is_left_out(self, table: Table, time: FakeTime) -> None:
        table.put_many([a_thing("a", ttl=int(time.now) + 10), a_thing("b")])
        time.now += 20
        assert table.page("ada", fields=("name",)).items == [{"name": "b"}]

    def test_index_that_is_missing_is_refused(self, table: Table) -> None:
        with pytest.raises(InvalidInputError):
            table.page("ada", index="no-such-index")

    # -- whole tables, for backups

    def test_empty_table_has_no_items(self, table: WholeTable) -> None:
        assert list(table.scan()) == []

    def test_all_items_of_all_partitions_come_once(self, table: WholeTable) -> None:
        items = [a_thing(owner=f"o{number % 7}", name=f"n{number}", text="x" * 6_000) for number in range(250)]
        table.put_many(items)  # more than a page, in items and in bytes
        found = sorted(table.scan(), key=lambda item: int(item["name"][1:]))
        assert found == items

    def test_expired_items_do_not_come(self, table: WholeTable, time: FakeTime) -> None:
        table.put_many([a_thing(name="old", ttl=int(time.now) - 1), a_thing(name="new", ttl=int(time.now) + 9)])
        assert [item["name"] for item in table.scan()] == ["new"]
