"""The services of the learning design (Decision 68), whose methods are awaited.

A method that isn't awaited does nothing, and Python warns of it. Only the orchestrator calls the queries: the owner of a
folder, or a caller that knowledge.yaml names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opx.domain.learning import CheckpointReport, RAGPattern
from opx.errors import InvalidInputError
from opx.facade.aio import AsyncLearningKnowledge
from opx.facade.knowledge import Knowledge

__all__ = [
    "CheckpointEmbeddingService",
    "KnowledgeCaptureService",
    "KnowledgeEntry",
    "KnowledgePruningService",
    "OrchestratorContextBuilder",
    "RAGPattern",
    "RAGQueryService",
]


@dataclass
class KnowledgeEntry:
    """An entry as the design stages it. Without a project it belongs to the caller's own."""

    entry_type: str
    project_id: str = ""
    agent_type: str = ""
    task_type: str = ""
    technology: str = ""
    failure_description: str = ""
    error_message: str = ""
    solution_steps: str | Sequence[str] = ""
    success_verified: bool = False
    gate_type: str = ""
    human_feedback: str = ""
    revision_approach: str = ""
    approved_approach: str = ""


class _Service:
    """A service of the design over the learning of a knowledge."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._learning = AsyncLearningKnowledge(knowledge.learning)


class KnowledgeCaptureService(_Service):
    """Captures what was learned. A captured failure has a verified resolution, as the design has it."""

    async def capture_failure_solution(  # noqa: PLR0917 - the design's order
        self,
        project_id: str,
        agent_type: str,
        task_type: str,
        failure_description: str,
        error_message: str,
        solution_steps: str | Sequence[str],
        technology: str,
    ) -> str:
        """Captures a failure with its verified resolution; returns the entry's id."""
        entry = KnowledgeEntry("failure_solution", project_id, agent_type, task_type, technology)
        entry.failure_description, entry.error_message = failure_description, error_message
        entry.solution_steps, entry.success_verified = solution_steps, True
        return await self.stage(entry)

    async def capture_gate_rejection(
        self, project_id: str, gate_type: str, human_feedback: str, revision_approach: str
    ) -> str:
        """Captures a rejection at a gate; returns the entry's id."""
        return await self._learning.capture_gate_rejection(project_id, gate_type, human_feedback, revision_approach)

    async def capture_gate_approval(self, project_id: str, gate_type: str, approved_approach: str) -> str:
        """Captures an approval at the first attempt; returns the entry's id."""
        return await self._learning.capture_gate_approval(project_id, gate_type, approved_approach)

    async def stage(self, entry: KnowledgeEntry) -> str:
        """Stages an entry until the next checkpoint; returns its id. Raises `InvalidInputError`."""
        if entry.entry_type == "gate_rejection":
            return await self.capture_gate_rejection(
                entry.project_id, entry.gate_type, entry.human_feedback, entry.revision_approach
            )
        if entry.entry_type == "gate_approval":
            return await self.capture_gate_approval(entry.project_id, entry.gate_type, entry.approved_approach)
        if entry.entry_type != "failure_solution":
            raise InvalidInputError(f"unknown entry_type {entry.entry_type!r}")
        return await self._learning.capture_failure_solution(
            entry.project_id,
            entry.agent_type,
            entry.task_type,
            entry.failure_description,
            entry.error_message,
            entry.solution_steps,
            entry.technology,
            success_verified=entry.success_verified,
        )


class CheckpointEmbeddingService(_Service):
    """Turns staged entries into patterns."""

    async def process_checkpoint(self, project_id: str, checkpoint_type: str) -> CheckpointReport | None:
        """Processes a project's entries: `phase completion`, `project completion`, `cancellation`, `manual trigger`."""
        return await self._learning.process_checkpoint(project_id, checkpoint_type)


class RAGQueryService(_Service):
    """Finds patterns, for the orchestrator."""

    async def query_for_task(
        self, task_description: str, agent_type: str, task_type: str, technology: str, max_results: int = 5
    ) -> list[RAGPattern]:
        """Returns patterns for a task, the best first."""
        return await self._learning.query_for_task(task_description, agent_type, task_type, technology, max_results)

    async def query_for_failure(
        self, failure_description: str, error_message: str, agent_type: str, task_type: str
    ) -> list[RAGPattern]:
        """Returns up to three patterns for a failure, the best first."""
        return await self._learning.query_for_failure(failure_description, error_message, agent_type, task_type)


class OrchestratorContextBuilder(_Service):
    """Builds the context of a task."""

    async def build_context_for_task(self, task: object, agent_type: str) -> str:
        """Returns the patterns for a task in the frame; `task` has `description`, `type` and `technology`."""
        return await self._learning.build_context_for_task(task, agent_type)


class KnowledgePruningService(_Service):
    """Deletes what is older than its retention; patterns after a year."""

    async def prune_old_knowledge(self) -> int:
        """Returns the number of removed versions."""
        return await self._learning.prune_old_knowledge()
