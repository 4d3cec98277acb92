"""Webhooks as they are shown to people, and replies to people who set them up."""

from __future__ import annotations

from typing import Annotated

from opx.domain.record import Record, about
from opx_streams.arrivals import LastArrival


class WebhookSecret(Record, frozen=True):
    name: Annotated[str, about("On AWS that of Secrets Manager.")]
    is_set: Annotated[bool | None, about("Null where Secrets Manager has it.")] = None


class WebhookView(Record, frozen=True):
    """A webhook as it is shown to people."""

    name: str
    format: str
    category: str
    address: Annotated[str, about("The URL that its service sends deliveries to.")]
    secrets: Annotated[tuple[WebhookSecret, ...], about("Empty for one whose deliveries AWS signs.")]
    last: Annotated[LastArrival | None, about("Its last deliveries; null if none came.")] = None


class MadeSecret(Record, frozen=True):
    """A new secret of a webhook."""

    name: str
    value: Annotated[str, about("To be entered at the service; it is shown once.")]
    kept: Annotated[bool, about("False on AWS: it is to be set in Secrets Manager under this name.")]


class DeliveryAnswer(Record, frozen=True):
    """The answer to a test delivery."""

    address: str
    status: int
    answer: str
