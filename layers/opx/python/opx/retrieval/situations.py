"""Answers a question in a situation: node, service, symptom, timeframe and steps tried already."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import prod
from typing import Any

from opx.domain.queries import MAX_QUERY_CHARACTERS, QueryConfig
from opx.domain.record import replace
from opx.domain.resources import resources_in
from opx.domain.results import Answer, RetrievalResult
from opx.errors import InvalidInputError
from opx.retrieval.citations import NOTHING_FOUND
from opx.retrieval.judging import UNLIKELY, WORTHLESS, seeks_reports
from opx.text.fields import query_terms

SERVICE_IS_MEANT = 1.15
SERVICE_IS_ANOTHER = 0.8
WAS_TRIED = 0.7
"""Factors on a result's score. Bounded on purpose: a situation swaps neighbours, it doesn't make a poor answer a good
one."""

RECORDS = 5
"""Records of the node that are returned whatever their confidence is."""
MAX_VALUE_CHARACTERS = 500
MAX_TRIED = 20

Ask = Callable[[str, QueryConfig, bool], Answer]
"""Answers a question; with the flag, one without a good answer is recorded as a gap."""

_TIMEFRAME = re.compile(
    r"(?:the\s+)?(?:last|past)?\s*(\d{1,4})?\s*(minute|min|hour|hr|h|day|d|week|w|m)s?\b", re.IGNORECASE
)
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PLAIN_STEP = re.compile(r"^\s*(?:#+\s+(?:step\s+)?)?(?:[-*+]|\d+[.):])\s+", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation; unknown fields are empty. `seconds` is the length of the timeframe up to now, 0 for unknown."""

    node: str = ""
    service: str = ""
    symptom: str = ""
    seconds: int = 0
    already_tried: tuple[str, ...] = ()

    @classmethod
    def read(cls, context: Mapping[str, Any]) -> Situation:
        """Parses a context from an agent: `{"node": "web-server-01", "symptom": "high CPU", "timeframe": "last 2 hours",
        "already_tried": ["restart"]}`. Unknown fields are ignored.

        Raises `InvalidInputError` for a field of another type.
        """
        tried = context.get("already_tried") or ()
        tried = (tried,) if isinstance(tried, str) else tried
        if not isinstance(tried, Sequence) or not all(isinstance(one, str) for one in tried):
            raise InvalidInputError("already_tried must be a list of strings")
        return cls(
            node=_text(context, "node").replace('"', ""),
            service=_text(context, "service"),
            symptom=_text(context, "symptom"),
            seconds=_seconds(_text(context, "timeframe")),
            already_tried=tuple(one[:MAX_VALUE_CHARACTERS] for one in tried[:MAX_TRIED] if one.strip()),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the node as a resource: its own, and that of its host."""
        return resources_in({"node": self.node})

    def question(self, query: str) -> str:
        """The question with symptom and service, unless it has them."""
        written = query.casefold()
        return " ".join(
            [query, *(part for part in (self.symptom, self.service) if part and part.casefold() not in written)]
        )

    def searches(self, query: str, config: QueryConfig, since: datetime) -> Iterator[tuple[str, QueryConfig]]:
        """Searches of documents of any confidence that are about the node, of the latest of them, and of those that mention
        it."""
        if not self.names:
            return
        words = (self.symptom if config.plain else self.question(query))[:MAX_QUERY_CHARACTERS]
        every = replace(config, min_confidence=0, max_chunks_per_document=1, plain=False)
        about = " ".join([*(f'resource:"{name}"' for name in self.names), words])
        yield about, every
        if self.seconds:
            yield about, replace(every, updated_from=max(config.updated_from, since.date().isoformat()))
        yield f'"{self.names[-1]}" {words}', every

    def weighed(self, results: Iterable[RetrievalResult], query: str) -> Iterator[RetrievalResult]:
        """Those of the results that name the node. One without the words of the symptom, or else of the query, was found by
        the node alone: it is unlikely, and worthless unless the query asks for records."""
        most = WORTHLESS if seeks_reports(query) else WORTHLESS / 2
        for one in filter(self.names_node, results):
            text = "\n".join((one.title, one.section, one.content))
            yield one if _is_in(self.symptom or query, text) else _capped(one, most)

    def names_node(self, result: RetrievalResult) -> bool:
        """True if a result is about the node, or mentions it."""
        stated = result.metadata.get("resources", ())
        return any(name in stated or _names(name, result) for name in self.names)

    def marked(self, result: RetrievalResult, is_recent: bool) -> RetrievalResult:
        """A result with its score in this situation, the reasons for its rank (`because`), and its steps that were
        `tried`."""
        tried = [step for step in _steps_of(result) if any(_is_in(one, step) for one in self.already_tried)]
        moves = [
            *([(f"names {self.node}", 1.0)] if self.names_node(result) else []),
            *([("happened in the timeframe", 1.0)] if is_recent else []),
            *self._moves(result, tried),
        ]
        because = [{"why": why, "factor": factor} for why, factor in moves]
        metadata = {**result.metadata, "because": because, **({"tried": tried} if tried else {})}
        return replace(result, score=min(result.score * prod(factor for _, factor in moves), 1.0), metadata=metadata)

    def _moves(self, result: RetrievalResult, tried: Sequence[str]) -> Iterator[tuple[str, float]]:
        """Reasons why a result's score changes, with their factors."""
        services = [str(name).casefold() for name in result.metadata.get("services", ())]
        if self.service and (self.service.casefold() in services or _names(self.service, result)):
            yield f"is about {self.service}", SERVICE_IS_MEANT
        elif self.service and services:
            yield f"is about {', '.join(services[:3])}", SERVICE_IS_ANOTHER
        repeats = len(tried) > len(_steps_of(result)) / 2
        texts = (result.title, result.section, *(tried if repeats else ()))
        if again := [one for one in self.already_tried if any(_is_in(one, text) for text in texts)]:
            yield f"was tried: {', '.join(again)}", WAS_TRIED


def best_in(
    situation: Situation, query: str, config: QueryConfig, ask: Ask, now: datetime | None = None
) -> RetrievalResult:
    """The best result in the situation, with the others as its `alternatives`; without any, a result that states that.

    Likely guidance comes before records, unless the query asks for these; among each, documents that name the node, then
    those of the timeframe. Records of the node are there whatever their confidence is, the latest first.
    """
    now = now or datetime.now(UTC)
    since = now - timedelta(seconds=situation.seconds)
    seeks = seeks_reports(query)

    def is_recent(one: RetrievalResult) -> bool:
        return one.is_report and one.updated_at is not None and since <= one.updated_at <= now

    def rank(one: RetrievalResult) -> tuple[bool, bool, bool, float]:
        leads = seeks or (not one.is_report and one.confidence >= UNLIKELY)
        is_its_own = one.confidence >= WORTHLESS and situation.names_node(one)
        return not leads, not is_its_own, not is_recent(one), -one.score

    config = replace(config, max_results=max(config.max_results, 10))
    question = situation.question(query)
    of_node = [one for search in situation.searches(query, config, since) for one in ask(*search, False).results]
    alone = ask(query, config, False).results if question != query else ()  # facts may make a right page less likely
    found = [*alone, *situation.weighed(of_node, query)]
    is_answered = any(one.confidence >= config.min_confidence for one in found)
    answer = ask(question, config, not is_answered)
    found = _surest((*answer.results, *found))
    records = [one for one in found if one.is_report and situation.names_node(one)]
    records.sort(key=lambda one: (not is_recent(one), -one.score))
    good = [one for one in found if one.confidence >= config.min_confidence or one in records[:RECORDS]]
    ordered = sorted((situation.marked(one, is_recent(one)) for one in good), key=rank)
    least = min(config.min_confidence, WORTHLESS)
    best = next((one for one in ordered if one.confidence >= least), None)
    facts = {
        "notes": list(answer.notes),
        "partial": answer.partial,
        "receiptId": answer.receipt_id,
        "alternatives": [one.to_json() for one in ordered if one is not best],
    }
    if best:
        return replace(best, metadata={**best.metadata, **facts})
    nearest = answer.best_rejected
    facts |= {"nearest": nearest.to_json()} if nearest else {}
    return RetrievalResult(NOTHING_FOUND, 0.0, "", "", "", "", 0.0, facts)


def _capped(result: RetrievalResult, most: float) -> RetrievalResult:
    parts = result.parts
    parts = parts and replace(parts, confidence=min(parts.confidence, most), final=min(parts.final, most))
    return replace(result, score=min(result.score, most), parts=parts)


def _surest(results: Iterable[RetrievalResult]) -> list[RetrievalResult]:
    """The results of the documents, each as sure as the surest search makes it."""
    surest: dict[str, RetrievalResult] = {}
    for one in results:
        name = one.document_id or one.source
        if name not in surest or surest[name].confidence < one.confidence:
            surest[name] = one
    return list(surest.values())


def _text(context: Mapping[str, Any], name: str) -> str:
    value = context.get(name) or ""
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} must be a string, not {type(value).__name__}")
    return " ".join(value.split())[:MAX_VALUE_CHARACTERS]


def _seconds(timeframe: str) -> int:
    """Parses `last 2 hours`, `past day`, `30m`; 0, which changes nothing, for anything else."""
    match = _TIMEFRAME.fullmatch(timeframe.strip())
    return int(match[1] or 1) * _UNITS[match[2][0].lower()] if match else 0


def _names(name: str, result: RetrievalResult) -> bool:
    """True if a result contains the name as a separate word."""
    text = "\n".join((result.title, result.section, result.content, *map(str, result.metadata.get("tags", ()))))
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text, re.IGNORECASE) is not None


def _is_in(step: str, text: str) -> bool:
    """True if all words of a step are in the text."""
    wanted = set(query_terms(step))
    return bool(wanted) and wanted <= set(query_terms(text))


def _steps_of(result: RetrievalResult) -> list[str]:
    return [line for line in result.content.splitlines() if _PLAIN_STEP.match(line)]
