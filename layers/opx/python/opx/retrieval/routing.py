"""Routes a question to tiers in order, the live web last, and merges their hits.

Internal knowledge is always searched first. Vendor and security knowledge is searched if the question names its categories
or one of its identifiers, or if internal knowledge doesn't cover it; the internet only if it was enabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field

from opx.domain.knowledge import KnowledgeModel, Tier
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult, TierStep
from opx.errors import IndexUnavailableError
from opx.ports import SearchFilter
from opx.retrieval.judging import Judged
from opx.retrieval.query_language import ParsedQuery

ENOUGH = 3
"""Documents with a good result that cover a question, or the number of requested results if lower."""

WORTHLESS = 0.3
"""Confidence below which a result covers nothing, whatever the caller's `min_confidence` is."""

_KEPT_ELSEWHERE = re.compile(
    r"CVE-\d{4}-\d{4,}|CWE-\d+|T\d{4}(?:\.\d{3})?|RFC[ -]?\d{1,5}|KB\d{6,7}|GHSA(?:-\w{4}){3}", re.IGNORECASE
)
"""Identifiers of vulnerabilities, weaknesses, techniques, standards and vendors' articles."""

Search = Callable[[SearchFilter], list[Judged]]


class Routed(Struct):
    """Hits of all searched tiers, and the steps. `added`: pages of another search were added."""

    judged: list[Judged] = field(default_factory=list)
    steps: list[TierStep] = field(default_factory=list)
    added: bool = False

    @property
    def is_mixed(self) -> bool:
        """True if several searches found something, so that there may be near-duplicates; one search has none."""
        return self.added or sum(step.good > 0 or step.best > 0 for step in self.steps) > 1


class Router:
    """Searches tier after tier for one question."""

    def __init__(self, parsed: ParsedQuery, knowledge: KnowledgeModel, where: SearchFilter, search: Search) -> None:
        self._parsed = parsed
        self._knowledge = knowledge
        self._where = where
        self._search = search
        self._floor = max(parsed.config.min_confidence, WORTHLESS)

    def run(self) -> Routed:
        """Searches the tiers. Raises `IndexUnavailableError` if the first search fails; a later failure is noted."""
        routed = Routed()
        wanted = self._parsed.config.searched_tiers
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
        """Number of documents with a good result."""
        return len({one.hit.indexed.chunk.document_id for one in judged if one.confidence >= self._floor})

    @property
    def enough(self) -> int:
        return min(ENOUGH, self._parsed.config.max_results)

    def _take(self, tier: Tier, reason: str, where: SearchFilter, routed: Routed) -> None:
        first = not any(step.searched for step in routed.steps)
        try:
            found = self._search(where)
        except IndexUnavailableError:
            if first:
                raise
            self._parsed.lacks(f"partial: the tier {tier} is missing (the search index didn't answer)")
            found = []
        good = sum(one.confidence >= self._parsed.config.min_confidence for one in found)
        best = max((one.confidence for one in found), default=0.0)
        routed.judged.extend(found)
        routed.steps.append(TierStep(tier.value, True, reason, good, best))

    def _decision(self, tier: Tier, routed: Routed, where: SearchFilter | None) -> tuple[str, bool]:
        """The reason why the tier is searched or not, and True if it is."""
        if where is None:
            return "nothing of it passes the question's filters", False
        if tier is not Tier.SPECIALIZED:
            return ("always first" if tier is Tier.INTERNAL else "it was enabled"), True
        return self._wanted_anyway(routed, where) or self._covered_enough(routed)

    def _wanted_anyway(self, routed: Routed, where: SearchFilter) -> tuple[str, bool] | None:
        reasons = {
            "its categories were requested": bool(where.categories),
            "a document was requested": bool(where.document_ids),
            "nothing before it was searched": not any(step.searched for step in routed.steps),
        }
        if named := next(_names(self._parsed.question.identifiers), ""):
            reasons[f"the question names {named}"] = True
        return next(((reason, True) for reason, holds in reasons.items() if holds), None)

    def _covered_enough(self, routed: Routed) -> tuple[str, bool]:
        covered = self.covered(routed.judged)
        lacking = covered < self.enough
        reason = f"{covered} of our own documents have a good result"
        return (f"{reason}, fewer than {self.enough}" if lacking else reason), lacking

    def _within(self, tier: Tier) -> SearchFilter | None:
        """The filter for one tier; None if nothing can pass it."""
        where = self._where
        known = self._knowledge.categories
        categories = where.categories
        if categories:
            categories = tuple(path for path in categories if path not in known or known[path].tier is tier)
            if not categories:
                return None
        narrowed = self._parsed.question.narrowed(replace(where, tiers=(tier.value,), categories=categories))
        if narrowed is None or not narrowed.categories:
            return narrowed
        kept = tuple(path for path in narrowed.categories if path not in known or known[path].tier is tier)
        return replace(narrowed, categories=kept) if kept else None


def _names(identifiers: Iterable[str]) -> Iterator[str]:
    return (name for name in identifiers if _KEPT_ELSEWHERE.fullmatch(name))


def _unwanted(tier: Tier) -> str:
    return "it was not enabled" if tier is Tier.INTERNET else "it was not requested"


# -- the live web, the last tier

LIVE = "live"
Internet = Callable[[str, int], Answer]


def live_results(
    parsed: ParsedQuery, internet: Internet | None, covered: int, enough: int
) -> tuple[tuple[RetrievalResult, ...], tuple[TierStep, ...]]:
    """Results of a live search, and the step with the reason why it was done or not. Both empty if there is no engine."""
    config = parsed.config
    if internet is None or not config.include_internet:
        return (), ()
    if config.as_of:
        return (), (TierStep(LIVE, False, "the web can't be searched as of a past time"),)
    if covered >= enough:
        return (), (TierStep(LIVE, False, f"{covered} documents have a good result"),)
    from opx.retrieval.web.service import BEST_CONFIDENCE

    if config.min_confidence > BEST_CONFIDENCE:
        reason = f"a live result is never surer than {BEST_CONFIDENCE:g}, and {config.min_confidence:g} is required"
        return (), (TierStep(LIVE, False, reason),)
    with parsed.timed("internet"):
        answer = internet(parsed.text, config.max_results)
    parsed.partial |= answer.partial
    for note in answer.notes:
        parsed.note(note)
    good = tuple(result for result in answer.results if result.confidence >= config.min_confidence)
    best = max((result.confidence for result in answer.results), default=0.0)
    return good, (
        TierStep(LIVE, True, f"{covered} documents have a good result, fewer than {enough}", len(good), best),
    )


# -- ranking of the hits of all tiers
#
# The order is confidence x trust, whatever the tier. Only for a question that asks to act does text from the internet rank
# below everything else, and is marked. Warnings of a step rank below other hits that are as likely: a dozen accounts of
# failed steps would bury the page that helps, which they are shown with anyway.

UNLIKELY = 0.5
"""Confidence below which a hit is more likely wrong than right."""


class Scored(Protocol):
    """A hit or result that can be ranked."""

    @property
    def confidence(self) -> float: ...

    @property
    def score(self) -> float:
        """Confidence x trust."""

    @property
    def warns(self) -> bool:
        """True for a warning of a step."""


S = TypeVar("S", bound=Scored)

_ASKS = re.compile(
    r"\b(?:how\s+(?:do|can|should|to)|should\s+(?:i|we)|what\s+(?:should|can|must)|steps?\s+(?:to|for)|runbook|procedure"
    r"|wie\s+(?:kann|soll|muss)|was\s+(?:soll|muss)|comment\s+(?:faire|puis)|cómo|come\s+(?:si|posso)|como\s+(?:faço|posso))\b",
    re.IGNORECASE,
)
_DEMANDS = re.compile(
    r"\s*(?:please\s+|can\s+you\s+|help\s+(?:me\s+)?(?:to\s+)?)?(?:fix|resolve|repair|recover|restart|restore|roll\s*back|drain|scale"
    r"|delete|remove|kill|free\s+up|clean\s+up|mitigate|remediate|unblock|beheben?|behebe|réparer|redémarrer)\b",
    re.IGNORECASE,
)
"""A question that begins with what is to be done: an error such as `failed to delete the pod` demands nothing."""


def calls_for_action(question: str) -> bool:
    """True if a question asks what to do, in words: how to, should we, which runbook, restart X. An alert, a symptom or an
    error message alone does not."""
    return bool(_ASKS.search(question) or _DEMANDS.match(question))


def in_order(scored: Sequence[S], *, last: Sequence[S] = ()) -> list[S]:
    """Ranks best first, a stable sort; `last` below all others."""
    return [*sorted(scored, key=_rank), *sorted(last, key=_rank)]


def _rank(one: Scored) -> tuple[float, float]:
    """The negative score; a warning ranks behind the likely hits, an unlikely one behind all."""
    if not one.warns:
        return -one.score, 0.0
    return (-UNLIKELY if one.confidence >= UNLIKELY else 1.0), -one.score
