"""Contract of scanning a whole table, for backups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from opx.ports import Item, Table
from tests.contract.things import a_thing
from tests.doubles.fake_time import FakeTime


class WholeTable(Table, Protocol):
    def scan(self) -> Iterator[Item]: ...


class ScanContract:
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
