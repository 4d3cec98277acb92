"""Estimates the probability that a document answers the question, and that anything here is near it.

Three small linear models, fitted for each combination of legs and mode: one orders the documents, one estimates the
probability that a document answers, given its rank, and one that anything is near at all. Their coefficients are in
`confidence.json` with the data, the date and the command that made them; docs/confidence.md has the method and its
calibration.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from msgspec import Struct

from opx.domain.ids import stable_hash
from opx.domain.queries import SearchMode
from opx.domain.record import replace
from opx.ports import Item
from opx.retrieval.evidence import NEARNESS, evidence_of, ordered_evidence
from opx.retrieval.hybrid import JUDGED, FusedHits
from opx.retrieval.judging import DocumentHits
from opx.retrieval.question import is_identifier

REFERENCE = "all-MiniLM-L6-v2"
"""The embedding model that models with cosines were fitted for."""

OTHER = "other"
"""Name of the models for all other embedding models: they have no cosine inputs."""

FAR = 0.3
"""Probability of nearness below which every result is weak. It is lower for 19 of 20 questions about other things, and for
1 of 100 with an answer (docs/confidence.md)."""

FAR_IN_OTHER_LANGUAGES, FEW_ENTRIES, FAR_IN_FEW = 0.1, 200, 0.01
"""No result is returned below `FAR`; for questions that may be in another language than English, and with few entries, where
the rarity of words is unknown, only below these."""

DOUBTFUL = 0.45
"""The highest confidence if hardly anything is near, or the question is too vague."""

_WORD = re.compile(r"[^\W\d_]{3,}")

COSINE = "cosine_best"


def is_far(judgement: Judgement, entries: int, *, english: bool) -> bool:
    """True if nothing is near enough to be returned. Words alone can't show that."""
    if not judgement.by_meaning:
        return False
    if entries < FEW_ENTRIES:
        return judgement.near < FAR_IN_FEW
    return judgement.near < (FAR if english else FAR_IN_OTHER_LANGUAGES)


class LinearModel(Struct, frozen=True):
    """A linear model: intercept + the sum of coefficient x (value - mean) / scale."""

    intercept: float
    parts: Mapping[str, tuple[float, float, float]]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LinearModel:
        parts = {name: (one["coefficient"], one["mean"], one["scale"]) for name, one in data["features"].items()}
        return cls(float(data["intercept"]), parts)

    def score(self, row: Mapping[str, float]) -> float:
        return self.intercept + sum(c * (row[name] - mean) / scale for name, (c, mean, scale) in self.parts.items())

    def probability(self, row: Mapping[str, float]) -> float:
        return logistic(self.score(row))


def logistic(log_odds: float) -> float:
    """The probability 1 / (1 + exp(-log_odds))."""
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, log_odds))))


class Judges(Struct, frozen=True):
    """The models for one way of searching: `order`, and the probabilities `confidence` (of a document) and `near`."""

    order: LinearModel
    confidence: LinearModel
    near: LinearModel

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Judges:
        return cls(*(LinearModel.from_json(data[name]) for name in ("order", "confidence", "near")))


class JudgedPage(Struct, frozen=True, gc=False):
    """A document with the probability that it answers. `least` and `most` bound it if identifiers of the question make the
    document certain or exclude that; `why` is the reason."""

    page: DocumentHits
    confidence: float
    least: float = 0.0
    most: float = 1.0
    why: str = ""


class Judgement(Struct, frozen=True):
    """Documents, the likeliest first. `near`: the probability that anything here is near the question; `by_meaning`: it is
    estimated from cosines, too."""

    pages: tuple[JudgedPage, ...] = ()
    near: float = 0.0
    by_meaning: bool = True


def judged(
    text: str, found: FusedHits, pages: Sequence[DocumentHits], judges: Judges, *, reorder: bool = True
) -> Judgement:
    """Estimates confidences, and orders the documents by the models, or with `reorder=False` keeps their order. `found` is
    the search for the question, `text` the question without its values. A document's confidence is never above that
    of the one before it; those after the first `JUDGED` keep their order."""
    if not pages:
        return Judgement()
    rows = evidence_of(text, found, pages[:JUDGED])
    scores = list(map(judges.order.score, rows))
    falling = sorted(scores, reverse=True)
    order = sorted(range(len(rows)), key=lambda at: -scores[at]) if reorder else range(len(rows))
    ranked = ordered_evidence([rows[at] for at in order], falling)
    confidence, most = [], 1.0
    for row in ranked:
        most = min(most, judges.confidence.probability(row))
        confidence.append(most)
    first = [JudgedPage(pages[at], one) for at, one in zip(order, confidence, strict=True)]
    rest = [JudgedPage(page, most * _share(page, pages[JUDGED - 1])) for page in pages[JUDGED:]]
    near = judges.near.probability({name: rows[0][name] for name in NEARNESS})
    is_doubtful, is_vague = near < FAR, _is_vague(text)
    titled = {pages[at].document_id for at, row in enumerate(rows) if row["title_match"]}
    bound = [
        replace(one, confidence=min(one.confidence, DOUBTFUL))
        if is_doubtful or (is_vague and one.page.document_id not in titled)
        else one
        for one in (*first, *rest)
    ]
    if reorder:
        bound.sort(key=lambda one: -one.confidence)
    else:
        bound = [replace(one, confidence=least) for one, least in zip(bound, _falling(bound), strict=True)]
    return Judgement(tuple(bound), near, by_meaning=bool(judges.near.parts.get(COSINE, (0.0,))[0]))


def _falling(pages: Sequence[JudgedPage]) -> Iterator[float]:
    """The least confidence of each page and those before it."""
    return accumulate((one.confidence for one in pages), min)


def _is_vague(text: str) -> bool:
    """True for one everyday word or none (`help`, `why?`): only a title with it makes an answer likely."""
    written = [word for word in text.split() if any(map(str.isalnum, word))]
    return not any(is_identifier(word) or word.isupper() for word in written) and len(_WORD.findall(text)) <= 1


def _share(page: DocumentHits, last: DocumentHits) -> float:
    return min(page.level / last.level, 1.0) if last.level > 0 else 1.0


def engine_judgement(pages: Sequence[DocumentHits]) -> Judgement:
    """The judgement of an engine with its own estimates of relevance: a document has that of its best hit."""
    return Judgement(tuple(JudgedPage(page, page.level) for page in pages), 1.0)


# -- shipped models

ModelsOf = Callable[[str, str, SearchMode], Judges]
"""Returns the models for an embedding model by its id, the legs that took part and a mode."""


@cache
def _shipped() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(Path(__file__).with_name("confidence.json").read_bytes())
    return found


def has_models(embedder: str) -> bool:
    """True if models with cosines were fitted for this embedding model."""
    return embedder.partition("/")[0] in _shipped()["models"].keys() - {OTHER}


@cache
def models_made() -> str:
    """Hash of the shipped models."""
    return stable_hash("confidence", json.dumps(_shipped()["models"], sort_keys=True))


@cache
def shipped(embedder: str, legs: str, mode: SearchMode) -> Judges:
    """The models for an embedding model by its id, the legs that took part (`both`, `lexical`, `vector`) and a mode."""
    models = _shipped()["models"]
    name = embedder.partition("/")[0] if has_models(embedder) else OTHER
    return Judges.from_json(models[name][legs][mode.value])


def calibration_key(subject: str, embedder: str) -> Item:
    """Key of the item with the calibration for an embedding model (`opx.retrieval.calibration.models`); `subject` is that
    of the indexes."""
    return {"subject": subject, "entry": f"calibration#{embedder}"}
