"""Messages of Amazon SNS: signed with a certificate of AWS's, which the message says where to find.

"Verifying the signatures of Amazon SNS messages" and "Parsing Amazon SNS message formats" of the SNS Developer Guide
describe what is signed. The outer message is parsed before its signature holds, as the signature is in it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from opx.domain.ids import stable_hash
from opx.domain.webhooks import WebhookDefinition
from opx.errors import ForbiddenAddressError, SourceRefusedError, StoreUnavailableError
from opx.ports.sources import WebClient
from opx.webhooks.deliveries import Delivery, PayloadError, UnverifiedError
from opx.webhooks.payloads.shape import epoch_of
from opx.webhooks.signatures import Verified

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

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
    """Verifies messages of the topics that webhooks name. Certificates are fetched once, and kept while this is."""

    def __init__(self, web: Callable[[], WebClient]) -> None:
        self._web = web
        self._certificates: dict[str, Certificate] = {}

    def verify(self, definition: WebhookDefinition, delivery: Delivery) -> tuple[Verified, dict[str, Any]]:
        """The message, which is what SNS sent from the webhook's topic. Raises `UnverifiedError`, and
        `StoreUnavailableError` if the certificate can't be had now."""
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
        """Tell SNS that the subscription, of a verified message, is wanted. Raises `PayloadError` for an address that
        isn't the topic's confirmation, and `StoreUnavailableError`."""
        url = message["SubscribeURL"]
        asked = parse_qs(url.partition("?")[2])
        if not (
            _is_of_region(url, definition.topic)
            and asked.get("Action") == ["ConfirmSubscription"]
            and asked.get("TopicArn") == [definition.topic]
        ):
            raise PayloadError("the subscription's address is not one that confirms the topic's")
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
            raise StoreUnavailableError(f"Amazon SNS can't be asked at {url.split('/')[2]}") from exc
        if reply.gone or not _is_of_region(reply.url, topic):
            raise StoreUnavailableError(f"Amazon SNS has nothing there, or sends elsewhere: {url.split('/')[2]}")
        return reply.body


def _is_of_region(url: str, topic: str) -> bool:
    """Whether SNS answers there in the topic's region: nobody else has the name `sns.<region>`, and up to the first
    slash the address is exactly that."""
    _, partition, _, region, *_ = topic.split(":")
    domain = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
    return url.startswith(f"https://sns.{region}.{domain}/")


def _signed_text(message: Mapping[str, Any]) -> bytes:
    """What is signed: names and values, a line each. Raises `UnverifiedError` for no message of SNS's."""
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

    # SHA-1 is what topics sign with unless they are told otherwise.
    algorithms = {"1": SHA1, "2": SHA256}
    algorithm = algorithms.get(str(message.get("SignatureVersion")))
    key = certificate.public_key()
    if algorithm is None or not isinstance(key, RSAPublicKey) or not _is_valid(certificate, sent_at):
        raise UnverifiedError
    try:
        signature = base64.b64decode(str(message.get("Signature")), validate=True)
        key.verify(signature, signed, PKCS1v15(), algorithm())
    except (InvalidSignature, binascii.Error, ValueError):
        raise UnverifiedError from None


def _is_valid(certificate: Certificate, at: float) -> bool:
    return certificate.not_valid_before_utc.timestamp() <= at <= certificate.not_valid_after_utc.timestamp()


def _loaded(pem: bytes) -> Certificate:
    from cryptography.x509 import load_pem_x509_certificate
    from cryptography.x509.oid import NameOID

    try:
        found = load_pem_x509_certificate(pem)
    except ValueError as exc:
        raise StoreUnavailableError("what Amazon SNS answered is no certificate") from exc
    names = [str(name.value) for name in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not any(name == _SUBJECT or name.endswith("." + _SUBJECT) for name in names):
        raise UnverifiedError
    return found
