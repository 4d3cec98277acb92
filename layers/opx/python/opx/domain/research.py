"""What several searches for one topic brought together, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from opx.domain.results import RetrievalResult
from opx.errors import InvalidInputError

DEFAULT_ITERATIONS = 3
MOST_ITERATIONS = 5


class StepKind(StrEnum):
    """What was done in a step."""

    PLAN = "plan"
    SEARCH = "search"


class Stopped(StrEnum):
    """Why a research went no further."""

    ENOUGH = "enough"
    """Each part of the topic has a good finding."""
    NOTHING_LEFT = "nothing_left"
    """There was no other way left to ask for what is missing."""
    ITERATIONS = "iterations"
    """As many as were allowed."""
    TIME = "time"
    UNAVAILABLE = "unavailable"
    """No search of an iteration could be done."""


@dataclass(frozen=True, slots=True)
class Step:
    """A search, or the planning of some, in the order in which they were done; iterations count from 1.

    Of a search `text` is what was searched for, `why` says what for, `results` is how many results it had, `new` how many
    of them no earlier one had, and `best_confidence` that of the best. Of a plan, `text` names the planner, `results` is
    how many searches it wanted and `new` how many of them were done. `error` says what went wrong, "" if nothing did.
    `receipt_id` names the record of a search's answer, if there is one.
    """

    iteration: int
    kind: StepKind
    text: str
    why: str = ""
    results: int = 0
    new: int = 0
    best_confidence: float = 0.0
    milliseconds: float = 0.0
    error: str = ""
    receipt_id: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "iteration": self.iteration,
            "kind": self.kind.value,
            "text": self.text,
            "why": self.why,
            "results": self.results,
            "new": self.new,
            "bestConfidence": round(self.best_confidence, 6),
            "milliseconds": round(self.milliseconds, 3),
            "error": self.error,
            **({"receiptId": self.receipt_id} if self.receipt_id else {}),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """A result with the searches that found it, the first of them first. Its confidence and score are the highest that
    it had in any of them."""

    result: RetrievalResult
    found_by: tuple[str, ...]

    @property
    def content(self) -> str:
        return self.result.content

    @property
    def source(self) -> str:
        return self.result.source

    @property
    def section(self) -> str:
        return self.result.section

    @property
    def title(self) -> str:
        return self.result.title

    @property
    def document_id(self) -> str:
        return self.result.document_id

    @property
    def confidence(self) -> float:
        return self.result.confidence

    @property
    def tier(self) -> str:
        return self.result.tier

    @property
    def untrusted(self) -> bool:
        return self.result.untrusted

    def to_json(self) -> dict[str, Any]:
        """`RetrievalResult.to_json` with what readers of findings look for at hand."""
        return {
            **self.result.to_json(),
            "section": self.section,
            "title": self.title,
            "documentId": self.document_id,
            "confidence": round(self.confidence, 6),
            "foundBy": list(self.found_by),
        }


@dataclass(frozen=True, slots=True)
class ResearchReport:
    """What is known about a topic, with how it was found.

    `findings` begin with the best one for each part of the topic; the others follow by score. `gaps` are the parts that
    have no good one, and `nearest` the results that came nearest to being one for them. `partial`: something that should
    have been searched or shown was not; `notes` say what and why. `planner` names what decided what to search for, the
    last one if it was replaced.
    """

    topic: str
    searches_performed: int = 0
    findings: tuple[Finding, ...] = ()
    trace: tuple[Step, ...] = ()
    gaps: tuple[str, ...] = ()
    nearest: tuple[RetrievalResult, ...] = ()
    notes: tuple[str, ...] = ()
    partial: bool = False
    stopped_because: Stopped = Stopped.ENOUGH
    planner: str = ""

    @property
    def results(self) -> tuple[RetrievalResult, ...]:
        return tuple(finding.result for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "topic": self.topic,
            "searchesPerformed": self.searches_performed,
            "findings": _all(self.findings),
            "gaps": list(self.gaps),
            "nearest": [result.to_json() for result in self.nearest],
            "notes": list(self.notes),
            "partial": self.partial,
            "stoppedBecause": self.stopped_because.value,
            "planner": self.planner,
            "trace": _all(self.trace),
        }


def _all(things: Sequence[Finding] | Sequence[Step]) -> list[dict[str, Any]]:
    return [thing.to_json() for thing in things]


def check_iterations(max_iterations: int) -> None:
    """Raise `InvalidInputError` for a number of iterations that can't be."""
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int):
        raise InvalidInputError(f"max_iterations must be a whole number, not {max_iterations!r}")
    if not 1 <= max_iterations <= MOST_ITERATIONS:
        raise InvalidInputError(f"max_iterations must be from 1 to {MOST_ITERATIONS}, not {max_iterations}")
