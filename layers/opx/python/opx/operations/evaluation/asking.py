"""Asks every question the way users do, in every mode; searches that modes share are done once."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

import opx
from opx.domain.queries import QueryConfig, SearchMode
from opx.domain.results import Answer
from opx.operations.evaluation.answers import Form, Judgement, judged
from opx.operations.evaluation.datasets import Question
from opx.operations.evaluation.runner import Evaluation
from opx.operations.evaluation.runs import PAGES_KEPT, Reply, Run
from opx.operations.evaluation.sharing import Shared, shared_searches
from opx.retrieval.hybrid import DEPTH
from opx.retrieval.query import KnowledgeQuery

MODES = tuple(mode for mode in SearchMode if mode in DEPTH)
RESULTS = 2 * PAGES_KEPT
"""A document has at most two results by default, so these are `PAGES_KEPT` pages at least where there are so many."""

WARM_UP = "which runbook is for a disk that is full"
"""Asked first in every mode and not measured: it loads the models."""


def ask_all(
    evaluation: Evaluation,
    modes: Sequence[SearchMode] = MODES,
    *,
    compared_at: SearchMode | None = SearchMode.BALANCED,
    forms: Mapping[str, Form] | None = None,
) -> Run:
    """Ask all questions of a dataset that has been taken in.

    Every mode answers at a floor of 0, so that it can be judged at every floor; nothing is recorded of the questions. Legs
    and fusions alone are ranked, too, at the depth of the mode `compared_at`, unless it is None. Questions with spans are
    also answered in every one of `forms`.
    """
    dataset = evaluation.dataset
    replies: dict[str, list[Reply]] = {}
    answers: dict[str, list[Judgement | None]] = {}
    wanted = forms if forms and any(question.spans for question in dataset.questions) else {}
    with shared_searches(evaluation.services.indexing) as shared:
        knowledge = evaluation.services.questions.search(recorded=False)
        asker = _Asker(evaluation, shared, knowledge)
        for mode in modes:
            asker.ask(WARM_UP, mode)
        for number, question in enumerate(dataset.asked, start=1):
            shared.forget()
            for mode in modes:
                replies.setdefault(mode.value, []).append(asker.ask(question.text, mode))
            for system, pages in _rankings(evaluation, question, compared_at):
                replies.setdefault(system, []).append(Reply(tuple(pages[:PAGES_KEPT])))
            for name, form in wanted.items():
                answers.setdefault(name, []).append(asker.judge(question, form) if question.spans else None)
            evaluation.progress("ask", number, len(dataset.asked))
    return Run(
        dataset=dataset.folder.resolve().name,
        corpus=dataset.corpus_fingerprint(),
        questions=dataset.asked,
        replies={system: tuple(found) for system, found in replies.items()},
        modes=tuple(mode.value for mode in modes),
        about=_about(),
        answers={name: tuple(found) for name, found in answers.items()},
    )


def _rankings(
    evaluation: Evaluation, question: Question, compared_at: SearchMode | None
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


class _Asker:
    def __init__(self, evaluation: Evaluation, shared: Shared, knowledge: KnowledgeQuery) -> None:
        self._evaluation = evaluation
        self._shared = shared
        self._knowledge = knowledge

    def ask(self, text: str, mode: SearchMode) -> Reply:
        config = QueryConfig(mode=mode, min_confidence=0.0, max_results=RESULTS)
        self._shared.saved.clear()
        started = time.perf_counter()
        answer = self._knowledge.answer(text, config)
        taken = 1000 * (time.perf_counter() - started)
        return self._reply(answer, taken)

    def _reply(self, answer: Answer, taken: float) -> Reply:
        saved = self._shared.saved
        timings = {part: value + saved.get(part, 0.0) for part, value in answer.timings_ms.items()}
        pages: dict[str, float] = {}
        for result in answer.results:
            page = self._page(result.document_id, result.source)
            pages[page] = max(pages.get(page, 0.0), result.confidence)
        kept = dict(list(pages.items())[:PAGES_KEPT])
        return Reply(
            pages=tuple(kept),
            confidences=tuple(kept.values()),
            milliseconds=taken + sum(saved.values()),
            timings_ms=timings,
            ranked_by=answer.ranked_by,
            partial=answer.partial,
            absent=tuple(one.name for one in answer.absent),
        )

    def judge(self, question: Question, form: Form) -> Judgement:
        """The judgement of the reply in a form, which isn't timed."""
        shown = form(question.text)
        return judged(question, shown, [self._page(*one) for one in shown.found])

    def _page(self, document_id: str, source: str) -> str:
        return self._evaluation.page_of(self._shared.keys[document_id, source])
