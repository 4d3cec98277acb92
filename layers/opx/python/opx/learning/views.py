"""Patterns as people look at them: with what each was learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.domain.learning import (
    CheckpointReport,
    CheckpointType,
    EntryType,
    Pattern,
    PatternOccurrence,
    RAGPattern,
    Refusal,
)

MOST_OCCURRENCES = 200


@dataclass(frozen=True, slots=True)
class PatternView:
    """A pattern and the entries that were counted for it; `more`: there are more than these."""

    pattern: Pattern
    occurrences: tuple[PatternOccurrence, ...]
    more: bool = False

    def to_json(self) -> dict[str, Any]:
        """The camelCase form."""
        return {
            "pattern": self.pattern.to_json(),
            "occurrences": [one.to_json() for one in self.occurrences],
            "more": self.more,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PatternView:
        return cls(
            pattern_from_json(data["pattern"]),
            tuple(map(_occurrence_from_json, data["occurrences"])),
            bool(data["more"]),
        )


def pattern_from_json(data: Mapping[str, Any]) -> Pattern:
    """The pattern that `Pattern.to_json` wrote."""
    return Pattern(
        pattern_id=str(data["patternId"]),
        scope_key=str(data["scope"]),
        entry_type=EntryType(data["entryType"]),
        problem=str(data["problem"]),
        solution=str(data["solution"]),
        when_to_try=str(data["whenToTry"]),
        error_message=str(data["errorMessage"]),
        agent_types=tuple(data["agentTypes"]),
        task_types=tuple(data["taskTypes"]),
        technology=str(data["technology"]),
        gate_type=str(data["gateType"]),
        success_count=int(data["successCount"]),
        failure_count=int(data["failureCount"]),
        embedded_at=str(data["embeddedAt"]),
        first_seen=str(data["firstSeen"]),
        projects=tuple(data["projects"]),
        evidence=tuple(data["evidence"]),
    )


def found_from_json(data: Mapping[str, Any]) -> RAGPattern:
    """The answer that `RAGPattern.to_json` wrote."""
    return RAGPattern(
        pattern_id=str(data["patternId"]),
        problem=str(data["problem"]),
        solution=str(data["solution"]),
        when_to_try=str(data["whenToTry"]),
        success_count=int(data["successCount"]),
        failure_count=int(data["failureCount"]),
        similarity=float(data["similarity"]),
        score=float(data["score"]),
        confidence_bound=float(data["confidenceBound"]),
        entry_type=EntryType(data["entryType"]),
        technology=str(data["technology"]),
        document_id=str(data["documentId"]),
        warnings=tuple(data["warnings"]),
        evidence=tuple(data["evidence"]),
    )


def report_from_json(data: Mapping[str, Any]) -> CheckpointReport:
    """The report that `CheckpointReport.to_json` wrote."""
    return CheckpointReport(
        project_id=str(data["projectId"]),
        checkpoint_type=CheckpointType(data["checkpointType"]),
        taken_in=int(data["takenIn"]),
        patterns_new=int(data["patternsNew"]),
        patterns_confirmed=int(data["patternsConfirmed"]),
        warnings=int(data["warnings"]),
        waiting=tuple(data["waiting"]),
        refused=tuple(Refusal(str(one["entryId"]), str(one["reason"])) for one in data["refused"]),
        took_ms=float(data["tookMs"]),
    )


def _occurrence_from_json(data: Mapping[str, Any]) -> PatternOccurrence:
    return PatternOccurrence(
        entry_id=str(data["entryId"]),
        project_id=str(data["projectId"]),
        worked=bool(data["worked"]),
        at=str(data["at"]),
        incident=str(data["incident"]),
        reason=str(data["reason"]),
        key=str(data["key"]),
    )
