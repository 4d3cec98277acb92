"""Adjusts questions and scores to a situation: node, service, symptom, timeframe and steps tried already."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.errors import InvalidInputError
from opx.retrieval.citations import NOTHING_FOUND
from opx.text.fields import query_terms

NODE_IS_NAMED = 1.15
SERVICE_IS_MEANT = 1.15
SERVICE_IS_ANOTHER = 0.8
HAPPENED_THEN = 1.15
WAS_TRIED = 0.7
"""Factors on a result's score. Bounded on purpose: a situation swaps neighbours, it doesn't make a poor answer a good
one."""

MAX_VALUE_CHARACTERS = 500
MAX_TRIED = 20
_EVENTS = ("operations/incidents", "operations/changes", "operations/alerts")
"""Categories of events, which have a time."""

_TIMEFRAME = re.compile(
    r"(?:the\s+)?(?:last|past)?\s*(\d{1,4})?\s*(minute|min|hour|hr|h|day|d|week|w|m)s?\b", re.IGNORECASE
)
_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_PLAIN_STEP = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+|^#+\s+", re.MULTILINE)


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
            node=_text(context, "node"),
            service=_text(context, "service"),
            symptom=_text(context, "symptom"),
            seconds=_seconds(_text(context, "timeframe")),
            already_tried=tuple(one[:MAX_VALUE_CHARACTERS] for one in tried[:MAX_TRIED] if one.strip()),
        )

    def question(self, query: str) -> str:
        """The question with symptom and service, unless it has them. The node is left out: its name doesn't describe the
        problem, and results about it are promoted by `moves`."""
        written = query.casefold()
        return " ".join(
            [query, *(part for part in (self.symptom, self.service) if part and part.casefold() not in written)]
        )

    def config(self, config: QueryConfig) -> QueryConfig:
        """A configuration with at least 10 results, as their order may change."""
        return replace(config, max_results=max(config.max_results, 10))

    def moves(self, result: RetrievalResult, now: datetime) -> Iterator[tuple[str, float]]:
        """Reasons why a result's score changes in this situation, with their factors."""
        if self.node and _names(self.node, result):
            yield f"names {self.node}", NODE_IS_NAMED
        services = [str(name).casefold() for name in result.metadata.get("services", ())]
        if self.service and (self.service.casefold() in services or _names(self.service, result)):
            yield f"is about {self.service}", SERVICE_IS_MEANT
        elif self.service and services:
            yield f"is about {', '.join(services[:3])}", SERVICE_IS_ANOTHER
        if self.seconds and result.category in _EVENTS and _since(result.timestamp, now, self.seconds):
            yield "happened in the timeframe", HAPPENED_THEN
        for step in self.already_tried:
            if _is_about_step(step, result):
                yield f"was tried: {step}", WAS_TRIED


def best_in(situation: Situation, answer: Answer, now: datetime | None = None) -> RetrievalResult:
    """The best result in the situation, with the others as its `alternatives`; without any, a result that states that."""
    at = now or datetime.now(UTC)
    moved = sorted((_moved(situation, result, at) for result in answer.results), key=lambda result: -result.score)
    facts = {"notes": list(answer.notes), "partial": answer.partial, "receiptId": answer.receipt_id}
    if not moved:
        nearest = answer.best_rejected
        facts |= {"nearest": nearest.to_json()} if nearest else {}
        return RetrievalResult(NOTHING_FOUND, 0.0, "", "", "", "", 0.0, {**facts, "alternatives": []})
    best, *others = moved
    return replace(best, metadata={**best.metadata, **facts, "alternatives": [other.to_json() for other in others]})


def _moved(situation: Situation, result: RetrievalResult, now: datetime) -> RetrievalResult:
    moves = list(situation.moves(result, now))
    score = result.score
    for _, factor in moves:
        score *= factor
    because = [{"why": why, "factor": factor} for why, factor in moves]
    return replace(result, score=min(score, 1.0), metadata={**result.metadata, "because": because})


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


def _since(timestamp: str, now: datetime, seconds: int) -> bool:
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        return False
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return now - timedelta(seconds=seconds) <= at <= now


def _is_about_step(step: str, result: RetrievalResult) -> bool:
    """True if a result is about the step: all its words are in the heading, or in most of the result's steps."""
    wanted = set(query_terms(step))
    if not wanted:
        return False
    if wanted <= set(query_terms(f"{result.title} {result.section}")):
        return True
    steps = [line for line in result.content.splitlines() if _PLAIN_STEP.match(line)]
    return bool(steps) and _share(steps, lambda line: wanted <= set(query_terms(line))) > 0.5


def _share(things: Iterable[str], holds: Callable[[str], bool]) -> float:
    found = [holds(thing) for thing in things]
    return sum(found) / len(found)
