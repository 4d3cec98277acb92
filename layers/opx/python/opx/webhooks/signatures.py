"""Verifies deliveries by shared secrets, compared in constant time, and signs them for tests and generic senders."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opx.domain.ids import stable_hash
from opx.domain.webhooks import DeliveryProof, WebhookDefinition
from opx.errors import InvalidInputError
from opx.webhooks.deliveries import Delivery, ExpiredError, UnverifiedError

TIMESTAMP_HEADER = "x-opx-timestamp"
SIGNATURE_HEADER = "x-opx-signature"

_MAX_SIGNATURES = 16
_SECONDS = re.compile(rb"[0-9]{1,12}\Z")


@dataclass(frozen=True, slots=True)
class Verified:
    """What a genuine delivery is known by. `sent_at` is when it was sent, if that is signed too."""

    delivery_id: str
    sent_at: float | None = None


Verifier = Callable[[WebhookDefinition, Delivery, Sequence[bytes]], Verified]
"""Raises `UnverifiedError`."""


@dataclass(frozen=True, slots=True)
class _HubSignature:
    """HMAC-SHA256 of the body in a header, in hexadecimal behind a prefix; several are separated by commas."""

    header: str
    prefix: bytes

    def __call__(self, definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
        given = _behind(self.prefix, delivery.header(self.header))
        _check(given, (hmac.new(key, delivery.body, hashlib.sha256).hexdigest().encode() for key in keys))
        return Verified(_body_id(definition, delivery))


def _generic(definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
    """`X-Opx-Signature: v1=<hex>`, HMAC-SHA256 of the timestamp's digits, a dot and the body."""
    stamp = delivery.header(TIMESTAMP_HEADER)
    given = _behind(b"v1=", delivery.header(SIGNATURE_HEADER))
    _check(given, (generic_signature(key, stamp, delivery.body) for key in keys))
    if not _SECONDS.match(stamp):
        raise UnverifiedError
    identity = stable_hash("delivery", definition.name, stamp.decode(), hashlib.sha256(delivery.body).hexdigest())
    return Verified(identity, float(stamp))


def generic_signature(key: bytes, stamp: bytes, body: bytes) -> bytes:
    """The hexadecimal part of `X-Opx-Signature`."""
    return hmac.new(key, stamp + b"." + body, hashlib.sha256).hexdigest().encode()


def _query_token(definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
    """Statuspage signs nothing: whoever knows the address with its token is believed."""
    _check([delivery.parameter("token").encode("utf-8", "surrogatepass")], keys)
    return Verified(_body_id(definition, delivery))


def _authorization(definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
    """Alertmanager signs nothing either: a bearer token, or `user:password` for basic authorization."""
    scheme, _, credentials = delivery.header("authorization").strip().partition(b" ")
    expected: Iterable[bytes] = keys
    if scheme.lower() == b"basic":
        expected = [base64.b64encode(key) for key in keys]
    elif scheme.lower() != b"bearer":
        raise UnverifiedError
    _check([credentials.strip()], expected)
    return Verified(_body_id(definition, delivery))


VERIFIERS: Mapping[str, Verifier] = {
    # "Validating webhook deliveries" of GitHub's documentation.
    "github": _HubSignature("x-hub-signature-256", b"sha256="),
    # "Verifying Signatures" of PagerDuty's: one for each secret while one is replaced.
    "pagerduty": _HubSignature("x-pagerduty-signature", b"v1="),
    # "Secure admin webhooks" of Atlassian's: the form of WebSub, method=signature.
    "jira": _HubSignature("x-hub-signature", b"sha256="),
    "statuspage": _query_token,
    "alertmanager": _authorization,
    "generic": _generic,
}
"""How each format that has secrets is verified. What GitHub and others say beside the body (ids of deliveries) isn't
signed, so that a delivery is known by its body."""


def check_time(sent_at: float | None, window: float, now: float) -> None:
    """Raise `ExpiredError` for a delivery that was sent too long ago, or that claims to be sent later than now."""
    if sent_at is None:
        return
    if abs(now - sent_at) > window:
        kind = "expired" if sent_at < now else "from the future"
        raise ExpiredError(
            f"the delivery is {kind}: it was sent {abs(now - sent_at):.0f} s from now; {window:.0f} s are allowed"
        )


def _behind(prefix: bytes, header: bytes) -> list[bytes]:
    parts = [part.strip() for part in header.split(b",")]
    return [part.removeprefix(prefix).lower() for part in parts if part.startswith(prefix)][:_MAX_SIGNATURES]


def _check(given: Sequence[bytes], expected: Iterable[bytes]) -> None:
    """Raise `UnverifiedError` unless one of them is as expected. Takes as long whichever differs, and where."""
    expectations = list(expected)
    found = False
    for signature in given:
        for expectation in expectations:
            found |= hmac.compare_digest(signature, expectation)
    if not found:
        raise UnverifiedError


def _body_id(definition: WebhookDefinition, delivery: Delivery) -> str:
    return stable_hash("delivery", definition.name, hashlib.sha256(delivery.body).hexdigest())


_HEADERS = {
    "github": ("x-hub-signature-256", "sha256="),
    "jira": ("x-hub-signature", "sha256="),
    "pagerduty": ("x-pagerduty-signature", "v1="),
}


def proof_of(definition: WebhookDefinition, key: str, body: bytes, now: float) -> DeliveryProof:
    """What shows that the body is from who knows the secret. Raises `InvalidInputError` for a format that only its
    service can sign."""
    secret = key.strip().encode()
    if definition.format in _HEADERS:
        header, prefix = _HEADERS[definition.format]
        return DeliveryProof({header: prefix + hmac.new(secret, body, hashlib.sha256).hexdigest()})
    if definition.format == "generic":
        stamp = str(int(now))
        signature = "v1=" + generic_signature(secret, stamp.encode(), body).decode()
        return DeliveryProof({TIMESTAMP_HEADER: stamp, SIGNATURE_HEADER: signature})
    if definition.format == "alertmanager":
        if b":" in secret:
            return DeliveryProof({"authorization": "Basic " + base64.b64encode(secret).decode()})
        return DeliveryProof({"authorization": "Bearer " + secret.decode()})
    if definition.format == "statuspage":
        return DeliveryProof(query={"token": secret.decode()})
    raise InvalidInputError(f"deliveries of format {definition.format} can only be signed by AWS")
