"""Converts notifications of Prometheus Alertmanager (`webhook_config` of its configuration page) and of compatible
senders such as Grafana ("Configure the webhook notifier for Alerting") to one document per alert.

A notification is about a group, whose members come and go with the routing; an alert is identified by its fingerprint in
whichever group it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import field

from opx.connectors.deliveries import DocumentUpdate, PayloadError, document, metadata, moment, part, read_payload
from opx.domain.ids import stable_hash
from opx.domain.resources import LABELS
from opx.formats.data.replies import Shape, Words
from opx.formats.metadata import fitting

MAX_ALERTS = 100
"""Alerts per delivery; `max_alerts` of `webhook_config` limits how many are sent."""
_TITLES = ("summary", "title")
_NEVER = "0001-01-01"


class _Alert(Shape, frozen=True, rename="camel"):
    labels: dict[str, Words]
    annotations: dict[str, Words]
    starts_at: Any = None
    ends_at: Any = None
    status: Words = ""
    fingerprint: Words = ""
    generator_url: Words = field(default="", name="generatorURL")


class _Group(Shape, frozen=True):
    status: Words = ""


class _Notification(_Group, frozen=True, kw_only=True):
    alerts: tuple[_Alert, ...]


def event_of(payload: Mapping[str, Any]) -> str:
    """Status of the group: `firing` or `resolved`."""
    return read_payload(_Group, payload).status or "firing"


def changes_of(payload: Mapping[str, Any]) -> list[DocumentUpdate]:
    """Returns one document per alert in its current state. The payload's `version` is not checked, as each sender counts
    its own (Alertmanager is at 4, Grafana at 1); the fields that are read must be there."""
    alerts = payload.get("alerts")
    if isinstance(alerts, list) and len(alerts) > MAX_ALERTS:
        raise PayloadError(f"the delivery has {len(alerts)} alerts; set max_alerts to {MAX_ALERTS} at most")
    found = read_payload(_Notification, payload)
    return [_alert(alert, found.status) for alert in found.alerts]


def _alert(alert: _Alert, status_of_group: str) -> DocumentUpdate:
    labels, notes = alert.labels, alert.annotations
    if not labels:
        raise PayloadError("alerts.labels is empty; they identify an alert")
    name = labels.get("alertname", "Alert")
    started = moment(alert.starts_at, "alerts.startsAt")
    ended = "" if str(alert.ends_at).startswith(_NEVER) else moment(alert.ends_at, "alerts.endsAt")
    status = alert.status or status_of_group
    resolved = status == "resolved"
    title = next((notes[each] for each in _TITLES if notes.get(each)), name)
    facts = [("Alert", name), ("Status", status), ("Since", started), ("Until", ended if resolved else "")]
    about = "\n\n".join(
        f"{each}: {text}" for each, text in sorted(notes.items()) if each not in ("summary", "description")
    )
    sections = [
        ("Description", notes.get("description", "")),
        ("Annotations", about),
        ("Labels", "\n".join(f"- {each}: `{text}`" for each, text in sorted(labels.items()))),
    ]
    time = max(started, ended) if resolved else started
    return DocumentUpdate(
        key=part(alert.fingerprint or stable_hash("alert", json.dumps(labels, sort_keys=True))),
        time=time,
        text=document(title, facts, sections),
        metadata={LABELS: fitting(map("=".join, sorted(labels.items())))}
        | metadata(
            tags=["alertmanager", name, status],
            source_uri=alert.generator_url,
            created=started,
            updated=time,
            severity=labels.get("severity", ""),
            services=[labels.get("service", "")],
        ),
    )
