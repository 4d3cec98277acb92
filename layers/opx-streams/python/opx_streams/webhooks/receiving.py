"""Receives deliveries: finds the webhook, verifies, and writes the changed documents to the corpus.

No body is parsed before its signature is verified, except that of Amazon SNS, which contains the signature.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.connectors.deliveries import (
    MAX_BODY_BYTES,
    Delivery,
    DeliveryReply,
    DocumentUpdate,
    UnverifiedError,
    failed,
    moment,
)
from opx.connectors.webhook_formats import Verified
from opx.domain.knowledge import KnowledgeModel
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.record import replace
from opx.domain.sources import WebhookDefinition
from opx.errors import (
    InvalidInputError,
    KnowledgeConfigError,
    OpxError,
    SecretNotFoundError,
    SourceUnavailableError,
    StoreUnavailableError,
)
from opx.ingestion.events import DOCUMENTS_FOLDER
from opx.ports import Clock
from opx.ports.sources import OpenWeb, Secrets, WebClient
from opx.ports.tables import DELIVERIES
from opx_streams.arrivals import WEBHOOK, Arrivals, ArrivalState
from opx_streams.webhooks.definitions import TOPIC_FORMAT, load_webhooks
from opx_streams.webhooks.formats import ReadDelivery, WebhookSetupError, read, scheme_of
from opx_streams.webhooks.remembering import Deliveries, Order
from opx_streams.webhooks.signatures import CONFIRMATION, NOTIFICATION, ExpiredError, SnsMessages, check_time

if TYPE_CHECKING:
    from opx.ingestion.manager import IngestionManager
    from opx.ports import Tables
    from opx.runtime.knowledge_file import Installation

log = logging.getLogger(__name__)

RETRY_AFTER_SECONDS = 30


class UnknownWebhookError(OpxError):
    """No webhook is configured at this address."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The reply to the sender for an error; without a `message`, it has the error's own."""

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
    StoreUnavailableError: _Failure(503, "unavailable", "nothing was ingested; try again later"),
    InvalidInputError: _Failure(400, "invalid_payload"),
    OpxError: _Failure(500, "internal", "the delivery failed; the error was logged"),
}
"""Replies by type of error; the first that matches is used."""


def answer(receiver: Callable[[], WebhookReceiver], delivery: Delivery) -> DeliveryReply:
    """Receives a delivery, and returns the reply. Raises no `OpxError`."""
    if len(delivery.body) > MAX_BODY_BYTES:
        return too_large()
    try:
        return receiver().receive(delivery)
    except OpxError as exc:
        failure = _failure_of(exc)
        is_ours = failure.status >= 500
        # Messages may quote a delivery, so that log lines of refusals omit them.
        log.log(logging.ERROR if is_ours else logging.WARNING, "webhook: %s", failure.code, exc_info=is_ours)
        headers = {"retry-after": str(RETRY_AFTER_SECONDS)} if failure.status == 503 else {}
        return failed(failure.status, failure.code, failure.message or str(exc), headers)


def _failure_of(exc: OpxError) -> _Failure:
    return next(found for kind, found in _FAILURES.items() if isinstance(exc, kind))


def too_large() -> DeliveryReply:
    """Reply to a body that exceeds the limit and is not read."""
    return failed(
        413, "too_large", f"a delivery may have {MAX_BODY_BYTES:,} bytes; larger documents go through POST /uploads"
    )


FOLDER = "webhooks"
_CHANGING = ("accepted", "confirmed")
"""States of replies to deliveries that had an effect."""
SNS_SECONDS = 5.0
"""Time limit for fetching a certificate, and again for confirming: SNS waits 15 seconds for an answer."""


@dataclass(eq=False, kw_only=True)
class WebhookReceiver:
    """Receives deliveries of the declared webhooks for one scope: the manager's, whose folder is `prefix`."""

    definitions: Mapping[str, WebhookDefinition]
    knowledge: KnowledgeModel
    manager: IngestionManager
    prefix: str
    secrets: Secrets
    memory: tuple[Deliveries, Order]
    web: Callable[[], WebClient]
    arrivals: Arrivals
    clock: Clock

    def __post_init__(self) -> None:
        self._deliveries, self._order = self.memory
        self._sns = SnsMessages(self.web)

    def receive(self, delivery: Delivery) -> DeliveryReply:
        """Receives a delivery. Raises the errors of `deliveries`, and `StoreUnavailableError` if the sender should retry."""
        definition = self._definition(delivery)
        try:
            reply = self._received(definition, delivery)
        except OpxError as exc:
            self.arrivals.note(WEBHOOK, definition.name, ArrivalState.REFUSED, _failure_of(exc).code)
            raise
        state = str(reply.payload["state"])
        if state in _CHANGING:
            self.arrivals.note(WEBHOOK, definition.name, ArrivalState.ACCEPTED)
        else:
            self.arrivals.note(WEBHOOK, definition.name, ArrivalState.IGNORED, state)
        return reply

    def _received(self, definition: WebhookDefinition, delivery: Delivery) -> DeliveryReply:
        verified, message = self._verified(definition, delivery)
        check_time(verified.sent_at, definition.window, self.clock())
        if self._deliveries.is_known(verified.delivery_id):
            return DeliveryReply(200, {"state": "duplicate"})
        if message is not None and message["Type"] != NOTIFICATION:
            return self._subscribed(definition, verified, message)
        found = read(definition, self.knowledge.category(definition.category), delivery, message)
        written = [key for change in found.changes if (key := self._write(definition, change, verified))]
        self._deliveries.remember(verified.delivery_id, definition.name, found.event)
        return _reply(found, written)

    def _definition(self, delivery: Delivery) -> WebhookDefinition:
        """Returns the webhook that is named, or the only one of the category. Raises `UnknownWebhookError`."""
        name = delivery.parameter("source")
        of_category = [
            each
            for each in self.definitions.values()
            if (each.tier.value, each.category) == (delivery.tier, delivery.category) and name in ("", each.name)
        ]
        if len(of_category) != 1:
            raise UnknownWebhookError(
                "no webhook accepts deliveries here; the address needs its category and ?source=NAME"
            )
        return of_category[0]

    def _verified(self, definition: WebhookDefinition, delivery: Delivery) -> tuple[Verified, dict[str, Any] | None]:
        if definition.format == TOPIC_FORMAT:
            return self._sns.verify(definition, delivery)
        return scheme_of(definition.format).verify(definition, delivery, self._keys(definition)), None

    def _keys(self, definition: WebhookDefinition) -> list[bytes]:
        """Returns the secrets that are set. One may be missing while it is replaced; an empty one is ignored."""
        keys = []
        for name in definition.secrets:
            try:
                key = self.secrets.get(name).strip().encode("utf-8")
            except SecretNotFoundError:
                log.warning("webhook %s: there is no secret %s", definition.name, name)
                continue
            except InvalidInputError as exc:  # a file of secrets that others can read
                raise WebhookSetupError(str(exc)) from exc
            if key:
                keys.append(key)
        if not keys:
            names = ", ".join(definition.secrets)
            raise WebhookSetupError(f"webhook {definition.name}: none of its secrets is set ({names})")
        return keys

    def _subscribed(self, definition: WebhookDefinition, verified: Verified, message: dict[str, Any]) -> DeliveryReply:
        """Handles a topic's request to confirm the subscription, or its notice that the subscription has ended."""
        if message["Type"] != CONFIRMATION:
            log.warning("webhook %s: its subscription to the topic has ended", definition.name)
            return DeliveryReply(200, {"state": "ignored"})
        self._sns.confirm(definition, message)
        self._deliveries.remember(verified.delivery_id, definition.name, message["Type"])
        return DeliveryReply(200, {"state": "confirmed"})

    def _write(self, definition: WebhookDefinition, change: DocumentUpdate, verified: Verified) -> str:
        """Writes a change, and returns the object's key, "" if a newer state is known."""
        name = f"{FOLDER}/{definition.name}/{change.key}.md"
        if not change.time and verified.sent_at is not None:
            change = replace(change, time=moment(verified.sent_at, "the time"))
        document = f"{self.prefix}{DOCUMENTS_FOLDER}{definition.category}/{name}"
        lease = self._order.begin(document, change)
        if lease is None:
            return ""
        try:
            self._put(definition, lease.state, name, document)
        finally:
            self._order.end(lease)
        return document

    def _put(self, definition: WebhookDefinition, change: DocumentUpdate, name: str, document: str) -> None:
        if change.deleted:
            self.manager.delete_object(document)
            return
        tags = [*definition.tags, *change.metadata.get("tags", ())]
        known = {**change.metadata, "tags": list(dict.fromkeys(tags)), "source": name}
        proof = "signature of Amazon SNS" if definition.format == TOPIC_FORMAT else "signature of the webhook's secret"
        channel = Channel(ChannelKind.WEBHOOK, definition.name, definition.format, proof)
        self.manager.by(channel).put_document(definition.category, change.whole, known)


def _reply(found: ReadDelivery, written: list[str]) -> DeliveryReply:
    if not found.changes:
        return DeliveryReply(200, {"state": "ignored"})
    if not written:
        return DeliveryReply(200, {"state": "outdated"})
    return DeliveryReply(202, {"state": "accepted", "documents": len(written)})


def receiver_of(
    installation: Installation,
    tables: Tables,
    secrets: Secrets,
    manager: IngestionManager,
    *,
    open_web: OpenWeb,
    arrivals: Arrivals,
) -> WebhookReceiver:
    """Builds the receiver for the webhooks of knowledge.yaml. Raises `KnowledgeConfigError` for invalid declarations."""
    table, clock = tables.table(DELIVERIES), installation.clock
    return WebhookReceiver(
        definitions=load_webhooks(installation.knowledge, installation.knowledge_path),
        knowledge=installation.knowledge,
        manager=manager,
        prefix=installation.scope.prefix,
        secrets=secrets,
        memory=(Deliveries(table, clock), Order(table, clock)),
        web=lambda: open_web(timeout=SNS_SECONDS, sleep=no_pause),
        arrivals=arrivals,
        clock=clock,
    )


def no_pause(seconds: float) -> None:
    """Raises `SourceUnavailableError` instead of pausing before a retry: SNS retries its message by itself, and doesn't
    wait that long."""
    raise SourceUnavailableError("Amazon SNS doesn't answer for now", seconds)
