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
from opx.errors import InvalidInputError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Tables
from opx.ports.tables_specs import AUDIT, GAPS
from opx.records.audit import AuditLog, InstallationKey
from opx.records.question_recording import QuestionRecorder, Recording, VectorOf
from opx.retrieval.query import Observer
from opx.runtime.installation import Installation
from opx.runtime.metrics import Report
from opx.text.analyzer import ANALYZER_VERSION

if TYPE_CHECKING:
    from opx.records.gaps.checking import Checked
    from opx.records.gaps.log import GapLog
    from opx.records.gaps.model import Gap
    from opx.records.gaps.owners import Owners
    from opx.records.gaps.recording import GapRecorder
    from opx.retrieval.capability import Questions
    from opx.retrieval.searching import RememberedVectors


class QuestionRecords:
    """Records of the questions of all readers."""

    def __init__(self, installation: Installation, tables: Tables, corpus: Corpus, indexing: Indexing) -> None:
        self._installation = installation
        self._tables = tables
        self._corpus = corpus
        self._indexing = indexing
        self._settings = installation.settings

    @cached_property
    def key(self) -> InstallationKey:
        return InstallationKey(self._tables.table(GAPS))

    @cached_property
    def audit(self) -> AuditLog:
        """The audit log, also where nothing is added to it any more."""
        days, clock = self._settings.audit_days, self._installation.clock
        return AuditLog(self._tables.table(AUDIT), self.key, days=days, clock=clock)

    @cached_property
    def gaps(self) -> GapLog:
        """The gaps, also where none is added any more."""
        from opx.records.gaps.log import GapLog

        return GapLog(self._tables.table(GAPS), days=self._settings.gap_days, clock=self._installation.clock)

    @cached_property
    def owners(self) -> Owners:
        """Who owns which services and categories. Raises `KnowledgeConfigError`."""
        from opx.records.gaps.owners import read_owners

        return read_owners(self._installation.knowledge, self._installation.knowledge_path)

    def report_gap(self, reader: Reader, question: str, missing: str) -> Gap:
        """Keep a question whose answers lacked something. Raises `InvalidInputError` where no gaps are kept, and
        `KnowledgeConfigError` if the section `owners` of `knowledge.yaml` is wrong."""
        from opx.retrieval.searching import RememberedVectors

        if not self._settings.gap_days:
            raise InvalidInputError("this installation keeps no gaps: OPX_GAP_DAYS is 0")
        embedder = self._indexing.query_embedder
        vector = RememberedVectors(embedder).of(question) if embedder else None
        return self._recorder.report(reader, question, missing, vector, embedder.model_id if embedder else "")

    def observers(
        self, reader: Reader, embedder: RememberedVectors | None, report: Report, *, gaps: bool = True
    ) -> tuple[Observer, ...]:
        """Those who keep something of the answers to this reader; without `gaps`, none of those that it lacks."""
        if not (self._settings.audit_days or self._settings.gap_days):
            return ()
        vector_of: VectorOf = embedder.of if embedder else _no_vector
        recording = self._recording if gaps else replace(self._recording, gaps=None)
        return (QuestionRecorder(recording, reader, vector_of, report),)

    @property
    def _recording(self) -> Recording:
        """With the model that answers now."""
        embedder = self._indexing.query_embedder
        vector_model = embedder.model_id if embedder else ""
        return Recording(
            key=self.key,
            audit=self.audit if self._settings.audit_days else None,
            gaps=(lambda: self._recorder) if self._settings.gap_days else None,
            corpus=self._indexing.corpus_version,
            models={"embedding": vector_model, "analyzer": ANALYZER_VERSION, "engine": self._settings.search_engine},
            vector_model=vector_model,
        )

    @cached_property
    def _recorder(self) -> GapRecorder:
        """Raises `KnowledgeConfigError`."""
        from opx.records.gaps.recording import GapRecorder

        return GapRecorder(self.gaps, self.key, self.owners, self._visible, self._installation.clock)

    def _visible(self, document_id: str, reader: Reader) -> KnowledgeDocument | None:
        found = self._corpus.catalog.find(document_id)
        return next((document for document in found if reader.may_see(document.key.scope)), None)


def check_gaps(
    records: QuestionRecords, questions: Questions, scopes: Sequence[str], limit: int, seconds: float = math.inf
) -> Checked:
    """Ask open gaps again, unrecorded, as `opx.records.gaps.checking.check` does."""
    from opx.records.gaps.checking import check

    def ask(identity: Identity, query: str, config: QueryConfig) -> Answer:
        return questions.search(identity, recorded=False).answer(query, config)

    return check(records.gaps, scopes, ask, limit=limit, seconds=seconds)


def _no_vector(_: str) -> None:
    """The search service makes vectors itself, and shows none."""
