"""Records outcomes of acting upon documents that a receipt names. An outcome that made things worse is captured as a
warning; from the reports of resolved incidents words are learnt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from opx.domain.documents import DocumentChunk, DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import iso_time, stable_hash
from opx.domain.learning import TriedEffect
from opx.domain.outcomes import (
    MAX_NOTE,
    MAX_OCCURRENCE,
    MAX_SECTION,
    MAX_STEP,
    Counted,
    DocumentOutcomes,
    OutcomeReport,
    OutcomeResult,
    RecordedOutcome,
    section_name,
)
from opx.domain.record import replace
from opx.domain.scopes import Identity, Reader, Scope
from opx.errors import (
    DocumentNotFoundError,
    InvalidInputError,
    ObjectNotFoundError,
    ReceiptNotFoundError,
    StoreUnavailableError,
)
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.clients import removed_error
from opx.learning.fields import cleaned_line
from opx.learning.learned_words import LearntStore, report_of
from opx.learning.outcome_store import DocumentStanding, OutcomeStore
from opx.learning.warnings import followed
from opx.ports import Clock
from opx.records.audit import AuditRecord, rank_missing

log = logging.getLogger(__name__)

MAX_LATEST = 20
"""Outcomes of a document that are returned."""

_MAX_READ = 1_000
"""Outcomes of a document that are read to find the latest."""

SHORTEST_ID = 6
"""Minimum length of the prefix of a document id that selects a document of a receipt."""

MAX_SAME = 10
"""Documents with the same content that an outcome counts for."""

_SECTIONS_NAMED = 8
_LONGEST = {
    "receipt_id": 64,
    "section": MAX_SECTION,
    "step": MAX_STEP,
    "incident": 100,
    "note": MAX_NOTE,
    "occurrence": MAX_OCCURRENCE,
}

NO_AUDIT_LOG = (
    "this installation keeps no audit log (OPX_AUDIT_DAYS=0), so the documents of a receipt are unknown: set it to a "
    "number of days to record outcomes"
)
NO_DOCUMENT = "that answer had no results, so there is no document to record an outcome for"


@dataclass(frozen=True, slots=True)
class Sight:
    """Dependencies of the outcome service. `audited` finds the record of a receipt among those of an identity's own scope;
    it is None where no audit log is kept. `chunks` reads a document. `incident_text` returns the text that a scope has about
    an incident by its name, "" if none. `admits` returns whether a scope is served, and registers it. `used` notes the use
    of a document."""

    catalog: Catalog
    audited: Callable[[str, Identity], AuditRecord | None] | None
    chunks: Callable[[DocumentKey, str], Iterable[DocumentChunk]]
    capture_warning: Callable[[Mapping[str, str]], str]
    learnt: LearntStore
    incident_text: Callable[[Scope, str], str]
    admits: Callable[[Scope], bool]
    used: Callable[[KnowledgeDocument], None]


class OutcomeService:
    """Records outcomes for one identity. They count for all readers of `scope`."""

    def __init__(self, reader: Reader, scope: Scope, store: OutcomeStore, sight: Sight, clock: Clock) -> None:
        self._reader = reader
        self._scope = scope
        self._store = store
        self._sight = sight
        self._clock = clock

    def record(
        self,
        receipt_id: str,
        document_id: str,
        result: OutcomeResult | str,
        *,
        section: str = "",
        step: str = "",
        incident: str = "",
        note: str = "",
        occurrence: str = "",
    ) -> OutcomeReport:
        """Records the outcome of acting upon a document that was returned with a receipt.

        There is one outcome per receipt and document, or per `occurrence`: recording it again changes nothing, recording
        another result corrects it. The result `made_worse` is captured as a warning, too, which the next checkpoint
        processes.

        Raises `ReceiptNotFoundError` for a receipt that the audit log doesn't have of this scope, `DocumentNotFoundError`
        for a document that is gone, `ClientRemovedError`, `StoreUnavailableError`, and `InvalidInputError` for a document
        that the receipt doesn't name, a section that the document doesn't have, and invalid values.
        """
        kind = _result_of(result)
        texts = _cleaned(
            receipt_id=receipt_id, section=section, step=step, incident=incident, note=note, occurrence=occurrence
        )
        texts["receipt_id"], (document, *others) = self._returned(texts["receipt_id"], document_id)
        texts["section"] = self._section(document, texts["section"])
        if not self._sight.admits(self._scope):
            raise removed_error(self._scope.client_id)
        outcome = self._recorded(kind, texts, document)
        standing, *_ = [self._count(one, outcome) for one in (document, *others)]
        self._learn(standing, (document, *others))
        self._sight.used(document)
        outcome = standing.outcome  # the warning is captured from this one: a retry may have other words
        return OutcomeReport(
            outcome_id=outcome.outcome_id,
            document_id=document.document_id,
            title=document.title,
            section=outcome.section,
            result=outcome.result,
            counted=standing.counted,
            standing=standing.known,
            warning_id=self._warn(outcome, document) if outcome.result is OutcomeResult.MADE_WORSE else "",
        )

    def returned(self, receipt_id: str, document_id: str) -> KnowledgeDocument:
        """The document of a receipt that an id or rank selects. Raises as `record` does."""
        return self._returned(_cleaned(receipt_id=receipt_id)["receipt_id"], document_id)[1][0]

    def standing(self, document_id: str) -> DocumentOutcomes:
        """Outcome counts of a document in all visible scopes, with its latest outcomes. Raises `DocumentNotFoundError`."""
        document = self._documents(document_id)[0]
        found = self._store.heads(self._reader.visible, [document.key.id])
        known = [head.seen_from(document.document_id) for _, _, head in sorted(found, key=lambda each: each[0])]
        together = DocumentOutcomes(document.document_id, document.version, document.title)
        for head in known:
            together = together.plus(head)
        return replace(together, latest=self._latest([scope for scope, _, _ in found], document))

    def _latest(self, scopes: Sequence[str], document: KnowledgeDocument) -> tuple[RecordedOutcome, ...]:
        """Outcomes recorded in these scopes, the latest first."""
        each = [one for scope in scopes for one in islice(self._store.outcomes(scope, document.key.id), _MAX_READ)]
        return tuple(islice(sorted(each, key=lambda one: (one.at, one.outcome_id), reverse=True), MAX_LATEST))

    def _count(self, document: KnowledgeDocument, outcome: RecordedOutcome) -> DocumentStanding:
        return self._store.count(self._scope.key, document.key.id, outcome, document.title)

    # -- resolving receipts, documents and sections

    def _returned(self, receipt_id: str, document_id: str) -> tuple[str, list[KnowledgeDocument]]:
        """The receipt's full id, and the documents with the same content as the selected one."""
        record = self._answered(receipt_id)
        rank = document_id.strip()
        known = record.document_ids
        if known and rank.isdecimal() and len(rank) < SHORTEST_ID and not 0 < int(rank) <= len(known):
            raise InvalidInputError(rank_missing(int(rank), [self._title(one) for one in known]))
        return record.receipt_id, self._documents(_selected(document_id, record))

    def _title(self, document_id: str) -> str:
        try:
            return self._documents(document_id)[0].title
        except DocumentNotFoundError:
            return f"{document_id[:12]}, which is gone"

    def _answered(self, receipt_id: str) -> AuditRecord:
        """The audit record of a receipt."""
        if self._sight.audited is None:
            raise InvalidInputError(NO_AUDIT_LOG)
        record = self._sight.audited(receipt_id, self._reader.identity) if receipt_id else None
        if record is None:
            raise ReceiptNotFoundError(
                f"there is no receipt {receipt_id!r} in your scope: it belongs to another scope, or is older than the audit "
                "log is kept; `opx audit` lists them"
            )
        return record

    def _documents(self, document_id: str) -> list[KnowledgeDocument]:
        """Visible documents with this content: the current ones, or the latest version if none is current."""
        found = [one for one in self._sight.catalog.find(document_id) if self._reader.may_see(one.key.scope)]
        if not found:
            raise DocumentNotFoundError(f"document {document_id} is gone: no outcome can be recorded of it")
        latest = {one.key.id: one for one in sorted(found, key=lambda one: one.version)}
        current = [one for one in latest.values() if one.state is DocumentState.CURRENT]
        return sorted(current, key=lambda one: one.key.id)[:MAX_SAME] or [max(found, key=lambda one: one.version)]

    def _section(self, document: KnowledgeDocument, wanted: str) -> str:
        """The section's name as results have it. `wanted` may be its last headings alone, in any case."""
        if not wanted:
            return ""
        try:
            sections = list(dict.fromkeys(_sections(self._sight.chunks(document.key, document.document_id))))
        except ObjectNotFoundError as exc:
            raise DocumentNotFoundError(
                f"the text of document {document.document_id} is gone: record the outcome without its section"
            ) from exc
        text = wanted.casefold()
        found = [name for name in sections if name.casefold() == text] or [
            name for name in sections if name.casefold().endswith(f" > {text}")
        ]
        if len(found) != 1:
            problem = "has no section" if not found else "has several sections"
            named = ", ".join(repr(name) for name in (found or sections)[:_SECTIONS_NAMED]) or "none"
            raise InvalidInputError(f"{document.title!r} {problem} {wanted!r}; there are: {named}")
        return found[0]

    def _recorded(self, result: OutcomeResult, texts: dict[str, str], document: KnowledgeDocument) -> RecordedOutcome:
        names = texts["receipt_id"], document.document_id, texts["occurrence"]
        return RecordedOutcome(
            outcome_id=stable_hash("outcome", self._scope.key, *names),
            result=result,
            document_id=document.document_id,
            version=document.version,
            at=iso_time(self._clock()),
            principal=cleaned_line("principal", self._reader.identity.principal[:256]),
            **texts,
        )

    def _learn(self, standing: DocumentStanding, documents: Sequence[KnowledgeDocument]) -> None:
        """Learns the words of the incident's report: for the page if it was resolved, else against it. Of copies, the page is
        the one that most readers may see."""
        outcome = standing.outcome
        page = min((one.key for one in documents), key=lambda key: self._reader.visible.index(key.scope.key))
        own = self._narrower(page)
        if standing.counted is not Counted.NEW and outcome.result is not OutcomeResult.RESOLVED:
            for scope_key in {self._narrower(one.key) for one in documents} - {own}:
                self._sight.learnt.forget(scope_key, outcome)
        report = report_of(self._incident_text(outcome.incident), outcome.note)
        if report:
            self._sight.learnt.enter(own, outcome, page, report)
        elif standing.counted is not Counted.NEW:
            self._sight.learnt.forget(own, outcome)

    def _narrower(self, page: DocumentKey) -> str:
        """The scope that shares the outcome, or the page's: whichever fewer readers see, so that no other query reads it."""
        return max(self._scope.key, page.scope.key, key=self._reader.visible.index)

    def _incident_text(self, incident: str) -> str:
        """The text of the incident in the sharing scope; "" if it can't be read: then the note alone is the report."""
        try:
            known = self._sight.incident_text(self._scope, incident) if incident else ""
        except StoreUnavailableError:
            log.exception("the text of an incident can't be read")
            return ""
        return cleaned_line("incident", known[:MAX_NOTE], MAX_NOTE)

    def _warn(self, outcome: RecordedOutcome, document: KnowledgeDocument) -> str:
        """Captures the warning; its occurrence is the outcome's id, so that a retry captures the same entry."""
        return self._sight.capture_warning(
            {
                "project_id": self._reader.identity.project_id,
                "agent_type": outcome.principal[:100],
                "tried": outcome.step or followed(document.title, outcome.section),
                "effect": TriedEffect.MADE_WORSE.value,
                "incident": outcome.incident,
                "problem": outcome.note,
                "reference": document.key.id,
                "occurrence": outcome.outcome_id,
            }
        )


def _selected(wanted: str, record: AuditRecord) -> str:
    """The document id that `wanted` selects in an answer: by a prefix of the id or by rank; the first if it is empty."""
    shown = record.document_ids
    if not shown:
        raise InvalidInputError(NO_DOCUMENT)
    text = wanted.strip().lower()
    if not text or (text.isdecimal() and len(text) < SHORTEST_ID and 0 < int(text) <= len(shown)):
        return shown[int(text or 1) - 1]
    found = [one for one in shown if one.startswith(text)] if len(text) >= SHORTEST_ID else []
    if len(found) == 1:
        return found[0]
    more = record.documents_in_all - len(record.documents)
    problem = "several documents whose ids begin" if found else "no document whose id begins"
    raise InvalidInputError(
        f"the receipt names {problem} with {wanted[:64]!r}; it has {', '.join(one[:12] for one in shown)}"
        + (f" and {more:,} more results that it doesn't name" if more > 0 else "")
    )


def _sections(chunks: Iterable[DocumentChunk]) -> Iterator[str]:
    """Names of all sections, parents included."""
    for chunk in chunks:
        for depth in range(1, len(chunk.section) + 1):
            yield section_name(chunk.section[:depth])


def _result_of(value: OutcomeResult | str) -> OutcomeResult:
    """The result of this name. Raises `InvalidInputError`."""
    try:
        return OutcomeResult(value)
    except ValueError:
        raise InvalidInputError(f"unknown result {str(value)[:60]!r}; allowed: {', '.join(OutcomeResult)}") from None


def _cleaned(**texts: str) -> dict[str, str]:
    """Values on one line each, without invisible characters and with secrets masked. Raises `InvalidInputError`."""
    return {name: cleaned_line(name, text, _LONGEST[name]) for name, text in texts.items()}
