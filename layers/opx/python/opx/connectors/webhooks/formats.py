"""Each format: what kind of event a delivery is, and what it changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from opx.connectors.alerting import alertmanager, cloudwatch, pagerduty
from opx.connectors.atlassian import jira_webhook as jira
from opx.connectors.atlassian import statuspage_webhook as statuspage
from opx.connectors.deliveries import Change, Delivery
from opx.connectors.github import webhook as github
from opx.connectors.webhooks import generic
from opx.connectors.webhooks.definitions import TOPIC_FORMAT
from opx.domain.knowledge import Category
from opx.domain.sources import WebhookDefinition

_BY_BODY = {"pagerduty": pagerduty, "statuspage": statuspage, "alertmanager": alertmanager, "jira": jira}


@dataclass(frozen=True, slots=True)
class Read:
    """What a genuine delivery says: its event, and the documents that it changes."""

    event: str
    changes: tuple[Change, ...]


def read(
    definition: WebhookDefinition, category: Category, delivery: Delivery, message: dict[str, Any] | None = None
) -> Read:
    """What a verified delivery says. `message` is the one of SNS's that it is. Without changes for an event that the
    webhook doesn't want. Raises `PayloadError`, and `WebhookSetupError` for a wrong mapping."""
    if definition.format == "github":
        event = github.event_of(delivery)
        return _wanted(definition, event, lambda: github.changes_of(event, github.payload_of(delivery)))
    if definition.format == TOPIC_FORMAT:
        alarm = cloudwatch.alarm_of(message or {})
        return _wanted(definition, cloudwatch.event_of(alarm), lambda: cloudwatch.changes_of(alarm))
    payload = delivery.json()
    if definition.format == "generic":
        return _wanted(
            definition, generic.event_of(payload), lambda: generic.changes_of(definition, category, delivery)
        )
    module: Any = _BY_BODY[definition.format]
    return _wanted(definition, module.event_of(payload), lambda: module.changes_of(payload))


def _wanted(definition: WebhookDefinition, event: str, changes: Any) -> Read:
    return Read(event, tuple(changes()) if definition.wants(event) else ())


def sample(definition: WebhookDefinition) -> tuple[bytes, dict[str, str]]:
    """A small delivery of the format for a test, and the headers that go with it beside its signature."""
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
