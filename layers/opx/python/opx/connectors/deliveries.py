"""Deliveries as they arrived, whichever server took them, and the errors for those that are refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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


MAX_BODY_BYTES = 4 * 1024 * 1024
"""As for the HTTP API: a Lambda event has 6 MB, in which a body that isn't text is a third longer."""

MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Delivery:
    """`headers` have names in lower case, `query` its parameters in order. Nothing of it has been checked."""

    tier: str
    category: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)

    def parameter(self, name: str) -> str:
        """A parameter that is given exactly once, else ""."""
        values = [value for given, value in self.query if given == name]
        return values[0] if len(values) == 1 else ""

    def header(self, name: str) -> bytes:
        """A header's bytes, b"" without it."""
        return str(self.headers.get(name, "")).encode("utf-8", "surrogatepass")

    def json(self) -> dict[str, Any]:
        """The body's object. Raises `PayloadError`."""
        if self.header("content-type").startswith(b"application/x-www-form-urlencoded"):
            raise PayloadError("the body is a form: choose application/json as the content type at the service")
        try:
            found = json.loads(self.body.decode("utf-8"), parse_constant=_refuse_constant)
        except RecursionError:
            raise PayloadError("the body is nested too deeply") from None
        except ValueError as exc:
            raise PayloadError(f"the body is not JSON: {str(exc)[:100]}") from exc
        if not isinstance(found, dict):
            raise PayloadError("the body is not a JSON object")
        refuse_deep(found)
        return found


def refuse_deep(value: object) -> None:
    """Raise `PayloadError` for what those who walk through it would go too deep in. Not by recursion itself."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        nested = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [item for items in nested for item in items]
        if not level:
            return
    raise PayloadError(f"the body is nested deeper than {MAX_DEPTH} levels")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
