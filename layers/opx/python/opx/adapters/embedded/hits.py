"""Orders the hits of the embedded engines: ties at the end of a leg, rounded scores, and equal ones by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice, takewhile

from opx.adapters.embedded.lexical import Location
from opx.ports import Leg

SPARE_HITS = 16
"""Hits fetched beyond the depth, so that ties at its end are broken by id."""

_SCORE_DIGITS = 6
"""Scores are rounded, so that equal texts tie on every processor and ties are broken by id."""

_SAME_SCORE = 1e-5
"""Relative error of a score in single precision: a few of its last bits, of which it has 24."""

Scored = tuple[Location, float]


def levelled(scored: Sequence[Scored]) -> list[Scored]:
    """Restores ties that a correction may have separated: the order of two equal hits would else depend on entries that
    the reader may not see."""
    found: list[Scored] = []
    level = float("inf")
    for location, score in scored:
        if score < level * (1 - _SAME_SCORE):
            level = score
        found.append((location, level))
    return found


def with_ties(scored: Sequence[Scored], depth: int) -> list[Scored]:
    """The first `depth` hits, and those that tie with the last of them. Only these are worth reading."""
    rounded = ((location, round(score, _SCORE_DIGITS)) for location, score in scored)
    first = list(islice(rounded, depth))
    return first + list(takewhile(lambda hit: hit[1] == first[-1][1], rounded)) if first else []


def leg_of(scored: Sequence[Scored], ids: Mapping[Location, str], depth: int) -> Leg:
    """The hits with ids, in order: best first, equal scores by id."""
    hits = [(ids[location], score) for location, score in scored if location in ids]
    hits.sort(key=lambda hit: (-hit[1], hit[0]))
    return Leg(tuple(hits[:depth]))
