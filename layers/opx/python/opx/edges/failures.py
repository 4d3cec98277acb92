"""Maps errors to codes, HTTP statuses and messages for callers, and runs work with that mapping."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct

from opx import errors
from opx.domain.record import Json
from opx.runtime.extras import naming_extras
from opx.runtime.metrics import Metric

log = logging.getLogger(__name__)

T = TypeVar("T")


class StartError(errors.OpxError):
    """The system can't start with its configuration, which is never the caller's mistake."""


class UnknownRouteError(errors.OpxError):
    """There is no such route here."""


class UnknownToolError(errors.OpxError):
    """There is no such tool for this agent: the sender of the calls is misconfigured."""


class UnknownKnowledgeBaseError(errors.NotFoundError):
    """The path names another knowledge base."""

    kind = "knowledge base"


class ErrorResponse(Struct, frozen=True):
    """An error as a caller sees it; without a `message` it has the error's own. A reprompted agent continues with the
    message; otherwise its turn ends. `is_ours`: the error is not the caller's mistake, and is logged."""

    code: str
    status: int
    reprompts: bool = True
    is_ours: bool = False
    message: str = ""

    @property
    def api_metric(self) -> Metric:
        if not self.is_ours:
            return Metric.API_REFUSED
        return Metric.API_UNAVAILABLE if self.status == 503 else Metric.API_ERRORS

    @property
    def tool_metric(self) -> Metric:
        if not self.is_ours:
            return Metric.INVALID_CALLS
        return Metric.TOOL_UNAVAILABLE if self.status == 503 else Metric.TOOL_ERRORS


UNEXPECTED = ErrorResponse(
    "internal", 500, reprompts=False, is_ours=True, message="the request failed; the error was logged"
)

FAILURES: dict[type[Exception], ErrorResponse] = {
    errors.KnowledgeConfigError: UNEXPECTED,
    errors.UnknownCategoryError: ErrorResponse("unknown_category", 400),
    errors.InvalidScopeError: ErrorResponse("invalid_argument", 400),
    errors.InvalidInputError: ErrorResponse("invalid_argument", 400),
    errors.UnparsableDocumentError: ErrorResponse("invalid_argument", 400),
    errors.SourceRefusedError: ErrorResponse("invalid_argument", 400),
    errors.ForbiddenError: ErrorResponse("forbidden", 403, reprompts=False),
    errors.NotOrchestratorError: ErrorResponse("forbidden", 403, reprompts=False),
    errors.MissingExtraError: ErrorResponse("unavailable", 501, reprompts=False, is_ours=True),
    errors.MissingDistributionError: ErrorResponse("unavailable", 501, reprompts=False, is_ours=True),
    errors.NotFoundError: ErrorResponse("not_found", 404),
    UnknownRouteError: ErrorResponse("no_such_route", 404),
    UnknownToolError: ErrorResponse("unknown_tool", 404, reprompts=False),
    errors.SourceBusyError: ErrorResponse("conflict", 409),
    errors.HeldError: ErrorResponse("held", 409),
    errors.BulkBusyError: ErrorResponse("bulk_busy", 409),
    errors.BulkCancelledError: ErrorResponse("cancelled", 409),
    errors.DocumentChangedError: ErrorResponse("conflict", 409),
    errors.ConditionFailedError: ErrorResponse("conflict", 409, message="it was changed meanwhile; try again"),
    errors.TooLargeError: ErrorResponse("too_large", 413),
    errors.TelemetryUnavailableError: ErrorResponse("unavailable", 503, is_ours=True),
    errors.IndexWakingError: ErrorResponse(
        "unavailable",
        503,
        is_ours=True,
        message="nothing was searched yet: the search index is waking up, or overloaded",
    ),
    errors.IndexUnavailableError: ErrorResponse(
        "unavailable", 503, is_ours=True, message="nothing was searched: the search index is unavailable for now"
    ),
    errors.StoreUnavailableError: ErrorResponse(
        "unavailable", 503, is_ours=True, message="the knowledge base is unavailable for now"
    ),
}
"""Responses by type of error; the first match counts, and an error without one is unexpected."""


def attempt(work: Callable[[], T], failed: Callable[[ErrorResponse, Json], T], name: str) -> T:
    """The result of `work`, or else of `failed` for the failure and its JSON, `{"code", "message"}`, with the kind of a
    missing resource as `what`, and `retryAfter`, the seconds after which to repeat a call that came too early. Never raises.

    `name` is for the log, which omits messages of refused calls: they may quote arguments.
    """
    try:
        with naming_extras():
            return work()
    except Exception as exc:
        failure = next((found for kind, found in FAILURES.items() if isinstance(exc, kind)), UNEXPECTED)
        if failure.is_ours:
            log.exception("%s failed: %s", name, failure.code)
        else:
            log.warning("%s: refused as %s: %s", name, failure.code, type(exc).__name__)
        error: Json = {"code": failure.code, "message": failure.message or str(exc)}
        if isinstance(exc, errors.NotFoundError):
            error["what"] = exc.kind
        if seconds := math.ceil(getattr(exc, "retry_after", 0.0)):
            error["message"] += f". Repeat the call in {seconds} seconds"
            error["retryAfter"] = seconds
        return failed(failure, error)


def started(start: Callable[[], T], *passed: type[errors.OpxError]) -> T:
    """The result of `start`. Raises `StartError` instead of errors that would look like errors of the request; `passed` types
    are raised as they are."""
    try:
        return start()
    except passed:
        raise
    except errors.OpxError as exc:
        raise StartError("the system does not start") from exc
