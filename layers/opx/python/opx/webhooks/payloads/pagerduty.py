"""PagerDuty's V3 webhooks ("Webhooks Overview" of its developer documentation): incidents, their notes and updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.webhooks.payloads.shape import Change, document, metadata, moment, needed, part, rows_at, text_at, value_at

_WRITTEN = {"incident_note": ("Note", "content"), "incident_status_update": ("Status update", "message")}


def event_of(payload: Mapping[str, Any]) -> str:
    """Such as `incident.triggered`."""
    return needed(payload, "event", "event_type")


def changes_of(payload: Mapping[str, Any]) -> list[Change]:
    """An incident as it is now, or what somebody wrote about one; nothing for the rest (responders, services, pings)."""
    event = value_at(payload, "event")
    kind = needed(payload, "event", "data", "type")
    time = moment(value_at(event, "occurred_at"), "event.occurred_at")
    if kind == "incident":
        return [_incident(value_at(event, "data"), time)]
    if kind in _WRITTEN:
        return [_written(value_at(event, "data"), time, kind)]
    return []


def _incident(incident: Mapping[str, Any], time: str) -> Change:
    service = text_at(incident, "service", "summary")
    priority = text_at(incident, "priority", "summary") or text_at(incident, "urgency")
    created = moment(value_at(incident, "created_at"), "event.data.created_at")
    facts = [
        ("Incident", f"{text_at(incident, 'number') or needed(incident, 'id')}"),
        ("Status", text_at(incident, "status")),
        ("Service", service),
        ("Priority", priority),
        ("Assigned to", ", ".join(text_at(each, "summary") for each in rows_at(incident, "assignees"))),
        ("Teams", ", ".join(text_at(each, "summary") for each in rows_at(incident, "teams"))),
        ("Escalation policy", text_at(incident, "escalation_policy", "summary")),
        ("Triggered", created),
        ("Last change", time),
    ]
    reason = text_at(incident, "resolve_reason", "type")
    return Change(
        key=part(needed(incident, "id")),
        time=time,
        text=document(needed(incident, "title"), facts, [("Resolution", reason)]),
        metadata=metadata(
            tags=["pagerduty", text_at(incident, "status")],
            source_uri=text_at(incident, "html_url"),
            created=created,
            updated=time,
            severity=priority,
            services=[service],
        ),
    )


def _written(data: Mapping[str, Any], time: str, kind: str) -> Change:
    called, field = _WRITTEN[kind]
    incident = text_at(data, "incident", "summary")
    return Change(
        key=f"{part(needed(data, 'incident', 'id'))}/{kind}/{part(needed(data, 'id'))}",
        time=time,
        text=document(f"{called} on {incident or 'an incident'}", [("Written", time)], [(called, needed(data, field))]),
        metadata=metadata(tags=["pagerduty", kind], source_uri=text_at(data, "incident", "html_url"), updated=time),
    )
