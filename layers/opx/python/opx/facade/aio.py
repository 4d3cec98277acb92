"""The knowledge for code that awaits: each method runs the plain one in a thread, so that the event loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from opx.domain.documents import KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.results import Answer, Results, RetrievalResult
from opx.facade.knowledge import Knowledge

if TYPE_CHECKING:
    from opx.domain.baselines import BaselineStats
    from opx.domain.learning import CheckpointReport, RAGPattern, StagingEntry
    from opx.domain.outcomes import OutcomeReport
    from opx.domain.research import ResearchReport
    from opx.domain.sources import Document, KnowledgeSource, SourceDeclaration
    from opx.ingestion.events import IngestionResult
    from opx.operations.corpus import Status
    from opx.operations.procedures import Procedure
    from opx.operations.reading import DocumentPart

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(run: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """The result of a plain call that is made in another thread."""
    return await asyncio.to_thread(run, *args, **kwargs)


class AsyncKnowledge:
    """`Knowledge` whose methods are awaited: `AsyncKnowledge.open(...)`, or `AsyncKnowledge(knowledge)` beside the plain one.
    It is an asynchronous context manager. A method that isn't awaited does nothing, and Python warns of it."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._knowledge = knowledge

    @classmethod
    def open(cls, address: str | Path = "", *, client_id: str = "", project_id: str = "", token: str = "") -> Self:
        """See `Knowledge.open`."""
        return cls(Knowledge.open(address, client_id=client_id, project_id=project_id, token=token))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Releases files and connections."""
        await in_thread(self._knowledge.close)

    @property
    def sync(self) -> Knowledge:
        """The same knowledge with plain methods."""
        return self._knowledge

    # -- questions

    async def query(self, query: str, config: QueryConfig | None = None) -> Results:
        """See `Knowledge.query`."""
        return await in_thread(self._knowledge.query, query, config)

    async def answer(self, question: str, config: QueryConfig | None = None, *, budget: int = 0) -> Answer:
        """See `Knowledge.answer`."""
        return await in_thread(self._knowledge.answer, question, config, budget=budget)

    async def query_with_context(
        self, query: str, context: Mapping[str, Any], config: QueryConfig | None = None
    ) -> RetrievalResult:
        """See `Knowledge.query_with_context`."""
        return await in_thread(self._knowledge.query_with_context, query, context, config)

    async def get_baseline(self, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        """See `Knowledge.get_baseline`."""
        return await in_thread(self._knowledge.get_baseline, node, metric, time_window)

    async def search_internet(self, query: str, max_results: int = 5) -> list[RetrievalResult]:
        """See `Knowledge.search_internet`."""
        return await in_thread(self._knowledge.search_internet, query, max_results)

    async def research(self, topic: str, max_iterations: int = 3, config: QueryConfig | None = None) -> ResearchReport:
        """See `Knowledge.research`."""
        return await in_thread(self._knowledge.research, topic, max_iterations, config)

    async def procedure(self, alert: str | dict[str, Any], labels: str | dict[str, Any] = "") -> Procedure:
        """See `Knowledge.procedure`."""
        return await in_thread(self._knowledge.procedure, alert, labels)

    async def read(self, document: str, part: str = "") -> DocumentPart:
        """See `Knowledge.read`."""
        return await in_thread(self._knowledge.read, document, part)

    async def documents(self, category: str = "") -> list[KnowledgeDocument]:
        """Returns what `Knowledge.documents` yields."""
        return await in_thread(lambda: list(self._knowledge.documents(category)))

    async def document(self, document_id: str) -> KnowledgeDocument:
        """See `Knowledge.document`."""
        return await in_thread(self._knowledge.document, document_id)

    async def status(self) -> Status:
        """See `Knowledge.status`."""
        return await in_thread(self._knowledge.status)

    # -- documents and sources

    async def ingest_document(
        self, tier: str, category: str, document: Document | object, metadata: Mapping[str, Any] | None = None
    ) -> str:
        """See `Knowledge.ingest_document`."""
        return await in_thread(self._knowledge.ingest_document, tier, category, document, metadata)

    async def ingest_batch(
        self, tier: str, category: str, documents: Iterable[Document | object], dedupe: bool = True
    ) -> IngestionResult:
        """See `Knowledge.ingest_batch`."""
        return await in_thread(self._knowledge.ingest_batch, tier, category, documents, dedupe)

    async def ingest_from_evidence(self, evidence: object) -> str:
        """See `Knowledge.ingest_from_evidence`."""
        return await in_thread(self._knowledge.ingest_from_evidence, evidence)

    async def add_files(self, *paths: str | Path, metadata: Mapping[str, Any] | None = None) -> IngestionResult:
        """See `Knowledge.add_files`."""
        return await in_thread(self._knowledge.add_files, *paths, metadata=metadata)

    async def delete(self, document_id: str) -> tuple[KnowledgeDocument, ...]:
        """See `Knowledge.delete`."""
        return await in_thread(self._knowledge.delete, document_id)

    async def register_source(
        self, source: KnowledgeSource | SourceDeclaration | Mapping[str, Any], schedule: str, tier: str, category: str
    ) -> str:
        """See `Knowledge.register_source`."""
        return await in_thread(self._knowledge.register_source, source, schedule, tier, category)

    async def pull_now(self, source_id: str) -> IngestionResult:
        """See `Knowledge.pull_now`."""
        return await in_thread(self._knowledge.pull_now, source_id)

    @property
    def learning(self) -> AsyncLearning:
        """Captures, checkpoints, patterns and outcomes."""
        return AsyncLearning(self._knowledge)


class AsyncLearning:
    """`LearningKnowledge` whose methods are awaited."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._learning = knowledge.learning

    async def capture_failure_solution(  # noqa: PLR0917 - as callers know it
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
        """See `LearningKnowledge.capture_failure_solution`."""
        return await in_thread(
            self._learning.capture_failure_solution,
            project_id,
            agent_type,
            task_type,
            failure_description,
            error_message,
            solution_steps,
            technology,
            success_verified=success_verified,
            incident=incident,
        )

    async def capture_gate_rejection(
        self, project_id: str, gate_type: str, human_feedback: str, revision_approach: str
    ) -> str:
        """See `LearningKnowledge.capture_gate_rejection`."""
        run = self._learning.capture_gate_rejection
        return await in_thread(run, project_id, gate_type, human_feedback, revision_approach)

    async def capture_gate_approval(self, project_id: str, gate_type: str, approved_approach: str) -> str:
        """See `LearningKnowledge.capture_gate_approval`."""
        return await in_thread(self._learning.capture_gate_approval, project_id, gate_type, approved_approach)

    async def verify(self, entry_id: str, worked: bool, effect: str = "", incident: str = "") -> StagingEntry:
        """See `LearningKnowledge.verify`."""
        return await in_thread(self._learning.verify, entry_id, worked, effect, incident)

    async def process_checkpoint(self, project_id: str, checkpoint_type: str = "manual") -> CheckpointReport | None:
        """See `LearningKnowledge.process_checkpoint`."""
        return await in_thread(self._learning.process_checkpoint, project_id, checkpoint_type)

    async def query_for_task(
        self,
        task_description: str,
        agent_type: str = "",
        task_type: str = "",
        technology: str = "",
        max_results: int = 5,
    ) -> list[RAGPattern]:
        """See `LearningKnowledge.query_for_task`."""
        run = self._learning.query_for_task
        return await in_thread(run, task_description, agent_type, task_type, technology, max_results)

    async def query_for_failure(
        self, failure_description: str, error_message: str = "", agent_type: str = "", task_type: str = ""
    ) -> list[RAGPattern]:
        """See `LearningKnowledge.query_for_failure`."""
        run = self._learning.query_for_failure
        return await in_thread(run, failure_description, error_message, agent_type, task_type)

    async def build_context_for_task(self, task: object, agent_type: str = "") -> str:
        """See `LearningKnowledge.build_context_for_task`."""
        return await in_thread(self._learning.build_context_for_task, task, agent_type)

    async def record_outcome(
        self, receipt_id: str, result: str, document_id: str = "", step: str = ""
    ) -> OutcomeReport:
        """See `LearningKnowledge.record_outcome`."""
        return await in_thread(self._learning.record_outcome, receipt_id, result, document_id, step)

    async def prune_old_knowledge(self) -> int:
        """See `LearningKnowledge.prune_old_knowledge`."""
        return await in_thread(self._learning.prune_old_knowledge)
