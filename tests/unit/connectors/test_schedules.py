"""Cron expressions for EventBridge Scheduler."""

from __future__ import annotations

import pytest

from opx.connectors.states import scheduler_cron
from opx.errors import InvalidInputError
from opx.runtime.knowledge_file import load_knowledge


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 4 * * *", "cron(0 4 * * ? *)"),
        ("0 5 * * 0", "cron(0 5 ? * SUN *)"),
        ("0 5 * * 7", "cron(0 5 ? * SUN *)"),
        ("0 6 1 * *", "cron(0 6 1 * ? *)"),
        ("*/20 * * * *", "cron(0,20,40 * * * ? *)"),
        ("30 8-10 * * 1-5", "cron(30 8,9,10 ? * MON,TUE,WED,THU,FRI *)"),
        ("0 0 1,15 1-11/5 *", "cron(0 0 1,15 1,6,11 ? *)"),
        ("0 0 * * fri,SUN", "cron(0 0 ? * SUN,FRI *)"),
    ],
)
def test_a_cron_expression_is_converted_to_the_schedulers_form(text: str, expected: str) -> None:
    assert scheduler_cron(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0 0 1 * 1", "make two schedules"),
        ("0 0 */2 * 1", "make two schedules"),
        ("0 0 L * *", "counted from an end"),
        ("0 0 * * 1#2", "counted from an end"),
        ("0 0 * * 5L", "counted from an end"),
        ("61 0 * * *", "not a cron expression: bad minute"),
        ("0 0 * *", "minute hour day-of-month month day-of-week"),
        ("0 0 0 * * *", "minute hour day-of-month month day-of-week"),
        ("@daily", "minute hour day-of-month month day-of-week"),
    ],
)
def test_an_unsupported_schedule_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidInputError, match=reason):
        scheduler_cron(text)


def test_every_schedule_of_the_knowledge_file_can_be_scheduled() -> None:
    schedules = [category.schedule for category in load_knowledge().categories.values() if category.schedule]
    assert schedules
    assert all(scheduler_cron(text).startswith("cron(") for text in schedules)
