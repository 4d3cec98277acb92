"""Conditional writes: part of what every `Table` must do."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from opx.errors import ConditionFailedError
from opx.ports import AllOf, AnyOf, Condition, Equals, KeyAbsent, LessThan, Table
from opx_testing.things import a_key, a_thing


class ConditionContract:
    ITEM = a_thing(version=3, price=2.5, status="open", empty="", flag=True)

    @pytest.mark.parametrize(
        "condition",
        [
            KeyAbsent("missing"),
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
            AnyOf((KeyAbsent(), Equals("version", 3))),
            AnyOf((AllOf((KeyAbsent("missing"), LessThan("version", 9))), Equals("status", "x"))),
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
            KeyAbsent(),
            KeyAbsent("version"),
            KeyAbsent("empty"),
            Equals("version", 2),
            Equals("version", "3"),
            Equals("version", True),
            Equals("flag", 1),
            Equals("missing", ""),
            LessThan("version", 3),
            LessThan("version", "9"),
            LessThan("status", "Open"),
            LessThan("missing", 5),
            AnyOf((KeyAbsent(), Equals("version", 2))),
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
        table.put(a_thing(writer=1), condition=KeyAbsent())
        with pytest.raises(ConditionFailedError):
            table.put(a_thing(writer=2), condition=KeyAbsent())
        assert table.get(a_key()) == a_thing(writer=1)

    def test_item_that_is_missing_has_no_attributes(self, table: Table) -> None:
        with pytest.raises(ConditionFailedError):
            table.put(a_thing(), condition=Equals("version", 1))
        table.put(a_thing(), condition=KeyAbsent("version"))

    def test_conditional_removal(self, table: Table) -> None:
        table.put(a_thing(version=1))
        with pytest.raises(ConditionFailedError):
            table.delete(a_key(), condition=Equals("version", 2))
        table.delete(a_key(), condition=Equals("version", 1))
        assert table.get(a_key()) is None

    def test_removing_what_is_missing_fails_if_the_condition_does(self, table: Table) -> None:
        table.delete(a_key(), condition=KeyAbsent())
        with pytest.raises(ConditionFailedError):
            table.delete(a_key(), condition=Equals("version", 1))

    def test_exactly_one_of_several_concurrent_writers_wins(self, table: Table) -> None:
        barrier = threading.Barrier(4, timeout=10)

        def write(writer: int) -> list[int]:
            won = []
            for round_number in range(5):
                barrier.wait()
                try:
                    table.put(a_thing(f"r{round_number}", writer=writer), condition=KeyAbsent())
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
