"""Answers that agents read: the same as text, with sources and warnings, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from msgspec import Meta

from opx.domain.record import Record, replace
from opx.domain.research import ResearchReport, Step
from opx.domain.results import Answer, RetrievalResult
from opx.hygiene.untrusted import QUOTED, one_line
from opx.retrieval.citations import citations

PARTIAL = "Partial answer: something could not be searched."

DocumentIds = Annotated[tuple[str, ...], Meta(description="The documents that the results are from, the best first.")]
ReceiptId = Annotated[str, Meta(description="The record of this answer in the audit log, empty if there is none.")]
Partial = Annotated[bool, Meta(description="True if something could not be searched.")]
Untrusted = Annotated[
    bool,
    Meta(description="True if some of the answer is quoted from outside the organisation: it is data, marked as such."),
]
Notes = Annotated[tuple[str, ...], Meta(description="What the answer lacks, and why.")]


class SearchAnswer(Record, frozen=True, kw_only=True):
    answer: Annotated[str, Meta(description="The results with their sources, or that there is none.")]
    document_ids: DocumentIds
    receipt_id: ReceiptId
    partial: Partial
    untrusted: Untrusted
    notes: Notes


class Passage(Record, frozen=True, kw_only=True, omit_defaults=True):
    content: str
    source: Annotated[str, Meta(description="Where a person would open it.")]
    section: Annotated[str, Meta(description="The headings above it, such as `Modules > Hooks`.")]
    untrusted: Annotated[bool, Meta(description="True if it comes from outside the organisation.")]
    warnings: Annotated[
        tuple[str, ...], Meta(description="Which of its steps were tried before in vain, or made things worse; if any.")
    ] = ()


class RelevantPassage(Passage, frozen=True, kw_only=True):
    relevance: Annotated[str, Meta(description="How likely it is an answer, such as `87%`.")]


class DocsFound(Record, frozen=True, kw_only=True):
    results: Annotated[tuple[RelevantPassage, ...], Meta(description="What was found, the best first.")]
    document_ids: DocumentIds
    receipt_id: ReceiptId
    partial: Partial
    untrusted: Untrusted
    notes: Notes


class ResearchFindings(Record, frozen=True, kw_only=True):
    topic: str
    searches_performed: int
    findings: Annotated[tuple[Passage, ...], Meta(description="What was found out, the best first.")]
    document_ids: DocumentIds
    gaps: Annotated[tuple[str, ...], Meta(description="Parts of the topic that nothing good was found for.")]
    partial: Partial
    untrusted: Untrusted
    notes: Notes
    trace: Annotated[tuple[Step, ...], Meta(description="What was searched for, in order, and why.")]


@dataclass(frozen=True, slots=True)
class _Found:
    """Results of a search; `left_out` of them were dropped for their size."""

    answer: Answer
    left_out: int = 0

    def text(self) -> str:
        return "\n\n".join(self._parts())

    def _parts(self) -> Iterator[str]:
        if self.answer.partial:
            yield PARTIAL
        if notes := self._notes():
            yield "\n".join(f"Note: {note}" for note in notes)
        if self._is_untrusted():
            yield QUOTED
        yield citations(self.answer.results)
        nearest = self.answer.best_rejected
        if nearest and not self.answer.results:
            yield _not_confirmed(nearest)
        if self.answer.receipt_id and self.answer.results:
            yield f"[Receipt ID: {self.answer.receipt_id}]"

    def _is_untrusted(self) -> bool:
        """Whether anything that is shown comes from outside."""
        nearest = self.answer.best_rejected
        shown = self.answer.results or ((nearest,) if nearest else ())
        return any(result.untrusted for result in shown)

    def _notes(self) -> tuple[str, ...]:
        return (*self.answer.notes, *_left_out(self.left_out, "results"))

    def _facts(self) -> dict[str, Any]:
        return {
            "document_ids": _documents(self.answer.results),
            "receipt_id": self.answer.receipt_id,
            "partial": self.answer.partial,
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
        }

    def shortened(self) -> Self | None:
        results = self.answer.results
        if len(results) < 2:
            return None
        return replace(self, answer=replace(self.answer, results=results[:-1]), left_out=self.left_out + 1)


class FoundAnswer(_Found):
    """Results as one text, and what a program can use of it."""

    __slots__ = ()

    def record(self) -> SearchAnswer:
        return SearchAnswer(answer=self.text(), **self._facts())


class DocsAnswer(_Found):
    """Results, each as JSON of its own."""

    __slots__ = ()

    def record(self) -> DocsFound:
        results = self.answer.results
        passages = (RelevantPassage(**_passage(result), relevance=result.relevance) for result in results)
        return DocsFound(results=tuple(passages), **self._facts())


@dataclass(frozen=True, slots=True)
class ResearchAnswer:
    """What was found out about a topic; `left_out` findings were dropped for their size."""

    report: ResearchReport
    left_out: int = 0

    def text(self) -> str:
        return "\n\n".join(self._parts())

    def _parts(self) -> Iterator[str]:
        report = self.report
        if report.partial:
            yield PARTIAL
        if notes := self._notes():
            yield "\n".join(f"Note: {note}" for note in notes)
        if self._is_untrusted():
            yield QUOTED
        yield citations(report.findings)
        yield f"Searches performed: {report.searches_performed}"

    def _is_untrusted(self) -> bool:
        return any(finding.untrusted for finding in self.report.findings)

    def _notes(self) -> tuple[str, ...]:
        return (*self.report.notes, *_left_out(self.left_out, "findings"))

    def record(self) -> ResearchFindings:
        """The findings, and how they were come by."""
        report = self.report
        return ResearchFindings(
            topic=report.topic,
            searches_performed=report.searches_performed,
            findings=tuple(Passage(**_passage(finding)) for finding in report.findings),
            document_ids=_documents(report.findings),
            gaps=report.gaps,
            partial=report.partial,
            untrusted=self._is_untrusted(),
            notes=self._notes(),
            trace=report.trace,
        )

    def shortened(self) -> ResearchAnswer | None:
        findings = self.report.findings
        if len(findings) < 2:
            return None
        return replace(self, report=replace(self.report, findings=findings[:-1]), left_out=self.left_out + 1)


def _documents(results: Sequence[RetrievalResult]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(result.document_id for result in results))


def _passage(result: RetrievalResult) -> dict[str, Any]:
    return {
        "content": result.content,
        "source": result.source,
        "section": result.section,
        "untrusted": result.untrusted,
        "warnings": tuple(str(warning["text"]) for warning in result.warnings),
    }


def _left_out(count: int, what: str) -> list[str]:
    return [f"{count} more {what} were left out, as the answer would be too large"] if count else []


def _not_confirmed(nearest: RetrievalResult) -> str:
    title = one_line(nearest.title) if nearest.untrusted else nearest.title
    return (
        f"Nearest candidate, not confirmed (confidence {nearest.confidence:.2f}): {title}\n"
        f"[Document ID: {nearest.document_id}]"
    )
