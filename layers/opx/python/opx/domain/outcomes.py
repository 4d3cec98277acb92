"""Outcomes of acting upon documents: recorded one by one, counted per document and section, and how counts move scores."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from msgspec import Struct, field
from msgspec.structs import fields

from opx.domain.record import Record, about, always, derive, replace

ENOUGH = 5.0
"""Outcomes required before scores move; one of an earlier version counts `EARLIER`."""

EARLIER = 0.5
"""Weight of an outcome of a superseded version: its text was different, if often nearly the same."""

HARM = 2.0
"""Weight of `made_worse` as a failure; `no_effect` weighs 1."""

LOWEST, HIGHEST = 0.85, 1.1
"""Bounds of the factor: it reorders neighbouring results and doesn't make a poor answer a good one."""

_PRIOR = 2.0
"""Pseudo-count of each kind before the first outcome: Beta(2, 2), whose mean of a half stands for a factor of 1."""


MAX_SECTION, MAX_STEP, MAX_NOTE, MAX_OCCURRENCE = 500, 1_000, 2_000, 200
"""Maximum characters of an outcome's strings."""


class OutcomeResult(StrEnum):
    """Result of acting upon a document."""

    RESOLVED = "resolved"
    NO_EFFECT = "no_effect"
    MADE_WORSE = "made_worse"


class Counts(Record, frozen=True):
    """Number of outcomes per result."""

    resolved: int = 0
    no_effect: int = 0
    made_worse: int = 0

    @property
    def total(self) -> int:
        return self.resolved + self.no_effect + self.made_worse

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def moved(self, result: OutcomeResult, by: int) -> Counts:
        """The counts with one result changed by `by`; never below 0."""
        return replace(self, **{result.value: max(getattr(self, result.value) + by, 0)})


class Tally(Record, frozen=True):
    """Outcomes of the current version (`now`), and of `earlier` ones."""

    now: Annotated[Counts, about("Of the current version.")] = Counts()
    earlier: Annotated[Counts, about("Of versions that were replaced; each counts half.")] = Counts()

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.now + other.now, self.earlier + other.earlier)

    @property
    def all(self) -> Counts:
        return self.now + self.earlier

    @property
    def enough(self) -> bool:
        """True if there is enough evidence to move scores."""
        return self.now.total + EARLIER * self.earlier.total >= ENOUGH

    @property
    def factor(self) -> float:
        """Factor of a score, between `LOWEST` and `HIGHEST`; exactly 1 without enough evidence.

        The mean of the Beta distribution of the success rate, given the recorded outcomes, mapped linearly from `LOWEST`
        at 0 over 1 at a half to `HIGHEST` at 1.
        """
        if not self.enough:
            return 1.0
        good = self.now.resolved + EARLIER * self.earlier.resolved
        bad = _failures(self.now) + EARLIER * _failures(self.earlier)
        above = 2 * (_PRIOR + good) / (2 * _PRIOR + good + bad) - 1
        return 1 + above * (HIGHEST - 1 if above > 0 else 1 - LOWEST)

    def superseded(self) -> Tally:
        """The same outcomes after their version was superseded."""
        return Tally(Counts(), self.all)

    def moved(self, result: OutcomeResult, by: int, *, now: bool) -> Tally:
        if now:
            return Tally(self.now.moved(result, by), self.earlier)
        return Tally(self.now, self.earlier.moved(result, by))

    def explained(self) -> str:
        """`4 of 5 resolved, 1 made it worse`, with remarks on earlier versions and on too few outcomes."""
        recorded = self.all
        parts = [f"{recorded.resolved:,} of {recorded.total:,} resolved"]
        if recorded.made_worse:
            parts.append(f"{recorded.made_worse:,} made it worse")
        if self.earlier.total:
            parts.append(f"{self.earlier.total:,} of earlier versions, which count half")
        if not self.enough:
            parts.append("too few to count")
        return ", ".join(parts)


NOTHING = Tally()
"""No outcome was recorded."""


def _failures(counts: Counts) -> float:
    return counts.no_effect + HARM * counts.made_worse


class OutcomeSummary(Record, frozen=True):
    """Outcomes of a passage in the form of a result's metadata. `factor` has four decimals."""

    resolved: int
    no_effect: int
    made_worse: int
    factor: float
    section: str
    text: str


class OutcomeScore(Struct, frozen=True):
    """Outcomes that apply to a passage: those of its `section`, "" for the whole document."""

    tally: Tally
    section: str = ""

    @property
    def factor(self) -> float:
        return self.tally.factor

    @property
    def summary(self) -> OutcomeSummary:
        recorded = self.tally.all
        return OutcomeSummary(
            recorded.resolved,
            recorded.no_effect,
            recorded.made_worse,
            round(self.factor, 4),
            self.section,
            self.tally.explained(),
        )


class RecordedOutcome(Record, frozen=True):
    """An outcome as it was reported. `outcome_id` is the same for a receipt, a document and an `occurrence`; `version`
    and `document_id` are those that had been returned. `at` is ISO 8601 in UTC; `principal` the caller who reported it,
    where known."""

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


class LearntPage(Struct, frozen=True):
    """A page that a word stands for: its scope and source, the names of the incidents that it resolved and in which the
    word was used, the latest first, their number, unnamed ones included (`resolved`), and the number of all `uses` of the
    word."""

    scope_key: str
    source: str
    incidents: tuple[str, ...]
    resolved: int
    uses: int

    @property
    def confidence(self) -> float:
        """Probability that the word means this page: the mean of the Beta distribution, as for `Tally.factor`."""
        return (_PRIOR + self.resolved) / (2 * _PRIOR + self.uses)


class DocumentOutcomes(Record, frozen=True, omit_defaults=True):
    """Outcomes of a document that one scope sees: of the current version (`now`), and of `earlier` ones. `document_id`
    and `version` are of the latest version that an outcome was recorded of; `sections` has those with outcomes by
    name."""

    document_id: str
    version: int
    title: str = always("")
    now: Annotated[Counts, about("Of the current version.")] = always(Counts())
    earlier: Annotated[Counts, about("Of versions that were replaced; each counts half.")] = always(Counts())
    sections: Annotated[dict[str, Tally], about("By the headings above, as results show them.")] = always({})
    factor: Annotated[float, about("Factor of its scores; 1 until there is enough evidence.")] = always(1.0)
    explanation: Annotated[str, about("One line for people.")] = always("")
    updated_at: str = always("")
    latest: Annotated[
        tuple[RecordedOutcome, ...],
        about("The latest outcomes one by one, if requested and there are any."),
    ] = field(default=(), name="told")

    def __post_init__(self) -> None:
        derive(self, factor=round(self.tally.factor, 4), explanation=self._explained())

    @property
    def tally(self) -> Tally:
        return Tally(self.now, self.earlier)

    def _explained(self) -> str:
        if not self.tally.all.total:
            return "no outcome was recorded"
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
        """The sum with another scope's outcomes; both seen from the same version."""
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
        """Outcomes for a passage under these headings: of its innermost section with enough evidence, else of the
        document."""
        for name in _above(section):
            found = self.sections.get(name)
            if found is not None and found.enough:
                return OutcomeScore(found, name)
        return OutcomeScore(self.tally)


def section_name(section: tuple[str, ...] | list[str]) -> str:
    """Headings joined to one string, as results show them."""
    return " > ".join(section)


def _above(section: tuple[str, ...]) -> Iterator[str]:
    """The section and its parents, the innermost first."""
    for depth in range(len(section), 0, -1):
        yield section_name(section[:depth])


class Counted(StrEnum):
    """Effect of a report on the counts: a new outcome, one already known, or a correction of an earlier result."""

    NEW = "new"
    KNOWN = "known"
    CORRECTED = "corrected"


class OutcomeReport(Record, frozen=True):
    """The reply to a reported outcome. `warning_id` is the entry that was captured to warn others."""

    outcome_id: str
    document_id: str
    title: str
    section: str
    result: OutcomeResult
    counted: Annotated[Counted, about("new, known if it was reported before, or corrected.")]
    standing: DocumentOutcomes
    warning_id: Annotated[str, about("The entry that warns of steps that made things worse; empty without one.")] = ""


class JudgedPassage(Struct, frozen=True):
    """A passage and the id of its document, "" if it is of no known document."""

    title: str
    section: str
    content: str
    document_id: str = ""
    scope_key: str = ""
    key_id: str = ""
    source_uri: str = ""
