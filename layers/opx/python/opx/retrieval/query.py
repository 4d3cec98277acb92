"""Answers questions: parses each, and applies the stages of an answer to it; parts that fail are noted."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import Struct

from opx.domain.documents import DEFAULT_LANGUAGE
from opx.domain.ids import day_number, stable_hash
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, Results, RetrievalResult
from opx.domain.scopes import Reader
from opx.errors import StoreUnavailableError
from opx.ports import SearchFilter
from opx.retrieval.judging import Validity
from opx.retrieval.query_language import ParsedQuery, parse_query
from opx.retrieval.question import Why
from opx.retrieval.stages import INDEX_DOWN, Found, Internet, Stage
from opx.runtime.metrics import Metric, Report

NO_TIER = "no tier to search: the internet tier needs include_internet"
NOT_CONFIGURED = (
    "no web search is configured: add `internet: {search_provider: brave, api_key_env: BRAVE_API_KEY}` to knowledge.yaml "
    "and set that secret"
)

MAX_CHANGES = 50
"""Changes of a question's words that an answer lists."""


@dataclass(eq=False, kw_only=True)
class KnowledgeQuery:
    """Answers questions of one `reader`, whose scopes are part of every search and can't be widened by a question.

    `stages` make the answer, in order. Only documents of `validity` are found. `internet` answers questions from the web, if
    it is configured.
    """

    stages: Sequence[Stage]
    knowledge: KnowledgeModel
    reader: Reader
    validity: Validity
    internet: Internet | None = None

    def query(self, query: str, config: QueryConfig | None = None, *, expand_graph: bool = False) -> Results:
        """The results that reach `min_confidence`, ranked by confidence x trust; the list's `unconfirmed` has the best of
        the others, with their `band`. Both are empty if nothing is near the question. Raises as `search`.

        `expand_graph` is a shortcut for that of `QueryConfig`; the evidence pack itself is in the `Answer` of `search`.
        """
        config = config or QueryConfig()
        answer = self.search(query, replace(config, expand_graph=True) if expand_graph else config)
        results = Results(answer.results)
        results.unconfirmed = answer.unconfirmed
        return results

    def search(self, query: str, config: QueryConfig | None = None) -> Answer:
        """Like `query`, with notes on what was left out and why: failures of parts are noted in the answer, not raised.

        With `expand_graph`, the answer has an evidence pack: the results with what is related to them and to the nodes that
        the question names.

        Raises `UnknownCategoryError` for a category that doesn't exist, and `StoreUnavailableError` if nothing could be
        searched (`IndexWakingError` while the index wakes up): an empty answer would look like "no knowledge".
        """
        parsed, state = self._parsed(query, config or QueryConfig()), Found()
        if not parsed.config.searched_tiers:  # to the index, no tier means every tier
            parsed.note(NO_TIER)
            return _answer(parsed, state)
        for stage in self.stages:
            state = stage.apply(parsed, state)
            if state.is_final:
                break
        return _answer(parsed, state)

    def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """Results of a live search of the web, ranked by confidence x trust; `[]` if there is none, or it fails."""
        return list(self.internet_answer(query, max_results).results)

    def internet_answer(self, query: str, max_results: int = 5) -> Answer:
        """Like `search_internet`, with failures in the notes. Raises `InvalidInputError` for `max_results` below 1. Nothing
        about the reader is sent."""
        if self.internet is None:
            return Answer(query, (), notes=(NOT_CONFIGURED,))
        return self.internet(query, max_results)

    def _parsed(self, query: str, config: QueryConfig) -> ParsedQuery:
        """The question, with the filters of its configuration within the reader's scopes."""
        parsed = parse_query(query, config, self.knowledge)
        categories = (path for name in config.categories or () for path in self.knowledge.within(name))
        parsed.where = SearchFilter(
            scopes=self.reader.visible,
            categories=tuple(dict.fromkeys(categories)),
            tiers=tuple(tier.value for tier in config.searched_tiers),
            tags=tuple(config.tags),
            document_ids=(config.document_id,) if config.document_id else (),
            languages=(config.language,) if config.language else (),
            resources=tuple(form for one in (*config.services, *config.resources) for form in (one, one.casefold())),
            updated_from=day_number(config.updated_from) if config.updated_from else None,
            updated_before=day_number(config.updated_before) if config.updated_before else None,
        )
        parsed.day = self.validity.day(config.as_of)
        parsed.valid = self.validity.on(parsed.day)
        return parsed


def _answer(parsed: ParsedQuery, state: Found) -> Answer:
    changes = [change.to_json() for change in parsed.changes if change.why is Why.LEARNT]
    outcomes = state.outcomes.mark
    return Answer(
        query=parsed.query,
        results=state.results,
        partial=parsed.partial,
        notes=tuple(parsed.notes),
        absent=parsed.absent or (),
        unconfirmed=state.unconfirmed,
        timings_ms=parsed.timings,
        routing=tuple(state.steps),
        ranked_by=parsed.ranked_by,
        understood=_understood(parsed),
        evidence=state.evidence,
        outcomes=stable_hash("learnt", outcomes, changes)[:16] if changes else outcomes,
    )


def _understood(parsed: ParsedQuery) -> dict[str, Any]:
    languages = [language for language in parsed.languages if language != DEFAULT_LANGUAGE]
    changes = [change.to_json() for change in parsed.changes[:MAX_CHANGES]]
    return {
        **parsed.question.understood,
        **({"languages": languages} if languages else {}),
        **({"reworded": changes} if changes else {}),
    }


# -- metrics of questions, for all entry points

LEGS = ("lexical", "vector")
STAGES = ("embed", "search", "judge")
"""Stages in `Answer.timings_ms` beside the legs."""


class Answered(Struct, frozen=True):
    """A question, its configuration, its answer, and the duration in milliseconds."""

    query: str
    config: QueryConfig
    answer: Answer
    took_ms: float


Finish = Callable[[Answered], Answer]
"""Called with a finished answer; returns the answer to hand out."""


class Observer(Protocol):
    """Observes, and may change, answers before they are handed out."""

    def begin(self) -> Finish:
        """Called when a question begins. The result is called with its answer, unless the question is refused."""


class MeasuredQuery(KnowledgeQuery):
    """A `KnowledgeQuery` that reports metrics of every answer, and then passes it through the observers. A refused question,
    such as one for a category that doesn't exist, is not reported; one that nothing was searched for is, without
    observers."""

    def __init__(self, *, report: Report, observers: Sequence[Observer] = (), **parts: Any) -> None:
        super().__init__(**parts)
        self._report = report
        self._observers = observers

    def search(self, query: str, config: QueryConfig | None = None) -> Answer:
        config = config or QueryConfig()
        finishing = [observer.begin() for observer in self._observers]
        started = time.perf_counter()
        try:
            answer = super().search(query, config)
        except StoreUnavailableError:
            unsearched = Answer(query, (), partial=True, notes=(INDEX_DOWN,))
            report_answer(unsearched, config, 1000 * (time.perf_counter() - started), self._report)
            raise
        taken = 1000 * (time.perf_counter() - started)
        report_answer(answer, config, taken, self._report)
        for finish in finishing:
            answer = finish(Answered(query, config, answer, taken))
        return answer


def report_answer(answer: Answer, config: QueryConfig, milliseconds: float, report: Report) -> None:
    """Reports the metrics of an answer and its duration. An answer without a search has no metrics of confidence and
    results."""
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
