"""Operations on recorded questions: the audit log, and gaps (questions without a good answer)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from opx.domain.documents import DocumentState
from opx.domain.policy import EVERYTHING, Action
from opx.domain.queries import Band, band_of
from opx.domain.record import Record, about, replace
from opx.domain.requests import Filled, FilledText, Request, Text
from opx.errors import DamagedStoreError, DocumentNotFoundError, InvalidInputError
from opx.hygiene.untrusted import one_line, quoted
from opx.operations.context import Context
from opx.operations.documents import find_by_id
from opx.operations.paging import Paragraphs, fitting
from opx.operations.registry import LEARNING, Tool, operation
from opx.records.audit import MAX_RECORDS, AuditRecord, matching, scope_of, unknown_receipt
from opx.records.gaps.listing import MAX_OWNER, GapView, Owners, listed
from opx.records.gaps.log import MAX_CHECKED, find_gap
from opx.records.gaps.model import Gap, GapStatus, is_empty

MAX_REASON = 1000
MAX_QUESTION = 10_000


class ListAuditRecords(Request, frozen=True):
    who: Annotated[str, about("A part of the name of a scope or of a principal.", max_length=256)] = ""
    since: Annotated[Text, about("A day or time, or a prefix of one, such as 2026-03-31.")] = ""
    document_id: Annotated[Text, about("Only answers with this document; a prefix of its id is enough.")] = ""
    limit: Annotated[int, about("How many at most.", ge=1, le=MAX_RECORDS)] = 100


class AuditRecords(Record, frozen=True):
    records: tuple[AuditRecord, ...]


@operation(http="GET /audit", action=Action.READ_AUDIT)
def list_audit_records(context: Context, request: ListAuditRecords) -> AuditRecords:
    """List audit records (principal, time, returned documents), the newest first: of the caller's own scope, or of all
    scopes for operators."""
    scope = "" if context.sees_every_scope(Action.READ_AUDIT) else scope_of(context.identity)
    records = context.system.records.audit.records(scope, since=request.since)
    found = matching(records, principal=request.who, document=request.document_id, limit=request.limit)
    return AuditRecords(tuple(found))


class GetAuditRecord(Request, frozen=True):
    receipt_id: Annotated[FilledText, about("The id of a receipt, its first 6 or more digits, or `last`.")]


@operation(action=Action.READ_RECORDS)
def get_audit_record(context: Context, request: GetAuditRecord) -> AuditRecord:
    """Get the record of an answer to a query of the caller's own scope.

    Raises `ReceiptNotFoundError`, also for an answer to another scope.
    """
    found = context.system.records.audit.find(request.receipt_id, context.identity)
    if found is None:
        raise unknown_receipt(request.receipt_id)
    return found


class GetAnswer(Request, frozen=True):
    receipt_id: Annotated[FilledText, about("The id of a receipt.")]
    question: Annotated[
        str, about("The question, to be compared with the hash in the record.", max_length=MAX_QUESTION)
    ] = ""


class PassageState(StrEnum):
    """State of a passage of an earlier answer: `CURRENT`, in a version that was `REPLACED` or deleted since, or `GONE`:
    removed, or not visible to the caller."""

    CURRENT = "current"
    REPLACED = "replaced"
    GONE = "gone"


class GivenPassage(Record, frozen=True):
    """A passage of an earlier answer, with its text as it was given."""

    document_id: str
    chunk_id: str
    confidence: float
    band: Band
    state: PassageState
    title: str = ""
    category: str = ""
    source: str = ""
    section: str = ""
    version: int = 0
    content: str = ""


class GivenAnswer(Record, frozen=True):
    """An answer as it was given. The question itself isn't stored: `is_question` is true if the given one has the recorded
    hash, and null without one."""

    record: AuditRecord
    is_question: bool | None
    passages: tuple[GivenPassage, ...]


@operation(http="GET /answers/{receiptId}", action=Action.READ_RECORDS)
def get_answer(context: Context, request: GetAnswer) -> GivenAnswer:
    """Show an answer as it was given: its record, and the passages in their order with their text of then.

    Documents that the caller may not see are gone. Raises `ReceiptNotFoundError`, also for an answer to another scope.
    """
    audit = context.system.records.audit
    record = audit.find(request.receipt_id, context.identity)
    if record is None and context.sees_every_scope(Action.READ_AUDIT):
        record = audit.of_receipt(request.receipt_id)
    if record is None:
        raise unknown_receipt(request.receipt_id)
    same = audit.query_hash(request.question) == record.query_hash if request.question else None
    return GivenAnswer(record, same, tuple(_passages(context, record)))


def _passages(context: Context, record: AuditRecord) -> Iterator[GivenPassage]:
    documents: dict[str, dict[str, GivenPassage]] = {}
    for one in record.documents:
        if one.document_id not in documents:
            documents[one.document_id] = dict(_stored_passages(context, one.document_id))
        found = documents[one.document_id].get(one.chunk_id)
        given = (one.document_id, one.chunk_id, one.confidence, band_of(one.confidence))
        gone = GivenPassage(*given, PassageState.GONE)
        yield replace(found, confidence=one.confidence, band=band_of(one.confidence)) if found else gone


def _stored_passages(context: Context, document_id: str) -> Iterator[tuple[str, GivenPassage]]:
    """The passages of a version by chunk id; none if it is removed or not visible."""
    if not document_id:
        return
    try:
        found = find_by_id(context, document_id)
        state = PassageState.CURRENT if found.state is DocumentState.CURRENT else PassageState.REPLACED
        for chunk in context.system.questions.documents.chunks(context.reader, document_id):
            yield (
                chunk.chunk_id,
                GivenPassage(
                    document_id,
                    chunk.chunk_id,
                    0.0,
                    band_of(0.0),
                    state,
                    found.title,
                    found.category,
                    found.source_uri,
                    " > ".join(chunk.section),
                    found.version,
                    chunk.content,
                ),
            )
    except (DocumentNotFoundError, DamagedStoreError):
        return


class ListGaps(Request, frozen=True):
    service: Annotated[Text, about("Questions about this service.")] = ""
    owner: Annotated[Text, about("Gaps of this owner, or `nobody`.")] = ""
    settled: Annotated[bool, about("Also closed and ignored ones.")] = False


class Gaps(Record, frozen=True):
    gaps: tuple[GapView, ...]
    more: Annotated[bool, about("True if there are more than one reply holds.")]
    dropped: Annotated[int, about("Gaps that were dropped for others.")]


@operation(http="GET /gaps", action=Action.READ_RECORDS)
def list_gaps(context: Context, request: ListGaps) -> Gaps:
    """List questions of the caller's own scope that have no good answer, or name something that no page is about; the
    most important first.

    For the owner of the machine, those of every scope, however many. Raises `KnowledgeConfigError` if the section
    `owners` of `knowledge.yaml` is invalid.
    """
    records, scopes = context.system.records, _scopes(context, Action.READ_RECORDS)
    found = listed(
        _gaps_of(context, scopes), records.owners, service=request.service, owner=request.owner, settled=request.settled
    )
    shown, more = (tuple(found), False) if context.caller.owns_system else fitting(found)
    return Gaps(shown, more, sum(map(records.gaps.dropped, scopes)))


class CheckGaps(Request, frozen=True):
    limit: Annotated[int, about("Maximum number of gaps to check.", ge=1)] = MAX_CHECKED
    every_scope: Annotated[
        bool, about("Gaps of every scope, also if a client is named: for the owner of the machine only.")
    ] = False


class ClosedGap(Record, frozen=True):
    """A gap that a document answers now."""

    gap_id: str
    question: str
    closed_by: str
    closed_by_title: str


class GapCheck(Record, frozen=True):
    closed: tuple[ClosedGap, ...]
    asked: int
    left: Annotated[int, about("Open gaps that were not checked.")]
    failed: Annotated[int, about("Gaps that could not be checked.")]


@operation(action=Action.CURATE)
def check_gaps(context: Context, request: CheckGaps) -> GapCheck:
    """Search again for open gaps, the most important first, and close those of which every wording has an answer now."""
    every_scope = request.every_scope and context.may(Action.CURATE, EVERYTHING)
    scopes = context.system.records.gaps.scopes() if every_scope else _scopes(context, Action.CURATE)
    from opx.records.capability import check_gaps as query_again

    found = query_again(context.system.records, context.system.questions, scopes, request.limit)
    closed = (ClosedGap(gap.gap_id, gap.question, gap.closed_by, gap.closed_by_title) for gap in found.closed)
    return GapCheck(tuple(closed), found.asked, found.left, found.failed)


class SettleGap(Request, frozen=True):
    gap_id: Annotated[FilledText, about("The id of a gap; a prefix of it is enough.")]
    because: Annotated[str, about("Reason why it is closed; required unless it is ignored.", max_length=MAX_REASON)] = (
        ""
    )
    ignore: Annotated[bool, about("Leave it out from now on. A closed gap reopens once the question recurs.")] = False
    reopen: Annotated[bool, about("Open a closed or ignored gap again.")] = False


@operation(http="POST /gaps/{gapId}/settlement", action=Action.CURATE)
def settle_gap(context: Context, request: SettleGap) -> GapView:
    """Close a gap by hand, ignore it from now on, or open it again. Records the principal.

    Raises `InvalidInputError` for an unknown id or an ambiguous prefix, and `ConditionFailedError` if the question
    recurred meanwhile.
    """
    if request.ignore and request.reopen:
        raise InvalidInputError("give either ignore or reopen")
    if not (request.ignore or request.reopen or request.because.strip()):
        raise InvalidInputError("because is missing: state why the gap is closed")
    records = context.system.records
    gap, owners = _gap_to_curate(context, request.gap_id)
    status = GapStatus.IGNORED if request.ignore else GapStatus.OPEN if request.reopen else GapStatus.CLOSED
    because, by = ("", "") if request.reopen else (request.because, context.author)
    settled = records.gaps.settle(gap, status, because=because, by=by)
    return listed([settled], owners, settled=True)[0]


class AssignGap(Request, frozen=True):
    gap_id: Annotated[FilledText, about("The id of a gap; a prefix of it is enough.")]
    owner: Annotated[
        str,
        about(
            "The person or team that is to answer it; empty for the owner by service and category.",
            max_length=MAX_OWNER,
        ),
    ]


@operation(http="PUT /gaps/{gapId}/owner", action=Action.CURATE)
def assign_gap(context: Context, request: AssignGap) -> GapView:
    """Assign a gap to an owner, who keeps it also when the question recurs.

    Raises `InvalidInputError` for an unknown id or an ambiguous prefix.
    """
    gap, owners = _gap_to_curate(context, request.gap_id)
    assigned = context.system.records.gaps.assign(gap, one_line(request.owner))
    return listed([assigned], owners, settled=True)[0]


def _gap_to_curate(context: Context, gap_id: str) -> tuple[Gap, Owners]:
    """The gap with this id, of the caller's own scope, and all owners: an error of their declaration is raised before
    anything is written."""
    owners = context.system.records.owners
    return find_gap(iter(_gaps_of(context, _scopes(context, Action.CURATE))), gap_id), owners


class ReportGap(Request, frozen=True):
    question: Annotated[Filled, about("The question, as it was searched for.", max_length=MAX_QUESTION)]
    missing: Annotated[
        Filled, about("The information that the found documents lack, in a sentence.", max_length=MAX_REASON)
    ]


class ReportedGap(Record, frozen=True):
    gap_id: str
    question: Annotated[str, about("The first wording of the gap that it was counted for.")]
    count: Annotated[int, about("Number of times that it was asked or reported.")]


@dataclass(frozen=True, slots=True)
class GapAnswer(Paragraphs):
    """A counted gap as text for an agent."""

    gap: Gap

    def record(self) -> ReportedGap:
        return ReportedGap(self.gap.gap_id, self.gap.question, self.gap.count)

    def _paragraphs(self) -> Iterator[str]:
        often = "once" if self.gap.count == 1 else f"{self.gap.count} times"
        yield f"Recorded as a gap: {quoted(self.gap.question)} (queried or reported {often}). [Gap ID: {self.gap.gap_id}]"


@operation(
    http="POST /gaps",
    action=Action.WRITE,
    tool=Tool(
        LEARNING,
        "Report that the knowledge lacks something you needed: the question, and the information that the documents lack. "
        "Use it after a search without useful results; the owner of the topic is requested to document it.",
        opt_in=True,
        writes=True,
    ),
)
def report_gap(context: Context, request: ReportGap) -> GapAnswer:
    """Record a question as a gap of the caller's own scope, as if it had no answer. Repeats within a minute count once.

    Raises `InvalidInputError` for a question without words, and where gaps are not recorded.
    """
    if is_empty(request.question):
        raise InvalidInputError("question has no words to search for")
    return GapAnswer(context.system.records.report_gap(context.reader, request.question, request.missing))


def _scopes(context: Context, action: Action) -> list[str]:
    """Returns the scopes whose gaps the caller may read or curate."""
    return context.system.records.gaps.scopes() if context.sees_every_scope(action) else [scope_of(context.identity)]


def _gaps_of(context: Context, scopes: Iterable[str]) -> Iterable[Gap]:
    return (gap for scope in scopes for gap in context.system.records.gaps.gaps(scope))
