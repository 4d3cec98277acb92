"""Webhooks: the services that deliver by themselves, and how people look after them."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta, field

from opx.domain.knowledge import Tier
from opx.domain.record import Record


class WebhookDefinition(Record, frozen=True, rename=None):
    """A webhook. `secrets` are names, any of which may have signed: two while one is being replaced.

    `window` is how many seconds a delivery may be old, or ahead of the own clock, where its time is signed. `events`
    are patterns (`incident.*`); empty for all that the format reads. `mapping` says where a generic delivery has its
    parts (JSONPath); without one that of the category counts.
    """

    name: str
    tier: Tier
    category: str
    format: str
    secrets: tuple[str, ...] = ()
    topic: str = ""
    window: float = 0.0
    events: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    mapping: Mapping[str, str] = field(default_factory=dict)

    def wants(self, event: str) -> bool:
        return not self.events or any(fnmatchcase(event, pattern) for pattern in self.events)


class WebhookSecret(Record, frozen=True):
    name: Annotated[str, Meta(description="On AWS that of Secrets Manager.")]
    is_set: Annotated[bool | None, Meta(description="Null where Secrets Manager has it.")] = None


class WebhookView(Record, frozen=True):
    """A webhook for people."""

    name: str
    format: str
    category: str
    address: Annotated[str, Meta(description="Where its service sends deliveries.")]
    secrets: Annotated[tuple[WebhookSecret, ...], Meta(description="Empty for one whose deliveries AWS signs.")]


class MadeSecret(Record, frozen=True):
    """A new secret of a webhook."""

    name: str
    value: Annotated[str, Meta(description="To be entered at the service; it is shown once.")]
    kept: Annotated[bool, Meta(description="False on AWS: it is to be set in Secrets Manager under this name.")]


class DeliveryProof(Record, frozen=True):
    """What a genuine delivery has beside its body."""

    headers: dict[str, str] = field(default_factory=dict)
    query: Annotated[dict[str, str], Meta(description="Parameters of the address besides `source`.")] = field(
        default_factory=dict
    )


class DeliveryAnswer(Record, frozen=True):
    """The answer to a delivery that was sent for a test."""

    address: str
    status: int
    answer: str
