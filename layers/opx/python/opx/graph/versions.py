"""Compares versions of products, and matches them against ranges such as `>=7.0.0 <7.0.14, 7.2.0`.

Versions are compared as people number them, in whatever scheme a vendor has (1.24.0, 7.0.13p1, 1.1.1k, 2008 sp1, 15.2(7)e3):
numbers by their value, words by the alphabet. Python's own rules (PEP 440) read only a part of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

ALL = ""
"""The range that includes every version."""

MAX_VERSION = 200
MOST_SIDE_BY_SIDE = 20
"""Versions of one product that are kept for one node that runs them."""

_PART = re.compile(r"\d+|[^\W\d_]+")
_BOUND = re.compile(r"(>=|<=|>|<|==?)?\s*([^\s,<>=]+(?: (?![<>=])[^\s,<>=]+)*)")
_BEFORE = {
    "dev": 0,
    "alpha": 1,
    "beta": 2,
    "milestone": 3,
    "pre": 4,
    "preview": 4,
    "ea": 4,
    "rc": 5,
    "cr": 5,
    "snapshot": 6,
}
"""Words that sort before the number alone, in their order: 1.0rc1 < 1.0. All others sort after it: 1.0 < 1.0p1, 1.1.1 <
1.1.1k."""
_BEFORE_IF_COUNTED = {"a": 1, "b": 2, "m": 3}
"""The same for letters with a number behind them: 1.0b2 < 1.0 < 1.0b."""
_NUMBERS_LAST = 3

Key = tuple[tuple[int, int, str], ...]


def version_in(version: str, ranges: str) -> bool:
    """True if a version is in one of these comma-separated ranges; each is a version, or bounds that must all hold.

    Empty ranges include every version. An unknown version (an empty string) is in empty ranges only.
    """
    if not ranges.strip():
        return True
    if not version.strip():
        return False
    key = _key(version)
    return any(_holds(key, one) for one in ranges.split(",") if one.strip())


def compared(one: str, other: str) -> int:
    """Below 0 if the first is older, above 0 if it is newer, 0 if they are the same: `1.0` and `v1.0.0` are."""
    return _compared(_key(one), _key(other))


def union(*ranges: str) -> str:
    """All of these ranges, each once; all versions if one of them has all."""
    if any(not each.strip() for each in ranges):
        return ALL
    found = (one.strip() for each in ranges for one in each.split(","))
    return ", ".join(dict.fromkeys(one for one in found if one))


def several(*versions: str) -> str:
    """Versions that run side by side, each once, joined to one string."""
    return ", ".join(list(dict.fromkeys(one for each in versions for one in each_of(each)))[:MOST_SIDE_BY_SIDE])


def each_of(versions: str) -> list[str]:
    """The versions in a string that `several` joined."""
    return [one for one in map(str.strip, versions.split(", ")) if one]


def between(*, since: str = "", after: str = "", until: str = "", before: str = "") -> str:
    """The range with these bounds: `since` and `until` are inclusive, `after` and `before` exclusive. "" without bounds."""
    bounds: Iterable[tuple[str, str]] = ((">=", since), (">", after), ("<=", until), ("<", before))
    return " ".join(f"{sign}{plain(version)}" for sign, version in bounds if version.strip())


def plain(version: str) -> str:
    """A version as it may be written in a range: without spaces, commas and comparison signs."""
    return "-".join(re.sub(r"[,<>=]", " ", version).split())


def _holds(key: Key, bounds: str) -> bool:
    found = _BOUND.findall(bounds)
    return bool(found) and all(_within(_compared(key, _key(limit)), sign) for sign, limit in found)


def _within(order: int, sign: str) -> bool:
    if sign in (">=", "<=") and order == 0:
        return True
    if sign in (">", ">="):
        return order > 0
    return order < 0 if sign in ("<", "<=") else order == 0


def _key(version: str) -> Key:
    """A sort key of parts, in this order: pre-release words, the end, other words, numbers."""
    text = re.sub(r"^v(?=\d)", "", version.strip().casefold()[:MAX_VERSION])
    parts = _PART.findall(text.partition("+")[0])
    return tuple(_comparable(part, following) for part, following in zip_longest(parts, parts[1:], fillvalue=""))


def _comparable(part: str, following: str) -> tuple[int, int, str]:
    if part.isdecimal():
        return _NUMBERS_LAST, int(part), ""
    known = {**_BEFORE, **_BEFORE_IF_COUNTED} if following.isdecimal() else _BEFORE
    return (0, known[part], "") if part in known else (2, 0, part)


_END = (1, 0, "")


def _compared(one: Key, other: Key) -> int:
    """Compares keys; missing numbers count as zeros: 7.0 is 7.0.0."""
    for first, second in zip_longest(one, other):
        mine, yours = _filled(first, second), _filled(second, first)
        if mine != yours:
            return -1 if mine < yours else 1
    return 0


def _filled(part: tuple[int, int, str] | None, against: tuple[int, int, str] | None) -> tuple[int, int, str]:
    if part is not None:
        return part
    return (_NUMBERS_LAST, 0, "") if against is not None and against[0] == _NUMBERS_LAST else _END
