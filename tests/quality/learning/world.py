"""A client whose projects captured all patterns, and a project that queries them."""

from __future__ import annotations

from collections.abc import Iterable

from opx.domain.learning import RAGPattern
from opx.domain.scopes import Identity
from opx.operations.system import System
from tests.quality.learning.cases import FAILURE, Case, Taught
from tests.support.captures import capture_failure_solution, capture_gate_approval, capture_gate_rejection

CLIENT = "acme"
ORCHESTRATOR = "orchestrator"
"""Name of the orchestrator in knowledge.yaml."""

TEACHERS = ("orders", "billing", "warehouse")
ASKING = Identity(CLIENT, "second-shop", ORCHESTRATOR)
OTHER_CLIENT = Identity("globex", "shop", ORCHESTRATOR)


def teach(services: System, patterns: Iterable[Taught]) -> dict[str, str]:
    """Captures, verifies and processes the patterns; returns their names by pattern id."""
    entries: dict[str, tuple[Identity, str]] = {}
    for at, taught in enumerate(patterns):
        identity = Identity(CLIENT, TEACHERS[at % len(TEACHERS)])
        entries[taught.id] = (identity, capture(services, identity, taught))
    for project in TEACHERS:
        services.learning.checkpoints(Identity(CLIENT, project)).process_checkpoint(project, "project_completion")
    list(services.manager.work())
    return {
        services.learning.capture(identity).entry(entry).pattern_id: name for name, (identity, entry) in entries.items()
    }


def capture(services: System, identity: Identity, taught: Taught) -> str:
    """Captures a pattern; returns the id of the entry."""
    project, service = identity.project_id, services.learning.capture(identity)
    if taught.entry_type == "gate_rejection":
        feedback, revision = taught.text("human_feedback"), taught.text("revision_approach")
        return capture_gate_rejection(service, project, taught.text("gate_type"), feedback, revision)
    if taught.entry_type == "gate_approval":
        return capture_gate_approval(service, project, taught.text("gate_type"), taught.text("approved_approach"))
    return capture_failure_solution(
        service,
        project,
        taught.text("agent_type"),
        taught.text("task_type"),
        taught.text("failure_description"),
        taught.text("error_message"),
        taught.steps,
        taught.text("technology"),
        success_verified=True,
    )


def ask(services: System, case: Case, identity: Identity = ASKING, *, technology: bool = True) -> list[RAGPattern]:
    """Patterns that the querying project gets; without `technology`, a task is queried without its technology."""
    query = services.pattern_queries.of(identity)
    if case.query_kind == FAILURE:
        return query.query_for_failure(case.text, case.error_message, case.agent_type, case.task_type)
    named = case.technology if technology else ""
    return query.query_for_task(case.text, case.agent_type, case.task_type, named)
