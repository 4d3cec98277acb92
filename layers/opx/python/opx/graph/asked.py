"""What people ask of the graph, as bounds of a walk: times as they write them, and how much they want."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from opx.domain.graph import MAX_FAN_OUT, MAX_NODES, Direction, Walk
from opx.domain.times import first_day, iso_time
from opx.errors import InvalidInputError

MAX_SHOWN = 500
"""Things or relations in one answer."""

MAX_FOUND = 200
"""Things whose name begins in the same way."""

_AGO = re.compile(r"([1-9][0-9]{0,4})([mhdw])\Z")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")


def walk_of(
    *,
    now: float,
    hops: int = 1,
    direction: str = Direction.BOTH.value,
    edge_types: Sequence[str] = (),
    since: str = "",
    until: str = "",
    limit: int | None = None,
) -> Walk:
    """A walk that reaches `limit` things besides its start; without one, as many as a walk does by default. Raises
    `InvalidInputError`."""
    if direction not in tuple(Direction):
        raise InvalidInputError(f"direction must be one of {', '.join(Direction)}, not {direction[:50]!r}")
    default = Walk()
    return Walk(
        hops=hops,
        direction=Direction(direction),
        edge_types=tuple(edge_types),
        fan_out=min(MAX_FAN_OUT, max(default.fan_out, limit or 0)),
        most_nodes=default.most_nodes if limit is None else min(MAX_NODES, limit + 1),
        since=since_when(since, now),
        until=until_when(until, now),
    )


def since_when(text: str, now: float) -> str:
    """`1d` before `now`, a day or a time, as ISO 8601 in UTC; "" for "". Raises `InvalidInputError`."""
    return _moment(text.strip(), now, "00:00:00")


def until_when(text: str, now: float) -> str:
    """The same; of a day, its end."""
    return _moment(text.strip(), now, "23:59:59")


def _moment(text: str, now: float, time_of_day: str) -> str:
    if not text:
        return ""
    if ago := _AGO.match(text):
        return iso_time(max(0.0, now - int(ago[1]) * _SECONDS[ago[2]]))
    if _DAY.match(text) and first_day(text) is not None:
        return f"{text}T{time_of_day}Z"
    try:
        found = datetime.fromisoformat(text)
        return iso_time((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError, OSError):
        raise InvalidInputError(
            f"{text[:50]!r} is no time: give how long ago (30m, 12h, 1d, 2w), a day (2026-03-31) "
            "or a time (2026-03-31T10:00:00Z)"
        ) from None
