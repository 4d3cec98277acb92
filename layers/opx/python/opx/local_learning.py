"""What work taught, in the services of this process, as far as one identity may see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import islice
from typing import TYPE_CHECKING, Any

from opx.domain.scopes import Identity
from opx.errors import PatternNotFoundError

if TYPE_CHECKING:
    from opx.domain.learning import CheckpointReport, CheckpointType, Pattern, PatternView, RAGPattern, StagingEntry
    from opx.domain.outcomes import DocumentOutcomes, OutcomeReport
    from opx.domain.scopes import Reader, Scope
    from opx.learning.asked import FailureQuestion, TaskQuestion
    from opx.learning.query import RAGQueryService
    from opx.services import Services

MOST_OCCURRENCES = 200
MOST_LOOKED_AT = 10_000
"""Patterns of a scope that are put into order."""


class LocalLearning:
    """The part of a knowledge base that is about what work taught, and what came of acting upon documents."""

    _services: Services
    _identity: Identity
    _whole_system: bool

    if TYPE_CHECKING:

        @property
        def scope(self) -> Scope: ...

        def _reader(self) -> Reader: ...

    def capture_entry(self, given: Mapping[str, Any]) -> str:
        from opx.operations.learning import CaptureEntry
        from opx.operations.requests import read_request

        request = read_request(CaptureEntry, given)
        return self._services.capture(self._identity).capture(request.entry_type, request.given)

    def verify_entry(self, entry_id: str, *, worked: bool, effect: str = "", incident: str = "") -> StagingEntry:
        return self._services.capture(self._identity).verify(entry_id, worked, effect=effect, incident=incident)

    def learning_entries(
        self, *, state: str = "", project_id: str = "", limit: int = 50, after: str = ""
    ) -> Sequence[StagingEntry]:
        captured = self._services.capture(self._identity)
        return captured.entries(state=state, limit=limit, after=after, project_id=project_id)

    def checkpoint(self, project_id: str, checkpoint_type: CheckpointType) -> CheckpointReport | None:
        requests = self._services.checkpoint_requests
        if requests is not None:
            from opx.learning.events import checkpoint_message

            project = project_id or self._identity.project_id
            requests.send(checkpoint_message(self.scope, project, checkpoint_type))
            return None
        return self._services.checkpoints(self._identity).process_checkpoint(project_id, checkpoint_type)

    def patterns(self, *, limit: int = 100) -> Sequence[Pattern]:
        self._check_may_ask()
        return nlargest(limit, self._patterns(), key=lambda pattern: (pattern.embedded_at, pattern.pattern_id))

    def _patterns(self) -> Iterator[Pattern]:
        for scope_key in self._reader().visible:
            yield from islice(self._services.patterns.patterns(scope_key), MOST_LOOKED_AT)

    def pattern(self, pattern_id: str) -> PatternView:
        from opx.domain.learning import PatternView

        self._check_may_ask()
        store = self._services.patterns
        (found, *_) = [*store.heads(self._reader().visible, [pattern_id]), None]
        if found is None:
            raise PatternNotFoundError(f"no pattern has the id {pattern_id[:100]!r}")
        told = list(islice(store.occurrences(found.scope_key, pattern_id), MOST_OCCURRENCES + 1))
        return PatternView(found, tuple(told[:MOST_OCCURRENCES]), len(told) > MOST_OCCURRENCES)

    def patterns_for_task(self, question: TaskQuestion) -> Sequence[RAGPattern]:
        return self._pattern_query.query_for_task(
            question.task_description,
            question.agent_type,
            question.task_type,
            question.technology,
            max_results=question.max_results,
        )

    def patterns_for_failure(self, question: FailureQuestion) -> Sequence[RAGPattern]:
        return self._pattern_query.query_for_failure(
            question.failure_description, question.error_message, question.agent_type, question.task_type
        )

    def task_context(self, question: TaskQuestion) -> str:
        builder = self._services.context_builder(self._identity, operator=self._whole_system)
        return builder.build_context_for_task(question.facts, question.agent_type)

    def _check_may_ask(self) -> None:
        from opx.learning.orchestrators import check_orchestrator

        if not self._whole_system:
            check_orchestrator(self._services.learning_rules, self._identity)

    @property
    def _pattern_query(self) -> RAGQueryService:
        return self._services.pattern_query(self._identity, operator=self._whole_system)

    # -- outcomes

    def record_outcome(self, receipt_id: str, document_id: str, result: str, **more: str) -> OutcomeReport:
        return self._services.outcomes(self._identity).record(receipt_id, document_id, result, **more)

    def document_outcomes(self, document_id: str) -> DocumentOutcomes:
        return self._services.outcomes(self._identity).standing(document_id)
