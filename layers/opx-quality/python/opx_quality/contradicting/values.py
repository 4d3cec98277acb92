"""Values within sentences, in one notation each: durations, shares, sizes, ports, versions, counts and switches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct


class Value(Struct, frozen=True):
    """`dimension` is what it measures, `amount` its value in one notation: `5m` and `300 seconds` are equal."""

    dimension: str
    amount: str
    start: int
    end: int


_SECONDS = {"ms": 0.001, "mi": 60, "m": 60, "s": 1, "h": 3600, "d": 86_400, "w": 604_800}
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_SWITCHES = {"on": "on", "true": "on", "yes": "on", "enabled": "on", "off": "off", "false": "off", "no": "off"}
_SWITCHES["disabled"] = "off"

_NUMBER = r"(?<![\w.,:/#-])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_VALUE = re.compile(
    rf"""
      (?P<duration> {_NUMBER})[\s-]?(?P<time> ms|milliseconds?|msecs?|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h|days?|d
        |weeks?|w)(?![\w/%-])
    | (?P<share> {_NUMBER})\s?(?:%|percent\b)
    | (?P<size> {_NUMBER})\s?(?P<power> [kmgt])i?b?(?:ytes?)?(?![\w/])
    | \bports?\W{{0,3}}(?:(?:is|to|number|at|on)\s)?\W?(?P<port> \d{{2,5}})(?![\w.,]\d|\w)
    | (?<![\w.-])(?:[a-z][\w-]*(?:\.[\w-]+)*):(?P<address> \d{{2,5}})(?![\w:]|\.\d)
    | (?<![\w./:-])(?P<protocol> \d{{2,5}})/(?:tcp|udp)\b
    | \b(?:versions?|releases?)\s(?:is\s)?v?(?P<version> \d+(?:\.\d+)*)(?![\w-])
    | (?<![\w./-])v(?P<marked> \d+(?:\.\d+)+)(?![\w-])
    | (?<![\w./:-])(?P<dotted> \d+\.\d+\.\d+)(?!\.?\d|\w)
    | (?P<count> {_NUMBER})(?![\w%/:-]|\.\w|,\d)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SWITCH = re.compile(
    r"(?:[=:]\s?|\bto\s|\bis\s)[\"'`]?(?P<switch>on|off|true|false|yes|no|enabled|disabled)\b(?![\s-]\w)", re.IGNORECASE
)
_NAME_BEFORE = re.compile(
    r"(?:\b(?:steps?|sections?|pages?|lines?|phases?|parts?|sev|severity|priority|chapters?|tickets?|rfc|http|status|error"
    r"|codes?|level|tiers?|p|no|number|figure|table|exit|item)\W{0,2}|[#$§])\Z",
    re.IGNORECASE,
)
"""Words before a number that is a name, such as `step 3`."""
_DATE = re.compile(
    r"\b\d{4}-\d\d(?:-\d\d)?(?:[T ]\d\d:\d\d(?::\d\d)?)?|\b\d{1,2}:\d\d(?::\d\d)?\b|\b\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?\b"
)
"""Days, times of day, addresses: they identify something, and measure nothing."""


def values_in(text: str) -> Iterator[Value]:
    """The values of a sentence, in order and without overlap. Names of things that are numbers are none."""
    skipped = [found.span() for found in _DATE.finditer(text)]
    last = 0
    for found in _VALUE.finditer(text):
        group = found.lastgroup or ""
        start = found.start()
        within = any(begin < found.end() and start < end for begin, end in skipped)
        if within or (group == "count" and _NAME_BEFORE.search(text[max(start - 14, 0) : start])):
            continue
        yield _value(found)
        last = max(last, found.end())
    yield from (
        Value("switch", _SWITCHES[found["switch"].lower()], found.start("switch"), found.end("switch"))
        for found in _SWITCH.finditer(text)
    )


def _value(found: re.Match[str]) -> Value:
    for dimension, group in _GROUPS:
        if (text := found[group]) is not None:
            start = found.start() if dimension not in ("port", "version") else found.start(group)
            return Value(dimension, _amount(dimension, text, found), start, found.end())
    raise AssertionError(found[0])


_GROUPS = (
    ("time", "duration"),
    ("share", "share"),
    ("size", "size"),
    ("port", "port"),
    ("port", "address"),
    ("port", "protocol"),
    ("version", "version"),
    ("version", "marked"),
    ("version", "dotted"),
    ("count", "count"),
)


def _amount(dimension: str, text: str, found: re.Match[str]) -> str:
    if dimension in ("port", "version"):
        return text
    number = float(text.replace(",", ""))
    if dimension == "time":
        unit = found["time"].lower()
        number *= _SECONDS["ms" if unit.startswith(("ms", "milli")) else unit[0]]
    elif dimension == "size":
        number *= 1024 ** _POWERS[found["power"].lower()]
    return f"{number:.6g}"
