"""Whether what is pulled by a schedule is as new as the schedule promises."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from opx.errors import OpxError

GRACE = timedelta(hours=2)
"""After a scheduled time, for the pull to start, to finish, and to get through the pipeline."""

MISSED_TIMES = 1
"""Scheduled times that may pass without a new document: a source may have had nothing new."""


class UnknownFreshnessError(OpxError):
    """Of at least one category it can't be told whether it is overdue; all others are reported."""


class LastSync(Protocol):
    """When a category was last synchronised with its source."""

    def __call__(self, category: str) -> datetime | None:
        """The end of the last complete pull, whether it brought anything or not; None if none is known."""


def unrecorded(category: str) -> datetime | None:  # noqa: ARG001 - a `LastSync`
    """A `LastSync` for where nobody notes pulls: documents have to tell."""
    return None


def moment(text: str) -> datetime:
    """A point in time of the catalog, which are ISO 8601 in UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def overdue(schedule: str, last: datetime, now: datetime, *, missed: int = 0) -> timedelta:
    """How long ago, beyond the grace, the next sync after `last` should have happened; zero if it isn't due.

    `schedule` is a five-field cron expression in UTC. `missed` scheduled times after `last` don't count.
    """
    if last >= now:
        return timedelta()
    from cronsim import CronSim

    times = CronSim(schedule, last.astimezone(UTC))
    due = next(times)
    for _ in range(missed):
        due = next(times)
    return max(timedelta(), now - due - GRACE)
