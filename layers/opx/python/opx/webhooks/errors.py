"""Why a delivery is not taken in."""

from __future__ import annotations

from opx.errors import InvalidInputError, OpxError


class UnknownWebhookError(OpxError):
    """No webhook takes deliveries at this address."""


class UnverifiedError(OpxError):
    """The delivery is not from whom it should be. Its message says nothing that would help to forge another."""

    def __init__(self) -> None:
        super().__init__("the delivery could not be verified")


class ExpiredError(OpxError):
    """The delivery is genuine and too old, or from the future."""


class PayloadError(InvalidInputError):
    """The delivery is genuine and not of the shape that its service documents."""


class WebhookSetupError(OpxError):
    """The webhook can't verify anything as it is configured, which is never the sender's mistake."""
