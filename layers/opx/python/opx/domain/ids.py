"""Identifiers that are equal on every machine (hashes of normalised content, never of time or machine), UTC times, and
pieces of a limited size."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from itertools import islice
from typing import Protocol, TypeVar

import msgspec

from opx.errors import InvalidInputError

ID_LENGTH = 32
"""Hex digits kept of a SHA-256: 128 bits, a collision among 10^12 documents has probability below 10^-14."""
_NAMED = 5

T = TypeVar("T")


def beginning_so(wanted: str, among: Iterable[T], line: Callable[[T], str], *, kind: str) -> T | None:
    """The only item whose id has this prefix, ignoring case; None if there is none.

    `line` describes an item in one line, its id first; `kind` is the plural noun. Raises `InvalidInputError` that lists
    the first candidates if there are several.
    """
    beginning = wanted.strip().lower()
    found = [one for one in among if line(one).lower().startswith(beginning)] if beginning else []
    if len(found) > 1:
        named = "".join(f"\n  {line(one)}" for one in found[:_NAMED])
        raise InvalidInputError(f"{wanted} is the beginning of {len(found)} {kind}:{named}")
    return found[0] if found else None


_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def normalise(text: str) -> str:
    """Unicode NFC with `\\n` line ends. Idempotent; safe to apply line by line, as a newline never composes."""
    return unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n"))


def stable_hash(*parts: object) -> str:
    """Hash of a sequence of JSON values. `("ab", "c")` and `("a", "bc")` differ."""
    return hashlib.sha256(_json(parts)).hexdigest()[:ID_LENGTH]


def _json(parts: tuple[object, ...]) -> bytes:
    """Encodes as `json` does. msgspec encodes strings and integers identically in a tenth of the time, unless a string
    has a lone surrogate."""
    if _ALIKE.issuperset(map(type, parts)):
        try:
            return msgspec.json.encode(parts)
        except (UnicodeEncodeError, OverflowError):
            pass
    return _encoded(parts).encode("utf-8", "surrogatepass")


_ALIKE = frozenset((str, int))


def content_hash(text: str) -> str:
    """Full SHA-256 of the normalised text, in hex."""
    return hashlib.sha256(normalise(text).encode("utf-8", "surrogatepass")).hexdigest()


def document_id(title: str, category: str, content_sha256: str) -> str:
    """The id of a document: hash of title, category and content (given by its `content_hash`, so that it can stream)."""
    return stable_hash("document", normalise(title), category, content_sha256)


def chunk_id(document: str, index: int, text: str) -> str:
    """The id of a chunk: hash of its document's id, its position and its text."""
    return stable_hash("chunk", document, index, normalise(text))


def entry_id(document_key: str, chunk: str) -> str:
    """The id of a chunk in an index: the same chunk under two document keys has two entries."""
    return stable_hash("entry", document_key, chunk)


# -- times


_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?\Z")
_EPOCH = date(1970, 1, 1).toordinal()


def iso_time(seconds: float) -> str:
    """`2025-03-14T09:26:53Z` from seconds since the epoch."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_time(text: str) -> str | None:
    """`2025-03-14T09:26:53Z` for a time in ISO 8601, of UTC if it names no offset, or for the beginning of a day; None if
    it is not a time."""
    moment = _moment(text)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def epoch_seconds(text: str) -> float | None:
    """Seconds since the epoch, for a time that `utc_time` reads; None if it is not a time."""
    moment = _moment(text)
    return moment.timestamp() if moment else None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def day_number(text: str) -> int | None:
    """Days from 1970-01-01 to the day that a time or date begins with, `2025-03-14`; None if it doesn't begin with a
    date."""
    try:
        return date.fromisoformat(text[:10]).toordinal() - _EPOCH
    except ValueError:
        return None


def first_day(text: str) -> int | None:
    """The number of a day, or of the first day of a month or year: `2026-03-31`, `2026-03`, `2026`. None for anything
    else."""
    match = _DATE.match(text)
    try:
        return day_number(date(*(int(part or 1) for part in match.groups())).isoformat()) if match else None
    except ValueError:
        return None


def day_text(day: int) -> str:
    """`2025-03-14` for a day number, the inverse of `day_number`."""
    return date.fromordinal(day + _EPOCH).isoformat()


class Clock(Protocol):
    """Now, in seconds since the epoch."""

    def __call__(self) -> float: ...


# -- pieces


def shortened(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis if it has more than `most` characters."""
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in order, `size` at a time; the last batch may have fewer."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
