"""How the handling of an event ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from opx.domain.remarks import Remark


class Result(StrEnum):
    INGESTED = "ingested"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    SKIPPED = "skipped"
    FAILED = "failed"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reason` is empty for what went as expected. `delay_seconds` says when to try again, for `RETRY`.

    `attempts` counts failures of the document since its last success, as far as known. `stale` marks an event that was
    skipped because a newer one was applied: it says nothing about how the document is now.
    """

    result: Result
    object_key: str
    reason: str = ""
    document_id: str = ""
    title: str = ""
    chunks: int = 0
    delay_seconds: float = 0
    error: Exception | None = None
    attempts: int = 0
    stale: bool = False
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True)
class IngestionResult:
    """The outcomes of a batch, counted. `failures` have their reasons."""

    outcomes: tuple[Outcome, ...]

    def count(self, result: Result) -> int:
        return sum(outcome.result is result for outcome in self.outcomes)

    @property
    def document_ids(self) -> tuple[str, ...]:
        return tuple(outcome.document_id for outcome in self.outcomes if outcome.document_id)

    @property
    def chunks(self) -> int:
        return sum(outcome.chunks for outcome in self.outcomes)

    @property
    def failures(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.result is Result.FAILED)


@dataclass(frozen=True, slots=True)
class PutFile:
    """A file that was put, and its outcome if it needs no work: unchanged or failed."""

    object_key: str
    outcome: Outcome | None = None
