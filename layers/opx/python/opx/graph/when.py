"""When something was true, as text that sorts."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from opx.domain.times import first_day

_DAY = re.compile(r"\d{4}(-\d\d(-\d\d)?)?\Z")


def moment(text: str) -> str:
    """An ISO 8601 time in UTC (`2026-11-21T09:00:00Z`; without an offset it is taken for UTC), or the day, month or year
    as it is. "" for what is none of these."""
    if _DAY.match(text):
        return text if first_day(text) is not None else ""
    try:
        found = datetime.fromisoformat(text)
        found = (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return ""
    return found.replace(microsecond=0, tzinfo=None).isoformat() + "Z"
