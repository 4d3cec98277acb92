"""The steps of a text, and where one of them is what was tried before."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from opx.text.analyzer import analyze

COVERED = 0.85
"""The share of the terms of what was tried that a step must have to be taken for the same."""

_BEGINS = re.compile(r"\s*(?:[-*+]\s|\d{1,3}[.)]\s|#|\||>|\$\s)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_LONGEST = 60
"""Words of a step: with more of them, every other text would be in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A sentence, item or command, and the line (from 0) that it begins in."""

    line: int
    text: str


def steps_of(content: str) -> Iterator[Step]:
    """The steps of a text in order. Lines of a paragraph or item belong together, those of code don't."""
    block: list[tuple[int, str]] = []
    in_code = False
    for number, line in enumerate(content.splitlines()):
        fence = bool(_FENCE.match(line))
        alone = in_code or fence
        if block and (alone or not line.strip() or _BEGINS.match(line)):
            yield from _sentences(block)
            block = []
        in_code ^= fence
        if line.strip() and not fence:
            block.append((number, line.strip()))
        if alone and block:
            yield from _sentences(block)
            block = []
    yield from _sentences(block)


def _sentences(block: Sequence[tuple[int, str]]) -> Iterator[Step]:
    text = ""
    starts: list[tuple[int, int]] = []
    for number, piece in block:
        starts.append((len(text), number))
        text += f"{piece} "
    at = 0
    for sentence in _SENTENCE.split(text.rstrip()):
        begins = text.index(sentence, at)
        at = begins + len(sentence)
        if sentence.strip():
            line = max(number for start, number in starts if start <= begins)
            yield Step(line, " ".join(sentence.split()[:_LONGEST]))


class StepFinder:
    """Finds those of many sets of terms of which a text has `COVERED`. Sets are named by their place."""

    def __init__(self, wanted: Sequence[frozenset[str]]) -> None:
        self._wanted = wanted
        self._needed = [needed(terms) for terms in wanted]
        spread = Counter(term for terms in wanted for term in terms)
        self._by_term: dict[str, list[int]] = defaultdict(list)
        for at, terms in enumerate(wanted):
            # Whoever has COVERED of the terms has one of any as many as may be missing, and one more: the rarest are few.
            rarest = sorted(terms, key=lambda term: (spread[term], term))
            for term in rarest[: len(terms) - self._needed[at] + 1]:
                self._by_term[term].append(at)

    def found(self, terms: Collection[str], within: Collection[int] | None = None) -> list[int]:
        """Which of the sets, or of those `within`."""
        candidates = {at for term in terms for at in self._by_term.get(term, ())}
        if within is not None:
            candidates.intersection_update(within)
        wanted, enough = self._wanted, self._needed
        return sorted(at for at in candidates if len(wanted[at].intersection(terms)) >= enough[at])


def needed(terms: Collection[str]) -> int:
    """How many of the terms."""
    return max(math.ceil(COVERED * len(terms)), 1)


def terms_of(text: str) -> frozenset[str]:
    """The terms by which texts are compared."""
    return frozenset(analyze(text))


@lru_cache(maxsize=1024)
def passage_terms(text: str) -> frozenset[str]:
    """The same of a passage, which is often found again."""
    return terms_of(text)
