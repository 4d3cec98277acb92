"""Receives webhook deliveries in API Gateway's payload format 2.0, and answers in its form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from opx.connectors.deliveries import MAX_BODY_BYTES, Delivery, DeliveryReply, failed
from opx.edges.http import reply
from opx_streams.webhooks.receiving import WebhookReceiver, answer, too_large

ROUTE = "POST /ingest/{tier}/{category+}"
"""The only route of the API for deliveries."""

_MAX_PARAMETERS = 20


def respond(event: Mapping[str, Any], receiver: Callable[[], WebhookReceiver]) -> dict[str, Any]:
    """The answer to a request of the API for deliveries."""
    found = _answer(event, receiver)
    return reply(found.status, dict(found.payload), headers=found.headers)


def _answer(event: Mapping[str, Any], receiver: Callable[[], WebhookReceiver]) -> DeliveryReply:
    if event.get("routeKey") != ROUTE:
        return failed(404, "no_such_route", "there is no such route; deliveries go to /ingest/{tier}/{category}")
    text = str(event.get("body") or "")
    if len(text) > 2 * MAX_BODY_BYTES:  # too large even before decoding
        return too_large()
    try:
        body = base64.b64decode(text, validate=True) if event.get("isBase64Encoded") else text.encode("utf-8")
        query = parse_qsl(event.get("rawQueryString") or "", keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
        path = {name: unquote(value, errors="strict") for name, value in (event.get("pathParameters") or {}).items()}
    except (binascii.Error, ValueError):
        return failed(400, "invalid_argument", "the request can't be decoded, or has too many parameters")
    headers = {str(name).lower(): str(value) for name, value in (event.get("headers") or {}).items()}
    return answer(
        receiver, Delivery(path.get("tier", ""), path.get("category", ""), tuple(query), headers, bytes(body))
    )
