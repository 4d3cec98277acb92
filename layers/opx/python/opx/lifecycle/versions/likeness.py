"""Pairs parts of two versions of a document that are worded alike."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import TypeVar

MIN_LIKENESS = 0.6
"""Of two titles or sentences, as difflib measures it: below it, one is another one."""
MAX_PAIRS = 2_500
"""Parts that are compared with each other, 50 by 50; of more, those that are not equal count as others."""

_MARK = re.compile(r"\W*(?:(?:step\s+)?\d{1,3}(?:\.\d{1,3})*[.):]\s+)?", re.IGNORECASE)
"""The mark of a list or a heading, with the author's number: it changes with the steps before it."""

T = TypeVar("T")


def unmarked(text: str) -> str:
    """A text without the mark and the number that it begins with."""
    return _MARK.sub("", text, count=1)


def likeness(one: str, other: str) -> float:
    """0 for what is below `MIN_LIKENESS`, which is found quickly."""
    matcher = difflib.SequenceMatcher(None, one.casefold(), other.casefold(), autojunk=False)
    bounds = (matcher.real_quick_ratio, matcher.quick_ratio)
    return matcher.ratio() if all(bound() >= MIN_LIKENESS for bound in bounds) else 0.0


def most_alike(
    old: Sequence[T], new: Sequence[T], likeness_of: Callable[[T, T], float], place: Callable[[T], int]
) -> Iterator[tuple[T, T]]:
    """Pairs that are alike, the best first, each part once; of equally good ones the nearest."""
    scored = [
        (-likeness_of(one, other), abs(place(one) - place(other)), at, new_at)
        for (at, one), (new_at, other) in product(enumerate(old), enumerate(new))
    ]
    taken: set[int] = set()
    taken_new: set[int] = set()
    for score, _, at, new_at in sorted(scored):
        if -score < MIN_LIKENESS:
            return
        if at not in taken and new_at not in taken_new:
            taken.add(at)
            taken_new.add(new_at)
            yield old[at], new[new_at]
