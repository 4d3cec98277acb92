"""Points in time as text: ISO 8601 in UTC, so that they sort as they happened."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Protocol

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?\Z")
_EPOCH = date(1970, 1, 1).toordinal()


def iso_time(seconds: float) -> str:
    """`2025-03-14T09:26:53Z` from seconds since the epoch."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_time(text: str) -> str | None:
    """`2025-03-14T09:26:53Z` for a time in ISO 8601, of UTC if it names no offset, or for the beginning of a day; None if
    it is none."""
    moment = _moment(text)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def epoch_seconds(text: str) -> float | None:
    """Seconds since the epoch, for what `utc_time` reads; None if it is no time."""
    moment = _moment(text)
    return moment.timestamp() if moment else None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def day_number(text: str) -> int | None:
    """Days from 1970-01-01 to the day that a time or date begins with, `2025-03-14`; None if it doesn't begin with one."""
    try:
        return date.fromisoformat(text[:10]).toordinal() - _EPOCH
    except ValueError:
        return None


def first_day(text: str) -> int | None:
    """The number of a day, or of the first day of a month or year: `2026-03-31`, `2026-03`, `2026`. None if it is none."""
    match = _DATE.match(text)
    try:
        return day_number(date(*(int(part or 1) for part in match.groups())).isoformat()) if match else None
    except ValueError:
        return None


def day_text(day: int) -> str:
    """`2025-03-14` for the number of a day, which `day_number` gives."""
    return date.fromordinal(day + _EPOCH).isoformat()


# -- time


class Clock(Protocol):
    """Now, in seconds since the epoch."""

    def __call__(self) -> float: ...
