"""What several searches for one topic brought together, and how."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from msgspec import Meta
from msgspec.structs import asdict

from opx.domain.record import Record, always, derive, rounded
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


class ResearchStep(Record, frozen=True, omit_defaults=True):
    """A search, or the planning of some, in the order in which they were done; iterations count from 1.

    Of a search `text` is what was searched for, `why` says what for, `results` is how many results it had, `new` how many
    of them no earlier one had, and `best_confidence` that of the best. Of a plan, `text` names the planner, `results` is
    how many searches it wanted and `new` how many of them were done. `error` says what went wrong, "" if nothing did.
    `receipt_id` names the record of a search's answer, if there is one.
    """

    iteration: int
    kind: StepKind
    text: Annotated[str, Meta(description="What was searched for, or the planner's name.")]
    why: str = always("")
    results: int = always(0)
    new: Annotated[int, Meta(description="Results that no earlier search had, or searches that were done.")] = always(0)
    best_confidence: float = always(0.0)
    milliseconds: float = always(0.0)
    error: Annotated[str, Meta(description="What went wrong, empty if nothing did.")] = always("")
    receipt_id: str = ""

    def __post_init__(self) -> None:
        derive(self, best_confidence=rounded(self.best_confidence), milliseconds=rounded(self.milliseconds, 3))


class Finding(RetrievalResult, frozen=True, kw_only=True):
    """A result with the searches that found it, the first of them first, and what readers look for at hand. Its confidence
    and score are the highest that it had in any of them."""

    title: str = ""
    document_id: str = ""
    confidence: float = 0.0
    found_by: Annotated[tuple[str, ...], Meta(description="The searches that found it.")] = ()

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
    """What is known about a topic, with how it was found.

    `findings` begin with the best one for each part of the topic; the others follow by score. `gaps` are the parts that
    have no good one, and `nearest` the results that came nearest to being one for them. `partial`: something that should
    have been searched or shown was not; `notes` say what and why. `planner` names what decided what to search for, the
    last one if it was replaced.
    """

    topic: str
    searches_performed: int = 0
    findings: Annotated[tuple[Finding, ...], Meta(description="First the best one for each part of the topic.")] = ()
    trace: tuple[ResearchStep, ...] = ()
    gaps: Annotated[tuple[str, ...], Meta(description="Parts of the topic for which nothing good was found.")] = ()
    nearest: Annotated[
        tuple[RetrievalResult, ...], Meta(description="What came nearest for these; not good enough.")
    ] = ()
    notes: Annotated[tuple[str, ...], Meta(description="What went wrong, and what was left out.")] = ()
    partial: Annotated[bool, Meta(description="True if something could not be searched or shown.")] = False
    stopped_because: Stopped = Stopped.ENOUGH
    planner: Annotated[str, Meta(description="What decided what to search for.")] = ""


def check_iterations(max_iterations: int) -> None:
    """Raise `InvalidInputError` for a number of iterations that can't be."""
    if isinstance(max_iterations, bool) or not isinstance(max_iterations, int):
        raise InvalidInputError(f"max_iterations must be a whole number, not {max_iterations!r}")
    if not 1 <= max_iterations <= MOST_ITERATIONS:
        raise InvalidInputError(f"max_iterations must be from 1 to {MOST_ITERATIONS}, not {max_iterations}")
