"""Composes the audit log and the gap log, and the observer that records answers in both."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from msgspec import Struct

from opx.domain.documents import KnowledgeDocument
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import SELF_TEST_CLIENTS, Identity, Reader
from opx.errors import InvalidInputError, OpxError, StoreUnavailableError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.ports import Tables
from opx.ports.search import CorpusState, CorpusVersion
from opx.ports.tables import AUDIT, GAPS
from opx.records.audit import AuditLog, InstallationKey
from opx.retrieval.query import NO_TIER, Answered, Finish, Observer
from opx.retrieval.receipts import RecordedQuestion, receipt_of
from opx.retrieval.searching import RememberedVectors
from opx.retrieval.stages import INDEX_DOWN, UNSEARCHED, good_from
from opx.runtime.knowledge_file import Installation
from opx.runtime.metrics import Metric, Report
from opx.text.analyzer import ANALYZER_VERSION

if TYPE_CHECKING:
    from opx.ingestion.corpus.uses import UseLog
    from opx.records.gaps.listing import Owners
    from opx.records.gaps.log import GapChecks, GapLog
    from opx.records.gaps.model import Gap
    from opx.records.gaps.recording import GapRecorder
    from opx.retrieval.capability import Questions

log = logging.getLogger(__name__)


class QuestionRecords:
    """The audit log and the gaps of an installation. Gaps are recorded at once, unless they are `deferred`."""

    waiting: deque[Callable[[], str]] | None = None

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
        """The audit log, readable also while recording is switched off."""
        days, clock = self._settings.audit_days, self._installation.clock
        return AuditLog(self._tables.table(AUDIT), self.key, days=days, clock=clock)

    @cached_property
    def gaps(self) -> GapLog:
        """The gap log, readable also while recording is switched off."""
        from opx.records.gaps.log import GapLog

        return GapLog(self._tables.table(GAPS), days=self._settings.gap_days, clock=self._installation.clock)

    @cached_property
    def owners(self) -> Owners:
        """Owners of services and categories. Raises `KnowledgeConfigError`."""
        from opx.records.gaps.listing import read_owners

        return read_owners(self._installation.knowledge, self._installation.knowledge_path)

    def report_gap(self, reader: Reader, question: str, missing: str) -> Gap:
        """Record a question whose answers lacked something. Raises `InvalidInputError` if the installation keeps no gaps,
        and `KnowledgeConfigError` if the section `owners` of `knowledge.yaml` is invalid."""
        if not self._settings.gap_days:
            raise InvalidInputError("this installation keeps no gaps: OPX_GAP_DAYS is 0")
        embedder = self._indexing.query_embedder
        vector = RememberedVectors(embedder).of(question) if embedder else None
        return self._recorder.report(reader, question, missing, vector, embedder.model_id if embedder else "")

    def deferred(self) -> Callable[[], list[str]]:
        """Has gaps wait from now on until `catch_up` is called, after the reply; returns that."""
        self.waiting = deque() if self.waiting is None else self.waiting  # observers hold it already
        return self.catch_up

    def catch_up(self) -> list[str]:
        """Records the gaps that wait. Returns the failures, which are logged."""
        failures = []
        with suppress(IndexError):  # another thread records it
            while self.waiting:
                failures.append(self.waiting.popleft()())
        return list(filter(None, failures))

    def observers(
        self, reader: Reader, embedder: RememberedVectors | None, report: Report, *, gaps: bool = True
    ) -> tuple[Observer, ...]:
        """Observers that record the answers to this reader; without `gaps`, and for a self-test, only in the audit log. A
        self-test is no use of the documents that it finds."""
        served = reader.identity.client_id not in SELF_TEST_CLIENTS
        uses = (UseObserver(reader, self._corpus.uses),) if served and self._corpus.uses.is_needed else ()
        if not (self._settings.audit_days or self._settings.gap_days):
            return uses
        try:
            model = found.model_id if (found := self._indexing.query_embedder) else ""
            recorder = QuestionRecorder(
                reader=reader,
                vector_of=embedder.of if embedder else lambda _: None,
                report=report,
                key=self.key,
                audit=self.audit if self._settings.audit_days else None,
                gaps=(lambda: self._recorder) if self._settings.gap_days and gaps and served else None,
                corpus=self._indexing.corpus_version,
                models={"embedding": model, "analyzer": ANALYZER_VERSION, "engine": self._settings.search_engine},
                waiting=self.waiting,
            )
        except StoreUnavailableError as exc:  # the answer is returned all the same
            log.exception("answers can't be recorded")
            return (Unrecorded(exc, report), *uses)
        return (recorder, *uses)

    @cached_property
    def _recorder(self) -> GapRecorder:
        """Records gaps. Raises `KnowledgeConfigError`."""
        from opx.records.gaps.recording import GapRecorder

        return GapRecorder(self.gaps, self.key, self.owners, self._visible, self._installation.clock)

    def _visible(self, document_id: str, reader: Reader) -> KnowledgeDocument | None:
        found = self._corpus.catalog.find(document_id)
        return next((document for document in found if reader.may_see(document.key.scope)), None)


def check_gaps(
    records: QuestionRecords, questions: Questions, scopes: Sequence[str], limit: int, seconds: float = math.inf
) -> GapChecks:
    """Query open gaps again, unrecorded; see `opx.records.gaps.log.check`."""
    from opx.records.gaps.log import check

    def ask(identity: Identity, query: str, config: QueryConfig) -> Answer:
        return questions.for_reader(identity, recorded=False).search(query, config)

    return check(records.gaps, scopes, ask, limit=limit, seconds=seconds)


# -- recording answers


class QuestionRecorder(Struct, frozen=True, kw_only=True):
    """Observes the answers to one reader, and records them in audit log and gap log. No `audit`: no records and no receipts;
    no `gaps`: none are recorded.

    `gaps` is called only when there is one to record, as it reads owners from a file that may be invalid. `models` are
    the components of the search with their versions; `embedding` is "" if the search service embeds itself.
    """

    reader: Reader
    vector_of: Callable[[str], Sequence[float] | None]
    report: Report
    key: InstallationKey
    audit: AuditLog | None
    gaps: Callable[[], GapRecorder] | None
    corpus: CorpusVersion | None
    models: Mapping[str, str]
    waiting: deque[Callable[[], str]] | None

    def begin(self) -> Finish:
        """Called before a search: reads the state of the corpus that the answer has at least."""
        return partial(self._answered, self._state())

    def _state(self) -> CorpusState:
        corpus = self.corpus
        if corpus is None or self.audit is None:
            return CorpusState("", settled=False)
        try:
            state = corpus.current()
            return replace(state, version=self._opaque_version(state.version))
        except OpxError:
            log.warning("the version of the corpus can't be read", exc_info=True)
            return CorpusState("", settled=False)

    def _opaque_version(self, version: str) -> str:
        """The version as a reader gets it. Readers of a client get a hash, which only identifies a state: the plain counter
        would disclose how often other tenants change something."""
        if not (version and self.reader.identity.client_id):
            return version
        return self.key.hash("corpus version", version)[:16]

    def _answered(self, state: CorpusState, answered: Answered) -> Answer:
        failures: list[str] = []
        gaps = self.gaps
        if gaps is not None and is_gap(answered.query, answered.config, answered.answer):
            work = partial(self._record_gap, gaps, answered)
            if self.waiting is None:
                failures += filter(None, [work()])
            else:
                self.waiting.append(work)
        return _noted(self._audited(state, answered, failures), failures, self.report)

    def _audited(self, state: CorpusState, answered: Answered, failures: list[str]) -> Answer:
        audit, key, answer = self.audit, self.key, answered.answer
        if audit is None:
            return answer
        try:
            reader_hash = key.hash("reader", *self.reader.visible)
            record = audit.record(self.reader.identity, answered, state)
        except Exception as exc:  # outermost edge: the answer is returned whatever fails
            failures.append(_NO_RECEIPT + _reason(exc))
            log.exception("an answer has no record in the audit log")
            return answer
        question = RecordedQuestion(
            receipt_id=record.receipt_id,
            asked_at=record.asked_at,
            question=answered.query,
            config=answered.config,
            reader_hash=reader_hash,
            corpus=state,
            models=self.models,
        )
        return replace(answer, receipt_id=record.receipt_id, receipt=receipt_of(question, answer))

    def _record_gap(self, gaps: Callable[[], GapRecorder], answered: Answered) -> str:
        """Returns the failure, which is reported here if the answer is out."""
        model = self.models["embedding"]
        try:
            vector = self.vector_of(answered.query) if model else None
            gaps().record(self.reader, answered, vector, model)
        except Exception as exc:  # outermost edge, as above
            log.exception("a question without an answer is not among the gaps")
            if self.waiting is not None:
                self.report(Metric.RECORDING_FAILURES, 1.0)
            return f"this question is not among the gaps{_reason(exc)}"
        return ""


class Unrecorded(Struct, frozen=True):
    """Observes the answers that can't be recorded, as the logs can't be opened: notes that in each."""

    error: StoreUnavailableError
    report: Report

    def begin(self) -> Finish:
        return lambda answered: _noted(answered.answer, [_NO_RECEIPT + _reason(self.error)], self.report)


_NO_RECEIPT = "this answer has no receipt"


def _noted(answer: Answer, failures: Sequence[str], report: Report) -> Answer:
    report(Metric.RECORDING_FAILURES, float(bool(failures)))
    return replace(answer, notes=(*answer.notes, f"not recorded: {'; '.join(failures)}")) if failures else answer


def _reason(error: Exception) -> str:
    """The cause in words that any reader may see: messages of stores name paths."""
    reason = error.reason if isinstance(error, StoreUnavailableError) else ""
    return f", as {reason}" if reason else ""


class UseObserver(Struct, frozen=True):
    """Notes the use of documents that an answer to this reader returns."""

    reader: Reader
    uses: UseLog

    def begin(self) -> Finish:
        return self._answered

    def _answered(self, answered: Answered) -> Answer:
        answer = answered.answer
        if not answered.config.as_of:
            shown = (*answer.results, *answer.unconfirmed)
            found = ((str(one.metadata.get("documentId", "")), one.category) for one in shown)
            self.uses.note(self.reader, found)
        return answer


# -- questions without a good answer


def is_gap(query: str, config: QueryConfig, answer: Answer) -> bool:
    """True if a complete search found nothing good enough, of the requested confidence and at least likely; or if an
    identifier in the query is absent from the corpus, whatever else was found.

    False if only one document or a past time was searched, if documents wait to be ingested, if nothing but an unusually
    high confidence was missed, or if the query is binary.
    """
    waits = any(note.endswith(UNSEARCHED) for note in answer.notes)
    nothing_searched = answer.partial or waits or {INDEX_DOWN, NO_TIER} & set(answer.notes)
    wanted = good_from(config)
    is_answered = any(one.confidence >= wanted for one in (*answer.results, *answer.unconfirmed))
    if (is_answered and not answer.absent) or nothing_searched or config.document_id or config.as_of:
        return False
    from opx.records.gaps.model import is_binary, is_empty

    return not (is_empty(query) or is_binary(query))
