"""Research reports: findings of several planned searches for one topic, and the steps that led to them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec.structs import asdict

from opx.domain.record import Record, about, always, derive, rounded
from opx.domain.results import RetrievalResult
from opx.errors import InvalidInputError

DEFAULT_ITERATIONS = 3
MOST_ITERATIONS = 5


class StepKind(StrEnum):
    """Kinds of research steps."""

    PLAN = "plan"
    SEARCH = "search"


class Stopped(StrEnum):
    """Reason why a research ended."""

    ENOUGH = "enough"
    """Each part of the topic has a good finding."""
    NOTHING_LEFT = "nothing_left"
    """No further query was left for the missing parts."""
    ITERATIONS = "iterations"
    """The limit of iterations was reached."""
    TIME = "time"
    UNAVAILABLE = "unavailable"
    """No search of an iteration could be done."""


class ResearchStep(Record, frozen=True, omit_defaults=True):
    """A search, or the planning of some, in the order in which they were done; iterations count from 1.

    Of a search `text` is the query, `why` its purpose, `results` the number of results, `new` the number that no earlier
    search had, and `best_confidence` that of the best. Of a plan, `text` names the planner, `results` is the number of
    searches it requested and `new` the number that were run. `error` states the failure, "" if there was none.
    `receipt_id` names the record of a search's answer, if there is one.
    """

    iteration: int
    kind: StepKind
    text: Annotated[str, about("The query, or the planner's name.")]
    why: str = always("")
    results: int = always(0)
    new: Annotated[int, about("Results that no earlier search had, or searches that were done.")] = always(0)
    best_confidence: float = always(0.0)
    milliseconds: float = always(0.0)
    error: Annotated[str, about("The failure, empty if there was none.")] = always("")
    receipt_id: str = ""

    def __post_init__(self) -> None:
        derive(self, best_confidence=rounded(self.best_confidence), milliseconds=rounded(self.milliseconds, 3))


class Finding(RetrievalResult, frozen=True, kw_only=True):
    """A result with the searches that found it, the first of them first, and its main metadata as fields. Its confidence
    and score are the highest that it had in any of them."""

    title: str = ""
    document_id: str = ""
    confidence: float = 0.0
    found_by: Annotated[tuple[str, ...], about("The searches that found it.")] = ()

    def __post_init__(self) -> None:
        derive(
            self,
            title=str(self.metadata.get("title", "")),
            document_id=str(self.metadata.get("documentId", "")),
            confidence=self.parts.confidence if self.parts else round(self.score, 6),
        )
        super().__post_init__()

    @classmethod
    def of(cls, result: RetrievalResult, found_by: tuple[str, ...]) -> Finding:
        """The finding of a result."""
        return cls(**asdict(result), found_by=found_by)


class ResearchReport(Record, frozen=True):
    """Findings about a topic, and the steps that led to them.

    `findings` begin with the best one for each part of the topic; the others follow by score. `gaps` are the parts that
    have no good one, and `nearest` the results that came nearest to being one for them. `partial`: something that should
    have been searched or shown was not; `notes` state what and why. `planner` names the planner of the searches, the last
    one if it was replaced.
    """

    topic: str
    searches_performed: int = 0
    findings: Annotated[tuple[Finding, ...], about("First the best one for each part of the topic.")] = ()
    trace: tuple[ResearchStep, ...] = ()
    gaps: Annotated[tuple[str, ...], about("Parts of the topic for which nothing good was found.")] = ()
    nearest: Annotated[tuple[RetrievalResult, ...], about("The nearest results for these; not good enough.")] = ()
    notes: Annotated[tuple[str, ...], about("Failures, and parts that were left out.")] = ()
    partial: Annotated[bool, about("True if something could not be searched or shown.")] = False
    stopped_because: Stopped = Stopped.ENOUGH
    planner: Annotated[str, about("The planner of the searches.")] = ""


def check_iterations(max_iterations: int) -> None:
    """Raises `InvalidInputError` for an invalid number of iterations."""
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int):
        raise InvalidInputError(f"max_iterations must be a whole number, not {max_iterations!r}")
    if not 1 <= max_iterations <= MOST_ITERATIONS:
        raise InvalidInputError(f"max_iterations must be from 1 to {MOST_ITERATIONS}, not {max_iterations}")
