"""Questions of a labelled set, asked in all the ways that the models of confidence are fitted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from opx.domain.queries import Fusion, SearchMode
from opx.domain.record import replace
from opx.evaluation.runner import Evaluation
from opx.ports import Leg, SearchRequest, SearchResponse
from opx.retrieval.confidence import FEATURES, feature_rows, question_parts
from opx.retrieval.hybrid import DEPTH, FusedHit, FusedHits, fused_hits
from opx.retrieval.local_ranker import FEATURES as RANKED
from opx.retrieval.local_ranker import pooled, ranked_parts, without_values
from opx.text.fields import words
from opx.text.languages import question_languages
from tests.quality.logistic import Array

HITS = 20
ANSWERABLE, REMOVED, OFF_TOPIC, UNANSWERABLE = "answerable", "removed", "off-topic", "unanswerable"
WORDLESS = "wordless "
QUESTION = ("cosine", "bm25_share", "coverage", "pairs", "title_grams", "title_coverage", "length", "lead")
NAMES = {"fused": FEATURES, "ranked": RANKED, "answerable": QUESTION}
"""The inputs of each model."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one model sees of a question: shape (rows, inputs), and the label of each row. `pages` are those of the
    rows."""

    rows: Array
    labels: Array
    pages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """One question in one way, with what each model sees. `relevant` are its labels; `question` its kind, `split` the
    part of its set that it is in."""

    kind: str
    collection: str
    question: str
    split: str
    relevant: Mapping[str, int]
    seen: Mapping[str, Seen]


def collect(evaluation: Evaluation) -> Iterator[Asked]:
    """Ask every question of a dataset in all ways, then the ones about other things if it has none without an answer.

    A set of documents is one collection; of pages in a file, the first folder of a page's id names its collection.
    """
    dataset = evaluation.dataset
    for question in dataset.questions:
        of_pages = next(iter(question.relevant)).split("/")[0]
        collection = dataset.folder.name if dataset.documents else of_pages
        ask = _Asker(evaluation, question.text)
        for prefix in ("", WORDLESS):
            for kind, relevant in ((ANSWERABLE, question.relevant), (REMOVED, {})):
                without = question.relevant if kind == REMOVED else {}
                seen = ask.seen(set(without), relevant, wordless=bool(prefix))
                yield Asked(prefix + kind, collection, question.kind, question.split, relevant, seen)
    for question in dataset.unanswerable:
        yield from _unanswered(evaluation, question.text, UNANSWERABLE, dataset.folder.name, question.split)
    if not dataset.unanswerable:
        for text in Path(__file__).with_name("off_topic.txt").read_text(encoding="utf-8").splitlines():
            yield from _unanswered(evaluation, text, OFF_TOPIC, "", "")


def _unanswered(evaluation: Evaluation, text: str, kind: str, collection: str, split: str) -> Iterator[Asked]:
    ask = _Asker(evaluation, text)
    for prefix in ("", WORDLESS):
        yield Asked(prefix + kind, collection, kind, split, {}, ask.seen(set(), {}, wordless=bool(prefix)))


class _Asker:
    """The searches for one question, done once; pages are taken out of what they found."""

    def __init__(self, evaluation: Evaluation, text: str) -> None:
        self._evaluation = evaluation
        self._text = text
        self._languages = question_languages(text)
        self._respond = cache(self._searched)

    def seen(self, without: set[str], relevant: Mapping[str, int], *, wordless: bool) -> dict[str, Seen]:
        whole = self._found(self._text, without, wordless=wordless)
        focus = without_values(self._text, whole)
        second = whole if focus == self._text else self._found(focus, without, wordless=wordless)
        hit_rows = feature_rows(whole)[:HITS]
        pool = pooled(whole, second, 1)
        parts = question_parts(self._text, whole)
        return {
            "fused": self._of(FEATURES, hit_rows, [self._page(hit) for hit in whole.hits[:HITS]], relevant),
            "ranked": self._of(
                RANKED, ranked_parts(focus, second, pool), [self._page(hit) for hit in pool.hits], relevant
            ),
            "answerable": Seen(np.array([[parts[name] for name in QUESTION]]), np.array([float(bool(relevant))])),
        }

    def _page(self, hit: FusedHit) -> str:
        return self._evaluation.page(hit.indexed)

    @staticmethod
    def _of(
        names: tuple[str, ...], rows: list[dict[str, float]], pages: list[str], relevant: Mapping[str, int]
    ) -> Seen:
        values = np.array([[row[name] for name in names] for row in rows]).reshape(-1, len(names))
        return Seen(values, np.array([float(page in relevant) for page in pages]), tuple(pages))

    def _found(self, text: str, without: set[str], *, wordless: bool) -> FusedHits:
        response = self._without(self._respond(text), without)
        if wordless:
            nothing = dict.fromkeys(response.term_frequencies, 0)
            response = replace(response, lexical=Leg(), term_frequencies=nothing)
        return fused_hits(response, Fusion.MIN_MAX, 1, asked=words(text, self._languages))

    def _searched(self, text: str) -> SearchResponse:
        indexing = self._evaluation.services.indexing
        vector, where = indexing.embedder.embed_query(text), self._evaluation.everything
        return indexing.index.search(SearchRequest(where, text, vector, DEPTH[SearchMode.BALANCED], self._languages))

    def _without(self, response: SearchResponse, pages: set[str]) -> SearchResponse:
        def kept(leg: Leg) -> Leg:
            return Leg(tuple(hit for hit in leg.hits if self._evaluation.page(response.chunks[hit[0]]) not in pages))

        chunks = {entry: chunk for entry, chunk in response.chunks.items() if self._evaluation.page(chunk) not in pages}
        return replace(response, lexical=kept(response.lexical), vector=kept(response.vector), chunks=chunks)
