"""Alarms through Amazon SNS: only messages that AWS signed, of the topic that the webhook names."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.x509.oid import NameOID

from opx.adapters.web import Exchanges, HttpReply, HttpRequest, open_web
from opx.connectors.deliveries import Delivery
from opx.errors import ForbiddenAddressError, SourceUnavailableError
from opx.hygiene.addresses import AddressBook
from opx.ports.sources import WebReply
from opx_streams.webhooks import receiving
from opx_streams.webhooks.signatures import SnsMessages
from tests.support.webhook_support import NOW, TOPIC, Webhooks, bare, webhooks_in

HOST = "https://sns.eu-central-1.amazonaws.com"
CERTIFICATE = f"{HOST}/SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem"
WHEN = datetime.fromtimestamp(NOW, UTC)
ALARM = {
    "AlarmName": "checkout-5xx",
    "AlarmDescription": "Too many errors of the checkout.",
    "AWSAccountId": "123456789012",
    "NewStateValue": "ALARM",
    "OldStateValue": "OK",
    "NewStateReason": "Threshold crossed: 12 datapoints were greater than 5.",
    "StateChangeTime": "2026-01-02T10:00:00.123+0000",
    "Region": "EU (Frankfurt)",
    "Trigger": {
        "MetricName": "5XXError",
        "Namespace": "AWS/ApiGateway",
        "Dimensions": [{"name": "ApiName", "value": "checkout"}],
    },
}


@cache
def a_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def a_certificate(key: Any = None, name: str = "sns.amazonaws.com", days: int = 30) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    key = key or a_key()
    builder = x509.CertificateBuilder(
        subject, subject, key.public_key(), 1, WHEN - timedelta(days=60), WHEN + timedelta(days=days)
    )
    return builder.sign(key, SHA256()).public_bytes(serialization.Encoding.PEM)


@dataclass
class Pages:
    """A `WebClient` with a few pages, which records the requested addresses."""

    pages: dict[str, bytes] = field(default_factory=lambda: {CERTIFICATE: a_certificate()})
    requests: list[str] = field(default_factory=list)
    led_to: str = ""

    def get(self, url: str, **_: object) -> WebReply:
        self.requests.append(url)
        if url not in self.pages:
            return WebReply(url, 404, {}, b"")
        return WebReply(self.led_to or url, 200, {}, self.pages[url])

    def post(self, url: str, *, json: Any, headers: Mapping[str, str] | None = None, limit: int = 0) -> WebReply:
        raise AssertionError("nothing is posted")


def signed(message: Mapping[str, Any], names: tuple[str, ...], key: Any = None, version: str = "2") -> Delivery:
    text = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
    algorithm = SHA256() if version == "2" else SHA1()
    signature = (key or a_key()).sign(text.encode(), padding.PKCS1v15(), algorithm)
    found = {
        "SigningCertURL": CERTIFICATE,
        "SignatureVersion": version,
        "Signature": base64.b64encode(signature).decode(),
        **message,
    }
    return bare("alarms", found, {"content-type": "text/plain; charset=UTF-8"})


def a_notification(alarm: object = None, key: Any = None, version: str = "2", **more: str) -> Delivery:
    message = {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Subject": "ALARM",
        "Message": json.dumps(ALARM if alarm is None else alarm),
        "Timestamp": WHEN.isoformat().replace("+00:00", ".000Z"),
        **more,
    }
    return signed(message, ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"), key, version)


def a_confirmation(**more: str) -> Delivery:
    message = {
        "Type": "SubscriptionConfirmation",
        "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        "Token": "2336412f37",
        "TopicArn": TOPIC,
        "Message": "You have chosen to subscribe.",
        "SubscribeURL": f"{HOST}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37",
        "Timestamp": WHEN.isoformat(),
        **more,
    }
    return signed(message, ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"))


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
def webhooks(tmp_path: Path, pages: Pages) -> Iterator[Webhooks]:
    found = webhooks_in(tmp_path)
    found.receiver._sns = SnsMessages(lambda: pages)
    with found.services:
        yield found


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhooks]:
    found = webhooks_in(tmp_path_factory.mktemp("kept"))
    with found.services:
        yield found


@pytest.fixture
def refusing(kept: Webhooks, pages: Pages) -> Iterator[Webhooks]:
    """For tests in which nothing is stored: setting a system up takes a while."""
    kept.receiver._sns = SnsMessages(lambda: pages)
    yield kept
    assert kept.documents() == {}


def changed(delivery: Delivery, **fields: Any) -> Delivery:
    return bare("alarms", {**json.loads(delivery.body), **fields})


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_signed_alarm_becomes_a_document(webhooks: Webhooks, version: str) -> None:
    assert webhooks.send(a_notification(version=version)) == (202, "accepted")
    text = webhooks.only()
    assert text.startswith("# CloudWatch alarm checkout-5xx\n")
    assert "- State: ALARM" in text
    assert "Threshold crossed" in text
    assert "ApiName = checkout" in text


def test_the_next_state_is_a_version_of_the_same_document(webhooks: Webhooks) -> None:
    webhooks.send(a_notification())
    later = {**ALARM, "NewStateValue": "OK", "StateChangeTime": "2026-01-02T11:00:00.123+0000"}
    assert webhooks.send(a_notification(later, MessageId="other")) == (202, "accepted")
    assert "- State: OK" in webhooks.only()


def test_a_message_without_a_subject_is_signed_without_it(webhooks: Webhooks) -> None:
    plain = {key: value for key, value in json.loads(a_notification().body).items() if key != "Subject"}
    names = ("Message", "MessageId", "Timestamp", "TopicArn", "Type")
    assert webhooks.send(signed({name: plain[name] for name in names}, names)) == (202, "accepted")


def test_the_certificate_is_fetched_once(webhooks: Webhooks, pages: Pages) -> None:
    for number in range(3):
        webhooks.send(a_notification(MessageId=f"m{number}"))
    assert pages.requests == [CERTIFICATE]


def test_a_repeated_delivery_is_a_duplicate(webhooks: Webhooks) -> None:
    webhooks.send(a_notification())
    assert webhooks.send(a_notification()) == (200, "duplicate")


class TestForged:
    @pytest.mark.parametrize("field", ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"])
    def test_everything_that_is_signed_counts(self, refusing: Webhooks, field: str) -> None:
        assert refusing.send(changed(a_notification(), **{field: "changed"})) == (401, "unverified")

    @pytest.mark.parametrize(
        "fields",
        [
            {"Signature": ""},
            {"Signature": "!"},
            {"Signature": None},
            {"SignatureVersion": "3"},
            {"SignatureVersion": "1"},
            {"TopicArn": None},
            {"Message": 5},
        ],
    )
    def test_a_wrong_signature_is_refused(self, refusing: Webhooks, fields: dict[str, Any]) -> None:
        assert refusing.send(changed(a_notification(), **fields)) == (401, "unverified")

    def test_notification_signed_with_another_key_is_refused(self, refusing: Webhooks) -> None:
        other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        assert refusing.send(a_notification(key=other)) == (401, "unverified")

    @pytest.mark.parametrize(
        "url",
        [
            "https://evil.example/SimpleNotificationService-1.pem",
            "http://sns.eu-central-1.amazonaws.com/SimpleNotificationService-1.pem",
            "https://sns.eu-central-1.amazonaws.com.evil.example/SimpleNotificationService-1.pem",
            "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-1.pem",
            "https://user@sns.eu-central-1.amazonaws.com/SimpleNotificationService-1.pem",
            "https://sns.eu-central-1.amazonaws.com:8443/SimpleNotificationService-1.pem",
            "https://sns.eu-central-1.amazonaws.com/?Action=Publish&x=/SimpleNotificationService-1.pem",
            "https://sns.eu-central-1.amazonaws.com/other/SimpleNotificationService-1.pem",
            "https://bucket.s3.amazonaws.com/SimpleNotificationService-1.pem",
            "http://169.254.169.254/latest/meta-data",
            "https://[::1",
            "",
        ],
    )
    def test_a_certificate_from_elsewhere_is_not_even_fetched(self, refusing: Webhooks, pages: Pages, url: str) -> None:
        assert refusing.send(changed(a_notification(), SigningCertURL=url)) == (401, "unverified")
        assert pages.requests == []

    def test_a_signed_message_of_another_topic_is_refused(self, refusing: Webhooks) -> None:
        assert refusing.send(a_notification(TopicArn=TOPIC + "-2")) == (401, "unverified")

    @pytest.mark.parametrize(
        "certificate",
        [
            a_certificate(name="sns.evil.example"),
            a_certificate(days=-1),
            a_certificate(ec.generate_private_key(ec.SECP256R1())),
        ],
        ids=["of another name", "expired", "of another kind"],
    )
    def test_a_certificate_that_is_not_snss_is_refused(
        self, refusing: Webhooks, pages: Pages, certificate: bytes
    ) -> None:
        pages.pages[CERTIFICATE] = certificate
        assert refusing.send(a_notification()) == (401, "unverified")


@pytest.mark.parametrize("hours", [-2, 2])
def test_an_old_or_future_message_is_refused(webhooks: Webhooks, hours: int) -> None:
    stamp = (WHEN + timedelta(hours=hours)).isoformat()
    assert webhooks.send(a_notification(Timestamp=stamp)) == (401, "expired")


def test_sns_may_try_again_for_an_hour(webhooks: Webhooks) -> None:
    stamp = (WHEN - timedelta(hours=1)).isoformat()
    assert webhooks.send(a_notification(Timestamp=stamp)) == (202, "accepted")


class TestUnavailable:
    @pytest.mark.parametrize("error", [SourceUnavailableError("no answer"), ForbiddenAddressError("private")])
    def test_without_the_certificate_it_is_to_come_again(
        self, webhooks: Webhooks, pages: Pages, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def fails(url: str, **_: object) -> WebReply:
            raise error

        monkeypatch.setattr(pages, "get", fails)
        assert webhooks.send(a_notification()) == (503, "unavailable")

    @pytest.mark.parametrize("page", [b"no certificate", None])
    def test_something_else_in_its_place_is_not_kept(
        self, webhooks: Webhooks, pages: Pages, page: bytes | None
    ) -> None:
        pages.pages.pop(CERTIFICATE)
        if page:
            pages.pages[CERTIFICATE] = page
        assert webhooks.send(a_notification()) == (503, "unavailable")
        pages.pages[CERTIFICATE] = a_certificate()
        assert webhooks.send(a_notification()) == (202, "accepted")

    def test_a_redirect_to_elsewhere_is_not_followed(self, webhooks: Webhooks, pages: Pages) -> None:
        pages.led_to = "https://evil.example/SimpleNotificationService-1.pem"
        assert webhooks.send(a_notification()) == (503, "unavailable")


def test_an_unresponsive_server_is_requested_once_as_sns_waits_for_seconds_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests = []

    def silent(_: object, message: HttpRequest, addresses: object) -> HttpReply:
        requests.append(message.target.url)
        raise SourceUnavailableError("no answer")

    monkeypatch.setattr(AddressBook, "addresses", lambda *_: ("192.0.2.1",))
    monkeypatch.setattr(Exchanges, "send", silent)
    with pytest.raises(SourceUnavailableError):
        open_web(timeout=receiving.SNS_SECONDS, sleep=receiving.no_pause).get(CERTIFICATE)
    assert requests == [CERTIFICATE]


class TestSubscription:
    def test_the_topics_own_is_confirmed(self, webhooks: Webhooks, pages: Pages) -> None:
        address = f"{HOST}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336412f37"
        pages.pages[address] = b"<ConfirmSubscriptionResponse/>"
        assert webhooks.send(a_confirmation()) == (200, "confirmed")
        assert pages.requests == [CERTIFICATE, address]
        assert webhooks.send(a_confirmation()) == (200, "duplicate")

    @pytest.mark.parametrize(
        "url",
        [
            f"https://evil.example/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=1",
            f"https://sns.eu-central-1.amazonaws.com.evil.example/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=1",
            f"https://sns.eu-central-1.amazonaws.com@evil.example/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=1",
            f"{HOST}/?Action=ConfirmSubscription&TopicArn={TOPIC}-2&Token=1",
            f"{HOST}/?Action=Unsubscribe&TopicArn={TOPIC}",
            "http://127.0.0.1/",
        ],
    )
    def test_no_other_address_is_requested(self, webhooks: Webhooks, pages: Pages, url: str) -> None:
        assert webhooks.send(a_confirmation(SubscribeURL=url)) == (400, "invalid_payload")
        assert pages.requests == [CERTIFICATE]

    def test_a_forged_one_is_not_confirmed(self, webhooks: Webhooks, pages: Pages) -> None:
        assert webhooks.send(changed(a_confirmation(), Token="x")) == (401, "unverified")
        assert pages.requests == [CERTIFICATE]

    def test_another_topics_is_not_confirmed(self, webhooks: Webhooks, pages: Pages) -> None:
        assert webhooks.send(a_confirmation(TopicArn=TOPIC + "-2")) == (401, "unverified")
        assert pages.requests == []


@pytest.mark.parametrize("message", ["plain words", "[]", "{}", '{"AlarmName": "x"}'])
def test_a_message_without_an_alarm_is_refused(webhooks: Webhooks, message: str) -> None:
    assert webhooks.send(a_notification(Message=message)) == (400, "invalid_payload")
