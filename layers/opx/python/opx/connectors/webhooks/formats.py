"""Reads deliveries of each format: their event, and the documents that they change."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opx.connectors.alerting import alertmanager, cloudwatch, pagerduty
from opx.connectors.atlassian import jira_webhook as jira
from opx.connectors.atlassian import statuspage_webhook as statuspage
from opx.connectors.deliveries import (
    Delivery,
    DocumentUpdate,
    PayloadError,
    WebhookSetupError,
    metadata,
    moment,
    one_line,
    part,
)
from opx.connectors.github import webhook as github
from opx.connectors.webhooks.definitions import TOPIC_FORMAT
from opx.domain.ids import stable_hash
from opx.domain.knowledge import Category
from opx.domain.record import replace
from opx.domain.sources import WebhookDefinition
from opx.errors import InvalidInputError, KnowledgeConfigError, UnparsableDocumentError
from opx.formats.markdown import nested

_BY_BODY = {"pagerduty": pagerduty, "statuspage": statuspage, "alertmanager": alertmanager, "jira": jira}


@dataclass(frozen=True, slots=True)
class ReadDelivery:
    """The content of a genuine delivery: its event, and the documents that it changes."""

    event: str
    changes: tuple[DocumentUpdate, ...]


def read(
    definition: WebhookDefinition, category: Category, delivery: Delivery, message: dict[str, Any] | None = None
) -> ReadDelivery:
    """Reads a verified delivery. `message` is its message of SNS, if it is one. Returns no changes for an event that the
    webhook excludes. Raises `PayloadError`, and `WebhookSetupError` for a wrong mapping."""
    if definition.format == "github":
        event = github.event_of(delivery)
        return _wanted(definition, event, lambda: github.changes_of(event, github.payload_of(delivery)))
    if definition.format == TOPIC_FORMAT:
        alarm = cloudwatch.alarm_of(message or {})
        return _wanted(definition, cloudwatch.event_of(alarm), lambda: cloudwatch.changes_of(alarm))
    payload = delivery.json()
    if definition.format == "generic":
        return _wanted(definition, generic_event(payload), lambda: generic_changes(definition, category, delivery))
    module: Any = _BY_BODY[definition.format]
    return _wanted(definition, module.event_of(payload), lambda: module.changes_of(payload))


def _wanted(definition: WebhookDefinition, event: str, changes: Any) -> ReadDelivery:
    return ReadDelivery(event, tuple(changes()) if definition.wants(event) else ())


def sample(definition: WebhookDefinition) -> tuple[bytes, dict[str, str]]:
    """Returns a small delivery of the format for a test, and its headers except the signature."""
    body = _SAMPLES[definition.format]
    headers = {"content-type": "application/json"}
    if definition.format == "github":
        headers[github.EVENT_HEADER] = "issues"
    return json.dumps(body).encode(), headers


_TITLE = "Test delivery"
_WHEN = "2020-01-01T00:00:00Z"
_SAMPLES: dict[str, dict[str, Any]] = {
    "github": {
        "action": "opened",
        "issue": {"number": 1, "title": _TITLE, "body": "Only a test.", "state": "open", "updated_at": _WHEN},
        "repository": {"full_name": "opx/test-delivery"},
    },
    "pagerduty": {
        "event": {
            "event_type": "incident.triggered",
            "occurred_at": _WHEN,
            "data": {"type": "incident", "id": "TEST", "title": _TITLE, "status": "triggered"},
        }
    },
    "statuspage": {
        "page": {"id": "test"},
        "incident": {"id": "test", "name": _TITLE, "status": "resolved", "updated_at": _WHEN},
    },
    "alertmanager": {
        "version": "4",
        "status": "firing",
        "alerts": [
            {"status": "firing", "labels": {"alertname": "Test"}, "annotations": {"summary": _TITLE}, "startsAt": _WHEN}
        ],
    },
    "jira": {
        "webhookEvent": "jira:issue_created",
        "timestamp": 1577836800000,
        "issue": {"id": "1", "key": "TEST-1", "fields": {"summary": _TITLE}},
    },
    "generic": {
        "id": "test",
        "title": _TITLE,
        "content": "Only a test.",
        "message": "Only a test.",
        "description": "Only a test.",
    },
}


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
