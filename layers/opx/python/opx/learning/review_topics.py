"""Topics that reviews of software raise, and the kinds of work that raise them.

A rejection ("there is no pagination") and the task that it should be remembered for ("an endpoint that lists customers") have
neither words nor meaning in common that an embedding model of this size sees. So a table (`review_topics.json`) has, for
each topic, the words of those who judge and the work that they judge. It follows public review lists: OWASP ASVS, WCAG,
production readiness reviews, the pillars of the AWS Well-Architected Framework.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from opx.text.fields import query_terms

LEAST_SHARED = 5.0
"""Sum of the rarities of shared terms from which text belongs to a topic: two terms that few topics have."""


@dataclass(frozen=True, slots=True)
class ReviewTopic:
    """A topic of reviews. `concern` is what reviewers write about, `work` the kinds of work that raise it."""

    topic: str
    concern: str
    work: str


@lru_cache(4096)
def topic_of(text: str) -> ReviewTopic | None:
    """The topic that shares the rarest terms with what a reviewer wrote; None if it shares too few."""
    terms = frozenset(query_terms(text))
    scored = [(sum(map(_rarities().__getitem__, terms & has)), one) for has, one in _by_terms()]
    best, topic = max(scored, key=lambda each: each[0])
    return topic if best >= LEAST_SHARED else None


@cache
def topics() -> tuple[ReviewTopic, ...]:
    """All topics."""
    data = json.loads(Path(__file__).with_name("review_topics.json").read_bytes())
    return tuple(ReviewTopic(**one) for one in data)


@cache
def _by_terms() -> tuple[tuple[frozenset[str], ReviewTopic], ...]:
    return tuple((frozenset(query_terms(f"{one.topic} {one.concern}")), one) for one in topics())


@cache
def _rarities() -> Mapping[str, float]:
    """Rarity of each term among the topics: log(topics / topics with the term)."""
    counted = Counter(term for terms, _ in _by_terms() for term in terms)
    return {term: math.log(len(topics()) / count) for term, count in counted.items()}
