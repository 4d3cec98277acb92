"""Finds pages whose titles share the words of an alert's name: `ElasticsearchClusterNotHealthy` and `Elasticsearch cluster
health is red`. Words that many titles have count little."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from opx.domain.documents import KnowledgeDocument
from opx.text.analyzer import analyze

LEAST = 0.6
"""Share of the weight of an alert's words that a title must have, and of the title's that the alert must have: of the words
of both, about two of three."""

_BEGINNING = 6
"""Characters of a word that count: `healthy` and `health`, `latency` and `latencies`."""

_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EMPTY = frozenset(
    ("alert", "runbook", "playbook", "is", "the", "a", "of", "in", "on", "for", "to", "how", "not", "has")
)


class TitleWords:
    """Index of pages by the words of their titles."""

    def __init__(self, documents: Iterable[KnowledgeDocument]) -> None:
        self._titles = [(document, words_of(document.title)) for document in documents]
        self._counts = Counter(word for _, words in self._titles for word in words)

    def like(self, name: str) -> Sequence[KnowledgeDocument]:
        """The pages whose titles are most like an alert's name; none if none is like it enough."""
        wanted = words_of(name)
        if len(wanted) < 2:
            return ()
        scores = [(self._likeness(wanted, words), document) for document, words in self._titles if words & wanted]
        best = max((score for score, _ in scores), default=0.0)
        return [document for score, document in scores if score == best] if best >= LEAST else ()

    def _likeness(self, wanted: frozenset[str], words: frozenset[str]) -> float:
        shared = self._weight(wanted & words)
        return min(shared / self._weight(wanted), shared / self._weight(words)) if shared else 0.0

    def _weight(self, words: Iterable[str]) -> float:
        return sum(math.log(1 + len(self._titles) / (1 + self._counts[word])) for word in words)


def words_of(name: str) -> frozenset[str]:
    """The analysed words of a name or a title, without those that say nothing."""
    words = (part.lower() for part in _HUMPS.findall(name))
    return frozenset(term[:_BEGINNING] for term in analyze(" ".join(word for word in words if word not in _EMPTY)))
