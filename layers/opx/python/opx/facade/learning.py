"""Learning of a `Knowledge`: what is captured, what it became, and what helps with a task."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, TypeVar

from opx.domain.learning import CheckpointReport, CheckpointType, EntryType, RAGPattern, StagingEntry, TriedEffect
from opx.domain.outcomes import OutcomeReport, OutcomeResult
from opx.edges.calling import OperationClient
from opx.errors import InvalidInputError
from opx.operations import learning
from opx.operations.outcomes import RecordOutcome, record_outcome

E = TypeVar("E", bound=StrEnum)


class LearningKnowledge:
    """Captures entries, turns them into patterns at checkpoints, and finds the patterns for a task or a failure."""

    def __init__(self, client: OperationClient) -> None:
        self._client = client

    def capture_failure_solution(  # noqa: PLR0917 - as callers know it
        self,
        project_id: str,
        agent_type: str,
        task_type: str,
        failure_description: str,
        error_message: str,
        solution_steps: str | Sequence[str],
        technology: str,
        *,
        success_verified: bool = False,
        incident: str = "",
    ) -> str:
        """Captures a failure and its solution, and returns the entry's id. It waits for `verify`, unless it is captured as
        verified."""
        given = {"agent_type": agent_type, "task_type": task_type, "technology": technology, "incident": incident}
        steps = solution_steps.splitlines() if isinstance(solution_steps, str) else solution_steps
        return self._captured(
            EntryType.FAILURE_SOLUTION,
            project_id,
            failure_description=failure_description,
            error_message=error_message,
            solution_steps=tuple(step for step in steps if step.strip()),
            success_verified=success_verified,
            **{name: value for name, value in given.items() if value},
        )

    def capture_gate_rejection(
        self, project_id: str, gate_type: str, human_feedback: str, revision_approach: str
    ) -> str:
        """Captures a rejection at a review with the person's feedback and the revision; returns the entry's id."""
        return self._captured(
            EntryType.GATE_REJECTION,
            project_id,
            gate_type=gate_type,
            human_feedback=human_feedback,
            revision_approach=revision_approach,
        )

    def capture_gate_approval(self, project_id: str, gate_type: str, approved_approach: str) -> str:
        """Captures an approach that a person approved at the first attempt; returns the entry's id."""
        return self._captured(
            EntryType.GATE_APPROVAL, project_id, gate_type=gate_type, approved_approach=approved_approach
        )

    def verify(self, entry_id: str, worked: bool, effect: str = "", incident: str = "") -> StagingEntry:
        """Records whether the solution of an entry worked, and if not, its effect (`no_effect`, `made_worse`)."""
        request = learning.VerifyEntry(
            entry_id=entry_id, worked=worked, effect=member(TriedEffect, effect) if effect else None, incident=incident
        )
        return self._client.call(learning.verify_entry, request)

    def process_checkpoint(self, project_id: str, checkpoint_type: str = "manual") -> CheckpointReport | None:
        """Turns the verified entries of a project into patterns; None for a deployed system, where a function does it."""
        request = learning.ProcessCheckpoint(
            project_id=project_id, checkpoint_type=member(CheckpointType, checkpoint_type)
        )
        return self._client.call(learning.process_checkpoint, request).report

    def query_for_task(
        self,
        task_description: str,
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        max_results: int = 5,
    ) -> list[RAGPattern]:
        """Returns patterns for a task, the best first; for orchestrators."""
        from opx.operations.patterns import FindPatternsForTask, find_patterns_for_task

        request = FindPatternsForTask(task_description, agent_type, task_type, technology, max_results)
        return list(self._client.call(find_patterns_for_task, request).patterns)

    def query_for_failure(
        self, failure_description: str, error_message: str = "", agent_type: str = "", task_type: str = ""
    ) -> list[RAGPattern]:
        """Returns up to three patterns for a failure, the best first; for orchestrators."""
        from opx.operations.patterns import FindPatternsForFailure, find_patterns_for_failure

        request = FindPatternsForFailure(failure_description, error_message, agent_type, task_type)
        return list(self._client.call(find_patterns_for_failure, request).patterns)

    def build_context_for_task(self, task: object, agent_type: str = "") -> str:
        """Returns the patterns for a task in the frame that orchestrators know. `task` is a description, or a mapping or
        object with `description`, `task_type` (or `type`) and `technology`."""
        from opx.learning.context import task_facts
        from opx.operations.patterns import GetTaskContext, get_task_context

        facts = task_facts(task)
        request = GetTaskContext(facts["description"], agent_type, facts["task_type"], facts["technology"])
        return self._client.call(get_task_context, request).context

    def record_outcome(self, receipt_id: str, result: str, document_id: str = "", step: str = "") -> OutcomeReport:
        """Records the result of acting upon a found document: `resolved`, `no_effect` or `made_worse`. `last` is the newest
        receipt."""
        request = RecordOutcome(
            receipt_id=receipt_id, result=member(OutcomeResult, result), document_id=document_id, step=step
        )
        return self._client.call(record_outcome, request)

    def prune_old_knowledge(self) -> int:
        """Deletes what is older than its retention, patterns after a year; returns the number of removed versions. Only for
        a folder: a deployed system prunes by schedule."""
        from opx.operations.lifecycle import PruneExpired, prune_expired

        return self._client.call(prune_expired, PruneExpired()).versions

    def _captured(self, entry_type: EntryType, project_id: str, **given: Any) -> str:
        request = learning.CaptureEntry(entry_type=entry_type, project_id=project_id, **given)
        return self._client.call(learning.capture_entry, request).id


def member(kind: type[E], value: str) -> E:
    """The member of an enumeration. Raises `InvalidInputError` that lists them."""
    try:
        return kind(value)
    except ValueError:
        raise InvalidInputError(f"unknown {kind.__name__} {value!r}; there are: {', '.join(kind)}") from None
