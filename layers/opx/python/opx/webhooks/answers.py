"""What the sender of a delivery is told: how it ended, in the form in which the HTTP API tells errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opx.errors import InvalidInputError, KnowledgeConfigError, OpxError, StoreUnavailableError
from opx.webhooks.deliveries import MAX_BODY_BYTES, Delivery
from opx.webhooks.errors import ExpiredError, UnknownWebhookError, UnverifiedError, WebhookSetupError

if TYPE_CHECKING:
    from opx.webhooks.receiving import WebhookReceiver

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sender is told."""

    status: int
    payload: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Failure:
    """How an error looks to the sender; without a `message`, it has the error's own."""

    status: int
    code: str
    message: str = ""


_NOT_SET_UP = _Failure(500, "internal", "the webhook is not set up; the error was logged")

_FAILURES: dict[type[OpxError], _Failure] = {
    UnknownWebhookError: _Failure(404, "no_such_webhook"),
    UnverifiedError: _Failure(401, "unverified"),
    ExpiredError: _Failure(401, "expired"),
    WebhookSetupError: _NOT_SET_UP,
    KnowledgeConfigError: _NOT_SET_UP,
    StoreUnavailableError: _Failure(503, "unavailable", "nothing was taken in; try again later"),
    InvalidInputError: _Failure(400, "invalid_payload"),
    OpxError: _Failure(500, "internal", "the delivery failed; the error was logged"),
}
"""The first that fits counts."""


def answer(receiver: Callable[[], WebhookReceiver], delivery: Delivery) -> Answer:
    """Take a delivery in, and say how that ended. Raises no `OpxError`."""
    if len(delivery.body) > MAX_BODY_BYTES:
        return too_large()
    try:
        return receiver().receive(delivery)
    except OpxError as exc:
        failure = next(found for kind, found in _FAILURES.items() if isinstance(exc, kind))
        is_ours = failure.status >= 500
        # Messages may quote a delivery, so that lines about refusals have none.
        log.log(logging.ERROR if is_ours else logging.WARNING, "webhook: %s", failure.code, exc_info=is_ours)
        headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if failure.status == 503 else {}
        return failed(failure.status, failure.code, failure.message or str(exc), headers)


def too_large() -> Answer:
    """The answer to a body that is not even looked at."""
    return failed(
        413, "too_large", f"a delivery may have {MAX_BODY_BYTES:,} bytes; larger documents go through POST /uploads"
    )


def failed(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error, in the form in which the HTTP API has them."""
    return Answer(status, {"error": {"code": code, "message": message}}, headers or {})
