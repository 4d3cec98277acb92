"""Composes learning: captures, checkpoints, patterns, outcomes and warnings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from opx.domain.learning import EntryType
from opx.domain.scopes import Identity, Scope
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Tables
from opx.ports.tables import OUTCOMES, PATTERNS, STAGING
from opx.records.capability import QuestionRecords
from opx.runtime.knowledge_file import Installation

if TYPE_CHECKING:
    from opx.ingestion.manager import IngestionManager
    from opx.learning.capture import KnowledgeCaptureService
    from opx.learning.checkpoints import CheckpointEmbeddingService
    from opx.learning.experience import LearnedExperience
    from opx.learning.learned_words import LearntStore
    from opx.learning.matching import PatternMatcher
    from opx.learning.merging import PatternMerging
    from opx.learning.outcome_recording import OutcomeService
    from opx.learning.outcome_store import KnownScopes, OutcomeStore
    from opx.learning.pattern_rows import LearningProjects
    from opx.learning.patterns import PatternStore
    from opx.learning.rules import LearningRules
    from opx.learning.staging import Staging
    from opx.learning.warnings import StepWarnings


@dataclass(eq=False)
class Learning:
    """Captures, patterns and outcomes of all scopes; without an identity a service is that of the installation's own.
    `manager_of` returns the manager that puts patterns of a scope into the corpus, `incident_text` the text that a scope
    has about an incident."""

    installation: Installation
    tables: Tables
    _: KW_ONLY
    corpus: Corpus
    indexing: Indexing
    manager_of: Callable[[Scope], IngestionManager]
    records: QuestionRecords
    incident_text: Callable[[Scope, str], str]

    @property
    def rules(self) -> LearningRules:
        """The rules of sharing and querying patterns. Raises `KnowledgeConfigError`."""
        from opx.learning.rules import read_learning_rules

        return self.installation.declared(read_learning_rules)

    @cached_property
    def staging(self) -> Staging:
        """Captured entries that no checkpoint has processed."""
        from opx.learning.staging import Staging

        return Staging(self.tables.table(STAGING), self.installation.clock)

    @cached_property
    def projects(self) -> LearningProjects:
        """Registry of the projects with captured entries."""
        from opx.learning.pattern_rows import LearningProjects

        return LearningProjects(self.tables.table(PATTERNS))

    @cached_property
    def patterns(self) -> PatternStore:
        """Patterns with their counts of success and failure."""
        from opx.learning.patterns import PatternStore

        table, clock = self.tables.table(PATTERNS), self.installation.clock
        return PatternStore(table, clock, unit_of_work=self.tables.unit_of_work)

    @cached_property
    def known_outcomes(self) -> KnownScopes:
        """The scopes that have outcomes, warnings or learnt words."""
        from opx.learning.outcome_store import KnownScopes

        return KnownScopes(self.tables.table(OUTCOMES))

    @cached_property
    def warnings(self) -> StepWarnings:
        """Step warnings that are shown in answers."""
        from opx.learning.warnings import StepWarnings

        return StepWarnings(self.tables.table(OUTCOMES), self.known_outcomes, self.installation.clock)

    @cached_property
    def outcome_store(self) -> OutcomeStore:
        """Outcome counts of documents."""
        from opx.learning.outcome_store import OutcomeStore

        return OutcomeStore(self.tables.table(OUTCOMES), self.known_outcomes, self.installation.clock)

    @cached_property
    def learnt(self) -> LearntStore:
        """Reports of resolved incidents, from which words are learnt."""
        from opx.learning.learned_words import LearntStore

        return LearntStore(self.tables.table(OUTCOMES), self.known_outcomes, self.installation.clock)

    @cached_property
    def experience(self) -> LearnedExperience:
        """Outcomes, warnings and learnt words, as retrieval applies them to answers."""
        from opx.learning.experience import LearnedExperience

        table = self.tables.table(OUTCOMES)
        return LearnedExperience(
            table, self.known_outcomes, lambda: self.warnings, lambda: self.corpus.catalog, lambda: self.learnt
        )

    def capture(self, identity: Identity | None = None, at: float | None = None) -> KnowledgeCaptureService:
        """Capture for an identity; entries are dated now, or `at` a time (seconds since the epoch)."""
        from opx.learning.capture import KnowledgeCaptureService

        installation = self.installation
        clock = installation.clock if at is None else lambda: at
        return KnowledgeCaptureService(
            installation.identity_of(identity), self.staging, self.projects, self.corpus.clients, clock
        )

    def checkpoints(self, identity: Identity | None = None) -> CheckpointEmbeddingService:
        """Checkpoints over the entries that an identity captured. Raises `KnowledgeConfigError`."""
        from opx.learning.checkpoints import CheckpointEmbeddingService, CheckpointParts

        parts = CheckpointParts(
            staging=self.staging,
            projects=self.projects,
            patterns=self.patterns,
            rules=self.rules,
            clients=self.corpus.clients,
            registry=self.corpus.projects,
            matcher=self._matcher,
            manager=self.manager_of,
            warn=self.warnings.enter,
            clock=self.installation.clock,
        )
        return CheckpointEmbeddingService(self.installation.identity_of(identity), parts)

    def merging(self, scope_key: str) -> PatternMerging:
        """Merges and splits of the patterns of a scope."""
        from opx.learning.merging import PatternMerging

        return PatternMerging(scope_key, self.tables.table(PATTERNS), self.patterns, self.staging.get_many)

    def _matcher(self, scope_key: str) -> PatternMatcher:
        from opx.learning.matching import PatternMatcher

        indexing = self.indexing
        return PatternMatcher(
            scope_key,
            self.patterns,
            search=lambda: indexing.search_engine,
            documents=lambda: indexing.document_embedder,
            questions=indexing.query_embedder is not None,
        )

    def outcomes(self, identity: Identity | None = None) -> OutcomeService:
        """Outcome recording for an identity. Raises `KnowledgeConfigError` and `InvalidScopeError`."""
        from opx.ingestion.corpus.chunk_files import read_chunks
        from opx.learning.outcome_recording import OutcomeService, Sight

        corpus, installation = self.corpus, self.installation
        caller = installation.identity_of(identity)
        own = Scope(caller.client_id, project_id=caller.project_id)
        sight = Sight(
            catalog=corpus.catalog,
            audited=self.records.audit.find if installation.settings.audit_days else None,
            chunks=partial(read_chunks, corpus.store),
            capture_warning=partial(self.capture(caller).capture, EntryType.WARNING),
            learnt=self.learnt,
            incident_text=self.incident_text,
            admits=corpus.clients.admit,
            used=corpus.uses.note_document,
        )
        shared = self.rules.shared(own, corpus.projects.group_of)
        return OutcomeService(corpus.projects.reader(caller), shared, self.outcome_store, sight, installation.clock)
