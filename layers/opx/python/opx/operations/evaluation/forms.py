"""Forms of replies that are judged: what an agent reads, at several bars of confidence, and what it is compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from opx.domain.handover import DocumentAnswer
from opx.domain.queries import DEFAULT_BUDGET, QueryConfig
from opx.domain.results import RetrievalResult
from opx.operations.context import Context
from opx.operations.evaluation.answers import Form, Shown
from opx.operations.research import FoundAnswer, found_documents
from opx.operations.search import DEFAULT_RESULTS
from opx.retrieval.citations import citations

PASSAGES, WHOLE_PAGE = "passages", "whole page"
_EVERYTHING = QueryConfig(min_confidence=0, max_results=DEFAULT_RESULTS)


def agent_forms(context: Context, *bars: float) -> Mapping[str, Form]:
    """Replies of agents' searches over all categories, as they are by default and at these bars of confidence; the best
    passages as they are; and all of the best page. Questions are recorded as the system's settings say."""
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
    return context.system.questions.search(context.identity, context.report).answer(question, _EVERYTHING).results


def sources(found: Iterable[RetrievalResult | DocumentAnswer]) -> tuple[tuple[str, str], ...]:
    """Id and source of documents, each once, in this order."""
    return tuple(dict.fromkeys((one.document_id, one.source) for one in found))
