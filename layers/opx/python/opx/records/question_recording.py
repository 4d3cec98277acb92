"""What is kept of a question after its answer: a record in the audit log, a receipt, and a gap if there was no answer.

None of it may keep an answer from whoever asked: what can't be written is logged and counted, and the answer then has no
receipt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from opx.domain.bands import Band
from opx.domain.queries import QueryConfig
from opx.domain.record import replace
from opx.domain.results import Answer
from opx.domain.scopes import Reader
from opx.errors import OpxError
from opx.ports.search import CorpusState, CorpusVersion
from opx.records.audit import AuditLog, InstallationKey
from opx.retrieval.query import INDEX_DOWN, NO_TIER, Answered, Finish
from opx.retrieval.receipts import Asked, receipt_of
from opx.runtime.metrics import Metric, Report

if TYPE_CHECKING:
    from opx.records.gaps.recording import GapRecorder

log = logging.getLogger(__name__)

VectorOf = Callable[[str], Sequence[float] | None]


@dataclass(frozen=True, slots=True)
class Recording:
    """What an installation keeps. No `audit`: no records and no receipts; no `gaps`: none are recorded.

    `gaps` is called when there is one to record: who owns what is read from a file that may be wrong. `models` name
    what finds and their versions, and `vector_model` what makes vectors, "" if the search service does that itself.
    """

    key: InstallationKey
    audit: AuditLog | None
    gaps: Callable[[], GapRecorder] | None
    corpus: CorpusVersion | None
    models: Mapping[str, str]
    vector_model: str = ""


class QuestionRecorder:
    """An observer of the answers to one reader."""

    def __init__(self, recording: Recording, reader: Reader, vector_of: VectorOf, report: Report) -> None:
        self._recording = recording
        self._reader = reader
        self._vector_of = vector_of
        self._report = report

    def asked(self) -> Finish:
        """A question begins: note of which state of the corpus its answer can be at least."""
        return partial(self._answered, self._state())

    def _state(self) -> CorpusState:
        corpus = self._recording.corpus
        if corpus is None or self._recording.audit is None:
            return CorpusState("", settled=False)
        try:
            state = corpus.current()
            return replace(state, version=self._told_apart(state.version))
        except OpxError:
            log.warning("the version of the corpus can't be read", exc_info=True)
            return CorpusState("", settled=False)

    def _told_apart(self, version: str) -> str:
        """For one client's readers, a text by which two versions can be told apart, and no more: how often others change
        something is a count of theirs."""
        if not (version and self._reader.identity.client_id):
            return version
        return self._recording.key.hash("corpus version", version)[:16]

    def _answered(self, state: CorpusState, answered: Answered) -> Answer:
        failures: list[str] = []
        gaps = self._recording.gaps
        if gaps is not None and is_gap(answered.query, answered.config, answered.answer):
            self._record_gap(gaps, answered, failures)
        answer = self._audited(state, answered, failures)
        self._report(Metric.RECORDING_FAILURES, float(bool(failures)))
        return answer

    def _audited(self, state: CorpusState, answered: Answered, failures: list[str]) -> Answer:
        audit, key, answer = self._recording.audit, self._recording.key, answered.answer
        if audit is None:
            return answer
        try:
            reader_hash = key.hash("reader", *self._reader.visible)
            record = audit.record(self._reader.identity, answered, state)
        except Exception:  # the edge that must degrade: whatever it is, the answer goes out
            failures.append("an answer has no record in the audit log")
            log.exception("%s", failures[-1])
            return answer
        asked = Asked(
            receipt_id=record.receipt_id,
            asked_at=record.asked_at,
            question=answered.query,
            config=answered.config,
            reader_hash=reader_hash,
            corpus=state,
            models=self._recording.models,
        )
        return replace(answer, receipt_id=record.receipt_id, receipt=receipt_of(asked, answer))

    def _record_gap(self, gaps: Callable[[], GapRecorder], answered: Answered, failures: list[str]) -> None:
        model = self._recording.vector_model
        try:
            vector = self._vector_of(answered.query) if model else None
            gaps().record(self._reader, answered, vector, model)
        except Exception:  # as above
            failures.append("a question without an answer is not among the gaps")
            log.exception("%s", failures[-1])


# -- questions without a good answer

LEAST, MOST = Band.LIKELY.least, QueryConfig().min_confidence
"""What is less sure than `LEAST` answers nothing, also where it is shown; who asks for more than `MOST` and doesn't get it
has found no gap."""


def is_gap(query: str, config: QueryConfig, answer: Answer) -> bool:
    """Whether everything was searched and nothing is good enough: as sure as was asked for, and likely at least; or
    something that is asked for by its name is absent, whatever else was found.

    Not if only one document was searched, or a time that is over, or if more was asked of the answer than usual.
    """
    nothing_searched = answer.partial or {INDEX_DOWN, NO_TIER} & set(answer.notes)
    wanted = min(max(config.min_confidence, LEAST), MOST)
    is_answered = any(one.confidence >= wanted for one in (*answer.results, *answer.unconfirmed))
    if (is_answered and not answer.absent) or nothing_searched or config.document_id or config.as_of:
        return False
    from opx.records.gaps.likeness import is_empty

    return not is_empty(query)
