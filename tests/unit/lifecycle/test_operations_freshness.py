"""When a source counts as overdue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from opx.lifecycle.coverage import GRACE, moment, overdue

DAILY = "0 3 * * *"


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def test_source_is_not_overdue_until_its_next_time_and_the_grace_are_over() -> None:
    assert overdue(DAILY, at(1, 3, 20), at(2, 3) + GRACE) == timedelta()
    assert overdue(DAILY, at(1, 3, 20), at(2, 3) + GRACE + timedelta(minutes=5)) == timedelta(minutes=5)


def test_delay_grows_until_the_source_is_synchronised() -> None:
    assert overdue(DAILY, at(1, 3, 20), at(5, 3)) == timedelta(days=3) - GRACE
    assert overdue(DAILY, at(5, 3), at(5, 4)) == timedelta()


def test_a_missed_time_is_allowed_if_pulls_are_not_recorded() -> None:
    assert overdue(DAILY, at(1, 3, 20), at(3, 3), missed=1) == timedelta()
    assert overdue(DAILY, at(1, 3, 20), at(4, 3), missed=1) == timedelta(days=1) - GRACE


@pytest.mark.parametrize(("schedule", "days"), [("0 5 * * 0", 7), ("0 6 1 * *", 31)], ids=["weekly", "monthly"])
def test_rare_schedules_wait_longer(schedule: str, days: int) -> None:
    last = datetime(2026, 3, 1, 6, 30, tzinfo=UTC)  # a Sunday
    due = last + timedelta(days=days)
    assert overdue(schedule, last, due) == timedelta()
    assert overdue(schedule, last, due + timedelta(days=1)) > timedelta(hours=20)


def test_time_ahead_is_not_overdue() -> None:
    assert overdue(DAILY, at(9, 0), at(1, 0)) == timedelta()


def test_last_day_of_all_is_not_overdue() -> None:
    assert overdue(DAILY, datetime.max.replace(tzinfo=UTC), at(1, 0), missed=1) == timedelta()


@pytest.mark.parametrize("text", ["2026-03-01", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00"])
def test_dates_and_times_of_the_catalog_are_read(text: str) -> None:
    assert moment(text) == at(1, 0)
