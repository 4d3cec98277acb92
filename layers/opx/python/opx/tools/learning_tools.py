"""The tools about what work taught, as plain methods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from opx.domain.learning import DEFAULT_RESULTS
from opx.domain.scopes import Identity
from opx.learning.asked import TaskQuestion
from opx.tools.calling import called
from opx.tools.declarations import Tool
from opx.tools.learning_group import FAILED, WORKED
from opx.tools.learning_replies import ContextReply, EntryReply, OutcomeReply, PatternsReply
from opx.tools.replies import Reply

if TYPE_CHECKING:
    from opx.learning.capture import KnowledgeCaptureService
    from opx.learning.context import OrchestratorContextBuilder
    from opx.learning.outcomes.recording import OutcomeService
    from opx.learning.query import RAGQueryService


OWN_PROJECT = ""
"""The identity's, which nothing that an agent says can change."""


class Learning(Protocol):
    """What the tools need of a system; `Services` has it."""

    def capture(self, identity: Identity | None = None) -> KnowledgeCaptureService: ...

    def outcomes(self, identity: Identity | None = None) -> OutcomeService: ...

    def pattern_query(self, identity: Identity | None = None) -> RAGQueryService: ...

    def context_builder(self, identity: Identity | None = None) -> OrchestratorContextBuilder: ...


class LearningTools:
    """The tools of one identity: what is captured belongs to its scope and its project, and the kind of agent is
    `agent`, as the grants know it.

    Methods raise `ArgumentError`, `EntryNotFoundError`, `ReceiptNotFoundError`, `NotOrchestratorError`,
    `StoreUnavailableError`, and `InvalidScopeError` for a malformed identity.
    """

    def __init__(self, learning: Learning, identity: Identity, agent: str = "") -> None:
        self._learning = learning
        self._identity = identity
        self._agent = agent

    def call(self, tool: Tool, given: Iterable[tuple[str, object]]) -> Reply:
        """Do what a tool does. Raises `ArgumentError` for arguments that are not as declared."""
        return called(self, tool, given)

    def capture_failure_solution(
        self,
        failure_description: str,
        solution_steps: str,
        error_message: str = "",
        task_type: str = "",
        technology: str = "",
    ) -> EntryReply:
        """Keep what failed and what was done about it."""
        captured, steps = self._captured, _lines(solution_steps)
        entry_id = captured.capture_failure_solution(
            OWN_PROJECT, self._agent, task_type, failure_description, error_message, steps, technology
        )
        return EntryReply(captured.entry(entry_id))

    def verify_solution(self, entry_id: str, result: str, incident: str = "") -> EntryReply:
        """Say what came of it."""
        effect = "" if result in (WORKED, FAILED) else result
        return EntryReply(self._captured.verify(entry_id, result == WORKED, effect=effect, incident=incident))

    def capture_gate_rejection(self, gate_type: str, human_feedback: str, revision_approach: str = "") -> EntryReply:
        """Keep what a person rejected."""
        captured = self._captured
        given = gate_type, human_feedback, revision_approach
        return EntryReply(captured.entry(captured.capture_gate_rejection(OWN_PROJECT, *given, agent_type=self._agent)))

    def capture_gate_approval(self, gate_type: str, approved_approach: str) -> EntryReply:
        """Keep what a person approved at once."""
        captured = self._captured
        given = gate_type, approved_approach
        return EntryReply(captured.entry(captured.capture_gate_approval(OWN_PROJECT, *given, agent_type=self._agent)))

    def capture_warning(
        self, tried: str, effect: str, problem: str = "", reference: str = "", incident: str = ""
    ) -> EntryReply:
        """Keep what didn't help."""
        captured = self._captured
        about = {"problem": problem, "reference": reference, "incident": incident}
        return EntryReply(captured.entry(captured.capture_warning(OWN_PROJECT, self._agent, tried, effect, **about)))

    def report_outcome(
        self, receipt_id: str, document_id: str, result: str, step: str = "", incident: str = ""
    ) -> OutcomeReply:
        """Say what came of following a document."""
        outcomes = self._learning.outcomes(self._identity)
        return OutcomeReply(outcomes.record(receipt_id, document_id, result, step=step, incident=incident))

    def query_for_task(
        self,
        task_description: str,
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        max_results: int = DEFAULT_RESULTS,
    ) -> PatternsReply:
        """What helps with a task."""
        query = self._learning.pattern_query(self._identity)
        found = query.query_for_task(task_description, agent_type, task_type, technology, max_results=max_results)
        return PatternsReply(tuple(found))

    def query_for_failure(
        self, failure_description: str, error_message: str = "", agent_type: str = "", task_type: str = ""
    ) -> PatternsReply:
        """What helped against a failure."""
        query = self._learning.pattern_query(self._identity)
        return PatternsReply(tuple(query.query_for_failure(failure_description, error_message, agent_type, task_type)))

    def build_context_for_task(
        self, task: str, agent_type: str = "", task_type: str = "", technology: str = ""
    ) -> ContextReply:
        """What was learned, for a prompt."""
        builder = self._learning.context_builder(self._identity)
        facts = TaskQuestion(task, agent_type, task_type, technology).facts
        return ContextReply(builder.build_context_for_task(facts, agent_type))

    @property
    def _captured(self) -> KnowledgeCaptureService:
        return self._learning.capture(self._identity)


def _lines(text: str) -> tuple[str, ...]:
    """A step each."""
    return tuple(line for line in (part.strip() for part in text.splitlines()) if line)
