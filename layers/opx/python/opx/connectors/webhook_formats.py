"""Formats of webhooks: the proof that deliveries of a product have, their events, and the documents that they change."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from opx.connectors.deliveries import Delivery, DocumentUpdate, UnverifiedError
from opx.domain.ids import stable_hash
from opx.domain.sources import DeliveryProof, WebhookDefinition

_MAX_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class Verified:
    """Identity of a genuine delivery. `sent_at` is the time of sending, if that is signed too."""

    delivery_id: str
    sent_at: float | None = None


class Scheme(Protocol):
    """A proof of senders that they know the secret of a webhook."""

    def verify(self, definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
        """Verifies a delivery with the secrets of its webhook. Raises `UnverifiedError`."""

    def proof(self, key: bytes, body: bytes, now: float) -> DeliveryProof:
        """The proof of a sender who knows the secret. Raises `InvalidInputError` for what only the service can sign."""


@dataclass(frozen=True, slots=True)
class HubSignature:
    """HMAC-SHA256 of the body in a header, in hexadecimal behind a prefix; several are separated by commas. Ids of
    deliveries aren't signed, so that a delivery is identified by its body."""

    header: str
    prefix: bytes

    def verify(self, definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
        given = signatures_in(self.prefix, delivery.header(self.header))
        check_signed(given, (self._signature(key, delivery.body) for key in keys))
        return Verified(body_id(definition, delivery))

    def proof(self, key: bytes, body: bytes, now: float) -> DeliveryProof:  # noqa: ARG002
        return DeliveryProof({self.header: (self.prefix + self._signature(key, body)).decode()})

    @staticmethod
    def _signature(key: bytes, body: bytes) -> bytes:
        return hmac.new(key, body, hashlib.sha256).hexdigest().encode()


class QueryToken:
    """A token in the address, of a service that signs nothing: any sender that knows the address is trusted."""

    def verify(self, definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
        check_signed([delivery.parameter("token").encode("utf-8", "surrogatepass")], keys)
        return Verified(body_id(definition, delivery))

    def proof(self, key: bytes, body: bytes, now: float) -> DeliveryProof:  # noqa: ARG002
        return DeliveryProof(query={"token": key.decode()})


def signatures_in(prefix: bytes, header: bytes) -> list[bytes]:
    parts = [part.strip() for part in header.split(b",")]
    return [part.removeprefix(prefix).lower() for part in parts if part.startswith(prefix)][:_MAX_SIGNATURES]


def check_signed(given: Sequence[bytes], expected: Iterable[bytes]) -> None:
    """Raises `UnverifiedError` unless one of them is expected. Takes constant time."""
    expectations = list(expected)
    found = False
    for signature in given:
        for expectation in expectations:
            found |= hmac.compare_digest(signature, expectation)
    if not found:
        raise UnverifiedError


def body_id(definition: WebhookDefinition, delivery: Delivery) -> str:
    return stable_hash("delivery", definition.name, hashlib.sha256(delivery.body).hexdigest())


@dataclass(frozen=True, slots=True)
class WebhookFormat:
    """The deliveries of one product. `event_of` names the event of a delivery and `changes_of` returns the documents that it
    changes, none for events about anything else; both raise `PayloadError`. `sample` is the body of a test delivery, with
    `sample_headers`. `events` are the names of those that change documents; none if any may. `reports_incidents`: an
    incident may be behind a delivery."""

    event_of: Callable[[Delivery], str]
    changes_of: Callable[[Delivery], Sequence[DocumentUpdate]]
    scheme: Scheme
    sample: Mapping[str, Any]
    sample_headers: Mapping[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    reports_incidents: bool = False


SAMPLE_TITLE = "Test delivery"
SAMPLE_TIME = "2020-01-01T00:00:00Z"
