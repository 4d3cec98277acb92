"""Deliveries as a service would send them: for tests of a webhook, and for programs that deliver to a generic one."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from opx.errors import InvalidInputError
from opx.webhooks.definitions import WebhookDefinition
from opx.webhooks.signatures import SIGNATURE_HEADER, TIMESTAMP_HEADER, generic_signature

_HEADERS = {
    "github": ("x-hub-signature-256", "sha256="),
    "jira": ("x-hub-signature", "sha256="),
    "pagerduty": ("x-pagerduty-signature", "v1="),
}


@dataclass(frozen=True, slots=True)
class Proof:
    """What a delivery has beside its body: headers, and parameters of the address besides `source`."""

    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)


def proof_of(definition: WebhookDefinition, key: str, body: bytes, now: float) -> Proof:
    """What shows that the body is from who knows the secret. Raises `InvalidInputError` for a format that only its
    service can sign."""
    secret = key.strip().encode()
    if definition.format in _HEADERS:
        header, prefix = _HEADERS[definition.format]
        return Proof({header: prefix + hmac.new(secret, body, hashlib.sha256).hexdigest()})
    if definition.format == "generic":
        stamp = str(int(now))
        signature = "v1=" + generic_signature(secret, stamp.encode(), body).decode()
        return Proof({TIMESTAMP_HEADER: stamp, SIGNATURE_HEADER: signature})
    if definition.format == "alertmanager":
        if b":" in secret:
            return Proof({"authorization": "Basic " + base64.b64encode(secret).decode()})
        return Proof({"authorization": "Bearer " + secret.decode()})
    if definition.format == "statuspage":
        return Proof(query={"token": secret.decode()})
    raise InvalidInputError(f"deliveries of format {definition.format} can only be signed by AWS")
