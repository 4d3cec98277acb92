"""Converts PagerDuty's V3 webhooks ("Webhooks Overview" of its developer documentation) to documents: incidents, their
notes and status updates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.connectors.deliveries import DocumentUpdate, document, metadata, moment, part, read_payload
from opx.formats.data.replies import Loose, NeededWords, Shape, Words


class _EventType(Shape, frozen=True):
    event_type: NeededWords


class _OfType(Shape, frozen=True):
    event: _EventType


class _Data(Shape, frozen=True):
    type: NeededWords


class _Event(Shape, frozen=True):
    data: _Data
    occurred_at: Any = None


class _Delivery(Shape, frozen=True):
    event: _Event


class _Summary(Shape, frozen=True):
    summary: Words = ""


class _Reason(Shape, frozen=True):
    type: Words = ""


class _Incident(Shape, frozen=True):
    id: NeededWords
    title: NeededWords
    number: Words = ""
    status: Words = ""
    urgency: Words = ""
    html_url: Words = ""
    created_at: Any = None
    service: Loose[_Summary] = _Summary()
    priority: Loose[_Summary] = _Summary()
    escalation_policy: Loose[_Summary] = _Summary()
    assignees: tuple[_Summary, ...] = ()
    teams: tuple[_Summary, ...] = ()
    resolve_reason: Loose[_Reason] = _Reason()


class _Of(Shape, frozen=True):
    id: NeededWords
    summary: Words = ""
    html_url: Words = ""


class _Note(Shape, frozen=True):
    """A note that a person added to an incident."""

    id: NeededWords
    incident: _Of
    content: NeededWords


class _StatusUpdate(Shape, frozen=True):
    id: NeededWords
    incident: _Of
    message: NeededWords


_CHANGES = """
    acknowledged annotated delegated escalated priority_updated reassigned reopened resolved service_updated
    status_update_published triggered unacknowledged
"""
EVENTS = tuple(f"incident.{change}" for change in _CHANGES.split())


def event_of(payload: Mapping[str, Any]) -> str:
    """Event type, such as `incident.triggered`."""
    return read_payload(_OfType, payload).event.event_type


def changes_of(payload: Mapping[str, Any]) -> list[DocumentUpdate]:
    """Returns the incident in its current state, or a note or status update on one; nothing for other events (responders,
    services, pings)."""
    event = read_payload(_Delivery, payload).event
    time = moment(event.occurred_at, "event.occurred_at")
    data = payload["event"]["data"]
    if event.data.type == "incident":
        return [_incident(read_payload(_Incident, data), time)]
    if event.data.type == "incident_note":
        note = read_payload(_Note, data)
        return [_written(note, note.content, "Note", event.data.type, time)]
    if event.data.type == "incident_status_update":
        update = read_payload(_StatusUpdate, data)
        return [_written(update, update.message, "Status update", event.data.type, time)]
    return []


def _incident(incident: _Incident, time: str) -> DocumentUpdate:
    priority = incident.priority.summary or incident.urgency
    created = moment(incident.created_at, "event.data.created_at")
    facts = [
        ("Incident", incident.number or incident.id),
        ("Status", incident.status),
        ("Service", incident.service.summary),
        ("Priority", priority),
        ("Assigned to", ", ".join(each.summary for each in incident.assignees)),
        ("Teams", ", ".join(each.summary for each in incident.teams)),
        ("Escalation policy", incident.escalation_policy.summary),
        ("Triggered", created),
        ("Last change", time),
    ]
    return DocumentUpdate(
        key=part(incident.id),
        time=time,
        text=document(incident.title, facts, [("Resolution", incident.resolve_reason.type)]),
        metadata=metadata(
            tags=["pagerduty", incident.status],
            source_uri=incident.html_url,
            created=created,
            updated=time,
            severity=priority,
            services=[incident.service.summary],
        ),
    )


def _written(written: _Note | _StatusUpdate, text: str, called: str, kind: str, time: str) -> DocumentUpdate:
    incident = written.incident
    title = f"{called} on {incident.summary or 'an incident'}"
    return DocumentUpdate(
        key=f"{part(incident.id)}/{kind}/{part(written.id)}",
        time=time,
        text=document(title, [("Written", time)], [(called, text)]),
        metadata=metadata(tags=["pagerduty", kind], source_uri=incident.html_url, updated=time),
    )
