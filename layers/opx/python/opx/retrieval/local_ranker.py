"""Reads the best candidates again without any model of language: a second search without the question's values, and one
small logistic model over what both searches and the candidates' texts say.

Its probability is the confidence, too. Coefficients are in `confidence.json`; docs/decisions/0033-ranking.md has what it
gains and what was tried beside it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opx.domain.record import replace
from opx.errors import ModelError
from opx.ports import Candidate, Ranking
from opx.retrieval.confidence import Contrast, Cover, Parts, answerable, lead, logistic, standardised
from opx.retrieval.hybrid import FusedHit, FusedHits
from opx.retrieval.judging import Judged
from opx.retrieval.query_language import Asked
from opx.text.fields import words

# -- the question without its values: pod names, percentages, durations
#
# Alerts are full of them. They say where a problem is, not which one, and both legs waste attention on them: the embedding
# of a sentence with a pod's name is as much about the name.

_SHELL = ".,:;()[]{}%\"'`"
_DIGIT = re.compile(r"\d")
_MEANT = re.compile(r"[A-Za-z]+\d{1,3}|[1-5][xX]{2}|[1-5]\d\d|v\d[\d.]*|\d+[A-Za-z]{3,}\w*")
"""What has digits and is a word all the same: IPv4, p99, 5xx, 503, v1.2, 3scale."""

LEAST_WORDS = 3
"""A question that would have fewer is left as it is."""


def focused(text: str, known: Callable[[str], bool]) -> str:
    """The text without values: words with digits, and `namespace/name` pairs.

    What has a meaning stays: codes, versions, and identifiers with underscores that are `known`, as some document has
    them. So does every question that is hardly more than its values.
    """
    kept = [word for word in text.split() if not _is_value(word.strip(_SHELL), known)]
    return " ".join(kept) if len(kept) >= LEAST_WORDS else text


def _is_value(word: str, known: Callable[[str], bool]) -> bool:
    if "/" in word and "://" not in word and not word.startswith("/"):
        return True
    if not _DIGIT.search(word) or _MEANT.fullmatch(word):
        return False
    return not ("_" in word and known(word))


# -- the ranker

CANDIDATES = 20
"""Documents whose hits are read again."""

LOCAL = "local"
COVERED = 0.5
"""Share of the question that the best candidate has to cover. Where words match less, the ranker, which compares words, knows
no better than both searches together, and their order stays."""

FEATURES = (
    "fused",
    "fused_whole",
    "fused_z",
    "title_grams",
    "title_grams_rare",
    "question_grams_rare",
    "pairs",
    "document_rare",
    "passage_rare",
    "title_missing",
    "document_hits",
    "document",
    "passage",
    "cosine_z",
    "bm25_z",
    "lead",
)


class LocalReranker:
    """The logistic model as a `Reranker`: it reads the parts of candidates, and not their texts."""

    name = LOCAL

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:  # noqa: ARG002
        """Probabilities. Raises `ModelError` for candidates without the parts that it needs."""
        model = logistic("ranked")
        for candidate in candidates:
            if missing := [name for name in FEATURES if name not in candidate.parts]:
                raise ModelError(f"candidates lack {', '.join(missing)}")
        return Ranking(tuple(model.probability(candidate.parts) for candidate in candidates), calibrated=True)


@dataclass(frozen=True, slots=True)
class Pool:
    """Hits of both searches, the best documents first. `levels` are those of the hits in both together, `whole` in the
    one with the whole question."""

    hits: tuple[FusedHit, ...]
    levels: tuple[float, ...]
    whole: tuple[float, ...]


def rank_again(asked: Asked, text: str, found: FusedHits, second: FusedHits) -> list[Judged]:
    """The hits of the search for the whole question and of the `second` one, for `text`, in the order of the ranker's
    probabilities."""
    pool = pooled(found, second, asked.config.max_chunks_per_document)
    if not pool.hits:
        return []
    rows = ranked_parts(text, second, pool)
    candidates = [Candidate(hit.indexed.chunk.text, row) for hit, row in zip(pool.hits, rows, strict=True)]
    scores = LocalReranker().rank(text, candidates, seconds=0).scores
    most = answerable(asked.text, found)
    order = sorted(range(len(scores)), key=lambda at: -scores[at])
    places = list(range(len(scores)))
    if max(row["document"] for row in rows) >= COVERED:
        asked.ranked_by = LOCAL
        places = order
    return [
        Judged(replace(pool.hits[place], fused=pool.levels[place]), min(scores[at], most), scores[place])
        for place, at in zip(places, order, strict=True)
    ]


def without_values(text: str, found: FusedHits) -> str:
    """The question as it is searched for a second time."""
    return focused(text, lambda word: any(found.term_weights.get(first, 0.0) > 0 for first in words(word)))


def pooled(whole: FusedHits, second: FusedHits, most: int) -> Pool:
    """The `most` best hits of each of the `CANDIDATES` best documents of both searches. A document's level is the mean of
    its best hits'."""
    levels = [_by_document(found) for found in (whole, second)]
    means = {name: (levels[0].get(name, 0.0) + levels[1].get(name, 0.0)) / 2 for name in levels[0] | levels[1]}
    best = sorted(means, key=lambda name: (-means[name], name))[:CANDIDATES]
    hits: dict[str, dict[str, tuple[FusedHit, float]]] = {name: {} for name in best}
    for found in (whole, second):  # of a chunk that both have, the second's ranks are shown
        for hit, level in zip(found.hits, found.levels, strict=True):
            if (name := hit.indexed.chunk.document_id) in hits:
                known = hits[name].get(hit.indexed.entry_id)
                hits[name][hit.indexed.entry_id] = (hit, max(level, known[1] if known else 0.0))
    chosen = [(name, hit, level) for name in best for hit, level in sorted(hits[name].values(), key=_falling)[:most]]
    tops = {name: max(level for _, level in hits[name].values()) or 1.0 for name in best}
    return Pool(
        tuple(hit for _, hit, _ in chosen),
        tuple(means[name] * level / tops[name] for name, _, level in chosen),
        tuple(levels[0].get(name, 0.0) for name, _, _ in chosen),
    )


def ranked_parts(text: str, found: FusedHits, pool: Pool) -> list[Parts]:
    """The model's inputs for each hit of the pool; `found` is the search for `text`."""
    cover = Cover(text, found)
    contrast = Contrast(cover, pool.hits)
    most_bm25 = max((hit.lexical[1] for hit in pool.hits if hit.lexical), default=0.0) or 1.0
    least = min((hit.vector[1] for hit in pool.hits if hit.vector), default=0.0)
    standard = {
        "fused_z": standardised(pool.levels),
        "cosine_z": standardised([hit.vector[1] if hit.vector else least for hit in pool.hits]),
        "bm25_z": standardised([hit.lexical[1] / most_bm25 if hit.lexical else 0.0 for hit in pool.hits]),
    }
    ahead = lead(found)
    return [
        {
            "fused": pool.levels[at],
            "fused_whole": pool.whole[at],
            "title_grams": cover.title_grams(hit),
            "title_grams_rare": contrast.title_grams(at),
            "question_grams_rare": contrast.question_grams(at),
            "pairs": cover.pairs(hit),
            "document_rare": contrast.document(at),
            "passage_rare": contrast.passage(at),
            "title_missing": contrast.title_missing(at),
            "document_hits": math.log1p(len(found.passages.get(hit.indexed.chunk.document_id, ()))),
            "document": cover.document(hit),
            "passage": cover.passage(hit),
            "lead": 0.0 if at else ahead,
            **{name: values[at] for name, values in standard.items()},
        }
        for at, hit in enumerate(pool.hits)
    ]


def _by_document(found: FusedHits) -> dict[str, float]:
    levels: dict[str, float] = {}
    for hit, level in zip(found.hits, found.levels, strict=True):
        name = hit.indexed.chunk.document_id
        levels[name] = max(level, levels.get(name, 0.0))
    return levels


def _falling(one: tuple[FusedHit, float]) -> float:
    return -one[1]
