"""Validates readings and computed baselines of feeders, parses time windows, and reads files of values (CSV, JSON Lines)."""

from __future__ import annotations

import csv
import json
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TextIO

from opx.domain.baselines import BASELINES_CATEGORY, VALUE_FIELDS
from opx.domain.ids import iso_time, normalise, stable_hash
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx_telemetry.baselines.summary import LARGEST

MAX_NAME = 200
MAX_UNIT = 40
AHEAD_SECONDS = 900
"""Seconds that a feeder's clock may be ahead of this one."""

_SECONDS = re.compile(r"\d{9,}(\.\d+)?\Z")
_MILLISECONDS = 1e11
"""Seconds since the epoch reach this in the year 5138."""

HOUR, DAY = 3600, 86_400
KEPT_DAYS = 90
"""The retention of `operations/baselines` in knowledge.yaml."""

_FORM = re.compile(r"([1-9][0-9]{0,3})([hdw])\Z")
_UNIT_SECONDS = {"h": HOUR, "d": DAY, "w": 7 * DAY}


@dataclass(frozen=True, slots=True)
class Reading:
    """A value of a metric of a node. `at` is in seconds since the epoch. A repeated reading with the same
    `mark` counts once; readings with the mark "" always count."""

    node: str
    metric: str
    value: float
    at: float
    unit: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class BaselineRecord:
    """A baseline that was computed elsewhere, from `samples` values of a time window."""

    node: str
    metric: str
    time_window: str
    mean: float
    stddev: float
    samples: int
    unit: str = ""


def reading_of(given: Mapping[str, Any], now: float) -> Reading:
    """Builds a reading from its fields; `at` (ISO 8601, or seconds since the epoch) is now if it is left out.

    Raises `InvalidInputError` that names the wrong, missing or unknown field.
    """
    _refuse_others(given, VALUE_FIELDS)
    for name in ("node", "metric", "value"):
        if given.get(name) is None:
            raise InvalidInputError(f"{name} is missing; a value has node, metric, value, and may have at and unit")
    at = given.get("at")
    found = Reading(
        node=_name(given["node"], "node"),
        metric=_name(given["metric"], "metric"),
        value=_number(given["value"], "value"),
        at=now if at is None else moment_of(at),
        unit=_unit(given.get("unit")),
    )
    check_age(found.at, now)
    return found


def checked_reading(given: Reading, now: float) -> Reading:
    """Returns a reading as it is stored. Raises `InvalidInputError` for one that `reading_of` refuses."""
    fields = {"node": given.node, "metric": given.metric, "value": given.value, "at": given.at}
    return replace(reading_of({**fields, "unit": given.unit}, now), mark=given.mark)


def record_of(given: Mapping[str, Any]) -> BaselineRecord:
    """Validates a baseline that was computed elsewhere: node, metric, time_window, mean, stddev, samples. Raises
    `InvalidInputError`."""
    needed = ("node", "metric", "time_window", "mean", "stddev", "samples")
    if "value" in given:
        raise InvalidInputError(
            "a value is no document: `opx baseline push` and POST /baselines take it; "
            f"a record of {BASELINES_CATEGORY} has {', '.join(needed)}"
        )
    _refuse_others(given, (*needed, "unit"))
    for name in needed:
        if given.get(name) is None:
            raise InvalidInputError(f"{name} is missing; a record of {BASELINES_CATEGORY} has {', '.join(needed)}")
    samples, stddev = given["samples"], _number(given["stddev"], "stddev")
    if isinstance(samples, bool) or not isinstance(samples, int) or not 0 < samples < 2**53:
        raise InvalidInputError(f"samples must be a whole number of at least 1, not {_quoted(samples)}")
    if stddev < 0:
        raise InvalidInputError(f"stddev must not be negative, but is {stddev}")
    window_seconds(given["time_window"])
    return BaselineRecord(
        node=_name(given["node"], "node"),
        metric=_name(given["metric"], "metric"),
        time_window=given["time_window"],
        mean=_number(given["mean"], "mean"),
        stddev=stddev,
        samples=samples,
        unit=_unit(given.get("unit")),
    )


def check_age(at: float, now: float) -> None:
    """Raises `InvalidInputError` for a time in the future, and for one before the retention began."""
    if at > now + AHEAD_SECONDS:
        raise InvalidInputError(f"at is {at - now:,.0f} seconds in the future; is it in UTC, and in seconds?")
    if at < now - KEPT_DAYS * DAY:
        raise InvalidInputError(f"at is {(now - at) / DAY:,.0f} days ago; baselines are kept for {KEPT_DAYS} days")


def moment_of(given: object) -> float:
    """Converts seconds since the epoch, or ISO 8601 (UTC without a zone), to seconds. Raises `InvalidInputError`."""
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        if abs(given) >= _MILLISECONDS:
            raise InvalidInputError(f"at must be in seconds since the epoch; {given} looks like milliseconds")
        return float(given)
    if isinstance(given, str):
        if _SECONDS.match(given.strip()):
            return moment_of(float(given))
        try:
            found = datetime.fromisoformat(given.strip())
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            pass
    raise InvalidInputError(
        f"at must be ISO 8601, such as 2025-03-14T09:26:53Z, or seconds since the epoch, not {_quoted(given)}"
    )


def names_of(node: str, metric: str) -> tuple[str, str]:
    """Returns both names normalised. Raises `InvalidInputError`."""
    return _name(node, "node"), _name(metric, "metric")


def mark_of(mark: str) -> bytes:
    """Returns the first eight bytes of a mark's hash."""
    return bytes.fromhex(stable_hash("reading", mark))[:8]


def _refuse_others(given: Mapping[str, Any], allowed: Sequence[str]) -> None:
    for name in given:
        if name not in allowed:
            raise InvalidInputError(f"unknown field {_quoted(name)}; allowed: {', '.join(allowed)}")


def _name(given: object, field: str) -> str:
    text = _text(given, field, MAX_NAME)
    if not text:
        raise InvalidInputError(f"{field} is empty")
    return text


def _unit(given: object) -> str:
    return "" if given is None else _text(given, "unit", MAX_UNIT)


def _text(given: object, field: str, most: int) -> str:
    if not isinstance(given, str):
        raise InvalidInputError(f"{field} must be a string, not {_quoted(given)}")
    text = normalise(given).strip()
    if len(text) > most:
        raise InvalidInputError(f"{field} may have at most {most} characters, not {len(text):,}")
    if not text.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
        raise InvalidInputError(f"{field} has control characters or half a character: {_quoted(text)}")
    return text


def _number(given: object, field: str) -> float:
    """Returns a number, also from a string, as CSV files have it."""
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            raise InvalidInputError(f"{field} must be a number, not {_quoted(given)}") from None
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidInputError(f"{field} must be a number, not {_quoted(given)}")
    if not abs(given) <= LARGEST:  # refuses NaN, too
        raise InvalidInputError(
            f"{field} must be a finite number of at most {LARGEST:g} either way, not {_quoted(given)}"
        )
    return float(given)


def _quoted(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:60] + "…"


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Whole hours from `first` to `last` (inclusive), given as the seconds at which they begin."""

    text: str
    first: int
    last: int

    @classmethod
    def ending(cls, now: float, text: str) -> TimeWindow:
        """Returns the window `text` (`24h`, `7d`, `4w`) up to now: the hours that it touches. Raises `InvalidInputError`."""
        seconds = window_seconds(text)
        return cls(text, int((now - seconds) // HOUR) * HOUR, int(now // HOUR) * HOUR)

    @property
    def first_day(self) -> str:
        return day_of(self.first)

    @property
    def last_day(self) -> str:
        return day_of(self.last)

    def has(self, hour_start: int) -> bool:
        return self.first <= hour_start <= self.last


def window_seconds(text: str) -> int:
    """Returns the seconds of a window. Raises `InvalidInputError` for a malformed one, and for more than the retention."""
    found = _FORM.match(text) if isinstance(text, str) else None
    seconds = int(found[1]) * _UNIT_SECONDS[found[2]] if found else 0
    if not HOUR <= seconds <= KEPT_DAYS * DAY:
        raise InvalidInputError(f"time window {str(text)[:50]!r} must be 1h to {KEPT_DAYS}d, such as 24h, 7d or 4w")
    return seconds


def day_of(moment: float) -> str:
    """`2025-03-14`, in UTC."""
    return iso_time(moment)[:10]


# -- files of values

CSV, JSON_LINES = "csv", "jsonl"
FORMATS = (CSV, JSON_LINES)
MAX_LINE = 100_000
"""Characters. A value has a few hundred; a file without line ends must not fill the memory."""


def values_of(stream: TextIO, kind: str) -> Iterator[tuple[int, Mapping[str, Any] | InvalidInputError]]:
    """Yields the line number and the fields of each value, or the line's error. Raises `InvalidInputError` for CSV
    without the required columns."""
    return _of_csv(stream) if kind == CSV else _of_json(stream)


def _of_json(stream: TextIO) -> Iterator[tuple[int, Mapping[str, Any] | InvalidInputError]]:
    for number, line in _lines(stream):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as exc:
            yield number, InvalidInputError(f"this is no JSON: {exc}")
            continue
        yield number, found if isinstance(found, dict) else InvalidInputError("a value is an object: {...}")


def _of_csv(stream: TextIO) -> Iterator[tuple[int, Mapping[str, Any] | InvalidInputError]]:
    rows = csv.reader(line for _, line in _lines(stream))
    head = [name.strip().lower().removeprefix("\ufeff") for name in next(rows, [])]
    missing = [name for name in ("node", "metric", "value") if name not in head]
    if missing:
        raise InvalidInputError(f"the first line must name the columns; missing: {', '.join(missing)}")
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) > len(head):
                yield (
                    rows.line_num,
                    InvalidInputError(f"there are {len(row)} columns, but {len(head)} in the first line"),
                )
                continue
            given = {name: cell.strip() for name, cell in zip(head, row, strict=False)}
            yield rows.line_num, {name: cell for name, cell in given.items() if cell}
    except csv.Error as exc:
        raise InvalidInputError(f"line {rows.line_num}: this is no CSV: {exc}") from exc


def _lines(stream: TextIO) -> Iterator[tuple[int, str]]:
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise InvalidInputError(f"line {number} has more than {MAX_LINE:,} characters: is it a file of values?")
        yield number, line
