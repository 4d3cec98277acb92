"""Contract of `Table`. A test class inherits this and provides the fixture `table`."""

from __future__ import annotations

import copy

import pytest

from opx.errors import ConditionFailedError, InvalidInputError
from opx.ports import AllOf, Equals, Item, KeyAbsent, LessThan, Table
from opx_testing.fake_time import FakeTime
from opx_testing.table_conditions import ConditionContract
from opx_testing.table_page import PageContract
from opx_testing.table_query import QueryContract
from opx_testing.things import ANYTHING, a_key, a_thing, names, nested_lists, typed


class TableContract(ConditionContract, QueryContract, PageContract):
    """Fixture: `table`, an empty `WholeTable` made of `THINGS`, whose clock is that of the fixture `time`."""

    @pytest.fixture
    def time(self) -> FakeTime:
        return FakeTime()

    # -- items and values

    def test_missing_item_is_none(self, table: Table) -> None:
        assert table.get(a_key()) is None

    def test_values_of_every_type_come_back_as_they_went_in(self, table: Table) -> None:
        item = a_thing(**copy.deepcopy(ANYTHING))
        table.put(item)
        stored = table.get(a_key())
        assert typed(stored) == typed(a_thing(**ANYTHING))
        assert item == a_thing(**ANYTHING)

    def test_batches_and_queries_give_the_same_values(self, table: Table) -> None:
        expected = typed(a_thing(**ANYTHING))
        table.put_many([a_thing(**ANYTHING)])
        assert [typed(item) for item in table.get_many([a_key()])] == [expected]
        assert [typed(item) for item in table.query("ada")] == [expected]

    def test_changing_what_was_read_changes_nothing_stored(self, table: Table) -> None:
        table.put(a_thing(tags=["a"]))
        read = table.get(a_key())
        assert read is not None
        read["tags"].append("b")
        assert table.get(a_key()) == a_thing(tags=["a"])

    def test_put_replaces_the_whole_item(self, table: Table) -> None:
        table.put(a_thing(old=1, both=1))
        table.put(a_thing(both=2, new=2))
        assert table.get(a_key()) == a_thing(both=2, new=2)

    def test_same_content_under_two_keys_is_two_items(self, table: Table) -> None:
        table.put_many([a_thing("a", text="same"), a_thing("b", text="same")])
        assert names(table.query("ada")) == ["a", "b"]

    def test_keys_of_any_text_are_distinct(self, table: Table) -> None:
        keys = ["a", "A", "ä", "a\u0308", " ", "a/b", "%", "\U0001f525", "x" * 1024]
        table.put_many(a_thing(key, position=position) for position, key in enumerate(keys))
        found = [table.get(a_key(key)) for key in keys]
        assert [item and item["position"] for item in found] == list(range(len(keys)))

    def test_item_of_nearly_400_kilobytes_is_stored(self, table: Table) -> None:
        table.put(a_thing(text="é" * 200_000))
        item = table.get(a_key())
        assert item is not None
        assert item["text"] == "é" * 200_000

    @pytest.mark.parametrize(
        "item",
        [
            {"owner": "ada"},
            {"owner": "ada", "name": ""},
            {"owner": "ada", "name": 5},
            {"owner": "ada", "name": "x" * 1025},
            {"owner": "x" * 2049, "name": "n"},
            a_thing(text="é" * 205_000),
            a_thing(text="\ud800"),
            a_thing(status=""),
            a_thing(status=None),
            a_thing(size="5"),
            a_thing(size=True),
            a_thing(size=2**63),
            a_thing(number=float("nan")),
            a_thing(number=float("inf")),
            a_thing(number=1e126),
            a_thing(number=1e-131),
            a_thing(number=10**38),
            a_thing(value={1, 2}),
            a_thing(value=object()),
            a_thing(value={1: "a"}),
            a_thing(value={"": "a"}),
            a_thing(value=nested_lists(33)),
        ],
        ids=lambda item: repr(item)[:60],
    )
    def test_item_that_no_table_can_hold_is_refused(self, table: Table, item: Item) -> None:
        with pytest.raises(InvalidInputError):
            table.put(item)
        with pytest.raises(InvalidInputError):
            table.put_many([item])
        assert list(table.query("ada")) == []

    @pytest.mark.parametrize("key", [{}, {"owner": "ada"}, {"owner": "ada", "name": ""}, {**a_key(), "more": "x"}])
    def test_incomplete_key_is_refused(self, table: Table, key: Item) -> None:
        with pytest.raises(InvalidInputError):
            table.get(key)
        with pytest.raises(InvalidInputError):
            table.get_many([key])
        with pytest.raises(InvalidInputError):
            table.delete(key)

    def test_removed_item_is_gone(self, table: Table) -> None:
        table.put_many([a_thing("a", status="new", size=1), a_thing("b")])
        table.delete(a_key("a"))
        assert names(table.query("ada")) == ["b"]
        assert list(table.query("new", index="status-size-index")) == []

    def test_removing_what_is_missing_does_nothing(self, table: Table) -> None:
        table.delete(a_key())

    # -- many items at once

    def test_nothing_is_a_valid_batch(self, table: Table) -> None:
        table.put_many([])
        assert table.get_many([]) == []

    def test_a_thousand_items_are_written_from_a_generator(self, table: Table) -> None:
        expected = [f"{number:04}" for number in range(1000)]
        table.put_many(a_thing(name) for name in expected)
        assert names(table.query("ada")) == expected

    def test_last_of_several_items_with_one_key_wins(self, table: Table) -> None:
        table.put_many(a_thing(f"{number % 10}", number=number) for number in range(1200))
        assert {item["number"] for item in table.query("ada")} == set(range(1190, 1200))

    def test_items_are_found_once_among_many_keys(self, table: Table) -> None:
        stored = [f"{number:03}" for number in range(0, 250, 2)]
        table.put_many(a_thing(name) for name in stored)
        keys = [a_key(f"{number:03}") for number in range(250)]
        found = table.get_many([*keys, *keys[:120]])
        assert sorted(names(found)) == stored

    # -- items with a time to live

    def test_expired_item_is_never_returned(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=int(time.now) + 60, status="new", size=1))
        assert table.get(a_key()) is not None
        time.sleep(61)
        assert table.get(a_key()) is None
        assert table.get_many([a_key()]) == []
        assert list(table.query("ada")) == []
        assert list(table.query("new", index="status-size-index")) == []
        assert table.count("ada") == table.count("new", index="status-size-index") == 0

    def test_item_is_there_until_its_time_has_passed(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=time.now + 1.5))
        time.sleep(1.5)
        assert table.get(a_key()) is not None
        time.sleep(0.5)
        assert table.get(a_key()) is None

    @pytest.mark.parametrize("ttl", ["5", None, True])
    def test_item_whose_time_is_no_number_does_not_expire(self, table: Table, ttl: object) -> None:
        table.put(a_thing(ttl=ttl))
        assert table.count("ada") == 1
        assert table.get(a_key()) == a_thing(ttl=ttl)
        table.put(a_thing(ttl=ttl), condition=Equals("name", "n"))

    def test_limit_counts_what_has_not_expired(self, table: Table, time: FakeTime) -> None:
        table.put_many(a_thing(f"{number:03}", ttl=time.now + (number >= 120)) for number in range(130))
        time.sleep(0.5)
        assert names(table.query("ada", limit=3)) == ["120", "121", "122"]

    def test_expired_item_counts_as_absent_in_conditions(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=time.now + 1, version=1))
        time.sleep(2)
        for condition in (Equals("version", 1), LessThan("version", 5)):
            with pytest.raises(ConditionFailedError):
                table.put(a_thing(writer="b"), condition=condition)
        table.put(a_thing(writer="b"), condition=AllOf((KeyAbsent(), KeyAbsent("version"))))
        assert table.get(a_key()) == a_thing(writer="b")

    def test_item_that_is_written_again_lives_on(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=time.now + 1))
        table.put(a_thing(ttl=time.now + 100))
        time.sleep(50)
        assert table.get(a_key()) is not None
        table.put(a_thing())
        time.sleep(100)
        assert table.get(a_key()) == a_thing()
