"""Prometheus Alertmanager (`webhook_config` of its configuration page), and what sends as it does, such as Grafana
("Configure the webhook notifier for Alerting"): one document an alert.

A notification is about a group, whose members come and go with the routing; an alert is the same by its fingerprint in
whichever group it is sent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opx.domain.ids import stable_hash
from opx.webhooks.errors import PayloadError
from opx.webhooks.payloads.shape import Change, document, metadata, moment, part, rows_at, text_at, value_at

MAX_ALERTS = 100
"""In one delivery; `max_alerts` of `webhook_config` limits what is sent."""
_TITLES = ("summary", "title")
_NEVER = "0001-01-01"


def event_of(payload: Mapping[str, Any]) -> str:
    """`firing` or `resolved`, of the group."""
    return text_at(payload, "status") or "firing"


def changes_of(payload: Mapping[str, Any]) -> list[Change]:
    """A document for each alert, as it is now. The payload's `version` is the sender's own count: Alertmanager is at 4,
    Grafana at 1; the alerts must have what is read of them."""
    if payload.get("alerts") is None:
        raise PayloadError("the delivery has no alerts")
    alerts = rows_at(payload, "alerts")
    if len(alerts) > MAX_ALERTS:
        raise PayloadError(f"the delivery has {len(alerts)} alerts; set max_alerts to {MAX_ALERTS} at most")
    return [_alert(alert, payload) for alert in alerts]


def _alert(alert: Mapping[str, Any], payload: Mapping[str, Any]) -> Change:
    labels, notes = _texts(alert, "labels"), _texts(alert, "annotations")
    if not labels:
        raise PayloadError("alerts.labels is empty; they tell alerts apart")
    name = labels.get("alertname", "Alert")
    started = moment(value_at(alert, "startsAt"), "alerts.startsAt")
    ended = "" if text_at(alert, "endsAt").startswith(_NEVER) else moment(value_at(alert, "endsAt"), "alerts.endsAt")
    status = text_at(alert, "status") or text_at(payload, "status")
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
    return Change(
        key=part(text_at(alert, "fingerprint") or stable_hash("alert", json.dumps(labels, sort_keys=True))),
        time=time,
        text=document(title, facts, sections),
        metadata=metadata(
            tags=["alertmanager", name, status],
            source_uri=text_at(alert, "generatorURL"),
            created=started,
            updated=time,
            severity=labels.get("severity", ""),
            services=[labels.get("service") or labels.get("job", "")],
        ),
    )


def _texts(alert: Mapping[str, Any], field: str) -> dict[str, str]:
    found = value_at(alert, field)
    if not isinstance(found, Mapping):
        raise PayloadError(f"alerts.{field} is not an object")
    return {str(name): text_at(found, str(name)) for name in found}
