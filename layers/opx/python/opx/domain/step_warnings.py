"""Warnings of steps that were tried before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opx.domain.learning import Effect


def said_effect(effect: Effect) -> str:
    """As the end of a sentence."""
    return "made things worse" if effect is Effect.MADE_WORSE else "had no effect"


@dataclass(frozen=True, slots=True)
class StepWarning:
    """That a step was tried before, and what came of it, at its worst. `line` is the line of the passage (from 0) that
    it stands in, None where the document as a whole is meant; `document_id` is that of the warning."""

    step: str
    effect: Effect
    incidents: tuple[str, ...]
    problem: str
    times: int
    line: int | None
    document_id: str = ""

    @property
    def text(self) -> str:
        """`tried in INC-7, made things worse: restart the primary (replication lag)`."""
        where = f"tried in {', '.join(self.incidents)}" if self.incidents else "tried before"
        often = f" ({self.times:,} times)" if self.times > max(len(self.incidents), 1) else ""
        problem = f" ({self.problem})" if self.problem else ""
        return f"{where}{often}, {said_effect(self.effect)}: {self.step}{problem}"

    def to_json(self) -> dict[str, Any]:
        """The camelCase form in the metadata of results."""
        return {
            "step": self.step,
            "effect": self.effect.value,
            "incidents": list(self.incidents),
            "problem": self.problem,
            "times": self.times,
            "line": self.line,
            "text": self.text,
            "documentId": self.document_id,
        }
