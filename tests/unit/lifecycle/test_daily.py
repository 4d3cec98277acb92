"""Work once a day in the background loop."""

from __future__ import annotations

from opx.errors import StoreUnavailableError
from opx.lifecycle.daily import DailyFeed
from opx_testing.fake_time import FakeTime

HOUR = 3600.0
NOON = 20_000 * 24 * HOUR + 12 * HOUR


def test_a_task_runs_at_the_first_poll_of_a_day() -> None:
    time, runs = FakeTime(now=NOON), list[float]()

    def task() -> list[str]:
        runs.append(time.now)
        return [f"run {len(runs)}"]

    feed, lines = DailyFeed("task", task, time.clock), list[str]()
    for _ in range(40):
        lines += feed.poll()
        time.now += HOUR
    assert runs == [NOON, NOON + 12 * HOUR, NOON + 36 * HOUR]
    assert lines == ["run 1", "run 2", "run 3"]


def test_an_error_is_a_line_and_the_task_runs_again_on_the_next_day() -> None:
    time = FakeTime(now=NOON)

    def task() -> list[str]:
        raise StoreUnavailableError("can't be reached")

    feed = DailyFeed("seal", task, time.clock)
    assert feed.poll() == ("seal: can't be reached",)
    assert feed.poll() == ()
    time.now += 12 * HOUR
    assert feed.poll() == ("seal: can't be reached",)
