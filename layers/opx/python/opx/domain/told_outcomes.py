"""Outcomes as they were told, and what is known of a document by them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from opx.domain.outcomes import NOTHING, OutcomeResult, OutcomeScore, Tally


@dataclass(frozen=True, slots=True)
class ToldOutcome:
    """An outcome as it was told. `outcome_id` is the same for a receipt, a document and an `occurrence`; `version` and
    `document_id` are those that had been returned. `at` is ISO 8601 in UTC; `principal` who told it, where known."""

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

    def to_json(self) -> dict[str, Any]:
        return {_camel(one.name): getattr(self, one.name) for one in fields(self)} | {"result": self.result.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ToldOutcome:
        found = {one.name: data[_camel(one.name)] for one in fields(cls)}
        return cls(**{**found, "result": OutcomeResult(found["result"]), "version": int(found["version"])})


@dataclass(frozen=True, slots=True)
class DocumentOutcomes:
    """What came of a document, in the sight of one scope. `document_id` and `version` are of the latest version that an
    outcome was told of; `sections` has those that outcomes were told of by name; `told` are the latest outcomes one by one,
    where they were asked for."""

    document_id: str
    version: int
    title: str = ""
    tally: Tally = NOTHING
    sections: Mapping[str, Tally] = field(default_factory=dict)
    updated_at: str = ""
    told: tuple[ToldOutcome, ...] = ()

    @property
    def factor(self) -> float:
        return self.tally.factor

    @property
    def explanation(self) -> str:
        """One line for people."""
        if not self.tally.all.total:
            return "no outcome was told"
        moved = f": scores are multiplied by {self.factor:.3f}" if self.tally.enough else ""
        return self.tally.explained() + moved

    def seen_from(self, document_id: str) -> DocumentOutcomes:
        """The same for a reader of this version of the document."""
        if document_id == self.document_id:
            return self
        sections = {name: tally.superseded() for name, tally in self.sections.items()}
        return DocumentOutcomes(
            document_id, self.version, self.title, self.tally.superseded(), sections, self.updated_at
        )

    def plus(self, other: DocumentOutcomes) -> DocumentOutcomes:
        """Together with what another scope knows; both seen from the same version."""
        names = {**self.sections, **other.sections}
        sections = {name: self.sections.get(name, NOTHING) + other.sections.get(name, NOTHING) for name in names}
        at = max(self.updated_at, other.updated_at)
        tally = self.tally + other.tally
        return DocumentOutcomes(self.document_id, max(self.version, other.version), self.title, tally, sections, at)

    def score_of(self, section: tuple[str, ...]) -> OutcomeScore:
        """What is known of a passage under these headings: of its innermost section with enough evidence, else of the
        document."""
        for name in _above(section):
            found = self.sections.get(name)
            if found is not None and found.enough:
                return OutcomeScore(found, name)
        return OutcomeScore(self.tally)

    def to_json(self) -> dict[str, Any]:
        return {
            "documentId": self.document_id,
            "version": self.version,
            "title": self.title,
            **self.tally.to_json(),
            "sections": {name: tally.to_json() for name, tally in self.sections.items()},
            "factor": round(self.factor, 4),
            "explanation": self.explanation,
            "updatedAt": self.updated_at,
            **({"told": [one.to_json() for one in self.told]} if self.told else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DocumentOutcomes:
        return cls(
            document_id=data["documentId"],
            version=int(data["version"]),
            title=data["title"],
            tally=Tally.from_json(data),
            sections={name: Tally.from_json(tally) for name, tally in data["sections"].items()},
            updated_at=data["updatedAt"],
            told=tuple(map(ToldOutcome.from_json, data.get("told", ()))),
        )


def section_name(section: tuple[str, ...] | list[str]) -> str:
    """Headings as one text, as results show them."""
    return " > ".join(section)


def _above(section: tuple[str, ...]) -> Iterator[str]:
    """The section and those that it is in, the innermost first."""
    for depth in range(len(section), 0, -1):
        yield section_name(section[:depth])


class Counted(StrEnum):
    """What became of an outcome that was told: counted, known already, or counted in place of what was told before."""

    NEW = "new"
    KNOWN = "known"
    CORRECTED = "corrected"


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """The answer to who tells an outcome. `warning_id` is the entry that was captured to warn others, "" for none."""

    outcome_id: str
    document_id: str
    title: str
    section: str
    result: OutcomeResult
    counted: Counted
    standing: DocumentOutcomes
    warning_id: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "outcomeId": self.outcome_id,
            "documentId": self.document_id,
            "title": self.title,
            "section": self.section,
            "result": self.result.value,
            "counted": self.counted.value,
            "standing": self.standing.to_json(),
            "warningId": self.warning_id,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OutcomeReport:
        return cls(
            outcome_id=data["outcomeId"],
            document_id=data["documentId"],
            title=data["title"],
            section=data["section"],
            result=OutcomeResult(data["result"]),
            counted=Counted(data["counted"]),
            standing=DocumentOutcomes.from_json(data["standing"]),
            warning_id=data.get("warningId", ""),
        )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
