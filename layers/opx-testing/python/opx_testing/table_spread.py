"""Indexes with values that a store may keep in several parts: readers don't see the parts."""

from __future__ import annotations

import pytest

from opx.errors import InvalidInputError
from opx.ports import Item, KeyRange, Table
from opx.ports.tables import SHARDS
from opx_testing.things import ALL_STATES, a_key, a_thing, names

TITLES = [f"{number:03}" for number in range(60)]


def put_titles(table: Table, status: str = ALL_STATES) -> None:
    table.put_many(a_thing(f"n{title}", status=status, title=title) for title in reversed(TITLES))


class SpreadContract:
    """Fixture: `table`, of which all values of `group` and one of `status` are spread."""

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("status", [ALL_STATES, "new"])
    def test_parts_are_read_in_one_order(self, table: Table, status: str, reverse: bool) -> None:
        put_titles(table, status)
        found = [item["title"] for item in table.query(status, index="status-title-index", reverse=reverse)]
        assert found == (TITLES[::-1] if reverse else TITLES)

    def test_items_come_back_as_they_were_put(self, table: Table) -> None:
        thing = a_thing("a", status=ALL_STATES, title="t", group="g")
        table.put(thing)
        (found,) = table.query(ALL_STATES, index="status-title-index")
        assert found == thing == table.get(a_key("a"))
        assert table.get_many([a_key("a")]) == list(table.query("g", index="group-index")) == [thing]

    @pytest.mark.parametrize(
        "where", [KeyRange("010", "019"), KeyRange(begins_with="01"), KeyRange(low="010", high="0190")], ids=repr
    )
    def test_range_is_read_in_order(self, table: Table, where: KeyRange) -> None:
        put_titles(table)
        found = table.query(ALL_STATES, index="status-title-index", where=where)
        assert [item["title"] for item in found] == TITLES[10:20]
        assert table.count(ALL_STATES, index="status-title-index", where=where) == 10

    def test_limit_gives_the_first_of_all_parts(self, table: Table) -> None:
        put_titles(table)
        for most in (0, 1, 7, 99):
            found = table.query(ALL_STATES, index="status-title-index", limit=most)
            assert [item["title"] for item in found] == TITLES[:most]

    def test_all_parts_are_counted(self, table: Table) -> None:
        put_titles(table)
        assert table.count(ALL_STATES, index="status-title-index") == len(TITLES)
        assert table.count("new", index="status-title-index") == 0

    def test_pages_have_each_item_once(self, table: Table) -> None:
        table.put_many(a_thing(name, group="g", text="x" * 1000) for name in TITLES)
        found: list[str] = []
        page = table.page("g", index="group-index", fields=("name",))
        while page.next:
            found += names(page.items)
            table.put(a_thing("position", owner="bob", next=page.next))
            stored: Item | None = table.get(a_key("position", owner="bob"))
            assert stored
            page = table.page("g", index="group-index", fields=("name",), begin=stored["next"])
        assert sorted(found + names(page.items)) == TITLES

    def test_changed_item_is_found_under_its_new_value_alone(self, table: Table) -> None:
        put_titles(table)
        table.put_many(a_thing(f"n{title}", status="new", title=title) for title in TITLES[:30])
        table.delete(a_key(f"n{TITLES[30]}"))
        found = [item["title"] for item in table.query(ALL_STATES, index="status-title-index")]
        assert found == TITLES[31:]
        assert [item["title"] for item in table.query("new", index="status-title-index")] == TITLES[:30]

    def test_partition_with_a_similar_name_is_another_one(self, table: Table) -> None:
        table.put_many([a_thing("a", status="new#1", title="x"), a_thing("b", status="new", title="y")])
        assert names(table.query("new", index="status-title-index")) == ["b"]
        assert names(table.query("new#1", index="status-title-index")) == ["a"]

    @pytest.mark.parametrize("number", range(1, SHARDS))
    def test_value_that_would_name_a_part_is_refused(self, table: Table, number: int) -> None:
        with pytest.raises(InvalidInputError, match="shard"):
            table.put(a_thing("a", group=f"g#{number}"))
