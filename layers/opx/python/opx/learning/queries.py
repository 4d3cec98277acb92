"""Composes queries of patterns, which search as questions do."""

from __future__ import annotations

from functools import partial

from opx.domain.scopes import Identity
from opx.ingestion.corpus.capability import Corpus
from opx.learning.capability import Learning
from opx.learning.context import OrchestratorContextBuilder
from opx.learning.query import PatternSearch, RAGQueryService, visible_heads
from opx.learning.rules import check_orchestrator
from opx.records.capability import QuestionRecords
from opx.retrieval.capability import Questions
from opx.runtime.installation import Installation
from opx.runtime.metrics import unreported


class PatternQueries:
    """Queries patterns for an orchestrator's identity, or for the operator of the system, who gives none or says so."""

    def __init__(
        self,
        installation: Installation,
        corpus: Corpus,
        learning: Learning,
        questions: Questions,
        records: QuestionRecords,
    ) -> None:
        self._installation = installation
        self._corpus = corpus
        self._learning = learning
        self._questions = questions
        self._records = records

    def of(self, identity: Identity | None = None, *, operator: bool = False) -> RAGQueryService:
        """Finds patterns for a task or a failure."""
        asked = self._installation.identity_of(identity)
        reader = self._corpus.projects.reader(asked)
        search = PatternSearch(
            ask=self._questions.search(asked, recorded=False).answer,
            heads=partial(visible_heads, self._learning.patterns, reader),
            check=lambda: None if operator or identity is None else check_orchestrator(self._learning.rules, asked),
            observers=self._records.observers(reader, None, unreported, gaps=False),
        )
        return RAGQueryService(search)

    def context_builder(
        self, identity: Identity | None = None, *, operator: bool = False
    ) -> OrchestratorContextBuilder:
        """The same, as the text that an orchestrator gets with a task."""
        return OrchestratorContextBuilder(self.of(identity, operator=operator))
