"""Collects the evidence of labelled questions in all the ways of searching that the confidence models are fitted on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.operations.evaluation.datasets import LabelledQuestion
from opx.operations.evaluation.runner import Evaluation
from opx.ports import Leg, SearchRequest, SearchResponse
from opx.retrieval.calibration.questions import without
from opx.retrieval.evidence import Parts, evidence_of
from opx.retrieval.hybrid import BOTH, DEPTH, LEXICAL, VECTOR, FusedHits, fused_hits
from opx.retrieval.judging import JUDGED, PASSAGES, pages_of
from opx.retrieval.question import focused
from opx.text.fields import words
from opx.text.languages import question_languages

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
        ask = _QuestionSearches(evaluation, question.text)
        of_pages = next(iter(question.relevant)).split("/")[0] if question.relevant else ""
        collection = dataset.folder.name if dataset.documents else of_pages
        if not question.relevant:
            yield QuestionEvidence(name, question.kind, collection, question, {}, ask.seen(frozenset()))
            continue
        yield QuestionEvidence(name, ANSWERABLE, collection, question, question.relevant, ask.seen(frozenset()))
        yield QuestionEvidence(name, REMOVED, collection, question, {}, ask.seen(frozenset(question.relevant)))


class _QuestionSearches:
    """The searches for one question, done once; legs and pages are taken out of what they found."""

    def __init__(self, evaluation: Evaluation, text: str) -> None:
        self._evaluation = evaluation
        self._text = text
        self._languages = question_languages(text)
        self._respond = cache(self._searched)

    def seen(self, removed: frozenset[str]) -> dict[Way, Seen]:
        return {(legs, mode): self._seen(removed, legs, mode) for legs, mode in WAYS}

    def _seen(self, removed: frozenset[str], legs: str, mode: SearchMode) -> Seen:
        whole = self._found(self._text, removed, legs, mode)
        text, focus = self._text, whole
        if mode is SearchMode.THOROUGH:
            text = focused(self._text, lambda word: any(whole.frequencies.get(first, 0) for first in words(word)))
            focus = whole if text == self._text else self._found(text, removed, legs, mode)
        pages = pages_of(whole, focus)[:JUDGED]
        names = tuple(self._evaluation.page(page.best.indexed) for page in pages)
        return Seen(names, tuple(evidence_of(text, focus, pages)))

    def _found(self, text: str, removed: frozenset[str], legs: str, mode: SearchMode) -> FusedHits:
        response = without(self._respond(text), lambda chunk: self._evaluation.page(chunk) in removed, DEPTH[mode])
        if legs == VECTOR:
            response = replace(response, lexical=Leg(), term_frequencies={})
        elif legs == LEXICAL:
            response = replace(response, vector=Leg())
        named = {entry for leg in (response.lexical, response.vector) for entry, _ in leg.hits}
        response = replace(response, chunks={entry: response.chunks[entry] for entry in named})
        return fused_hits(response, Fusion.MIN_MAX, PASSAGES, question_words=words(text, self._languages))

    def _searched(self, text: str) -> SearchResponse:
        indexing = self._evaluation.services.indexing
        vector, where = indexing.embedder.embed_query(text), self._evaluation.everything
        depth = 3 * DEPTH[SearchMode.THOROUGH]
        return indexing.index.search(SearchRequest(where, text, vector, depth, self._languages))
