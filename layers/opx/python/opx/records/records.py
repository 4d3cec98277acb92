"""What is kept of questions, put together: the audit log, the gaps, and who looks at an answer for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from opx.domain.documents import KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Identity, Reader
from opx.records.audit import AuditLog, InstallationKey
from opx.records.question_recording import QuestionRecorder, Recording, VectorOf
from opx.retrieval.query import Observer
from opx.runtime.metrics import Report
from opx.tables import AUDIT, GAPS
from opx.text.analyzer import ANALYZER_VERSION

if TYPE_CHECKING:
    from opx.records.gaps.checking import Checked
    from opx.records.gaps.log import GapLog
    from opx.records.gaps.owners import Owners
    from opx.records.gaps.recording import GapRecorder
    from opx.retrieval.searching import RememberedVectors
    from opx.services import Services


class QuestionRecords:
    """Over the services of a system."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._settings = services.settings

    @cached_property
    def key(self) -> InstallationKey:
        return InstallationKey(self._services.table(GAPS))

    @cached_property
    def audit(self) -> AuditLog:
        """The audit log, also where nothing is added to it any more."""
        services = self._services
        return AuditLog(services.table(AUDIT), self.key, days=self._settings.audit_days, clock=services.clock)

    @cached_property
    def gaps(self) -> GapLog:
        """The gaps, also where none is added any more."""
        from opx.records.gaps.log import GapLog

        services = self._services
        return GapLog(services.table(GAPS), days=self._settings.gap_days, clock=services.clock)

    @cached_property
    def owners(self) -> Owners:
        """Who owns which services and categories. Raises `KnowledgeConfigError`."""
        from opx.records.gaps.owners import read_owners

        return read_owners(self._services.knowledge, self._services.knowledge_path)

    def check_gaps(self, scopes: Sequence[str], limit: int, seconds: float = math.inf) -> Checked:
        """`opx.records.gaps.checking.check` with the questions of this system."""
        from opx.records.gaps.checking import check

        return check(self.gaps, scopes, self._ask_unrecorded, limit=limit, seconds=seconds)

    def observers(
        self, reader: Reader, embedder: RememberedVectors | None, report: Report, *, gaps: bool = True
    ) -> tuple[Observer, ...]:
        """Those who keep something of the answers to this reader; without `gaps`, none of those that it lacks."""
        if not (self._settings.audit_days or self._settings.gap_days):
            return ()
        vector_of: VectorOf = embedder.of if embedder else _no_vector
        recording = self._recording if gaps else replace(self._recording, gaps=None)
        return (QuestionRecorder(recording, reader, vector_of, report),)

    def _ask_unrecorded(self, identity: Identity, query: str, config: QueryConfig) -> Answer:
        """An answer for the system itself."""
        return self._services.query_service(identity, recorded=False).answer(query, config)

    @property
    def _recording(self) -> Recording:
        """With the model that answers now."""
        services = self._services
        embedder = services.query_embedder
        vector_model = embedder.model_id if embedder else ""
        return Recording(
            key=self.key,
            audit=self.audit if self._settings.audit_days else None,
            gaps=(lambda: self._recorder) if self._settings.gap_days else None,
            corpus=services.corpus_version,
            models={"embedding": vector_model, "analyzer": ANALYZER_VERSION, "engine": self._settings.search_engine},
            vector_model=vector_model,
        )

    @cached_property
    def _recorder(self) -> GapRecorder:
        """Raises `KnowledgeConfigError`."""
        from opx.records.gaps.recording import GapRecorder

        return GapRecorder(self.gaps, self.key, self.owners, self._visible, self._services.clock)

    def _visible(self, document_id: str, reader: Reader) -> KnowledgeDocument | None:
        found = self._services.catalog.find(document_id)
        return next((document for document in found if reader.may_see(document.key.scope)), None)


def _no_vector(_: str) -> None:
    """The search service makes vectors itself, and shows none."""
