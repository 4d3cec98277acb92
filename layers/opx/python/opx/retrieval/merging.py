"""The hits of several tiers as one list.

The order is confidence x trust, with two bounds. A hit that is more likely wrong than right stands behind every hit that
is more likely right than wrong, however trusted its tier. And where somebody is about to act, text from the internet
stands behind everything else: it never outranks an internal runbook. What warns of a step stands behind what else is as
likely: a dozen accounts of what didn't help would bury the page that does, which they are shown with anyway.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

UNLIKELY = 0.5
"""Confidence below which a hit is more likely wrong than right."""


class Scored(Protocol):
    """What can be put in order."""

    @property
    def confidence(self) -> float: ...

    @property
    def score(self) -> float:
        """Confidence x trust."""

    @property
    def warns(self) -> bool:
        """Whether it tells what not to do."""


S = TypeVar("S", bound=Scored)

_INFORMATIVE = re.compile(
    r"\s*(?:what(?:'s|’s)?\s+(?:is|are|was|were|does|do|did|happened|changed)\b|what(?:'s|’s)\s|who\b|whose\b|when\b|which\b"
    r"|where\b|why\b|(?:is|are|was|were|does|do|did|has|have)\s|explain\b|define\b|describe\b|history\s+of\b"
    r"|was\s+ist\b|warum\b|wer\b|wann\b|qu'est-ce\b|pourquoi\b|qué\s+es\b|por\s+qué\b|cos'è\b|perché\b|o\s+que\s+é\b|por\s+que\b)",
    re.IGNORECASE,
)
_ACTING = re.compile(
    r"\b(?:how\s+(?:do|can|should|to)|should\s+(?:i|we)|what\s+(?:should|can|must)|fix\w*|resolv\w*|repair\w*|recover\w*|restart\w*"
    r"|restor\w*|rollback\w*|roll\s+back|drain\w*|scale\w*|delete\w*|remov\w*|kill\w*|free\s+up|clean\s+up|mitigat\w*"
    r"|remediat\w*|unblock\w*|steps?|runbook|procedure|wie\s+(?:kann|soll|muss)|beheben|comment\s+(?:faire|puis)|cómo|come\s+(?:si|posso)"
    r"|como\s+(?:faço|posso))\b",
    re.IGNORECASE,
)


def asks_to_act(question: str) -> bool:
    """Whether somebody may do what the answer says. An alert, a symptom or an error is taken for that, too: only what
    plainly asks for facts, and for nothing to be done, isn't."""
    return bool(_ACTING.search(question)) or not _INFORMATIVE.match(question)


def in_order(scored: Sequence[S], *, last: Sequence[S] = ()) -> list[S]:
    """Best first, equal ones as they come; `last` behind all others."""
    return [*sorted(scored, key=_place), *sorted(last, key=_place)]


def _place(one: Scored) -> tuple[bool, bool, float]:
    return one.confidence < UNLIKELY, one.warns, -one.score
