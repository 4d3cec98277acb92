"""Collects the evidence of labelled questions in all the ways of searching that the confidence models are fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.ports import Leg
from opx.retrieval.calibration.questions import without
from opx.retrieval.evidence import Parts, evidence_of
from opx.retrieval.hybrid import BOTH, DEPTH, JUDGED, LEXICAL, VECTOR, FusedHits, fused_hits
from opx.retrieval.judging import PASSAGES, pages_of
from opx.retrieval.question import focused, value_words
from opx.text.fields import words
from opx.text.languages import question_languages
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.runner import Evaluation

ANSWERABLE, REMOVED = "answerable", "removed"
LEGS = (BOTH, LEXICAL, VECTOR)
Way = tuple[str, SearchMode]
"""Legs and mode."""
WAYS: tuple[Way, ...] = tuple((legs, mode) for legs in LEGS for mode in SearchMode)


@dataclass(frozen=True, slots=True)
class Seen:
    """Inputs of the models for a question: the evidence of each page, in the order of the fused levels."""

    pages: tuple[str, ...]
    rows: tuple[Parts, ...]


@dataclass(frozen=True, slots=True)
class QuestionEvidence:
    """Evidence of a question by way, as it is or without its relevant pages (`REMOVED`; `relevant` is empty then)."""

    set: str
    kind: str
    collection: str
    question: LabelledQuestion
    relevant: Mapping[str, int]
    seen: Mapping[Way, Seen]


def collect(evaluation: Evaluation, name: str, questions: Iterable[LabelledQuestion]) -> Iterator[QuestionEvidence]:
    """Searches every question in all ways. A set over documents is one collection; of pages in a file, the first folder of a
    page's id names its collection."""
    dataset = evaluation.dataset
    for question in questions:
        ask = _QuestionSearch(evaluation, question.text)
        of_pages = next(iter(question.relevant)).split("/")[0] if question.relevant else ""
        collection = dataset.folder.name if dataset.documents else of_pages
        if not question.relevant:
            yield QuestionEvidence(name, question.kind, collection, question, {}, ask.seen(frozenset()))
            continue
        yield QuestionEvidence(name, ANSWERABLE, collection, question, question.relevant, ask.seen(frozenset()))
        yield QuestionEvidence(name, REMOVED, collection, question, {}, ask.seen(frozenset(question.relevant)))


class _QuestionSearch:
    """The search for one question, done once; legs and pages are taken out of what it found."""

    def __init__(self, evaluation: Evaluation, text: str) -> None:
        self._evaluation = evaluation
        self._text = text
        self._languages = question_languages(text)
        self._response = evaluation.respond(text, 3 * DEPTH[SearchMode.THOROUGH])

    def seen(self, removed: frozenset[str]) -> dict[Way, Seen]:
        """The inputs of the models in each way. Modes of the same depth have the same."""
        found = {(legs, depth): self._seen(removed, legs, depth) for legs in LEGS for depth in set(DEPTH.values())}
        return {(legs, mode): found[legs, DEPTH[mode]] for legs, mode in WAYS}

    def _seen(self, removed: frozenset[str], legs: str, depth: int) -> Seen:
        found = self._found(removed, legs, depth)
        pages = pages_of(found)[:JUDGED]
        names = tuple(self._evaluation.page(page.best.indexed) for page in pages)
        return Seen(names, tuple(evidence_of(focused(self._text), found, pages)))

    def _found(self, removed: frozenset[str], legs: str, depth: int) -> FusedHits:
        response = without(self._response, lambda chunk: self._evaluation.page(chunk) in removed, depth)
        if legs == VECTOR:
            response = replace(response, lexical=Leg(), term_frequencies={})
        elif legs == LEXICAL:
            response = replace(response, vector=Leg())
        named = {entry for leg in (response.lexical, response.vector) for entry, _ in leg.hits}
        response = replace(response, chunks={entry: response.chunks[entry] for entry in named})
        question_words = words(self._text, self._languages)
        values = value_words(self._text, self._languages)
        return fused_hits(response, Fusion.MIN_MAX, PASSAGES, question_words=question_words, values=values)
