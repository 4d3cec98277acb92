"""Runs every question as users do, in every mode; searches that modes share are done once."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import opx
from opx.domain.handover import DocumentAnswer
from opx.domain.queries import DEFAULT_BUDGET, QueryConfig, SearchMode
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.ingestion.indexing.capability import Indexing
from opx.operations.context import Context
from opx.operations.search import DEFAULT_RESULTS
from opx.operations.search_tools import FoundAnswer, found_documents
from opx.ports import Embedder, SearchEngine, SearchIndex, SearchRequest, SearchResponse, Vector
from opx.retrieval.citations import citations
from opx.retrieval.hybrid import DEPTH
from opx.retrieval.query import KnowledgeQuery
from opx_quality.evaluation.answers import Form, ReplyJudgement, Shown, judged
from opx_quality.evaluation.datasets import LabelledQuestion
from opx_quality.evaluation.runner import Evaluation
from opx_quality.evaluation.runs import PAGES_KEPT, EvaluationRun, JudgedReply

MODES = tuple(mode for mode in SearchMode if mode in DEPTH)
RESULTS = 2 * PAGES_KEPT
"""A document has at most two results by default, so these cover at least `PAGES_KEPT` pages, if there are so many."""

WARM_UP = "which runbook is for a disk that is full"
"""First query in every mode, not measured: it loads the models."""


def run_queries(
    evaluation: Evaluation,
    modes: Sequence[SearchMode] = MODES,
    *,
    compared_at: SearchMode | None = SearchMode.BALANCED,
    forms: Mapping[str, Form] | None = None,
) -> EvaluationRun:
    """Runs all questions of an ingested dataset.

    Every mode answers at a floor of 0, so that it can be judged at every floor; the questions are not recorded. Legs and
    fusions alone are ranked, too, at the depth of the mode `compared_at`, unless it is None. Questions with spans are
    also answered in every one of `forms`.
    """
    dataset = evaluation.dataset
    replies: dict[str, list[JudgedReply]] = {}
    answers: dict[str, list[ReplyJudgement | None]] = {}
    wanted = forms if forms and any(question.spans for question in dataset.questions) else {}
    with shared_searches(evaluation.services.indexing) as shared:
        knowledge = evaluation.services.questions.for_reader(recorded=False)
        querier = _Querier(evaluation, shared, knowledge)
        for mode in modes:
            querier.query(WARM_UP, mode)
        for number, question in enumerate(dataset.all_questions, start=1):
            shared.forget()
            for mode in modes:
                replies.setdefault(mode.value, []).append(querier.query(question.text, mode))
            for system, pages in _rankings(evaluation, question, compared_at):
                replies.setdefault(system, []).append(JudgedReply(tuple(pages[:PAGES_KEPT])))
            for name, form in wanted.items():
                answers.setdefault(name, []).append(querier.judge(question, form) if question.spans else None)
            evaluation.progress("ask", number, len(dataset.all_questions))
    return EvaluationRun(
        dataset=dataset.folder.resolve().name,
        corpus=dataset.corpus_fingerprint(),
        questions=dataset.all_questions,
        replies={system: tuple(found) for system, found in replies.items()},
        modes=tuple(mode.value for mode in modes),
        about=_about(),
        answers={name: tuple(found) for name, found in answers.items()},
    )


def _rankings(
    evaluation: Evaluation, question: LabelledQuestion, compared_at: SearchMode | None
) -> Iterator[tuple[str, list[str]]]:
    if compared_at is not None:
        yield from evaluation.rankings(question.text, compared_at).items()


def _about() -> dict[str, str]:
    return {
        "opx": opx.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "asked": datetime.now(UTC).isoformat(timespec="seconds"),
    }


class _Querier:
    def __init__(self, evaluation: Evaluation, shared: Shared, knowledge: KnowledgeQuery) -> None:
        self._evaluation = evaluation
        self._shared = shared
        self._knowledge = knowledge

    def query(self, text: str, mode: SearchMode) -> JudgedReply:
        config = QueryConfig(mode=mode, min_confidence=0.0, max_results=RESULTS)
        self._shared.saved.clear()
        started = time.perf_counter()
        answer = self._knowledge.search(text, config)
        taken = 1000 * (time.perf_counter() - started)
        return self._reply(answer, taken)

    def _reply(self, answer: Answer, taken: float) -> JudgedReply:
        saved = self._shared.saved
        timings = {part: value + saved.get(part, 0.0) for part, value in answer.timings_ms.items()}
        pages: dict[str, float] = {}
        for result in answer.results:
            page = self._page(result.document_id, result.source)
            pages[page] = max(pages.get(page, 0.0), result.confidence)
        kept = dict(list(pages.items())[:PAGES_KEPT])
        return JudgedReply(
            pages=tuple(kept),
            confidences=tuple(kept.values()),
            milliseconds=taken + sum(saved.values()),
            timings_ms=timings,
            ranked_by=answer.ranked_by,
            partial=answer.partial,
            absent=tuple(one.name for one in answer.absent),
        )

    def judge(self, question: LabelledQuestion, form: Form) -> ReplyJudgement:
        """The judgement of the reply in a form, which isn't timed."""
        shown = form(question.text)
        return judged(question, shown, [self._page(*one) for one in shown.found])

    def _page(self, document_id: str, source: str) -> str:
        return self._evaluation.page_of(self._shared.keys[document_id, source])


# -- sharing


@dataclass(slots=True)
class Shared:
    """Memoised replies of the index and the embedder since the last `forget`.

    `saved` has the milliseconds, by part of an answer, that memoised replies took when they were computed. `keys` has the
    document key of each found chunk, by the id and the source of its document.
    """

    saved: dict[str, float] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    _known: dict[object, tuple[Any, float]] = field(default_factory=dict)

    def forget(self) -> None:
        """Clears the memory for the next question."""
        self._known.clear()
        self.saved.clear()

    def once(self, part: str, key: object, do: Callable[[], Any]) -> Any:
        """Returns the result of `do`, which is called the first time only."""
        if (part, key) in self._known:
            made, milliseconds = self._known[part, key]
            self.saved[part] = self.saved.get(part, 0.0) + milliseconds
            return made
        started = time.perf_counter()
        made = do()
        self._known[part, key] = (made, 1000 * (time.perf_counter() - started))
        return made


@contextmanager
def shared_searches(indexing: Indexing) -> Iterator[Shared]:
    """Within the block, the index and the embedder compute the reply to the same request once."""
    index, embedder, shared = indexing.index, indexing.embedder, Shared()
    current = indexing.editions.current().embedder if indexing.has_editions else embedder
    replacements = cast("SearchIndex", _Index(index, shared)), cast("Embedder", _Embedder(current, shared))
    with indexing.replaced(*replacements):
        yield shared


class _Index:
    def __init__(self, index: SearchEngine, shared: Shared) -> None:
        self._index = index
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, request: SearchRequest) -> SearchResponse:
        vector = None if request.vector is None else tuple(request.vector)
        key = (replace(request, vector=None), vector)
        response: SearchResponse = self._shared.once("search", key, lambda: self._index.search(request))
        for indexed in response.chunks.values():
            self._shared.keys[indexed.chunk.document_id, indexed.source_uri] = indexed.key_id
        return response


class _Embedder:
    def __init__(self, embedder: Embedder, shared: Shared) -> None:
        self._embedder = embedder
        self._shared = shared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._embedder, name)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self._shared.once("embed", text, lambda: self._embedder.embed_query(text))
        return vector


# -- forms


PASSAGES, WHOLE_PAGE = "passages", "whole page"
_EVERYTHING = QueryConfig(min_confidence=0, max_results=DEFAULT_RESULTS)


def agent_forms(context: Context, *bars: float) -> Mapping[str, Form]:
    """Forms of agents' replies over all categories: the search tool by default and at these bars of confidence; the best
    passages unchanged; and all of the best page. Questions are recorded according to the system's settings."""
    replies = {f"reply, bar {bar:g}": _reply(context, bar) for bar in sorted({0.0, *bars})}
    return {**replies, PASSAGES: _passages(context), WHOLE_PAGE: _whole_page(context)}


def _reply(context: Context, bar: float) -> Form:
    def reply(question: str) -> Shown:
        config = QueryConfig(min_confidence=bar)
        answer = found_documents(context, question, DEFAULT_RESULTS, DEFAULT_BUDGET, config)
        return Shown(FoundAnswer(answer).text(), sources(answer.documents))

    return reply


def _passages(context: Context) -> Form:
    def reply(question: str) -> Shown:
        results = _best(context, question)
        return Shown(citations(results), sources(results))

    return reply


def _whole_page(context: Context) -> Form:
    def reply(question: str) -> Shown:
        first = _best(context, question)[:1]
        documents = context.system.questions.documents
        texts = [documents.outline(context.reader, one.document_id)[1].text for one in first]
        return Shown("".join(texts), sources(first))

    return reply


def _best(context: Context, question: str) -> Sequence[RetrievalResult]:
    return context.system.questions.for_reader(context.identity, context.report).search(question, _EVERYTHING).results


def sources(found: Iterable[RetrievalResult | DocumentAnswer]) -> tuple[tuple[str, str], ...]:
    """Id and source of documents, each once, in this order."""
    return tuple(dict.fromkeys((one.document_id, one.source) for one in found))
