"""The speed limit that all workers share: turns, cuts, recovery, and patience. Calls that take no longer than they may."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.errors import ModelError, ThrottledError
from opx.ports import Condition, Item, tables
from opx.runtime.deadlines import deadline
from opx.runtime.speed_limit import (
    BLOCK_SECONDS,
    CUT,
    LONGEST_WAIT_SECONDS,
    MARGIN,
    PAUSE_SECONDS,
    RECOVERY_SECONDS,
    Quota,
    SpeedLimit,
)
from opx.runtime.threads import within
from opx_testing.fake_time import FakeTime
from tests.support.records_support import BrokenTable

SIXTY = Quota(requests=60)
MANY = [0.0] * 1000


@pytest.fixture
def table(database: Database, time: FakeTime) -> SqliteTable:
    return SqliteTable(tables.EMBEDDINGS, database, clock=time.clock)


def a_limit(time: FakeTime, table: Any = None, quota: Quota = SIXTY) -> SpeedLimit:
    """That of a new process."""
    return SpeedLimit(quota, (lambda: table) if table else None, "titan", clock=time.clock, sleep=time.sleep)


def rate(limit: SpeedLimit, time: FakeTime) -> float:
    """Calls a minute, while one worker calls for two minutes."""
    began, calls = time.now, 0
    while time.now < began + 120:
        block = limit.reserve(MANY)
        calls += len(block.starts)
        limit.due(block.starts[-1])
    return calls / (time.now - began) * 60


class RacingTable:
    """A table in which another worker reserves between the first reads and writes."""

    def __init__(self, table: SqliteTable, other: SpeedLimit, times: int) -> None:
        self._table, self._other, self._times = table, other, times

    def get(self, key: Mapping[str, Any]) -> Item | None:
        item = self._table.get(key)
        if self._times:
            self._times -= 1
            self._other.reserve([0.0])
        return item

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        self._table.put(item, condition=condition)


class TestQuota:
    @pytest.mark.parametrize(
        ("quota", "tokens", "seconds"),
        [
            (Quota(requests=60), 8000, 1.0),
            (Quota(requests=600, tokens=6000), 300, 3.0),
            (Quota(requests=600, tokens=6000), 5, 0.1),
            (Quota(tokens=6000), 300, 3.0),
            (Quota(), 8000, 0.1),
        ],
    )
    def test_a_call_takes_the_larger_share(self, quota: Quota, tokens: float, seconds: float) -> None:
        assert quota.seconds(tokens) == pytest.approx(seconds / MARGIN)


class TestTurns:
    def test_blocks_of_workers_follow_each_other(self, time: FakeTime, table: SqliteTable) -> None:
        blocks = [a_limit(time, table, Quota(requests=600)).reserve(MANY).starts for _ in range(3)]
        starts = [start for block in blocks for start in block]
        gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
        assert gaps == [pytest.approx(0.1 / MARGIN, abs=1e-5)] * (len(starts) - 1)
        assert all(block[-1] - block[0] < BLOCK_SECONDS for block in blocks)

    def test_a_block_begins_when_its_worker_has_waited_for_it(self, time: FakeTime, table: SqliteTable) -> None:
        for _ in range(3):
            block = a_limit(time, table).reserve([0.0])
            assert block.starts[0] == pytest.approx(time.now)
        assert time.elapsed == pytest.approx(2 / MARGIN)

    def test_no_more_is_reserved_than_wanted(self, time: FakeTime, table: SqliteTable) -> None:
        limit = a_limit(time, table, Quota(requests=6000))
        assert len(limit.reserve([0.0] * 3).starts) == 3
        assert limit.reserve([0.0]).starts[0] - time.started == pytest.approx(0.03 / MARGIN, abs=1e-5)

    def test_a_worker_that_lost_a_race_reserves_behind_the_winners(self, time: FakeTime, table: SqliteTable) -> None:
        racing = RacingTable(table, a_limit(time, table), times=3)
        assert a_limit(time, racing).reserve([0.0]).starts[0] - time.started == pytest.approx(3 / MARGIN, abs=0.05)

    def test_a_known_quota_is_used_but_for_a_margin(self, time: FakeTime) -> None:
        assert rate(a_limit(time), time) == pytest.approx(60 * MARGIN, rel=0.03)

    def test_an_unknown_quota_is_approached_from_below(self, time: FakeTime) -> None:
        limit = a_limit(time, quota=Quota())
        first, second = limit.reserve([0.0]).starts[0], limit.reserve([0.0]).starts[0]
        assert second - first == pytest.approx(1 / MARGIN, abs=1e-5)
        rate(limit, time)
        last = limit.reserve(MANY).starts
        assert last[1] - last[0] == pytest.approx(0.1 / MARGIN, abs=1e-5)

    def test_idle_time_teaches_nothing_about_an_unknown_quota(self, time: FakeTime) -> None:
        limit = a_limit(time, quota=Quota())
        limit.reserve([0.0])
        time.now += 3600
        first, second = limit.reserve([0.0]).starts[0], limit.reserve([0.0]).starts[0]
        assert second - first > 0.8 / MARGIN


class TestCuts:
    def test_a_throttled_call_slows_all_workers_down(self, time: FakeTime, table: SqliteTable) -> None:
        one, other = a_limit(time, table), a_limit(time, table)
        one.throttled(one.reserve([0.0]))
        block = other.reserve([0.0, 0.0])
        assert block.starts[0] >= time.started + PAUSE_SECONDS
        following = other.reserve([0.0])
        assert following.starts[0] - block.starts[0] == pytest.approx(1 / MARGIN / CUT, rel=0.01)

    def test_calls_of_one_block_cut_once(self, time: FakeTime, table: SqliteTable) -> None:
        limit = a_limit(time, table)
        block = limit.reserve([0.0])
        limit.throttled(block)
        state = table.get({"cacheKey": "limit#titan"})
        time.now += 60
        limit.throttled(block)
        assert table.get({"cacheKey": "limit#titan"}) == state

    def test_reserved_blocks_are_void_after_a_cut(self, time: FakeTime, table: SqliteTable) -> None:
        """The worker that sleeps until its block finds another schedule when it wakes up."""
        first = a_limit(time, table)
        block = first.reserve([0.0])
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            if not slept:
                first.throttled(block)
            slept.append(seconds)
            time.now += seconds

        waiting = SpeedLimit(SIXTY, lambda: table, "titan", clock=time.clock, sleep=sleep)
        assert waiting.reserve([0.0]).cuts == block.cuts + 1

    def test_the_pace_comes_back_slowly_then_fast(self, time: FakeTime) -> None:
        limit = a_limit(time)
        rate(limit, time)
        for _ in range(3):
            limit.throttled(limit.reserve([0.0]))
            time.now += 10
        low = rate(limit, time)
        assert low < 60 * MARGIN * 0.75
        for _ in range(5):
            rate(limit, time)
        assert rate(limit, time) == pytest.approx(60 * MARGIN, rel=0.03)

    def test_the_level_of_the_last_cut_is_reached_after_a_minute_of_calls(self, time: FakeTime) -> None:
        limit = a_limit(time)
        limit.throttled(limit.reserve([0.0]))
        limit.due(time.now + PAUSE_SECONDS)
        while time.elapsed < RECOVERY_SECONDS + 3:
            block = limit.reserve(MANY)
            limit.due(block.starts[-1])
        following = limit.reserve([0.0])
        assert following.starts[0] - block.starts[-1] == pytest.approx(1 / MARGIN, rel=0.01)

    def test_endless_throttling_ends_in_a_crawl(self, time: FakeTime) -> None:
        limit = a_limit(time, quota=Quota())
        for _ in range(40):
            limit.throttled()
            time.now += 5
        first, second = limit.reserve([0.0]).starts[0], limit.reserve([0.0]).starts[0]
        assert second - first == pytest.approx(30 / MARGIN)


class TestPatience:
    def test_what_would_wait_too_long_is_refused_with_the_time(self, time: FakeTime, table: SqliteTable) -> None:
        for _ in range(int(LONGEST_WAIT_SECONDS * MARGIN) + 1):
            SpeedLimit(SIXTY, lambda: table, "titan", clock=time.clock, sleep=lambda _: None).reserve([0.0])
        with pytest.raises(ThrottledError) as refused:
            a_limit(time, table).reserve([0.0])
        assert refused.value.retry_after >= LONGEST_WAIT_SECONDS

    def test_nothing_is_reserved_that_the_caller_has_no_time_for(self, time: FakeTime, table: SqliteTable) -> None:
        limit = a_limit(time, table)
        with deadline(1.0, time.clock):
            assert len(limit.reserve(MANY).starts) == 1
            before = table.get({"cacheKey": "limit#titan"})
            with pytest.raises(ThrottledError):
                limit.reserve([0.0])
        assert table.get({"cacheKey": "limit#titan"}) == before

    def test_unavailable_table_leaves_a_limit_of_this_process(
        self, time: FakeTime, caplog: pytest.LogCaptureFixture
    ) -> None:
        limit = a_limit(time, BrokenTable())
        with caplog.at_level(logging.WARNING):
            starts = [limit.reserve([0.0]).starts[0] for _ in range(3)]
        assert starts[2] - starts[0] == pytest.approx(2 / MARGIN)
        assert "this process uses its own" in caplog.text


def test_result_of_the_work_is_returned() -> None:
    assert within(9.0, lambda: 7, "model") == 7


def test_error_of_the_work_is_raised_unchanged() -> None:
    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError, match="x"):
        within(9.0, fail, "model")


def test_a_time_limit_of_the_work_itself_is_not_taken_for_this_one() -> None:
    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(9.0, fail, "model")


@pytest.mark.parametrize("seconds", [0.02, 0.0, -1.0])
def test_work_that_takes_longer_is_left_behind(seconds: float) -> None:
    over = threading.Event()
    with pytest.raises(ModelError, match="model did not answer within"):
        within(seconds, over.wait, "model")
    over.set()
