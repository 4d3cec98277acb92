"""What a tool answers, as text for an agent to read and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from opx.domain.documents import KnowledgeDocument
from opx.domain.results import Answer, RetrievalResult
from opx.hygiene.untrusted import QUOTED, one_line
from opx.retrieval.citations import citations

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

    def _is_untrusted(self) -> bool:
        """Whether anything that is shown comes from outside."""
        nearest = self.answer.best_rejected
        shown = self.answer.results or ((nearest,) if nearest else ())
        return any(result.untrusted for result in shown)

    def _notes(self) -> list[str]:
        notes = list(self.answer.notes)
        if self.left_out:
            notes.append(f"{self.left_out} more results were left out, as the answer would be too large")
        return notes

    def to_json(self) -> dict[str, Any]:
        """The text, and what a program can use of it."""
        return {
            "answer": self.text(),
            "documentIds": list(dict.fromkeys(result.document_id for result in self.answer.results)),
            "partial": self.answer.partial,
            "untrusted": self._is_untrusted(),
            "notes": self._notes(),
        }

    def shortened(self) -> SearchReply | None:
        results = self.answer.results
        if len(results) < 2:
            return None
        return SearchReply(replace(self.answer, results=results[:-1]), self.left_out + 1)


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


def _not_confirmed(nearest: RetrievalResult) -> str:
    title = one_line(nearest.title) if nearest.untrusted else nearest.title
    return (
        f"Nearest candidate, not confirmed (confidence {nearest.confidence:.2f}): {title}\n"
        f"[Document ID: {nearest.document_id}]"
    )
