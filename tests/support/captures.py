"""Captures entries with the arguments of each type in the order of the learning design."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opx.domain.learning import EntryType
from opx.learning.capture import KnowledgeCaptureService


def capture_failure_solution(
    service: KnowledgeCaptureService,
    project_id: str,
    agent_type: str,
    task_type: str,
    failure_description: str,
    error_message: str,
    solution_steps: Sequence[str],
    technology: str,
    **more: Any,
) -> str:
    given = {
        "project_id": project_id,
        "agent_type": agent_type,
        "task_type": task_type,
        "failure_description": failure_description,
        "error_message": error_message,
        "solution_steps": solution_steps,
        "technology": technology,
        **more,
    }
    return service.capture(EntryType.FAILURE_SOLUTION, given)


def capture_gate_rejection(
    service: KnowledgeCaptureService, project_id: str, gate_type: str, human_feedback: str, revision_approach: str
) -> str:
    given = {
        "project_id": project_id,
        "gate_type": gate_type,
        "human_feedback": human_feedback,
        "revision_approach": revision_approach,
    }
    return service.capture(EntryType.GATE_REJECTION, given)


def capture_gate_approval(
    service: KnowledgeCaptureService, project_id: str, gate_type: str, approved_approach: str
) -> str:
    given = {"project_id": project_id, "gate_type": gate_type, "approved_approach": approved_approach}
    return service.capture(EntryType.GATE_APPROVAL, given)


def capture_warning(
    service: KnowledgeCaptureService,
    project_id: str,
    agent_type: str,
    tried: str,
    effect: str,
    incident: str = "",
    problem: str = "",
) -> str:
    given = {
        "project_id": project_id,
        "agent_type": agent_type,
        "tried": tried,
        "effect": effect,
        "incident": incident,
        "problem": problem,
    }
    return service.capture(EntryType.WARNING, given)
