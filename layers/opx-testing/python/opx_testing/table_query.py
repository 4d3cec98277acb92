"""Order, ranges and pages: part of what every `Table` must do."""

from __future__ import annotations

import pytest

from opx.errors import InvalidInputError
from opx.ports import KeyRange, Table
from opx_testing.things import a_key, a_thing, names


class QueryContract:
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
        assert table.count("ada", where=where) == len(expected)

    def test_range_bounds_numbers_of_an_index(self, table: Table) -> None:
        table.put_many(a_thing(f"{size}", status="new", size=size) for size in range(12))
        where = KeyRange(low=0, high=2)
        assert names(table.query("new", index="status-size-index", where=where)) == ["0", "1", "2"]
        assert table.count("new", index="status-size-index", where=where) == 3
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
        with pytest.raises(InvalidInputError):
            table.count("a", index=index, where=where)

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
        assert table.count("ada") == 12

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
