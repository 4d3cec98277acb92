"""Finds what looks like an operator in a question: where it is and what it says, not yet whether it makes sense."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from opx.retrieval.pasted import is_option, is_prose, looks_pasted

MAX_OPERATORS = 50
"""Of a question; what comes later is searched as words."""


class Kind(StrEnum):
    """What an operator asks for; the value of a filter is its name in a question."""

    PHRASE = "phrase"
    EXCLUDED_WORD = "excluded word"
    EXCLUDED_PHRASE = "excluded phrase"
    OPEN_QUOTE = "open quote"
    TAG = "tag"
    CATEGORY = "category"
    TIER = "tier"
    SERVICE = "service"
    TITLE = "title"
    BEFORE = "before"
    AFTER = "after"


FILTERS = (Kind.TAG, Kind.CATEGORY, Kind.TIER, Kind.SERVICE, Kind.TITLE, Kind.BEFORE, Kind.AFTER)


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator, from `start` to `end` of the text; `quoted`: its value was."""

    kind: Kind
    value: str
    start: int
    end: int
    quoted: bool = False


_END = r"(?=[\s.,;:!?)]|\Z)"
_OPERATOR = re.compile(
    rf"""
    (?<![^\s(])(?P<name>{"|".join(FILTERS)}):(?:"(?P<quoted>[^"\n]*)"{_END}|(?P<value>\S*))
  | (?<=\S)(?P<gap>[^\S\n]+)-(?:"(?P<unwanted>[^"\n]*)"{_END}|(?P<word>[^\W\d_]\S*)|(?="))
  | (?<![^\s(])"(?:(?P<phrase>[^"\n]*)"{_END})?
""",
    re.VERBOSE | re.IGNORECASE,
)
_GROUPS = ((Kind.EXCLUDED_PHRASE, "unwanted"), (Kind.EXCLUDED_WORD, "word"), (Kind.PHRASE, "phrase"))
_AFTER_VALUE = ".,;:!?)"
_QUOTES = str.maketrans("“”„‟″«»", '"""""""')
_UNSEEN = re.compile(
    "[\u00ad\u061c\u180e\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]+"
    "|[\u200b-\u200d]+(?=[ -~])|(?<=[ -~])[\u200b-\u200d]+"
)
"""Marks of direction and what is never seen; zero-width spaces and joiners only at ASCII, as other writings need them."""


def normalised(text: str) -> str:
    """NFKC without invisible characters and halves of surrogate pairs, with straight double quotes. ASCII stays as it is."""
    if text.isascii():
        return text
    whole = text.encode("utf-8", "replace").decode()
    return unicodedata.normalize("NFKC", _UNSEEN.sub("", whole)).translate(_QUOTES)


def operators(text: str) -> tuple[list[Operator], bool]:
    """What looks like operators in a normalised text, in order; and whether some were left out as the text looks pasted.

    Of a pasted text, and of running text with quotations in it, only the filters at its very beginning and end count: those
    were typed before or after it.
    """
    found = [_operator(match) for match in _OPERATOR.finditer(text)]
    filters = [operator for operator in found if operator.kind in FILTERS]
    prose = len(filters) < len(found) and is_prose(text)
    if not found or not (prose or looks_pasted(text) or _has_option(text, found)):
        return found, False
    first = _leading(text, filters)
    last = _trailing(text, filters[len(first) :])
    return [*first, *last], len(first) + len(last) < len(found)


def _operator(match: re.Match[str]) -> Operator:
    start, end = match.span()
    if match["name"]:
        quoted = match["quoted"] is not None
        value = match["quoted"].strip() if quoted else match["value"].rstrip(_AFTER_VALUE)
        return Operator(Kind(match["name"].lower()), value, start, end, quoted)
    start += len(match["gap"] or "")
    for kind, group in _GROUPS:
        if match[group] is not None:
            value = match[group].rstrip(_AFTER_VALUE) if kind is Kind.EXCLUDED_WORD else match[group].strip()
            return Operator(kind, value, start, end)
    return Operator(Kind.OPEN_QUOTE, "", start, end)


def _has_option(text: str, found: list[Operator]) -> bool:
    words = [operator for operator in found[:MAX_OPERATORS] if operator.kind is Kind.EXCLUDED_WORD]
    return any(is_option(operator.value, text[: operator.start]) for operator in words)


def _leading(text: str, filters: list[Operator]) -> list[Operator]:
    """The filters with which the text begins."""
    at = count = 0
    while count < len(filters) and not text[at : filters[count].start].strip():
        at = filters[count].end
        count += 1
    return filters[:count]


def _trailing(text: str, filters: list[Operator]) -> list[Operator]:
    """The filters with which the text ends."""
    at, count = len(text), len(filters)
    while count and not text[filters[count - 1].end : at].strip():
        count -= 1
        at = filters[count].start
    return filters[count:]
