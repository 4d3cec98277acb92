"""Baselines in a table: what is added, by whom, how often, and for whom it is there."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from opx.adapters.embedded.database import open_database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.scopes import Identity, Reader, Scope, reader_of
from opx.errors import ConditionFailedError, InvalidInputError, StoreUnavailableError
from opx.ports import Condition, Table
from opx.ports.tables import BASELINES
from opx_telemetry.baselines.items import MARKS, Series
from opx_telemetry.baselines.readings import Reading
from opx_telemetry.baselines.store import MAX_READINGS, BaselineStore

NOON = 1_763_812_800.0  # 2025-11-22T12:00:00Z
HOUR, DAY = 3600, 86_400
EVERYONE = reader_of(Identity())


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(tmp_path: Path, clock: Clock) -> Iterator[Table]:
    database = open_database(tmp_path / "opx.db")
    yield SqliteTable(BASELINES, database, clock=clock)
    database.close()


@pytest.fixture
def store(table: Table, clock: Clock) -> BaselineStore:
    return BaselineStore(table, clock=clock)


def value(value: Any = 41.5, **more: Any) -> dict[str, Any]:
    return {"node": "web-01", "metric": "cpu", "value": value, **more}


def count(store: BaselineStore, window: str = "7d", reader: Reader = EVERYONE) -> int:
    return store.get(reader, "web-01", "cpu", window).count


class TestAdding:
    def test_nothing_there_is_a_count_of_zero(self, store: BaselineStore) -> None:
        found = store.get(EVERYONE, "web-01", "cpu")
        assert (found.count, found.by_hour, found.last_seen, found.days) == (0, (), "", 0)
        assert store.series(EVERYONE) == []

    def test_values_are_added_up(self, store: BaselineStore) -> None:
        store.add([value(one, unit="percent") for one in (10, 20, 30)])
        store.add([value(40)])
        found = store.get(EVERYONE, "web-01", "cpu")
        assert (found.count, found.mean, found.minimum, found.maximum, found.unit) == (4, 25, 10, 40, "percent")
        assert found.stddev == pytest.approx(12.9099, abs=1e-4)
        assert (found.days, found.last_seen) == (1, "2025-11-22T12:00:00Z")
        assert [(one.hour, one.count) for one in found.by_hour] == [(12, 4)]

    def test_a_value_goes_to_its_day_and_hour(self, store: BaselineStore) -> None:
        store.add(
            [value(1, at="2025-11-20T03:59:59Z"), value(2, at=NOON - DAY), value(3, at="2025-11-20T05:00:00+02:00")]
        )
        found = store.get(EVERYONE, "web-01", "cpu")
        assert found.days == 2
        assert [(one.hour, one.count) for one in found.by_hour] == [(3, 2), (12, 1)]

    def test_invalid_values_are_named_and_the_others_are_added(self, store: BaselineStore) -> None:
        given: list[Any] = [
            value(),
            value("x"),
            value(float("nan")),
            value(float("inf")),
            value(True),
            value(1e301),
            value(at="yesterday"),
            value(at=NOON - 91 * DAY),
            value(at=NOON + HOUR),
            value(at=1000 * NOON),
            {"node": "web-01", "value": 1},
            value(node=" "),
            value(metric="m" * 201),
            value(node="a\x00b"),
            value(units="ms"),
            [1],
            value(2),
        ]
        done = store.add(given)
        assert done.added == 2
        assert [one.index for one in done.refused] == list(range(1, 16))
        reasons = " / ".join(one.reason for one in done.refused)
        for message in ("'x'", "nan", "inf", "True", "ISO 8601", "91 days ago", "in the future", "milliseconds"):
            assert message in reasons
        for message in (
            "metric is missing",
            "node is empty",
            "200 characters",
            "control",
            "unknown field 'units'",
            "object",
        ):
            assert message in reasons

    def test_readings_are_held_to_the_same(self, store: BaselineStore) -> None:
        wrong = [
            ("n", "m", float("nan"), NOON),
            ("n", "m", 1.0, NOON + DAY),
            ("", "m", 1.0, NOON),
            ("n", "m" * 201, 1.0, NOON),
        ]
        done = store.add([Reading(*one) for one in wrong])
        assert (done.added, [one.index for one in done.refused]) == (0, [0, 1, 2, 3])

    def test_too_many_at_once_are_refused(self, store: BaselineStore) -> None:
        with pytest.raises(InvalidInputError, match="10,000"):
            store.add([value()] * (MAX_READINGS + 1))

    def test_a_series_has_one_unit(self, store: BaselineStore) -> None:
        store.add([value(1, unit="ms", at=NOON - DAY)])
        done = store.add([value(2, unit="s"), value(3), value(4, unit="ms")])
        assert (done.added, [one.index for one in done.refused]) == (2, [0])
        assert done.refused[0].reason == "cpu of web-01 is in ms, not in s: convert it"

    def test_a_scope_has_only_so_many_series(self, table: Table, clock: Clock) -> None:
        store = BaselineStore(table, clock=clock, most_series=3)
        store.add([value(metric=name) for name in ("a", "b")])
        done = store.add([value(metric=name) for name in ("c", "d", "a")])
        assert (done.added, [one.index for one in done.refused]) == (2, [1])
        assert "the 3 that a scope may have" in done.refused[0].reason
        assert store.add([value(metric="d")], scope=Scope("acme")).added == 1

    def test_the_same_batch_again_is_counted_once(self, store: BaselineStore) -> None:
        batch = [value(1), value(1), value(2, at=NOON - DAY), value(3, metric="memory")]
        first, again = store.add(batch, batch_id="b-1"), store.add(batch, batch_id="b-1")
        assert (first.added, first.repeated) == (4, 0)
        assert (again.added, again.repeated) == (0, 4)
        assert store.add(batch, batch_id="b-2").added == 4
        assert count(store) == 6

    def test_without_an_id_the_same_values_count_again(self, store: BaselineStore) -> None:
        store.add([value(1)])
        store.add([value(1)])
        assert count(store) == 2

    def test_a_day_remembers_the_last_batches(self, store: BaselineStore) -> None:
        at = [Reading("web-01", "cpu", 1.0, NOON, mark=f"record {number}") for number in range(MARKS + 1)]
        store.add(at)
        assert store.add(at[1:]).repeated == MARKS
        assert store.add(at[:1]).added == 1

    def test_names_are_the_same_in_any_form_of_unicode(self, store: BaselineStore) -> None:
        store.add([{"node": "cafe\u0301", "metric": " cpu ", "value": 1}])
        assert store.get(EVERYONE, "caf\u00e9", "cpu").count == 1


class Contended:
    """A table in which another process writes just before some of the writes."""

    def __init__(self, table: Table, between: Any, times: int) -> None:
        self._table = table
        self._between = between
        self._times = times
        self.refused = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        if self._times:
            self._times -= 1
            self._between()
        try:
            self._table.put(item, condition=condition)
        except ConditionFailedError:
            self.refused += 1
            raise


class TestTogether:
    def test_overtaken_writer_adds_to_the_current_summary(
        self, table: Table, clock: Clock, store: BaselineStore
    ) -> None:
        contended = Contended(table, lambda: store.add([value(1)]), times=3)
        mine = BaselineStore(contended, clock=clock, sleep=lambda _: None)
        assert mine.add([value(2)], batch_id="mine").added == 1
        assert (contended.refused, count(store)) == (3, 4)

    def test_writer_that_is_always_overtaken_gives_up_with_a_reason(
        self, table: Table, clock: Clock, store: BaselineStore
    ) -> None:
        contended = Contended(table, lambda: store.add([value(1)]), times=1000)
        mine = BaselineStore(contended, clock=clock, sleep=lambda _: None)
        with pytest.raises(StoreUnavailableError, match="cpu of web-01"):
            mine.add([value(2)])

    def test_threads_lose_no_value(self, store: BaselineStore) -> None:
        def feed(name: int) -> None:
            for number in range(10):
                store.add([value(name), value(number)], batch_id=f"{name}-{number}")

        threads = [threading.Thread(target=feed, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert count(store) == 80


class TestScopes:
    def test_each_reader_sees_what_its_scopes_have_together(self, store: BaselineStore) -> None:
        shop, other = Scope("acme", project_id="shop"), Scope("other")
        store.add([value(1)])
        store.add([value(2)], scope=Scope("acme"))
        store.add([value(3)], scope=shop)
        store.add([value(1000)], scope=other)
        assert count(store) == 1
        assert count(store, reader=reader_of(Identity("acme"))) == 2
        found = store.get(reader_of(Identity("acme", "shop")), "web-01", "cpu")
        assert (found.count, found.maximum) == (3, 3)

    def test_other_scopes_series_are_not_listed(self, store: BaselineStore) -> None:
        store.add([value(1, metric="secret")], scope=Scope("other"))
        store.add([value(1)])
        assert [one.metric for one in store.series(reader_of(Identity("acme")))] == ["cpu"]

    def test_values_in_another_unit_are_left_out_with_a_note(self, store: BaselineStore) -> None:
        store.add([value(1, unit="s", at=NOON - HOUR)])
        store.add([value(900, unit="ms")], scope=Scope("acme"))
        found = store.get(reader_of(Identity("acme")), "web-01", "cpu")
        assert (found.count, found.unit, found.mean) == (1, "ms", 900)
        assert found.notes == ("values in s are left out: these are in ms",)

    def test_series_are_listed_by_name_with_their_last_day(self, store: BaselineStore) -> None:
        store.add([value(1, metric="b"), value(1, metric="a", unit="ms", at=NOON - 2 * DAY), value(1, node="db")])
        listed = [(one.node, one.metric, one.unit, one.last_seen) for one in store.series(EVERYONE)]
        assert listed == [
            ("db", "cpu", "", "2025-11-22"),
            ("web-01", "a", "ms", "2025-11-20"),
            ("web-01", "b", "", "2025-11-22"),
        ]


class TestWindows:
    def test_a_window_has_the_hours_that_it_touches(self, store: BaselineStore) -> None:
        store.add([value(1, at=NOON - hours * HOUR + 60) for hours in (1, 2, 24, 25, 24 * 7, 24 * 7 + 1)])
        assert [count(store, window) for window in ("1h", "24h", "1d", "7d", "1w", "8d")] == [1, 3, 3, 5, 5, 6]

    @pytest.mark.parametrize("window", ["", "7", "0d", "91d", "2161h", "14w", "7D", "-1d", "1m", "7d ", "٣d"])
    def test_other_windows_are_refused_with_what_is_allowed(self, store: BaselineStore, window: str) -> None:
        with pytest.raises(InvalidInputError, match="must be 1h to 90d"):
            store.get(EVERYONE, "web-01", "cpu", window)

    def test_ninety_days_later_a_day_is_gone(self, store: BaselineStore, table: Table, clock: Clock) -> None:
        store.add([value(1)])
        clock.now += 90 * DAY
        assert count(store, "90d") == 1
        clock.now += 4 * DAY
        assert count(store, "90d") == 0
        assert store.series(EVERYONE) == []


class TestReplacing:
    def test_a_repeated_day_replaces_the_earlier_values(self, store: BaselineStore) -> None:
        store.add([value(1)])
        for values in ((5.0, 6.0, 7.0), (8.0, 9.0)):
            store.replace([Reading("web-01", "cpu", one, NOON) for one in values], "cloudwatch")
        found = store.get(EVERYONE, "web-01", "cpu")
        assert (found.count, found.maximum) == (3, 9)

    def test_feeders_that_replace_dont_touch_each_other(self, store: BaselineStore) -> None:
        for part in ("cloudwatch", "other"):
            store.replace([Reading("web-01", "cpu", 1.0, NOON)], part)
        assert count(store) == 2


RECORD = {"node": "web-01", "metric": "cpu", "time_window": "7d", "mean": 41.5, "stddev": 3.0, "samples": 2016}


class TestRecords:
    def test_a_computed_baseline_is_answered_where_no_values_are(self, store: BaselineStore) -> None:
        store.put_record({**RECORD, "mean": 1.0})
        store.put_record(RECORD)
        found = store.get(EVERYONE, "web-01", "cpu", "7d")
        assert (found.count, found.mean, found.stddev, found.p50) == (2016, 41.5, 3.0, None)
        assert "recorded on 2025-11-22" in found.notes[0]
        assert found.judge(60).anomalous
        assert count(store, "30d") == 0

    def test_values_come_before_it(self, store: BaselineStore) -> None:
        store.put_record(RECORD)
        store.add([value(1)])
        assert count(store) == 1

    def test_others_scopes_records_are_not_seen(self, store: BaselineStore) -> None:
        store.put_record(RECORD, scope=Scope("other"))
        assert count(store) == 0

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"samples": 0}, "samples"),
            ({"samples": 1.5}, "samples"),
            ({"stddev": -1}, "stddev"),
            ({"mean": "x"}, "mean"),
            ({"time_window": "soon"}, "time window"),
            ({"node": None}, "node is missing"),
            ({"value": 3}, "opx baseline push"),
            ({"p50": 3}, "unknown field"),
        ],
    )
    def test_another_record_is_refused_with_what_is_wrong(
        self, store: BaselineStore, wrong: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(InvalidInputError, match=message):
            store.put_record({**RECORD, **wrong})


def test_an_item_of_the_most_hostile_values_stays_far_below_what_the_table_takes(
    store: BaselineStore, table: Table
) -> None:
    chance = random.Random(2)
    start = NOON - NOON % DAY
    for hour in range(3):
        values = [chance.choice((-1, 1)) * 10 ** chance.uniform(-300, 300) for _ in range(2000)]
        store.add([Reading("web-01", "cpu", one, start + hour * HOUR, mark=f"{hour} {one}") for one in values])
    (item,) = [item for item in table.query(Series("global", "web-01", "cpu").key) if item["day"] == "2025-11-22"]
    size = len(json.dumps({**item, "hours": None, "marks": None})) + len(item["marks"])
    size += sum(len(data) for data in item["hours"].values())
    assert 24 / 3 * size < 150_000
