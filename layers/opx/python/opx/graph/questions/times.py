"""Since when, as a question says it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from opx.domain.times import day_text, first_day, iso_time

_UNITS = {"minute": 60, "hour": 3600, "day": 86_400, "week": 7 * 86_400, "month": 30 * 86_400}
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "few": 3, "couple of": 2}
_SPAN = re.compile(
    r"\b(?:last|past|previous|within|in|recent)\s+(?:the\s+)?(?:last\s+|past\s+)?"
    r"(?:(\d{1,4}|an?|one|two|three|few|couple\s+of)\s+)?(minute|hour|day|week|month)s?\b(?!\s+ago)",
    re.IGNORECASE,
)
_AGO = re.compile(r"\b(\d{1,4}|an?|one|two|three)\s+(minute|hour|day|week|month)s?\s+ago\b", re.IGNORECASE)
_SHORT = re.compile(r"\b(?:last|past)\s+(\d{1,4})\s*(m|h|d|w)\b", re.IGNORECASE)
_SHORT_UNITS = {"m": "minute", "h": "hour", "d": "day", "w": "week"}
_SINCE = re.compile(r"\b(?:since|after|from)\s+(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{2}:\d{2})(?::\d{2})?Z?)?")
_DAY = re.compile(r"\b(?:(yesterday)|(today|this\s+morning)|(this\s+week)|(tonight|last\s+night))\b", re.IGNORECASE)


def since_when(text: str, now: float) -> str:
    """From when on, ISO 8601 in UTC: `in the last day`, `since yesterday`, `since 2026-03-31`; "" if the text doesn't
    say. Days begin at midnight UTC, weeks on Mondays."""
    match = _SINCE.search(text)
    if match and (day := first_day(match[1])) is not None:
        return f"{day_text(day)}T{match[2] or '00:00'}:00Z"
    for pattern in (_SPAN, _AGO):
        if match := pattern.search(text):
            return iso_time(max(0.0, now - _number(match[1]) * _UNITS[match[2].lower()]))
    if match := _SHORT.search(text):
        return iso_time(max(0.0, now - int(match[1]) * _UNITS[_SHORT_UNITS[match[2].lower()]]))
    return _named_day(text, now)


def _named_day(text: str, now: float) -> str:
    match = _DAY.search(text)
    if not match:
        return ""
    midnight = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    back = 1 if match[1] or match[4] else midnight.weekday() if match[3] else 0
    return iso_time((midnight - timedelta(days=back)).timestamp())


def _number(text: str | None) -> int:
    word = " ".join((text or "a").lower().split())
    return int(word) if word.isdigit() else _NUMBERS[word]
