"""How what went wrong looks to an agent."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from opx.errors import (
    DocumentNotFoundError,
    EntryNotFoundError,
    InvalidScopeError,
    NodeNotFoundError,
    NotOrchestratorError,
    ReceiptNotFoundError,
    StoreUnavailableError,
    TelemetryUnavailableError,
)
from opx.runtime.metrics import Metric
from opx.tools.declarations import ArgumentError, UnknownToolError

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """How an error looks to an agent. With `state` REPROMPT it goes on, knowing the message; FAILURE ends its turn."""

    code: str
    status: int
    state: str
    metric: Metric
    message: str = ""


FAILURES: dict[type[Exception], Failure] = {
    ArgumentError: Failure("invalid_argument", 400, "REPROMPT", Metric.INVALID_CALLS),
    UnknownToolError: Failure("unknown_tool", 404, "FAILURE", Metric.INVALID_CALLS),
    DocumentNotFoundError: Failure("not_found", 404, "REPROMPT", Metric.INVALID_CALLS),
    ReceiptNotFoundError: Failure("not_found", 404, "REPROMPT", Metric.INVALID_CALLS),
    NodeNotFoundError: Failure("not_found", 404, "REPROMPT", Metric.INVALID_CALLS),
    EntryNotFoundError: Failure("not_found", 404, "REPROMPT", Metric.INVALID_CALLS),
    NotOrchestratorError: Failure("forbidden", 403, "FAILURE", Metric.INVALID_CALLS),
    InvalidScopeError: Failure(
        "invalid_scope", 400, "FAILURE", Metric.INVALID_CALLS, "the session's client or project id is malformed"
    ),
    TelemetryUnavailableError: Failure("unavailable", 500, "REPROMPT", Metric.TOOL_UNAVAILABLE),
    StoreUnavailableError: Failure(
        "unavailable", 500, "REPROMPT", Metric.TOOL_UNAVAILABLE, "the knowledge base is unavailable for now"
    ),
}
"""Of the errors that are foreseen: the first that fits. Without a message the error's own is told."""

UNEXPECTED = Failure("internal", 500, "FAILURE", Metric.TOOL_ERRORS, "the tool failed; the error was logged")


def attempt(work: Callable[[], T], failed: Callable[[Failure, str], T]) -> T:
    """What `work` gives, or else what `failed` makes of the failure and the message for the agent. Never raises.

    What failed is logged, without what the call's arguments say.
    """
    try:
        return work()
    except tuple(FAILURES) as exc:
        failure = next(found for kind, found in FAILURES.items() if isinstance(exc, kind))
        _log(failure, exc)
        return failed(failure, failure.message or str(exc))
    except Exception:  # the outermost edge: whatever it is, the agent must get an answer
        log.exception("tool call failed")
        return failed(UNEXPECTED, UNEXPECTED.message)


def _log(failure: Failure, exc: Exception) -> None:
    """Messages about a call's arguments quote them, so that they are for the agent alone."""
    if failure.metric is Metric.TOOL_UNAVAILABLE:
        log.error("a store is unavailable", exc_info=exc)
        return
    log.warning("call refused as %s: %s", failure.code, type(exc).__name__)
    log.debug("%s", exc)
