"""Questions, measured: the one place that reports on them, for all entry points."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.errors import StoreUnavailableError
from opx.retrieval.query import INDEX_DOWN, NO_TIER, KnowledgeQuery
from opx.runtime.metrics import Metric, Report

LEGS = ("lexical", "vector")
STAGES = ("embed", "search", "judge")
"""Parts of every answer, as `Answer.timings_ms` has them beside the legs."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A question, how it was to be answered, its answer, and how many milliseconds that took."""

    query: str
    config: QueryConfig
    answer: Answer
    took_ms: float


Finish = Callable[[Answered], Answer]
"""Gives the answer to hand out."""


class Observer(Protocol):
    """Looks at answers before they are handed out."""

    def asked(self) -> Finish:
        """A question begins. What comes back is called with its answer, unless it is refused."""


class MeasuredQuery(KnowledgeQuery):
    """A `KnowledgeQuery` that reports every answer, and then shows it to the observers in turn. A question that is
    refused, as it names a category that doesn't exist, is not one."""

    def __init__(self, *, report: Report, observers: Sequence[Observer] = (), **parts: Any) -> None:
        super().__init__(**parts)
        self._report = report
        self._observers = observers

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer:
        config = config or QueryConfig()
        finishing = [observer.asked() for observer in self._observers]
        started = time.perf_counter()
        answer = super().answer(query, config)
        taken = 1000 * (time.perf_counter() - started)
        report_answer(answer, config, taken, self._report)
        for finish in finishing:
            answer = finish(Answered(query, config, answer, taken))
        return answer


def report_answer(answer: Answer, config: QueryConfig, milliseconds: float, report: Report) -> None:
    """Report what is to be known of an answer and how long it took. One that nothing was searched for says nothing of
    confidence and results."""
    mode = config.mode.value
    report(Metric.QUERIES, 1.0, mode=mode)
    report(Metric.QUERY_LATENCY, milliseconds, mode=mode)
    for part, taken in answer.timings_ms.items():
        if part in LEGS:
            report(Metric.LEG_LATENCY, taken, mode=mode, leg=part)
        else:
            report(Metric.STAGE_LATENCY, taken, mode=mode, stage=part)
    report(Metric.SEARCH_UNAVAILABLE, float(INDEX_DOWN in answer.notes))
    report(Metric.PARTIAL_ANSWERS, float(answer.partial))
    if INDEX_DOWN not in answer.notes and NO_TIER not in answer.notes:
        best = answer.results[0] if answer.results else answer.best_rejected
        report(Metric.CONFIDENCE, best.confidence if best else 0.0)
        report(Metric.ZERO_RESULTS, float(not answer.results))


@contextmanager
def counted_as_unavailable(report: Report) -> Iterator[None]:
    """Report a store's failure in the block, which comes before there is anything to ask, as a search that failed."""
    try:
        yield
    except StoreUnavailableError:
        report(Metric.SEARCH_UNAVAILABLE, 1.0)
        raise
