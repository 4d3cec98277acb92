"""Questions about what was learned, as they are asked from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opx.domain.learning import DEFAULT_RESULTS


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """What helps with a task. An empty `agent_type`, `task_type` or `technology` stands for any."""

    task_description: str
    agent_type: str = ""
    task_type: str = ""
    technology: str = ""
    max_results: int = DEFAULT_RESULTS

    @property
    def facts(self) -> dict[str, str]:
        """The task as `OrchestratorContextBuilder` reads it."""
        return {
            "description": self.task_description,
            "task_type": self.task_type,
            "technology": self.technology,
        }

    def to_json(self) -> dict[str, Any]:
        """The camelCase form, without what is empty."""
        return _given(
            taskDescription=self.task_description,
            agentType=self.agent_type,
            taskType=self.task_type,
            technology=self.technology,
            maxResults=self.max_results,
        )


@dataclass(frozen=True, slots=True)
class FailureQuestion:
    """What helped against a failure. What is empty stands for any."""

    failure_description: str
    error_message: str = ""
    agent_type: str = ""
    task_type: str = ""

    def to_json(self) -> dict[str, Any]:
        """The camelCase form, without what is empty."""
        return _given(
            failureDescription=self.failure_description,
            errorMessage=self.error_message,
            agentType=self.agent_type,
            taskType=self.task_type,
        )


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value != ""}
