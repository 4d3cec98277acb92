"""Reads deliveries of each format: their event, and the documents that they change."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opx import plugins
from opx.connectors.deliveries import (
    Delivery,
    DocumentUpdate,
    PayloadError,
    metadata,
    moment,
    one_line,
    part,
)
from opx.connectors.webhook_formats import SAMPLE_TIME, SAMPLE_TITLE, HubSignature, Scheme, WebhookFormat
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Category
from opx.domain.record import replace
from opx.domain.sources import WebhookDefinition
from opx.errors import InvalidInputError, KnowledgeConfigError, OpxError, UnparsableDocumentError
from opx.formats.markdown import nested
from opx_streams.alerting import alertmanager, cloudwatch, pagerduty
from opx_streams.webhooks.definitions import GENERIC, TOPIC_FORMAT
from opx_streams.webhooks.signatures import Credentials, TimedSignature


class WebhookSetupError(OpxError):
    """The webhook can't verify anything as it is configured, which is never the sender's mistake."""


ALERTMANAGER = WebhookFormat(
    lambda delivery: alertmanager.event_of(delivery.json()),
    lambda delivery: alertmanager.changes_of(delivery.json()),
    Credentials(),
    {
        "version": "4",
        "status": "firing",
        "alerts": [
            {
                "status": "firing",
                "labels": {"alertname": "Test"},
                "annotations": {"summary": SAMPLE_TITLE},
                "startsAt": SAMPLE_TIME,
            }
        ],
    },
    events=("firing", "resolved"),
    reports_incidents=True,
)
PAGERDUTY = WebhookFormat(
    lambda delivery: pagerduty.event_of(delivery.json()),
    lambda delivery: pagerduty.changes_of(delivery.json()),
    # "Verifying Signatures" of PagerDuty's documentation: one for each secret while one is replaced.
    HubSignature("x-pagerduty-signature", b"v1="),
    {
        "event": {
            "event_type": "incident.triggered",
            "occurred_at": SAMPLE_TIME,
            "data": {"type": "incident", "id": "TEST", "title": SAMPLE_TITLE, "status": "triggered"},
        }
    },
    events=pagerduty.EVENTS,
    reports_incidents=True,
)
_GENERIC_SAMPLE = {
    "id": "test",
    "title": SAMPLE_TITLE,
    "content": "Only a test.",
    "message": "Only a test.",
    "description": "Only a test.",
}


@dataclass(frozen=True, slots=True)
class ReadDelivery:
    """The content of a genuine delivery: its event, and the documents that it changes."""

    event: str
    changes: tuple[DocumentUpdate, ...]


def format_of(name: str) -> WebhookFormat:
    """A format other than `generic` and CloudWatch's. Raises `PluginError` for a plugin that can't be used, and
    `WebhookSetupError` if there is none of this name."""
    found = plugins.load(plugins.WEBHOOKS, name, WebhookFormat)
    if found is None:
        raise WebhookSetupError(f"there is no webhook format {name!r}")
    return found


def scheme_of(name: str) -> Scheme:
    """The proof that deliveries of a format have. Raises as `format_of`."""
    return TimedSignature() if name == GENERIC else format_of(name).scheme


def reports_incidents(name: str) -> bool:
    """True for a format that reports incidents and alerts. Raises as `format_of`."""
    return name == TOPIC_FORMAT or (name != GENERIC and format_of(name).reports_incidents)


def read(
    definition: WebhookDefinition, category: Category, delivery: Delivery, message: dict[str, Any] | None = None
) -> ReadDelivery:
    """Reads a verified delivery. `message` is its message of SNS, if it is one. Returns no changes for an event that the
    webhook excludes. Raises `PayloadError`, and `WebhookSetupError` for a wrong mapping."""
    if definition.format == TOPIC_FORMAT:
        alarm = cloudwatch.alarm_of(message or {})
        return _wanted(definition, cloudwatch.event_of(alarm), lambda: cloudwatch.changes_of(alarm))
    if definition.format == GENERIC:
        event = generic_event(delivery.json())
        return _wanted(definition, event, lambda: generic_changes(definition, category, delivery))
    form = format_of(definition.format)
    return _wanted(definition, form.event_of(delivery), lambda: form.changes_of(delivery))


def _wanted(definition: WebhookDefinition, event: str, changes: Callable[[], Sequence[DocumentUpdate]]) -> ReadDelivery:
    return ReadDelivery(event, tuple(changes()) if definition.wants(event) else ())


def sample(definition: WebhookDefinition) -> tuple[bytes, dict[str, str]]:
    """Returns a small delivery of the format for a test, and its headers except the signature."""
    headers = {"content-type": "application/json"}
    if definition.format == GENERIC:
        return json.dumps(_GENERIC_SAMPLE).encode(), headers
    form = format_of(definition.format)
    return json.dumps(form.sample).encode(), headers | dict(form.sample_headers)


# -- the generic format


EVENT_HEADER = "x-opx-event"


def generic_event(payload: Mapping[str, Any]) -> str:
    """Event type: the record's field `event`, if it is a string."""
    found = payload.get("event")
    return found if isinstance(found, str) else ""


def generic_changes(definition: WebhookDefinition, category: Category, delivery: Delivery) -> list[DocumentUpdate]:
    """Returns the record as a document. Without an id in the mapping, each record is a document of its own. A true
    `deleted` at the top of a record with an id removes its document. Raises `PayloadError`."""
    from opx.formats.data.json_mapping import parse_json
    from opx.formats.source import HEAD_BYTES, Source

    record = delivery.json()
    paths = {name: path for name, path in definition.mapping.items() if name != "id"}
    own = replace(category, json_mapping=paths) if paths else category
    identity = _first(definition.mapping.get("id", ""), record)
    if identity and record.get("deleted") is True:
        return [DocumentUpdate(key=part(identity), time=_time(own, record), deleted=True)]
    stream = io.BytesIO(delivery.body[HEAD_BYTES:])
    try:
        found = parse_json(Source(f"delivery to {definition.name}", delivery.body[:HEAD_BYTES], stream, own))
        text = "".join(found.lines)
    except UnparsableDocumentError as exc:
        raise PayloadError(str(exc)) from exc
    except KnowledgeConfigError as exc:
        raise WebhookSetupError(str(exc)) from exc
    known = found.metadata
    lists = {name: [str(each) for each in known.get(name, [])] for name in ("tags", "services")}
    return [
        DocumentUpdate(
            key=part(identity) if identity else stable_hash("record", record),
            time=_time(own, record),
            text=f"# {one_line(found.title or '')}\n\n{nested(text, 2)}\n",
            metadata=metadata(
                tags=lists["tags"],
                services=lists["services"],
                source_uri=str(known.get("source_uri", "")),
                author=str(known.get("author", "")),
                severity=str(known.get("severity", "")),
                created=moment(known.get("created"), "created"),
                updated=moment(known.get("updated"), "updated"),
            ),
        )
    ]


def _time(category: Category, record: Mapping[str, Any]) -> str:
    found = _first(category.json_mapping.get("updated", ""), record) or _first(
        category.json_mapping.get("created", ""), record
    )
    return moment(float(found) if found.replace(".", "", 1).isdigit() else found, "updated")


def _first(expressions: str, record: Mapping[str, Any]) -> str:
    """Returns the first string or number that a mapping entry selects, "" for none."""
    if not expressions:
        return ""
    from opx.formats.data.json_mapping import compile_paths

    try:
        paths = compile_paths(expressions)
    except InvalidInputError as exc:
        raise WebhookSetupError(str(exc)) from exc
    for path in paths:
        for value in path.values(record):
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                return str(value)
    return ""
