"""Operations of the lifecycle: reviews, pruning, and legal holds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from opx import errors
from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.ids import ID_LENGTH, day_text, iso_time
from opx.domain.policy import EVERYTHING, Action
from opx.domain.queries import CATEGORY
from opx.domain.record import Record, about
from opx.domain.requests import Filled, FilledText, Request, Share, Text
from opx.domain.scopes import scope_of_key
from opx.ingestion.channels import MAX_PRINCIPAL
from opx.ingestion.reviews import Review
from opx.lifecycle.report import PruneReport
from opx.lifecycle.retention.holds import MAX_REASON, Hold
from opx.lifecycle.retention.reviews import SOON_DAYS, ReviewReport
from opx.operations.context import Context
from opx.operations.corpus import manager_of
from opx.operations.documents import IdBeginning, checked_id, find_document
from opx.operations.registry import Function, operation

ScopeKey = Annotated[Filled, Meta(max_length=300)]

REVIEW_DAYS = 180
"""Days until the next review, unless the reviewer states others."""
DAY = 86_400

OPERATOR = "operator"
"""Principal that is recorded for a caller without a name."""


class ListReviews(Request, frozen=True):
    days: Annotated[int, about("How many days ahead.", ge=0, le=3650)] = SOON_DAYS
    owner: Annotated[Text, about("Only documents of this owner.")] = ""
    limit: Annotated[int, about("How many at most.", ge=1, le=1000)] = 500


@operation(http="GET /reviews")
def list_reviews(context: Context, request: ListReviews) -> ReviewReport:
    """List documents whose review is due or soon due, with their owners."""
    reviews = context.system.lifecycle.reviews
    return reviews.report(context.reader.visible, days=request.days, owner=request.owner, limit=request.limit)


class MarkReviewed(Request, frozen=True):
    document_id: IdBeginning
    days: Annotated[int, about("Days until the next review.", ge=1, le=3650)] = REVIEW_DAYS


class MarkedReview(Record, frozen=True):
    object_key: str
    review: Review


@operation(http="POST /documents/{documentId}/review", function=Function.MANAGE, status=202, action=Action.WRITE)
def mark_reviewed(context: Context, request: MarkReviewed) -> MarkedReview:
    """Mark the current version of one of the caller's own documents as reviewed: it is due again after some days, whatever
    its text states. The version stays as it is; another text needs another review.

    Raises `DocumentNotFoundError`, `InvalidScopeError`, `InvalidInputError` for a version that isn't current, and
    `ConditionFailedError` if the document is changed at the same time.
    """
    found = find_document(context, request.document_id)
    if not context.may(Action.WRITE, found.scope):
        raise errors.InvalidScopeError(
            f"document {found.document_id} belongs to {found.scope.key}, not to {context.scope.key}"
        )
    if found.state is not DocumentState.CURRENT:
        raise errors.InvalidInputError(f"version {found.version} isn't the current one: open that, and review it")
    now = context.system.clock()
    review = Review(context.author[:MAX_PRINCIPAL], iso_time(now), day_text(int(now // DAY) + request.days))
    key, made = found.scope.prefix + found.source, context.system.corpus.catalog.provenance(found)
    try:
        manager_of(context).put_review(key, review, made.object_checksum if made else "")
    except errors.ObjectNotFoundError:
        raise errors.DocumentNotFoundError(f"document {found.document_id} is gone") from None
    return MarkedReview(key, review)


# -- pruning


class ListPrunings(Request, frozen=True):
    limit: Annotated[int, about("Maximum number of results.", ge=1, le=400)] = 30


class Prunings(Record, frozen=True):
    prunings: tuple[PruneReport, ...]


@operation(http="GET /prunings", action=Action.WATCH)
def list_prunings(context: Context, request: ListPrunings) -> Prunings:
    """List the removals of the last pruning runs, over all clients, the newest first: for operators."""
    return Prunings(context.system.lifecycle.prune_reports.last(request.limit))


class PruneExpired(Request, frozen=True):
    dry_run: Annotated[bool, about("Show what would be removed, and remove nothing.")] = False
    allow_share: Annotated[
        Share | None,
        about("Share of a category that may be removed at once, above 0 (1: all); left out, that of knowledge.yaml."),
    ] = None


@operation(action=Action.ADMINISTER)
def prune_expired(context: Context, request: PruneExpired) -> PruneReport:
    """Delete expired documents, versions and patterns of all clients.

    A run that would remove far more than usual removes nothing and reports that. Raises `StoreUnavailableError`: then
    call it again.
    """
    return context.system.lifecycle.pruning().run(dry_run=request.dry_run, allow_share=request.allow_share)


# -- holds


class ListHolds(Request, frozen=True):
    lifted: Annotated[bool, about("Lifted holds instead of those in force.")] = False


class HoldList(Record, frozen=True):
    holds: tuple[Hold, ...]


@operation(http="GET /holds", function=Function.MANAGE, action=Action.HOLD)
def list_holds(context: Context, request: ListHolds) -> HoldList:
    """List the legal holds on the caller's documents, with reason, time and principal."""
    holds = context.system.lifecycle.holds
    found = holds.lifted() if request.lifted else holds.in_force()
    return HoldList(tuple(hold for hold in found if _is_own(context, hold)))


class AddHold(Request, frozen=True):
    reason: Annotated[Filled, about("The reason, such as the matter's name.", max_length=MAX_REASON)]
    document: Annotated[FilledText | None, about("A document's id.")] = None
    category: Annotated[FilledText | None, about(CATEGORY)] = None
    within: Annotated[ScopeKey | None, about("The key of a scope: `client:acme`, `client:acme/project:shop`.")] = None
    everything: Annotated[bool, about("All documents of the caller.")] = False


@operation(http="POST /holds", function=Function.MANAGE, action=Action.HOLD)
def add_hold(context: Context, request: AddHold) -> Hold:
    """Add a legal hold on documents of the caller, which forbids their removal. Give a document, a category and/or a
    scope (within), or everything.

    A hold that is already in force is unchanged. A document is held under each name that it was ingested under: the reply
    is the hold on the first of them. Raises `ForbiddenError` for documents of others, `DocumentNotFoundError`,
    `UnknownCategoryError`, and `InvalidInputError`.
    """
    wanted = _wanted_holds(context, request)
    own = [hold for hold in wanted if _is_own(context, hold)]
    if not own:
        raise errors.ForbiddenError(
            f"{wanted[0].within} is not within {_own_scope_key(context)}: a hold is on what is your own"
        )
    added = [context.system.lifecycle.holds.add(hold, context.system.installation.knowledge) for hold in own]
    return added[0]


class LiftHold(Request, frozen=True):
    hold_id: Annotated[Text, about("The id of a hold.")]


@operation(http="DELETE /holds/{holdId}", function=Function.MANAGE, action=Action.HOLD)
def lift_hold(context: Context, request: LiftHold) -> Hold:
    """Lift a hold. It is kept as a record.

    Raises `HoldNotFoundError`, also for a hold of another scope.
    """
    found = context.system.lifecycle.holds.get(request.hold_id)
    if not _is_own(context, found):
        raise errors.HoldNotFoundError(f"no hold {request.hold_id} is in force")
    return context.system.lifecycle.holds.lift(found.id, _principal(context))


def _wanted_holds(context: Context, request: AddHold) -> list[Hold]:
    if request.everything == bool(request.document or request.category or request.within):
        raise errors.InvalidInputError("nothing to hold: give a document, a category, a scope, or everything")
    if request.document and (request.category or request.within):
        raise errors.InvalidInputError("a hold on a document covers that document only: leave category and scope out")
    by = _principal(context)
    if request.document:
        keys = _keys_of(context, request.document)
        return [Hold(request.reason, by, key.scope.key, source=key.source) for key in keys]
    return [Hold(request.reason, by, request.within or _own_scope_key(context), request.category or "")]


def _keys_of(context: Context, wanted: str) -> list[DocumentKey]:
    """The keys of all documents with this id: the same text may have been ingested under several names. Includes expired
    ones that pruning has not deleted yet."""
    text = checked_id(wanted)
    if len(text) < ID_LENGTH:
        text = find_document(context, wanted).document_id
    found = {
        one.key.id: one.key for one in context.system.corpus.catalog.find(text) if context.reader.may_see(one.key.scope)
    }
    if not found:
        raise errors.DocumentNotFoundError(f"no document {text}")
    return list(found.values())


def _principal(context: Context) -> str:
    return context.identity.principal or OPERATOR


def _own_scope_key(context: Context) -> str:
    """The scope key of the caller, "" for one without a client, whose holds may cover all scopes."""
    return context.scope.key if context.identity.client_id else ""


def _is_own(context: Context, hold: Hold) -> bool:
    """True if the policy permits the caller to see and change a hold; one without a scope covers all clients."""
    return context.may(Action.HOLD, scope_of_key(hold.within) if hold.within else EVERYTHING)
