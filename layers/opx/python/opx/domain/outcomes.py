"""Outcomes of acting upon documents: recorded one by one, counted per document and section, and how counts move scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import fields

from opx.domain.record import Record, always, derive, replace

ENOUGH = 5.0
"""Outcomes before which nothing moves; one of an earlier version counts `EARLIER`."""

EARLIER = 0.5
"""What an outcome of a version counts that has been replaced: its text was another one, if often nearly the same."""

HARM = 2.0
"""What `made_worse` counts as a failure, beside 1 for `no_effect`."""

LOWEST, HIGHEST = 0.85, 1.1
"""Bounds of the factor: it moves neighbours past each other and makes no poor answer a good one."""

_PRIOR = 2.0
"""Of each kind before the first outcome: Beta(2, 2), whose mean of a half stands for a factor of 1."""


MAX_SECTION, MAX_STEP, MAX_NOTE, MAX_OCCURRENCE = 500, 1_000, 2_000, 200
"""Characters of the texts of an outcome."""


class OutcomeResult(StrEnum):
    """What came of acting upon a document."""

    RESOLVED = "resolved"
    NO_EFFECT = "no_effect"
    MADE_WORSE = "made_worse"


class Counts(Record, frozen=True):
    """How often each result was told."""

    resolved: int = 0
    no_effect: int = 0
    made_worse: int = 0

    @property
    def total(self) -> int:
        return self.resolved + self.no_effect + self.made_worse

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def moved(self, result: OutcomeResult, by: int) -> Counts:
        """One more of a result, or one less; never below 0."""
        return replace(self, **{result.value: max(getattr(self, result.value) + by, 0)})


class Tally(Record, frozen=True):
    """Outcomes of the version that is there `now`, and of `earlier` ones."""

    now: Annotated[Counts, Meta(description="Of the version that is there now.")] = Counts()
    earlier: Annotated[Counts, Meta(description="Of versions that were replaced; each counts half.")] = Counts()

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.now + other.now, self.earlier + other.earlier)

    @property
    def all(self) -> Counts:
        return self.now + self.earlier

    @property
    def enough(self) -> bool:
        """Whether there is enough evidence to move anything."""
        return self.now.total + EARLIER * self.earlier.total >= ENOUGH

    @property
    def factor(self) -> float:
        """What a score is multiplied with, between `LOWEST` and `HIGHEST`; exactly 1 without enough evidence.

        The mean of the Beta distribution of the rate of success, given what was told, put on a line from `LOWEST` at 0
        over 1 at a half to `HIGHEST` at 1.
        """
        if not self.enough:
            return 1.0
        good = self.now.resolved + EARLIER * self.earlier.resolved
        bad = _failures(self.now) + EARLIER * _failures(self.earlier)
        above = 2 * (_PRIOR + good) / (2 * _PRIOR + good + bad) - 1
        return 1 + above * (HIGHEST - 1 if above > 0 else 1 - LOWEST)

    def superseded(self) -> Tally:
        """The same of a version that is no longer there."""
        return Tally(Counts(), self.all)

    def moved(self, result: OutcomeResult, by: int, *, now: bool) -> Tally:
        if now:
            return Tally(self.now.moved(result, by), self.earlier)
        return Tally(self.now, self.earlier.moved(result, by))

    def explained(self) -> str:
        """`4 of 5 resolved, 1 made it worse`, with what else is to be known of it."""
        told = self.all
        parts = [f"{told.resolved:,} of {told.total:,} resolved"]
        if told.made_worse:
            parts.append(f"{told.made_worse:,} made it worse")
        if self.earlier.total:
            parts.append(f"{self.earlier.total:,} of earlier versions, which count half")
        if not self.enough:
            parts.append("too few to count")
        return ", ".join(parts)


NOTHING = Tally()
"""Nothing was told."""


def _failures(counts: Counts) -> float:
    return counts.no_effect + HARM * counts.made_worse


class OutcomeSummary(Record, frozen=True):
    """Outcomes of a passage as the metadata of a result show them. `factor` has four decimals."""

    resolved: int
    no_effect: int
    made_worse: int
    factor: float
    section: str
    text: str


@dataclass(frozen=True, slots=True)
class OutcomeScore:
    """What is known of a passage: the outcomes of its `section`, "" for the whole document."""

    tally: Tally
    section: str = ""

    @property
    def factor(self) -> float:
        return self.tally.factor

    @property
    def summary(self) -> OutcomeSummary:
        told = self.tally.all
        return OutcomeSummary(
            told.resolved, told.no_effect, told.made_worse, round(self.factor, 4), self.section, self.tally.explained()
        )


class RecordedOutcome(Record, frozen=True):
    """An outcome as it was reported. `outcome_id` is the same for a receipt, a document and an `occurrence`; `version` and
    `document_id` are those that had been returned. `at` is ISO 8601 in UTC; `principal` who reported it, where known."""

    outcome_id: str
    result: OutcomeResult
    document_id: str
    version: int
    receipt_id: str
    at: str
    section: str = ""
    step: str = ""
    incident: str = ""
    note: str = ""
    occurrence: str = ""
    principal: str = ""


@dataclass(frozen=True, slots=True)
class LearntPage:
    """A page that a word stands for: its scope and source, the names of the incidents that it resolved and in which the word
    was said, the latest first, how many these are, unnamed ones included, and in how many the word was `said` at all."""

    scope_key: str
    source: str
    incidents: tuple[str, ...]
    resolved: int
    said: int

    @property
    def confidence(self) -> float:
        """How likely the page is meant: the mean of the Beta distribution, as for `Tally.factor`."""
        return (_PRIOR + self.resolved) / (2 * _PRIOR + self.said)


class DocumentOutcomes(Record, frozen=True, omit_defaults=True):
    """Outcomes of a document that one scope sees: of the version that is there `now`, and of `earlier` ones. `document_id`
    and `version` are of the latest version that an outcome was recorded of; `sections` has those with outcomes by name."""

    document_id: str
    version: int
    title: str = always("")
    now: Annotated[Counts, Meta(description="Of the version that is there now.")] = always(Counts())
    earlier: Annotated[Counts, Meta(description="Of versions that were replaced; each counts half.")] = always(Counts())
    sections: Annotated[dict[str, Tally], Meta(description="By the headings above, as results show them.")] = always({})
    factor: Annotated[
        float, Meta(description="What its scores are multiplied with; 1 until there is enough evidence.")
    ] = always(1.0)
    explanation: Annotated[str, Meta(description="One line for people.")] = always("")
    updated_at: str = always("")
    latest: Annotated[
        tuple[RecordedOutcome, ...],
        Meta(description="The latest outcomes one by one, where they were asked for and there are any."),
    ] = field(default=(), name="told")

    def __post_init__(self) -> None:
        derive(self, factor=round(self.tally.factor, 4), explanation=self._explained())

    @property
    def tally(self) -> Tally:
        return Tally(self.now, self.earlier)

    def _explained(self) -> str:
        if not self.tally.all.total:
            return "no outcome was told"
        moved = f": scores are multiplied by {self.tally.factor:.3f}" if self.tally.enough else ""
        return self.tally.explained() + moved

    def seen_from(self, document_id: str) -> DocumentOutcomes:
        """The same for a reader of this version of the document."""
        if document_id == self.document_id:
            return self
        sections = {name: tally.superseded() for name, tally in self.sections.items()}
        return replace(
            self, document_id=document_id, now=Counts(), earlier=self.tally.all, sections=sections, latest=()
        )

    def plus(self, other: DocumentOutcomes) -> DocumentOutcomes:
        """Together with what another scope knows; both seen from the same version."""
        names = {**self.sections, **other.sections}
        return replace(
            self,
            version=max(self.version, other.version),
            now=self.now + other.now,
            earlier=self.earlier + other.earlier,
            sections={name: self.sections.get(name, NOTHING) + other.sections.get(name, NOTHING) for name in names},
            updated_at=max(self.updated_at, other.updated_at),
            latest=(),
        )

    def score_of(self, section: tuple[str, ...]) -> OutcomeScore:
        """What is known of a passage under these headings: of its innermost section with enough evidence, else of the
        document."""
        for name in _above(section):
            found = self.sections.get(name)
            if found is not None and found.enough:
                return OutcomeScore(found, name)
        return OutcomeScore(self.tally)


def section_name(section: tuple[str, ...] | list[str]) -> str:
    """Headings as one text, as results show them."""
    return " > ".join(section)


def _above(section: tuple[str, ...]) -> Iterator[str]:
    """The section and those that it is in, the innermost first."""
    for depth in range(len(section), 0, -1):
        yield section_name(section[:depth])


class Counted(StrEnum):
    """How an outcome was counted: as new, as known already, or in place of an earlier result."""

    NEW = "new"
    KNOWN = "known"
    CORRECTED = "corrected"


class OutcomeReport(Record, frozen=True):
    """The reply to whoever reports an outcome. `warning_id` is the entry that was captured to warn others."""

    outcome_id: str
    document_id: str
    title: str
    section: str
    result: OutcomeResult
    counted: Annotated[Counted, Meta(description="new, known if it was told before, or corrected.")]
    standing: DocumentOutcomes
    warning_id: Annotated[
        str, Meta(description="The entry that warns of what made things worse; empty without one.")
    ] = ""


@dataclass(frozen=True, slots=True)
class JudgedPassage:
    """A passage, and the document that it is of: "" for what is none of ours."""

    title: str
    section: str
    content: str
    document_id: str = ""
    scope_key: str = ""
    key_id: str = ""
    source_uri: str = ""
