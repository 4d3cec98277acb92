"""Routes a question to tiers in order, the live web last, and merges their hits.

What was written here comes first, always. Vendor and security knowledge is asked where the question wants its categories,
names one of its identifiers, or our own knowledge doesn't cover it; the internet only where it was enabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from opx.domain.knowledge import KnowledgeModel, Tier
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult, TierStep
from opx.errors import IndexUnavailableError
from opx.ports import SearchFilter
from opx.retrieval.judging import Judged
from opx.retrieval.query_language import ParsedQuery

ENOUGH = 3
"""Documents with a good result that cover a question, or as many as results are wanted."""

WORTHLESS = 0.3
"""Confidence below which a result covers nothing, whatever the caller lets through."""

_KEPT_ELSEWHERE = re.compile(
    r"CVE-\d{4}-\d{4,}|CWE-\d+|T\d{4}(?:\.\d{3})?|RFC[ -]?\d{1,5}|KB\d{6,7}|GHSA(?:-\w{4}){3}", re.IGNORECASE
)
"""Identifiers of vulnerabilities, weaknesses, techniques, standards and vendors' articles."""

Search = Callable[[SearchFilter], list[Judged]]


@dataclass(slots=True)
class Routed:
    """What was found in all tiers that were searched, the steps, and whether pages of another search were `added`."""

    judged: list[Judged] = field(default_factory=list)
    steps: list[TierStep] = field(default_factory=list)
    added: bool = False

    @property
    def is_mixed(self) -> bool:
        """Whether several searches found something, so that there may be copies; within one there are none."""
        return self.added or sum(step.good > 0 or step.best > 0 for step in self.steps) > 1


class Router:
    """Puts one question to tier after tier."""

    def __init__(self, asked: ParsedQuery, knowledge: KnowledgeModel, where: SearchFilter, search: Search) -> None:
        self._asked = asked
        self._knowledge = knowledge
        self._where = where
        self._search = search
        self._floor = max(asked.config.min_confidence, WORTHLESS)

    def run(self) -> Routed:
        """Raises `IndexUnavailableError` if the first search fails; a later one that does is noted."""
        routed = Routed()
        wanted = self._asked.config.searched_tiers
        for tier in Tier:
            if tier not in wanted:
                routed.steps.append(TierStep(tier.value, False, _unwanted(tier)))
                continue
            where = self._within(tier)
            reason, searched = self._decision(tier, routed, where)
            if searched and where is not None:
                self._take(tier, reason, where, routed)
            else:
                routed.steps.append(TierStep(tier.value, False, reason))
        return routed

    def covered(self, judged: Sequence[Judged]) -> int:
        """How many documents have a good result."""
        return len({one.hit.indexed.chunk.document_id for one in judged if one.confidence >= self._floor})

    @property
    def enough(self) -> int:
        return min(ENOUGH, self._asked.config.max_results)

    def _take(self, tier: Tier, reason: str, where: SearchFilter, routed: Routed) -> None:
        first = not any(step.searched for step in routed.steps)
        try:
            found = self._search(where)
        except IndexUnavailableError:
            if first:
                raise
            self._asked.lacks(f"partial: the tier {tier} is missing (the search index didn't answer)")
            found = []
        good = sum(one.confidence >= self._asked.config.min_confidence for one in found)
        best = max((one.confidence for one in found), default=0.0)
        routed.judged.extend(found)
        routed.steps.append(TierStep(tier.value, True, reason, good, best))

    def _decision(self, tier: Tier, routed: Routed, where: SearchFilter | None) -> tuple[str, bool]:
        """Why the tier is searched, or why not."""
        if where is None:
            return "nothing of it passes the question's filters", False
        if tier is not Tier.SPECIALIZED:
            return ("always first" if tier is Tier.INTERNAL else "it was enabled"), True
        return self._wanted_anyway(routed, where) or self._covered_enough(routed)

    def _wanted_anyway(self, routed: Routed, where: SearchFilter) -> tuple[str, bool] | None:
        reasons = {
            "its categories are asked for": bool(where.categories),
            "a document is asked for": bool(where.document_ids),
            "nothing before it was searched": not any(step.searched for step in routed.steps),
        }
        if named := next(_names(self._asked.question.identifiers), ""):
            reasons[f"the question names {named}"] = True
        return next(((reason, True) for reason, holds in reasons.items() if holds), None)

    def _covered_enough(self, routed: Routed) -> tuple[str, bool]:
        covered = self.covered(routed.judged)
        lacking = covered < self.enough
        said = f"{covered} of our own documents have a good result"
        return (f"{said}, fewer than {self.enough}" if lacking else said), lacking

    def _within(self, tier: Tier) -> SearchFilter | None:
        """The filter for one tier; None if nothing can pass it."""
        where = self._where
        known = self._knowledge.categories
        categories = where.categories
        if categories:
            categories = tuple(path for path in categories if path not in known or known[path].tier is tier)
            if not categories:
                return None
        narrowed = self._asked.question.narrowed(replace(where, tiers=(tier.value,), categories=categories))
        if narrowed is None or not narrowed.categories:
            return narrowed
        kept = tuple(path for path in narrowed.categories if path not in known or known[path].tier is tier)
        return replace(narrowed, categories=kept) if kept else None


def _names(identifiers: Iterable[str]) -> Iterator[str]:
    return (name for name in identifiers if _KEPT_ELSEWHERE.fullmatch(name))


def _unwanted(tier: Tier) -> str:
    return "it was not enabled" if tier is Tier.INTERNET else "it was not asked for"


# -- the live web, the last tier

LIVE = "live"
Internet = Callable[[str, int], Answer]


def live_results(
    asked: ParsedQuery, internet: Internet | None, covered: int, enough: int
) -> tuple[tuple[RetrievalResult, ...], tuple[TierStep, ...]]:
    """What a live search adds, and the step that says why there was one or none. Nothing where there is no engine."""
    config = asked.config
    if internet is None or not config.include_internet:
        return (), ()
    if config.as_of:
        return (), (TierStep(LIVE, False, "the web of then can't be searched"),)
    if covered >= enough:
        return (), (TierStep(LIVE, False, f"{covered} documents have a good result"),)
    from opx.retrieval.web.service import BEST_CONFIDENCE

    if config.min_confidence > BEST_CONFIDENCE:
        reason = f"a live result is never surer than {BEST_CONFIDENCE:g}, and {config.min_confidence:g} is asked for"
        return (), (TierStep(LIVE, False, reason),)
    with asked.timed("internet"):
        answer = internet(asked.text, config.max_results)
    asked.partial |= answer.partial
    for note in answer.notes:
        asked.note(note)
    good = tuple(result for result in answer.results if result.confidence >= config.min_confidence)
    best = max((result.confidence for result in answer.results), default=0.0)
    return good, (
        TierStep(LIVE, True, f"{covered} documents have a good result, fewer than {enough}", len(good), best),
    )


# -- one list of the hits of all tiers
#
# The order is confidence x trust, with two bounds. A hit that is more likely wrong than right stands behind every hit that
# is more likely right than wrong, however trusted its tier. And where somebody is about to act, text from the internet
# stands behind everything else: it never outranks an internal runbook. What warns of a step stands behind what else is as
# likely: a dozen accounts of what didn't help would bury the page that does, which they are shown with anyway.

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
