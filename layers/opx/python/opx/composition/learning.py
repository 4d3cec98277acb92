"""What work taught, as it is put together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from opx.composition.reindexing import ReindexServices
from opx.domain.scopes import Identity
from opx.tables import OUTCOMES, PATTERNS, STAGING

if TYPE_CHECKING:
    from opx.learning.capture import KnowledgeCaptureService
    from opx.learning.checkpoints import CheckpointEmbeddingService
    from opx.learning.matching import PatternMatcher
    from opx.learning.outcomes.experience import KnownScopes
    from opx.learning.patterns import PatternStore
    from opx.learning.projects import LearningProjects
    from opx.learning.rules import LearningRules
    from opx.learning.staging import Staging
    from opx.learning.warnings import StepWarnings


class LearningServices(ReindexServices):
    """Capture, checkpoints and patterns."""

    @cached_property
    def learning_rules(self) -> LearningRules:
        """Who shares what was learned, and who may ask for it. Raises `KnowledgeConfigError`."""
        from opx.learning.rules import read_learning_rules

        return read_learning_rules(self.knowledge_path)

    @cached_property
    def staging(self) -> Staging:
        """What was captured, of all scopes."""
        from opx.learning.staging import Staging

        return Staging(self.table(STAGING), self.clock)

    @cached_property
    def learning_projects(self) -> LearningProjects:
        """The projects that captured something, of all scopes."""
        from opx.learning.projects import LearningProjects

        return LearningProjects(self.table(PATTERNS))

    @cached_property
    def patterns(self) -> PatternStore:
        """How often patterns worked and failed, of all scopes."""
        from opx.learning.patterns import PatternStore

        return PatternStore(self.table(PATTERNS), self.clock, unit_of_work=self.unit_of_work)

    @cached_property
    def known_outcomes(self) -> KnownScopes:
        """Of which scopes anything is known at all."""
        from opx.learning.outcomes.experience import KnownScopes

        return KnownScopes(self.table(OUTCOMES))

    @cached_property
    def warnings(self) -> StepWarnings:
        """The steps that answers warn of, of all scopes."""
        from opx.learning.warnings import StepWarnings

        return StepWarnings(self.table(OUTCOMES), self.known_outcomes, self.clock)

    def capture(self, identity: Identity | None = None, at: float | None = None) -> KnowledgeCaptureService:
        """Captures for this identity, or for the one that the installation is configured for: what happens now, or what
        happened `at` a time (seconds since the epoch)."""
        from opx.learning.capture import KnowledgeCaptureService

        asked, clock = self.identity_of(identity), self.clock if at is None else lambda: at
        return KnowledgeCaptureService(asked, self.staging, self.learning_projects, self.clients, clock)

    def checkpoints(self, identity: Identity | None = None) -> CheckpointEmbeddingService:
        """Takes in what this identity captured, or the one that the installation is configured for. Raises
        `KnowledgeConfigError`."""
        from opx.learning.checkpoints import CheckpointEmbeddingService, CheckpointParts

        parts = CheckpointParts(
            staging=self.staging,
            projects=self.learning_projects,
            patterns=self.patterns,
            rules=self.learning_rules,
            clients=self.clients,
            registry=self.projects,
            matcher=self._matcher,
            manager=self.manager_of,
            warn=self.warnings.enter,
            clock=self.clock,
        )
        return CheckpointEmbeddingService(self.identity_of(identity), parts)

    def _matcher(self, scope_key: str) -> PatternMatcher:
        from opx.learning.matching import PatternMatcher

        return PatternMatcher(
            scope_key,
            self.patterns,
            search=lambda: self.search_engine,
            documents=lambda: self.document_embedder,
            questions=self.query_embedder is not None,
        )
