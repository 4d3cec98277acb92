"""What a system keeps and by which rules, as it is put together."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from opx.composition.models import ModelServices
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Identity, Scope
from opx.knowledge_file import load_knowledge
from opx.retrieval.readers import ProjectRegistry
from opx.tables import BASELINES, CALENDAR, DOCUMENTS, EMBEDDINGS, ENTRIES, FAILURES, KEYS, PROJECTS

if TYPE_CHECKING:
    from opx.ingestion.calendar import Calendar
    from opx.ingestion.catalog import Catalog
    from opx.ingestion.context_cache import ContextCache
    from opx.ingestion.contexts import ContextWriter
    from opx.ingestion.embedding_cache import CachedEmbedder
    from opx.ingestion.evidence import EvidenceRules
    from opx.ingestion.failures import FailureLog
    from opx.operations.grants import ToolGrants
    from opx.telemetry.baselines.store import BaselineStore
    from opx.telemetry.rules import TelemetryRules
    from opx.tenants.clients import ClientRegistry


class CorpusServices(ModelServices):
    """The catalog and its neighbours, and what `knowledge.yaml` says."""

    @cached_property
    def knowledge(self) -> KnowledgeModel:
        return load_knowledge(self.knowledge_path)

    @property
    def knowledge_path(self) -> Path | None:
        """Where `knowledge.yaml` is; None for the one that comes with the library."""
        path = self.settings.knowledge_file
        return Path(path) if path else None

    def identity_of(self, given: Identity | None) -> Identity:
        """Who asks: the one given, or the one that the installation is configured for."""
        return given or Identity(self.settings.client_id, self.settings.project_id)

    @property
    def scope(self) -> Scope:
        """Where documents of this installation go, as configured."""
        return Scope(self.settings.client_id, project_id=self.settings.project_id)

    @cached_property
    def clients(self) -> ClientRegistry:
        """Which clients there are, and which were removed."""
        from opx.tenants.clients import ClientRegistry

        return ClientRegistry(self.table(PROJECTS), self.clock)

    @cached_property
    def projects(self) -> ProjectRegistry:
        return ProjectRegistry(self.table(PROJECTS))

    @cached_property
    def catalog(self) -> Catalog:
        from opx.ingestion.catalog import Catalog

        tables = (self.table(DOCUMENTS), self.table(KEYS), self.table(ENTRIES))
        lease = self.settings.lease_seconds
        return Catalog(
            *tables, clock=self.clock, lease_seconds=lease, calendar=self.calendar, admits=self.clients.admit
        )

    @cached_property
    def calendar(self) -> Calendar:
        """When versions of documents expire, are to be reviewed, and were replaced."""
        from opx.ingestion.calendar import Calendar

        return Calendar(self.table(CALENDAR), self.knowledge, self.clock)

    @cached_property
    def failures(self) -> FailureLog:
        from opx.ingestion.failures import FailureLog

        return FailureLog(self.table(FAILURES), self.clock)

    @cached_property
    def document_embedder(self) -> CachedEmbedder:
        """The embedder with its cache; questions don't go through it."""
        from opx.ingestion.embedding_cache import CachedEmbedder

        days = self.settings.embedding_cache_days
        table = self.table(EMBEDDINGS)
        if not self.has_editions:
            return CachedEmbedder(self.embedder, table, days=days, clock=self.clock)
        from opx.lifecycle.reindex.edition_cache import EditionCache

        return EditionCache(self.editions, table, days=days, clock=self.clock)

    @cached_property
    def context_writer(self) -> ContextWriter | None:
        """Has contexts of chunks written as documents are taken in; None if no model is chosen for that."""
        if not self.settings.context_model:
            return None
        from opx.ingestion.contexts import ContextWriter

        return ContextWriter(self.chat_model(self.settings.context_model), self.written_texts)

    @cached_property
    def written_texts(self) -> ContextCache:
        """What models wrote about passages."""
        from opx.ingestion.context_cache import ContextCache

        return ContextCache(self.table(EMBEDDINGS), days=self.settings.embedding_cache_days, clock=self.clock)

    @cached_property
    def baselines(self) -> BaselineStore:
        """What is normal for metrics of nodes."""
        from opx.telemetry.baselines.store import BaselineStore

        return BaselineStore(self.table(BASELINES), clock=self.clock, scope=self.scope, unit_of_work=self.unit_of_work)

    @cached_property
    def evidence_rules(self) -> EvidenceRules:
        """Which evidence is of which category. Raises `KnowledgeConfigError`."""
        from opx.ingestion.evidence import read_evidence_rules

        return read_evidence_rules(self.knowledge, self.knowledge_path)

    @cached_property
    def telemetry_rules(self) -> TelemetryRules:
        """What may be asked of them. Raises `KnowledgeConfigError`."""
        from opx.telemetry.rules import read_telemetry

        return read_telemetry(self.knowledge_path)

    @cached_property
    def tool_grants(self) -> ToolGrants:
        """Which agent may use which tools. Raises `KnowledgeConfigError`."""
        from opx.operations.grants import read_grants

        return read_grants(self.knowledge_path)
