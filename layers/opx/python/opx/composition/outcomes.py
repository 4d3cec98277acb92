"""What came of acting upon knowledge, as it is put together."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from opx.composition.learning import LearningServices
from opx.domain.scopes import Identity, Scope
from opx.tables import OUTCOMES

if TYPE_CHECKING:
    from opx.learning.outcomes.experience import LearnedExperience
    from opx.learning.outcomes.recording import OutcomeService
    from opx.learning.outcomes.store import OutcomeStore
    from opx.records.records import QuestionRecords


class OutcomeServices(LearningServices):
    """Outcomes, and warnings of steps."""

    records: QuestionRecords

    @cached_property
    def outcome_store(self) -> OutcomeStore:
        """The outcomes of documents, of all scopes."""
        from opx.learning.outcomes.store import OutcomeStore

        return OutcomeStore(self.table(OUTCOMES), self.known_outcomes, self.clock)

    @cached_property
    def experience(self) -> LearnedExperience:
        """What answers say of both."""
        from opx.learning.outcomes.experience import LearnedExperience

        return LearnedExperience(self.table(OUTCOMES), self.known_outcomes, self.warnings, lambda: self.catalog)

    def outcomes(self, identity: Identity | None = None) -> OutcomeService:
        """Takes outcomes down for this identity, or for the one that the installation is configured for. Raises
        `KnowledgeConfigError`, and `InvalidScopeError`."""
        from opx.ingestion.chunk_files import read_chunks
        from opx.learning.outcomes.recording import OutcomeService, Sight

        asked = self.identity_of(identity)
        own = Scope(asked.client_id, project_id=asked.project_id)
        sight = Sight(
            catalog=self.catalog,
            audited=self.records.audit.get if self.settings.audit_days else None,
            chunks=partial(read_chunks, self.store),
            capture_warning=self.capture(asked).capture_warning,
            admits=self.clients.admit,
        )
        shared = self.learning_rules.shared(own, self.projects.group_of)
        return OutcomeService(self.projects.reader(asked), shared, self.outcome_store, sight, self.clock)
