"""What every `Table` must do. A test class inherits this and gives the fixture `table`, made of `THINGS`."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from opx.errors import ConditionFailedError, InvalidInputError
from opx.ports import Absent, AllOf, AnyOf, Condition, Equals, Item, KeyRange, LessThan, Table
from opx.tables import IndexSpec, TableSpec
from tests.doubles.fake_time import FakeTime

THINGS = TableSpec(
    name="things",
    partition="owner",
    sort="name",
    indexes=(
        IndexSpec("status-size-index", "status", "size"),
        IndexSpec("status-title-index", "status", "title"),
        IndexSpec("group-index", "group"),
    ),
    ttl="ttl",
    numbers=("size",),
)
"""Nearly all of these attribute names are reserved words of DynamoDB."""

ANYTHING: Item = {
    "text": "Größe ≥ 5 — 日本語 🔥",
    "empty": "",
    "whole": 42,
    "negative": -7,
    "large": 10**37 + 1,
    "third": 1 / 3,
    "tenth": 0.1,
    "tiny": 1.5e-100,
    "huge": 1.7976931348623157e125,
    "even": 2.0,
    "zero": 0,
    "zero point": 0.0,
    "yes": True,
    "no": False,
    "nothing": None,
    "bytes": b"\x00\xff\x80",
    "no bytes": b"",
    "list": [1, 1.0, "a", None, True, b"b", [], {}, [{"deep": [2.0]}]],
    "map": {"a.b": 3.0, "$bytes": "text", "$$": b"x", "nested": {"c": -0.5}},
    "a.b": "dotted",
    "$bytes": "not bytes",
}


def a_thing(name: str = "n", owner: str = "ada", **attributes: Any) -> Item:
    return {"owner": owner, "name": name, **attributes}


def a_key(name: str = "n", owner: str = "ada") -> Item:
    return {"owner": owner, "name": name}


def nested_lists(depth: int) -> list[Any]:
    return [nested_lists(depth - 1)] if depth else []


def names(items: Iterable[Item]) -> list[str]:
    return [item["name"] for item in items]


def typed(value: object) -> object:
    """The value with the types of all that is in it: 1, 1.0 and True are equal in Python."""
    if isinstance(value, dict):
        return {name: typed(element) for name, element in value.items()}
    if isinstance(value, list):
        return [typed(element) for element in value]
    return type(value), value


class ItemContract:
    """Items and values."""

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


class ConditionContract:
    """Conditional writes."""

    ITEM = a_thing(version=3, price=2.5, status="open", empty="", flag=True)

    @pytest.mark.parametrize(
        "condition",
        [
            Absent("missing"),
            Equals("version", 3),
            Equals("version", 3.0),
            Equals("price", 2.5),
            Equals("status", "open"),
            Equals("empty", ""),
            Equals("flag", True),
            LessThan("version", 4),
            LessThan("price", 2.51),
            LessThan("status", "opened"),
            LessThan("status", "öffnen"),
            AnyOf((Absent(), Equals("version", 3))),
            AnyOf((AllOf((Absent("missing"), LessThan("version", 9))), Equals("status", "x"))),
            AllOf((Equals("status", "open"), Equals("version", 3))),
            AllOf(()),
        ],
        ids=repr,
    )
    def test_condition_that_holds_lets_the_write_through(self, table: Table, condition: Condition) -> None:
        table.put(self.ITEM)
        table.put(a_thing(written=True), condition=condition)
        assert table.get(a_key()) == a_thing(written=True)

    @pytest.mark.parametrize(
        "condition",
        [
            Absent(),
            Absent("version"),
            Absent("empty"),
            Equals("version", 2),
            Equals("version", "3"),
            Equals("version", True),
            Equals("flag", 1),
            Equals("missing", ""),
            LessThan("version", 3),
            LessThan("version", "9"),
            LessThan("status", "Open"),
            LessThan("missing", 5),
            AnyOf((Absent(), Equals("version", 2))),
            AnyOf(()),
            AllOf((Equals("status", "open"), Equals("version", 2))),
        ],
        ids=repr,
    )
    def test_condition_that_fails_leaves_the_item(self, table: Table, condition: Condition) -> None:
        table.put(self.ITEM)
        with pytest.raises(ConditionFailedError, match="things"):
            table.put(a_thing(written=True), condition=condition)
        with pytest.raises(ConditionFailedError, match="things"):
            table.delete(a_key(), condition=condition)
        assert table.get(a_key()) == self.ITEM

    def test_absent_item_can_be_put_once(self, table: Table) -> None:
        table.put(a_thing(writer=1), condition=Absent())
        with pytest.raises(ConditionFailedError):
            table.put(a_thing(writer=2), condition=Absent())
        assert table.get(a_key()) == a_thing(writer=1)

    def test_item_that_is_missing_has_no_attributes(self, table: Table) -> None:
        with pytest.raises(ConditionFailedError):
            table.put(a_thing(), condition=Equals("version", 1))
        table.put(a_thing(), condition=Absent("version"))

    def test_conditional_removal(self, table: Table) -> None:
        table.put(a_thing(version=1))
        with pytest.raises(ConditionFailedError):
            table.delete(a_key(), condition=Equals("version", 2))
        table.delete(a_key(), condition=Equals("version", 1))
        assert table.get(a_key()) is None

    def test_removing_what_is_missing_fails_if_the_condition_does(self, table: Table) -> None:
        table.delete(a_key(), condition=Absent())
        with pytest.raises(ConditionFailedError):
            table.delete(a_key(), condition=Equals("version", 1))

    def test_exactly_one_of_several_concurrent_writers_wins(self, table: Table) -> None:
        barrier = threading.Barrier(4, timeout=10)

        def write(writer: int) -> list[int]:
            won = []
            for round_number in range(5):
                barrier.wait()
                try:
                    table.put(a_thing(f"r{round_number}", writer=writer), condition=Absent())
                    won.append(round_number)
                except ConditionFailedError:
                    pass
            return won

        with ThreadPoolExecutor(4) as pool:
            winners = [round_number for won in pool.map(write, range(4)) for round_number in won]
        assert sorted(winners) == [0, 1, 2, 3, 4]

    def test_counting_with_conditions_loses_no_update(self, table: Table) -> None:
        table.put(a_thing(count=0))

        def count_up() -> None:
            for _ in range(5):
                while True:
                    item = table.get(a_key())
                    assert item is not None
                    try:
                        table.put(a_thing(count=item["count"] + 1), condition=Equals("count", item["count"]))
                        break
                    except ConditionFailedError:
                        continue

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(count_up) for _ in range(3)]:
                done.result()
        assert table.get(a_key()) == a_thing(count=15)


class BatchContract:
    """Many items at once."""

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


class QueryContract:
    """Order, ranges and pages."""

    def test_empty_partition_has_no_items(self, table: Table) -> None:
        table.put(a_thing(owner="bob"))
        assert list(table.query("ada")) == []
        assert list(table.query("ada", index="status-size-index")) == []

    def test_items_are_ordered_by_the_bytes_of_the_sort_attribute(self, table: Table) -> None:
        keys = ["b", "a", "B", "é", "a/", "aa", "\uffee", "\U00010000"]
        table.put_many(a_thing(key) for key in keys)
        assert names(table.query("ada")) == sorted(keys, key=str.encode)
        assert names(table.query("ada", reverse=True)) == sorted(keys, key=str.encode, reverse=True)

    def test_index_orders_numbers_by_value(self, table: Table) -> None:
        sizes = {"a": 10, "b": 9, "c": -1, "d": 9.5, "e": 100}
        table.put_many(a_thing(name, status="new", size=size) for name, size in sizes.items())
        assert names(table.query("new", index="status-size-index")) == ["c", "b", "d", "a", "e"]

    def test_index_holds_items_of_all_partitions_that_have_its_attributes(self, table: Table) -> None:
        table.put_many(
            [
                a_thing("a", "ada", status="new", size=1),
                a_thing("b", "bob", status="new", size=2),
                a_thing("c", "bob", status="old", size=3),
                a_thing("d", "bob", status="new"),
                a_thing("e", "bob", size=5),
            ]
        )
        assert names(table.query("new", index="status-size-index")) == ["a", "b"]

    def test_index_follows_changes_of_its_attributes(self, table: Table) -> None:
        table.put(a_thing("a", status="new", size=1))
        table.put(a_thing("a", status="old", size=2))
        assert list(table.query("new", index="status-size-index")) == []
        assert [item["size"] for item in table.query("old", index="status-size-index")] == [2]
        table.put(a_thing("a"))
        assert list(table.query("old", index="status-size-index")) == []

    def test_index_without_sort_attribute_holds_all_items_of_a_value(self, table: Table) -> None:
        table.put_many([*(a_thing(name, group="g") for name in "abc"), a_thing("d", group="h"), a_thing("e")])
        assert sorted(names(table.query("g", index="group-index"))) == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("where", "expected"),
        [
            (KeyRange(), ["a", "b", "ba", "bb", "c"]),
            (KeyRange(low="b"), ["b", "ba", "bb", "c"]),
            (KeyRange(high="b"), ["a", "b"]),
            (KeyRange(low="b", high="bb"), ["b", "ba", "bb"]),
            (KeyRange(low="bb", high="b"), []),
            (KeyRange(low="x"), []),
            (KeyRange(low=""), ["a", "b", "ba", "bb", "c"]),
            (KeyRange(high=""), []),
            (KeyRange(begins_with="b"), ["b", "ba", "bb"]),
            (KeyRange(begins_with="ba"), ["ba"]),
            (KeyRange(begins_with="x"), []),
        ],
        ids=repr,
    )
    def test_range_bounds_the_sort_attribute(self, table: Table, where: KeyRange, expected: list[str]) -> None:
        table.put_many(a_thing(name) for name in ("c", "bb", "a", "ba", "b"))
        assert names(table.query("ada", where=where)) == expected
        assert names(table.query("ada", where=where, reverse=True)) == expected[::-1]

    def test_range_bounds_numbers_of_an_index(self, table: Table) -> None:
        table.put_many(a_thing(f"{size}", status="new", size=size) for size in range(12))
        where = KeyRange(low=0, high=2)
        assert names(table.query("new", index="status-size-index", where=where)) == ["0", "1", "2"]
        assert names(table.query("new", index="status-size-index", where=KeyRange(low=10))) == ["10", "11"]

    @pytest.mark.parametrize("prefix", ["%", "_", "a\ud7ff", "a\U0010ffff", "\U0010ffff"])
    def test_begins_with_takes_every_character_literally(self, table: Table, prefix: str) -> None:
        inside = [prefix, prefix + "a", prefix + "\U0010ffff"]
        table.put_many(a_thing(name) for name in [*inside, "a", "b", "A%", "\ue000"])
        assert names(table.query("ada", where=KeyRange(begins_with=prefix))) == inside

    @pytest.mark.parametrize(
        ("index", "where"),
        [
            ("", KeyRange(low="a", begins_with="a")),
            ("", KeyRange(low=5)),
            ("", KeyRange(low="x" * 1025)),
            ("status-size-index", KeyRange(low="5")),
            ("status-size-index", KeyRange(begins_with="5")),
            ("group-index", KeyRange(low="a")),
            ("no-such-index", KeyRange()),
        ],
        ids=repr,
    )
    def test_range_that_does_not_fit_is_refused(self, table: Table, index: str, where: KeyRange) -> None:
        with pytest.raises(InvalidInputError):
            table.query("a", index=index, where=where)

    def test_query_for_no_value_is_refused(self, table: Table) -> None:
        with pytest.raises(InvalidInputError):
            table.query("")
        with pytest.raises(InvalidInputError):
            table.query(5, index="group-index")

    def test_limit_gives_the_first_items(self, table: Table) -> None:
        table.put_many(a_thing(name) for name in "abcde")
        assert names(table.query("ada", limit=2)) == ["a", "b"]
        assert names(table.query("ada", limit=2, reverse=True)) == ["e", "d"]
        assert names(table.query("ada", limit=9)) == ["a", "b", "c", "d", "e"]
        assert names(table.query("ada", limit=0)) == []
        with pytest.raises(InvalidInputError):
            table.query("ada", limit=-1)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_query_goes_on_beyond_a_megabyte(self, table: Table, reverse: bool) -> None:
        expected = [f"{number:02}" for number in range(12)]
        table.put_many(a_thing(name, text="x" * 350_000) for name in expected)
        assert names(table.query("ada", reverse=reverse)) == (expected[::-1] if reverse else expected)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_ties_in_an_index_are_all_found_once(self, table: Table, reverse: bool) -> None:
        things = [a_thing(f"{number % 50}", f"o{number // 50}", status="new", size=7) for number in range(250)]
        table.put_many(things)
        found = table.query("new", index="status-size-index", reverse=reverse)
        assert sorted((item["owner"], item["name"]) for item in found) == sorted(
            (item["owner"], item["name"]) for item in things
        )

    def test_items_may_be_removed_while_they_are_read(self, table: Table) -> None:
        table.put_many(a_thing(f"{number:03}") for number in range(230))
        seen = []
        for item in table.query("ada"):
            seen.append(item["name"])
            table.delete(a_key(item["name"]))
        assert len(seen) == 230
        assert list(table.query("ada")) == []

    def test_query_may_be_left_unfinished(self, table: Table) -> None:
        table.put_many(a_thing(f"{number:03}") for number in range(230))
        reading = table.query("ada")
        assert next(reading)["name"] == "000"
        table.put(a_thing("000", changed=True))
        assert table.get(a_key("000")) == a_thing("000", changed=True)


class ExpiryContract:
    """Items with a time to live."""

    def test_expired_item_is_never_returned(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=int(time.now) + 60, status="new", size=1))
        assert table.get(a_key()) is not None
        time.sleep(61)
        assert table.get(a_key()) is None
        assert table.get_many([a_key()]) == []
        assert list(table.query("ada")) == []
        assert list(table.query("new", index="status-size-index")) == []

    def test_item_is_there_until_its_time_has_passed(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=time.now + 1.5))
        time.sleep(1.5)
        assert table.get(a_key()) is not None
        time.sleep(0.5)
        assert table.get(a_key()) is None

    @pytest.mark.parametrize("ttl", ["5", None, True])
    def test_item_whose_time_is_no_number_does_not_expire(self, table: Table, ttl: object) -> None:
        table.put(a_thing(ttl=ttl))
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
        table.put(a_thing(writer="b"), condition=AllOf((Absent(), Absent("version"))))
        assert table.get(a_key()) == a_thing(writer="b")

    def test_item_that_is_written_again_lives_on(self, table: Table, time: FakeTime) -> None:
        table.put(a_thing(ttl=time.now + 1))
        table.put(a_thing(ttl=time.now + 100))
        time.sleep(50)
        assert table.get(a_key()) is not None
        table.put(a_thing())
        time.sleep(100)
        assert table.get(a_key()) == a_thing()


class TableContract(ItemContract, ConditionContract, BatchContract, QueryContract, ExpiryContract):
    pass
