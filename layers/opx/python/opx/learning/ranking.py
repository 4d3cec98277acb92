"""The order of patterns: how likely each is meant, and how surely it works. When it was learned plays no part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opx.domain.learning import Pattern
from opx.learning.similarity import same_problem

Z = 1.959964
"""The normal deviate of a two-sided 95 % interval."""

SUCCESS_SHARE = 0.3
"""How much of a score the success rate decides. Of patterns for the same problem it decides their order; a pattern for
another problem doesn't come first by having worked often. Measured: docs/decisions/0042-asking-for-patterns.md."""

MOST_OF_A_PROBLEM = 3
"""Ways to deal with one problem that are told; more of them don't help to choose."""


@dataclass(frozen=True, slots=True)
class Match:
    """A pattern that is similar enough, and the id and the warnings of its document."""

    pattern: Pattern
    similarity: float
    document_id: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def bound(self) -> float:
        """The success rate that it has at least, as far as its counts tell."""
        return wilson_lower_bound(self.pattern.success_count, self.pattern.failure_count)

    @property
    def score(self) -> float:
        return score(self.similarity, self.bound)


def wilson_lower_bound(successes: int, failures: int) -> float:
    """The lower end of Wilson's 95 % interval of a success rate; 0 if nothing was tried. 1 of 1 is .21, 20 of 22 is .72.

    Wilson (1927), Probable inference, the law of succession, and statistical inference, JASA 22.
    """
    tried = successes + failures
    if successes <= 0 or tried <= 0:
        return 0.0
    rate, square = successes / tried, Z * Z
    spread = Z * math.sqrt(rate * (1 - rate) / tried + square / (4 * tried * tried))
    return max(0.0, (rate + square / (2 * tried) - spread) / (1 + square / tried))


def score(similarity: float, bound: float, success_share: float = SUCCESS_SHARE) -> float:
    """Similarity, less up to `success_share` of it for what may not work."""
    return similarity * (1 - success_share + success_share * bound)


def in_order(matches: Iterable[Match]) -> list[Match]:
    """Best first; of equal ones the one that worked more often, then by id, so that the order is always the same."""
    return sorted(matches, key=lambda one: (-one.score, -one.pattern.success_count, one.pattern.pattern_id))


def best_of(matches: Iterable[Match], most: int) -> list[Match]:
    """Up to `most`, in order, and of those for one problem the best `MOST_OF_A_PROBLEM`."""
    chosen: list[Match] = []
    for match in in_order(matches):
        if len(chosen) == most:
            break
        if _others_for(match, chosen) < MOST_OF_A_PROBLEM:
            chosen.append(match)
    return chosen


def _others_for(match: Match, chosen: Sequence[Match]) -> int:
    return sum(same_problem(match.pattern, other.pattern) for other in chosen)
