"""Webhook deliveries as received, their replies, and the document updates read from their payloads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from opx.domain.ids import stable_hash
from opx.errors import InvalidInputError, OpxError
from opx.formats.data.replies import Shape, Words, shaped
from opx.formats.markdown import nested


class UnverifiedError(OpxError):
    """The delivery's sender could not be verified. The message reveals nothing that would help to forge another."""

    def __init__(self) -> None:
        super().__init__("the delivery could not be verified")


class PayloadError(InvalidInputError):
    """The delivery is genuine but not of the shape that its service documents."""


MAX_BODY_BYTES = 4 * 1024 * 1024
"""As for the HTTP API: a Lambda event has 6 MB, and a binary body is a third longer in it (base64)."""

MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Delivery:
    """An unverified request. `headers` have names in lower case, `query` has its parameters in order."""

    tier: str
    category: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)

    def parameter(self, name: str) -> str:
        """Value of a parameter that is given exactly once, else ""."""
        values = [value for given, value in self.query if given == name]
        return values[0] if len(values) == 1 else ""

    def header(self, name: str) -> bytes:
        """Bytes of a header, b"" without it."""
        return str(self.headers.get(name, "")).encode("utf-8", "surrogatepass")

    def json(self) -> dict[str, Any]:
        """Returns the body as a JSON object. Raises `PayloadError`."""
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


@dataclass(frozen=True, slots=True)
class DeliveryReply:
    """The reply to the sender."""

    status: int
    payload: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def failed(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> DeliveryReply:
    """Returns an error in the form of the HTTP API."""
    return DeliveryReply(status, {"error": {"code": code, "message": message}}, headers or {})


class WebhooksPart(Protocol):
    """The webhooks of an installation, which the part `webhooks` of a system has."""

    def check(self) -> None:
        """Reads the declarations. Raises `KnowledgeConfigError` for invalid ones."""

    def answer(self, delivery: Delivery) -> DeliveryReply:
        """Receives a delivery, and returns the reply. Raises no `OpxError`."""

    def endpoint(self, tier: str, category: str) -> str:
        """The address of the only webhook which the category has."""


def refuse_deep(value: object) -> None:
    """Raises `PayloadError` for a value that recursive readers would go too deep in. Not recursive itself."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        nested = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [item for items in nested for item in items]
        if not level:
            return
    raise PayloadError(f"the body is nested deeper than {MAX_DEPTH} levels")


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# -- payloads


S = TypeVar("S", bound=Shape)

MAX_TITLE = 300
MAX_TAGS = 12
MAX_TAG = 64
MAX_URI = 400
"""Most metadata then fit into the object's own metadata; the writer puts longer ones into a sidecar."""

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


class NamedField(Shape, frozen=True):
    name: Words = ""


@dataclass(frozen=True, slots=True)
class DocumentUpdate:
    """The update of one document. `key` identifies it within the webhook and stays; `time` is the payload's own (see
    `moment`), "" if it has none; a document that is `deleted` has no text. `posts` are changed comments by keys in their
    order: time and section, "" for a deleted one; None if a delivery has the whole document."""

    key: str
    time: str = ""
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False
    posts: Mapping[str, tuple[str, str]] | None = None

    @property
    def whole(self) -> str:
        """The text with its comments."""
        return "\n".join([self.text, *(text for _, (_, text) in sorted((self.posts or {}).items()) if text)])


def read_payload(kind: type[S], payload: object) -> S:
    """Reads a record from a delivery, or from a part of one. Raises `PayloadError` that names the field and the expected
    type."""
    return shaped(kind, payload, error=PayloadError)


def epoch_of(value: object) -> float | None:
    """Seconds since the epoch from ISO 8601 or a number of seconds or milliseconds; None if it is not a time."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value) / 1000 if value > 10**11 else float(value)
        found = datetime.fromisoformat(str(value))
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None


def moment(value: object, called: str) -> str:
    """Time in a form that sorts chronologically: UTC with milliseconds. "" for none. Raises `PayloadError`."""
    if value in (None, ""):
        return ""
    seconds = epoch_of(value)
    try:
        if seconds is not None:
            found = datetime.fromtimestamp(seconds, UTC)
            return found.strftime(f"%Y-%m-%dT%H:%M:%S.{found.microsecond // 1000:03d}Z").rjust(24, "0")
    except (ValueError, OverflowError, OSError):
        pass
    raise PayloadError(f"{called} is not a time")


def part(text: str) -> str:
    """Part of a key: the string itself where it is valid in an object's key, else its hash."""
    return text if _PART.match(text) else stable_hash("part", text)


# -- Markdown


def one_line(text: str) -> str:
    return " ".join(text.split())[:MAX_TITLE]


def document(title: str, facts: Iterable[tuple[str, str]], sections: Iterable[tuple[str, str]]) -> str:
    """Markdown of a heading, a list of facts, and sections. Empty parts are left out. Headings in a section's text are
    demoted, so that they don't end it."""
    parts = [f"# {one_line(title) or 'Without a title'}\n"]
    listed = [f"- {name}: {one_line(value)}" for name, value in facts if value]
    if listed:
        parts.append("\n".join(listed) + "\n")
    parts += [f"## {one_line(name)}\n\n{nested(text, 2)}\n" for name, text in sections if text.strip()]
    return "\n".join(parts)


def metadata(
    *,
    tags: Iterable[str] = (),
    source_uri: str = "",
    created: str = "",
    updated: str = "",
    author: str = "",
    severity: str = "",
    services: Iterable[str] = (),
) -> dict[str, Any]:
    """Metadata of a document, limited in number and length; empty fields are left out. The title is the heading."""
    found = {
        "tags": _short(tags),
        "source_uri": source_uri if len(source_uri) <= MAX_URI else "",
        "created_at": created,
        "last_updated": updated,
        "author": one_line(author)[:MAX_TAG],
        "severity": one_line(severity)[:MAX_TAG],
        "services": _short(services),
    }
    return {name: value for name, value in found.items() if value}


def _short(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(one_line(text)[:MAX_TAG] for text in texts if text.strip()))[:MAX_TAGS]
