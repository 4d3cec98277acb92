"""Deliveries as a service would send them: for tests of a webhook, and for programs that deliver to a generic one."""

from __future__ import annotations

import base64
import hashlib
import hmac

from opx.domain.webhooks import DeliveryProof, WebhookDefinition
from opx.errors import InvalidInputError
from opx.webhooks.signatures import SIGNATURE_HEADER, TIMESTAMP_HEADER, generic_signature

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
