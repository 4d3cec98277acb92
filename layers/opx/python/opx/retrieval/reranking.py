"""Reranks the best documents with a model, and combines its verdicts with the estimates to the confidence.

On the scale of log-odds, a confidence is `estimate` x that of the estimate + the part of the verdict, or for models that give
scores + `score` x the log-odds of the score + `constant`. The numbers are in `reranking.json`, by the model's name where they
were fitted to labelled verdicts (by `fit_reader`). For any other model they follow from Bayes' rule if 9 of 10 verdicts are
right and errors don't depend on the estimate: ln(.9 / .1) = 2.1972 for `answers`, its negative for `no`, and 0 for `helps`.
A score of .99 counts like `answers`, one of .01 like `no`: 2.1972 / ln(.99 / .01) = .4782.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from opx.domain.documents import DocumentChunk
from opx.domain.ids import shortened
from opx.domain.queries import ReaderVerdict, SearchMode
from opx.domain.record import replace
from opx.errors import InvalidInputError, ModelError
from opx.ports.models import (
    MAX_CANDIDATES,
    MAX_CHARACTERS,
    MAX_TITLE_CHARACTERS,
    Candidate,
    CandidateReading,
    Reading,
    Reranker,
    check_readings,
    lines_of,
)
from opx.retrieval.confidence import logistic
from opx.retrieval.judging import DocumentReading, Judged, ranked
from opx.retrieval.query_language import ParsedQuery
from opx.retrieval.stages import Found
from opx.runtime.deadlines import remaining
from opx.runtime.threads import within

log = logging.getLogger(__name__)

ReaderModel = Mapping[str, float]
"""Coefficient of each input of `inputs`."""

MOST_USELESS = 0.49
"""The highest confidence of a document with the verdict `no`: a weak one."""

SURE_ESTIMATE, SURE_SCORE = 0.999, 0.99
"""Estimates and scores are clipped to these, and to 1 minus these."""

MAX_LINE = 200
"""Characters of a line that is shown."""

READING_SHARE = 0.75
"""Share of the time left for a search that a reranker may take; the rest is for ending the search."""


def inputs(estimate: float, reading: CandidateReading) -> dict[str, float]:
    """The inputs for the confidence of a document that a model read."""
    row = {"estimate": _log_odds(estimate, SURE_ESTIMATE)}
    if reading.score is None:
        return row | {reading.verdict.value: 1.0}
    return row | {"score": _log_odds(reading.score, SURE_SCORE), "constant": 1.0}


def _log_odds(probability: float, most: float) -> float:
    bounded = min(max(probability, 1 - most), most)
    return math.log(bounded / (1 - bounded))


def combined(estimate: float, reading: CandidateReading, model: ReaderModel) -> float:
    """The probability that a document answers, from its estimate and a model's reading."""
    found = inputs(estimate, reading)
    probability = logistic(sum(model.get(name, 0.0) * value for name, value in found.items()))
    return min(probability, MOST_USELESS) if reading.verdict is ReaderVerdict.NO else probability


@cache
def _shipped() -> Mapping[str, Any]:
    text = Path(__file__).with_name("reranking.json").read_bytes()
    found: Mapping[str, Any] = json.loads(text)
    return found


def assumed_model(*, scores: bool) -> ReaderModel:
    """Coefficients for a reranker without a fit, with or without scores."""
    found: ReaderModel = _shipped()["assumed"]["scores" if scores else "verdicts"]
    return found


def model_of(name: str, *, scores: bool) -> ReaderModel:
    """Coefficients fitted for a reranker by its name, or the assumed ones."""
    found: ReaderModel | None = _shipped()["fitted"].get(name)
    return found or assumed_model(scores=scores)


class RerankStage:
    """Reranks the hits of thorough searches with an external model. `model`: coefficients in place of those in the file."""

    name = "rerank"

    def __init__(self, reranker: Reranker, seconds: float, model: ReaderModel | None = None) -> None:
        self._reranker = reranker
        self._seconds = seconds
        self._model = model

    def apply(self, query: ParsedQuery, found: Found) -> Found:
        if query.config.mode is SearchMode.THOROUGH:
            found.judged = ranked(query.text, self.read(query, found.judged))
        return found

    def read(self, parsed: ParsedQuery, judged: Sequence[Judged]) -> list[Judged]:
        """The same hits with the confidence after reranking; unchanged, with a note, if the reranker fails. The first
        `MAX_CANDIDATES` documents are read; later ones are never surer than the surest of those. The answer is partial if
        the reranker had less than its time, as the search has to end."""
        documents = {one.document_id: one for one in reversed(judged)}
        read = [*dict.fromkeys(one.document_id for one in judged)][:MAX_CANDIDATES]
        if not read:
            return list(judged)
        name = self._reranker.name
        candidates = [candidate_of(documents[document_id]) for document_id in read]
        left = remaining()
        seconds = self._seconds if left is None else min(self._seconds, round(READING_SHARE * left, 1))
        try:
            with parsed.timed(self.name):
                readings = self._readings(parsed.text, candidates, seconds)
        except ModelError as exc:
            log.warning("reranking with %s failed: %s", name, exc)
            report = parsed.note if seconds == self._seconds else parsed.lacks
            report(f"not reranked by {name} ({exc}): order and confidence are estimates, ranked by {parsed.ranked_by}")
            return list(judged)
        parsed.ranked_by = name
        if unread := readings.count(None):
            parsed.note(f"{name} gave no valid verdict on {unread} of {len(read)} documents: these are estimated")
        return self._judged(judged, dict(zip(read, zip(candidates, readings, strict=True), strict=True)))

    def _readings(self, text: str, candidates: Sequence[Candidate], seconds: float) -> Sequence[Reading]:
        name = self._reranker.name
        ranking = within(seconds, lambda: self._reranker.rank(text, candidates, seconds=seconds), name)
        check_readings(ranking.readings, len(candidates), name)
        return ranking.readings

    def _judged(self, judged: Sequence[Judged], read: Mapping[str, tuple[Candidate, Reading]]) -> list[Judged]:
        found = [self._with_reading(one, *read[name]) if (name := one.document_id) in read else one for one in judged]
        most = max((one.confidence for one in found if one.reading and not one.least), default=1.0)
        return [
            one if one.document_id in read or one.least else replace(one, confidence=min(one.confidence, most))
            for one in found
        ]

    def _with_reading(self, one: Judged, candidate: Candidate, reading: Reading) -> Judged:
        """Combines a hit with its reading, if there is one, except a `no` for a document that an identifier makes certain."""
        if reading is None or (one.least and reading.verdict is ReaderVerdict.NO):
            return one
        model = self._model or model_of(self._reranker.name, scores=reading.score is not None)
        confidence = min(max(combined(one.confidence, reading, model), one.least), one.most)
        line = _line(candidate, reading)
        return replace(one, confidence=confidence, reading=DocumentReading(reading, one.confidence, line))


def candidate_of(judged: Judged) -> Candidate:
    """The text of a document for a reranker: the passages that it was judged by, the best first, cut to the limit."""
    chunks = [hit.indexed.chunk for hit in judged.evidence or (judged.hit,)]
    title = chunks[0].title[:MAX_TITLE_CHARACTERS]
    text = "\n\n".join(map(_under_heading, chunks))
    return Candidate(title, text[: MAX_CHARACTERS - len(title) - len("\n\n")])


def _under_heading(chunk: DocumentChunk) -> str:
    """A passage with its heading, unless it begins with one."""
    headed = chunk.content.startswith("#") or not chunk.section
    return chunk.content if headed else f"## {chunk.section[-1]}\n{chunk.content}"


def _line(candidate: Candidate, reading: CandidateReading) -> str:
    """The line of a reading; "" for an invalid number, and for the verdict `no`."""
    lines = lines_of(candidate.text)
    if reading.verdict is ReaderVerdict.NO or not 1 <= reading.line <= len(lines):
        return ""
    return shortened(lines[reading.line - 1], MAX_LINE)


# -- fitting of coefficients


ASSUMED_WEIGHT = 4.0
"""Precision of the prior: with a few dozen readings the fit stays near the assumed model, with hundreds near the data."""
_ITERATIONS = 100
_CONVERGED = 1e-9
_LONGEST_STEP = 1.0


class LabelledReading(NamedTuple):
    """A document that a model read: the confidence before that, the model's reading, and the relevance label."""

    estimated: float
    reading: CandidateReading
    relevant: bool


def fit_reader(rows: Sequence[LabelledReading]) -> dict[str, float]:
    """Fits the coefficients: a logistic regression on `inputs`, with a normal prior of precision `ASSUMED_WEIGHT` around the
    assumed model. Newton's steps, none longer than 1. Raises `InvalidInputError` for no rows, and for readings with scores
    among readings without."""
    kinds = {row.reading.score is not None for row in rows}
    if len(kinds) != 1:
        raise InvalidInputError("a fit needs readings that have all scores, or none")
    assumed = assumed_model(scores=kinds.pop())
    names = list(assumed)
    found = [inputs(row.estimated, row.reading) for row in rows]
    design = np.array([[row.get(name, 0.0) for name in names] for row in found])
    labels = np.array([float(row.relevant) for row in rows])
    prior = np.array([assumed[name] for name in names])
    current = prior.copy()
    for _ in range(_ITERATIONS):
        chance = 1 / (1 + np.exp(-(design @ current)))
        slope = design.T @ (chance - labels) + ASSUMED_WEIGHT * (current - prior)
        bent = (design.T * (chance * (1 - chance))) @ design + ASSUMED_WEIGHT * np.eye(len(names))
        step = np.linalg.solve(bent, slope)
        current = current - step * min(1.0, _LONGEST_STEP / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < _CONVERGED:
            break
    return {name: round(float(value), 4) for name, value in zip(names, current, strict=True)}
