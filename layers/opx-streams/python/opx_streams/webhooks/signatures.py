"""Verifies deliveries, and signs them for tests and generic senders.

Shared secrets are compared in constant time. Messages of Amazon SNS are signed with a certificate of AWS's, whose
address is in the message ("Verifying the signatures of Amazon SNS messages" and "Parsing Amazon SNS message formats" of
the SNS Developer Guide). The outer message is parsed before its signature is verified, as it contains the signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from opx.connectors.deliveries import Delivery, PayloadError, UnverifiedError, epoch_of
from opx.connectors.webhook_formats import Verified, body_id, check_signed, signatures_in
from opx.domain.ids import stable_hash
from opx.domain.sources import DeliveryProof, WebhookDefinition
from opx.errors import ForbiddenAddressError, OpxError, SourceRefusedError, StoreUnavailableError
from opx.ports.sources import WebClient

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

TIMESTAMP_HEADER = "x-opx-timestamp"
SIGNATURE_HEADER = "x-opx-signature"

_SECONDS = re.compile(rb"[0-9]{1,12}\Z")


class TimedSignature:
    """`X-Opx-Signature: v1=<hex>`, HMAC-SHA256 of the timestamp's digits, a dot and the body."""

    def verify(self, definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
        stamp = delivery.header(TIMESTAMP_HEADER)
        given = signatures_in(b"v1=", delivery.header(SIGNATURE_HEADER))
        check_signed(given, (generic_signature(key, stamp, delivery.body) for key in keys))
        if not _SECONDS.match(stamp):
            raise UnverifiedError
        identity = stable_hash("delivery", definition.name, stamp.decode(), hashlib.sha256(delivery.body).hexdigest())
        return Verified(identity, float(stamp))

    def proof(self, key: bytes, body: bytes, now: float) -> DeliveryProof:
        stamp = str(int(now))
        signature = "v1=" + generic_signature(key, stamp.encode(), body).decode()
        return DeliveryProof({TIMESTAMP_HEADER: stamp, SIGNATURE_HEADER: signature})


def generic_signature(key: bytes, stamp: bytes, body: bytes) -> bytes:
    """Returns the hexadecimal part of `X-Opx-Signature`."""
    return hmac.new(key, stamp + b"." + body, hashlib.sha256).hexdigest().encode()


class Credentials:
    """HTTP authorization, of a service that signs nothing: a bearer token, or `user:password` for basic authorization."""

    def verify(self, definition: WebhookDefinition, delivery: Delivery, keys: Sequence[bytes]) -> Verified:
        scheme, _, credentials = delivery.header("authorization").strip().partition(b" ")
        expected: Iterable[bytes] = keys
        if scheme.lower() == b"basic":
            expected = [base64.b64encode(key) for key in keys]
        elif scheme.lower() != b"bearer":
            raise UnverifiedError
        check_signed([credentials.strip()], expected)
        return Verified(body_id(definition, delivery))

    def proof(self, key: bytes, body: bytes, now: float) -> DeliveryProof:  # noqa: ARG002
        if b":" in key:
            return DeliveryProof({"authorization": "Basic " + base64.b64encode(key).decode()})
        return DeliveryProof({"authorization": "Bearer " + key.decode()})


class ExpiredError(OpxError):
    """The delivery is genuine but too old, or dated in the future."""


def check_time(sent_at: float | None, window: float, now: float) -> None:
    """Raises `ExpiredError` for a delivery that was sent too long ago, or that claims to be sent later than now."""
    if sent_at is None:
        return
    if abs(now - sent_at) > window:
        kind = "expired" if sent_at < now else "from the future"
        raise ExpiredError(
            f"the delivery is {kind}: it was sent {abs(now - sent_at):.0f} s from now; {window:.0f} s are allowed"
        )


NOTIFICATION = "Notification"
CONFIRMATION = "SubscriptionConfirmation"

_SIGNED = {
    NOTIFICATION: ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    CONFIRMATION: ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
_OPTIONAL = "Subject"
_CERTIFICATE = re.compile(r"https://[a-z0-9.-]+/SimpleNotificationService-[A-Za-z0-9]{1,64}\.pem")
_CERTIFICATE_BYTES = 64 * 1024
_KEPT = 8
_SUBJECT = "sns.amazonaws.com"


class SnsMessages:
    """Verifies messages of the topics of webhooks. Certificates are fetched once, and cached in memory."""

    def __init__(self, web: Callable[[], WebClient]) -> None:
        self._web = web
        self._certificates: dict[str, Certificate] = {}

    def verify(self, definition: WebhookDefinition, delivery: Delivery) -> tuple[Verified, dict[str, Any]]:
        """Returns the message if SNS sent it from the webhook's topic. Raises `UnverifiedError`, and `StoreUnavailableError`
        if the certificate is unavailable."""
        try:
            message = delivery.json()
        except PayloadError:
            raise UnverifiedError from None
        signed = _signed_text(message)
        if message["TopicArn"] != definition.topic:
            raise UnverifiedError
        certificate = self._certificate(
            str(message.get("SigningCertURL") or message.get("SigningCertUrl") or ""), definition.topic
        )
        sent_at = epoch_of(message["Timestamp"])
        if sent_at is None:
            raise UnverifiedError
        _check_signature(certificate, message, signed, sent_at)
        return Verified(stable_hash("delivery", definition.name, message["MessageId"]), sent_at), message

    def confirm(self, definition: WebhookDefinition, message: Mapping[str, Any]) -> None:
        """Confirms the subscription of a verified message to SNS. Raises `PayloadError` for an address that
        isn't the topic's confirmation, and `StoreUnavailableError`."""
        url = message["SubscribeURL"]
        query = parse_qs(url.partition("?")[2])
        if not (
            _is_of_region(url, definition.topic)
            and query.get("Action") == ["ConfirmSubscription"]
            and query.get("TopicArn") == [definition.topic]
        ):
            raise PayloadError("the subscription's address does not confirm the webhook's topic")
        self._fetch(url, definition.topic)

    def _certificate(self, url: str, topic: str) -> Certificate:
        if not (_is_of_region(url, topic) and _CERTIFICATE.fullmatch(url)):
            raise UnverifiedError
        if url not in self._certificates:
            found = _loaded(self._fetch(url, topic))
            while len(self._certificates) >= _KEPT:
                self._certificates.pop(next(iter(self._certificates)))
            self._certificates[url] = found
        return self._certificates[url]

    def _fetch(self, url: str, topic: str) -> bytes:
        try:
            reply = self._web().get(url, limit=_CERTIFICATE_BYTES)
        except (ForbiddenAddressError, SourceRefusedError) as exc:
            raise StoreUnavailableError(f"Amazon SNS can't be reached at {url.split('/')[2]}") from exc
        if reply.gone or not _is_of_region(reply.url, topic):
            raise StoreUnavailableError(f"Amazon SNS returned nothing, or redirected elsewhere: {url.split('/')[2]}")
        return reply.body


def _is_of_region(url: str, topic: str) -> bool:
    """True if the address is that of SNS in the topic's region: only AWS has the name `sns.<region>`, and the address is
    exactly that up to the first slash."""
    _, partition, _, region, *_ = topic.split(":")
    domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return url.startswith(f"https://sns.{region}.{domain}/")


def _signed_text(message: Mapping[str, Any]) -> bytes:
    """Returns the signed text: names and values, a line each. Raises `UnverifiedError` if it is not a message of SNS."""
    names = _SIGNED.get(str(message.get("Type")), ())
    present = [name for name in names if name != _OPTIONAL or message.get(name) is not None]
    if not present or not all(isinstance(message.get(name), str) for name in present):
        raise UnverifiedError
    return "".join(f"{name}\n{message[name]}\n" for name in present).encode("utf-8", "surrogatepass")


def _check_signature(certificate: Certificate, message: Mapping[str, Any], signed: bytes, sent_at: float) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256

    # Topics sign with SHA-1 by default.
    algorithms = {"1": SHA1, "2": SHA256}
    algorithm = algorithms.get(str(message.get("SignatureVersion")))
    key = certificate.public_key()
    valid = certificate.not_valid_before_utc.timestamp() <= sent_at <= certificate.not_valid_after_utc.timestamp()
    if algorithm is None or not isinstance(key, RSAPublicKey) or not valid:
        raise UnverifiedError
    try:
        signature = base64.b64decode(str(message.get("Signature")), validate=True)
        key.verify(signature, signed, PKCS1v15(), algorithm())
    except (InvalidSignature, binascii.Error, ValueError):
        raise UnverifiedError from None


def _loaded(pem: bytes) -> Certificate:
    from cryptography.x509 import load_pem_x509_certificate
    from cryptography.x509.oid import NameOID

    try:
        found = load_pem_x509_certificate(pem)
    except ValueError as exc:
        raise StoreUnavailableError("the answer of Amazon SNS is not a certificate") from exc
    names = [str(name.value) for name in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not any(name == _SUBJECT or name.endswith("." + _SUBJECT) for name in names):
        raise UnverifiedError
    return found
