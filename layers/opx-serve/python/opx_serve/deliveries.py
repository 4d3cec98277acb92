"""Answers deliveries of webhooks that arrive over HTTP on this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import parse_qsl

from opx.connectors.deliveries import Delivery, DeliveryReply, WebhooksPart, failed
from opx.domain.record import Json
from opx.edges.http import reply
from opx.errors import MissingDistributionError

log = logging.getLogger(__name__)

_PREFIX = "/ingest/"
_MAX_PARAMETERS = 20


class LocalDeliveries:
    """Answers `POST /ingest/{tier}/{category}`, and 404 to everything else, or if `webhooks` raises
    `MissingDistributionError`. Raises `KnowledgeConfigError` for invalid declarations of webhooks. `arrived` is called
    after each delivery that changed the corpus, so that its consumer need not wait for the next poll."""

    def __init__(self, webhooks: Callable[[], WebhooksPart], arrived: Callable[[], object]) -> None:
        self._webhooks = webhooks
        self._arrived = arrived
        with suppress(MissingDistributionError):
            webhooks().check()

    def answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Json:
        """The reply, in the form of `opx.edges.http.reply`; names of `headers` are in lower case. Never raises."""
        try:
            found = self._answer(method, path, query, headers, body)
            if found.status == HTTPStatus.ACCEPTED:
                self._arrived()
        except Exception:  # the outermost edge: the sender must get an answer, and the server goes on
            log.exception("a delivery failed")
            found = failed(500, "internal", "the delivery failed; the error was logged")
        return reply(found.status, dict(found.payload), found.headers)

    def _answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> DeliveryReply:
        tier, _, category = path.removeprefix(_PREFIX).partition("/")
        if not path.startswith(_PREFIX) or not category:
            return failed(404, "no_such_route", "there is no such route; deliveries go to /ingest/{tier}/{category}")
        if method != "POST":
            refused = failed(405, "no_such_route", "deliveries are sent with POST")
            return DeliveryReply(405, refused.payload, {"allow": "POST"})
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
        except ValueError:
            return failed(400, "invalid_argument", f"the address has more than {_MAX_PARAMETERS} parameters")
        try:
            webhooks = self._webhooks()
        except MissingDistributionError as exc:
            return failed(404, "no_such_route", str(exc))
        return webhooks.answer(Delivery(tier, category, tuple(pairs), dict(headers), body))
