"""What a tool answers, as text for an agent to read and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from opx.domain.documents import KnowledgeDocument
from opx.domain.record import replace
from opx.domain.results import Answer, RetrievalResult
from opx.hygiene.untrusted import QUOTED, one_line
from opx.retrieval.citations import citations

if TYPE_CHECKING:
    from opx.domain.research import ResearchReport

PARTIAL = "Partial answer: something could not be searched."


class Reply(Protocol):
    """A tool's answer."""

    def text(self) -> str:
        """Never empty."""

    def to_json(self) -> dict[str, Any]: ...

    def shortened(self) -> Reply | None:
        """The same with a little less and a note of that, for where an answer's size is limited; None if it can't."""


@dataclass(frozen=True, slots=True)
class SearchReply:
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

    def _notes(self) -> list[str]:
        return [*self.answer.notes, *_left_out(self.left_out, "results")]

    def to_json(self) -> dict[str, Any]:
        """The text, and what a program can use of it."""
        return {
            "answer": self.text(),
            "documentIds": list(dict.fromkeys(result.document_id for result in self.answer.results)),
            "receiptId": self.answer.receipt_id,
            "partial": self.answer.partial,
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
        }

    def shortened(self) -> SearchReply | None:
        results = self.answer.results
        if len(results) < 2:
            return None
        return replace(self, answer=replace(self.answer, results=results[:-1]), left_out=self.left_out + 1)


class DocsReply(SearchReply):
    """The same, with each result as JSON of its own."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """`results` in place of the text; `relevance` is the confidence as a percentage."""
        fields = super().to_json()
        del fields["answer"]
        found = [{**_passage(result), "relevance": f"{result.confidence:.0%}"} for result in self.answer.results]
        return {"results": found, **fields}


@dataclass(frozen=True, slots=True)
class ResearchReply:
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
        return any(result.untrusted for result in self.report.findings)

    def _notes(self) -> list[str]:
        return [*self.report.notes, *_left_out(self.left_out, "findings")]

    def to_json(self) -> dict[str, Any]:
        """The findings, and how they were come by."""
        report = self.report
        told = report.to_json()
        return {
            "topic": report.topic,
            "searchesPerformed": report.searches_performed,
            "findings": [_passage(result) for result in report.findings],
            "documentIds": list(dict.fromkeys(result.document_id for result in report.findings)),
            "gaps": list(report.gaps),
            "partial": report.partial,
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
            "trace": told["trace"],
        }

    def shortened(self) -> ResearchReply | None:
        findings = self.report.findings
        if len(findings) < 2:
            return None
        return replace(self, report=replace(self.report, findings=findings[:-1]), left_out=self.left_out + 1)


@dataclass(frozen=True, slots=True)
class DocumentReply:
    """What is known about one document."""

    document: KnowledgeDocument

    def text(self) -> str:
        return json.dumps(self.to_json(), ensure_ascii=False, indent=2)

    def to_json(self) -> dict[str, Any]:
        return self.document.to_json()

    def shortened(self) -> None:
        return None


def _passage(result: RetrievalResult) -> dict[str, Any]:
    return {
        "content": result.content,
        "source": result.source,
        "section": result.section,
        "untrusted": result.untrusted,
        **({"warnings": [str(warning["text"]) for warning in result.warnings]} if result.warnings else {}),
    }


def _left_out(count: int, what: str) -> list[str]:
    return [f"{count} more {what} were left out, as the answer would be too large"] if count else []


def _not_confirmed(nearest: RetrievalResult) -> str:
    title = one_line(nearest.title) if nearest.untrusted else nearest.title
    return (
        f"Nearest candidate, not confirmed (confidence {nearest.confidence:.2f}): {title}\n"
        f"[Document ID: {nearest.document_id}]"
    )
