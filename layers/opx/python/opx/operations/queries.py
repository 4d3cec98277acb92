"""Questions, measured: the one place that reports on them, for all entry points."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.errors import StoreUnavailableError
from opx.operations.metrics import Metric, Report
from opx.retrieval.query import INDEX_DOWN, NO_TIER, KnowledgeQuery

LEGS = ("lexical", "vector")
STAGES = ("embed", "search", "judge")
"""Parts of every answer, as `Answer.timings_ms` has them beside the legs."""


class MeasuredQuery(KnowledgeQuery):
    """A `KnowledgeQuery` that reports every answer. A question that is refused, as it names a category that doesn't
    exist, is not one."""

    def __init__(self, *, report: Report, **parts: Any) -> None:
        super().__init__(**parts)
        self._report = report

    def answer(self, query: str, config: QueryConfig | None = None) -> Answer:
        config = config or QueryConfig()
        started = time.perf_counter()
        answer = super().answer(query, config)
        report_answer(answer, config, 1000 * (time.perf_counter() - started), self._report)
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
