"""Converts webhooks of Atlassian Statuspage ("Enable webhook notifications" of its support pages) to documents:
incidents, maintenance and components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.connectors.deliveries import DocumentUpdate, PayloadError, document, metadata, moment, part, read_payload
from opx.connectors.webhook_formats import SAMPLE_TIME, SAMPLE_TITLE, QueryToken, WebhookFormat
from opx.formats.data.replies import Loose, NeededWords, Shape, Words


class _Page(Shape, frozen=True):
    id: Words = ""


class _Update(Shape, frozen=True):
    created_at: Words = ""
    status: Words = ""
    body: Words = ""


class _Component(Shape, frozen=True):
    name: Words = ""
    description: Words = ""


class _Incident(Shape, frozen=True):
    id: NeededWords
    name: NeededWords
    status: Words = ""
    impact: Words = ""
    shortlink: Words = ""
    scheduled_for: Words = ""
    scheduled_until: Words = ""
    created_at: Any = None
    updated_at: Any = None
    resolved_at: Any = None
    incident_updates: tuple[_Update, ...] = ()
    components: tuple[_Component, ...] = ()


class _OfIncident(Shape, frozen=True):
    incident: _Incident
    page: Loose[_Page] = _Page()


class _ComponentUpdate(Shape, frozen=True):
    component_id: NeededWords
    new_status: NeededWords
    old_status: Words = ""
    created_at: Any = None


class _OfComponent(Shape, frozen=True):
    component_update: _ComponentUpdate
    component: Loose[_Component] = _Component()
    page: Loose[_Page] = _Page()


def event_of(payload: Mapping[str, Any]) -> str:
    """Returns `incident` or `component`, whichever the body has. Raises `PayloadError`."""
    if isinstance(payload.get("incident"), Mapping):
        return "incident"
    if isinstance(payload.get("component_update"), Mapping):
        return "component"
    raise PayloadError("the delivery has neither incident nor component_update")


def changes_of(payload: Mapping[str, Any]) -> list[DocumentUpdate]:
    """Returns the incident or the component in its current state."""
    if event_of(payload) == "incident":
        return [_incident(read_payload(_OfIncident, payload))]
    return [_component(read_payload(_OfComponent, payload))]


def _incident(delivery: _OfIncident) -> DocumentUpdate:
    incident = delivery.incident
    created = moment(incident.created_at, "incident.created_at")
    updated = moment(incident.updated_at, "incident.updated_at")
    updates = sorted(incident.incident_updates, key=lambda update: update.created_at)
    components = [each.name for each in incident.components]
    facts = [
        ("Status", incident.status),
        ("Impact", incident.impact),
        ("Components", ", ".join(filter(None, components))),
        ("Scheduled", " to ".join(filter(None, (incident.scheduled_for, incident.scheduled_until)))),
        ("Began", created),
        ("Resolved", moment(incident.resolved_at, "incident.resolved_at")),
    ]
    sections = [(f"{update.created_at} {update.status}".strip(), update.body) for update in updates]
    return DocumentUpdate(
        key=f"{part(delivery.page.id or 'page')}/{part(incident.id)}",
        time=updated or created,
        text=document(incident.name, facts, sections),
        metadata=metadata(
            tags=["statuspage", incident.status],
            source_uri=incident.shortlink,
            created=created,
            updated=updated,
            severity=incident.impact,
            services=components,
        ),
    )


def _component(delivery: _OfComponent) -> DocumentUpdate:
    update = delivery.component_update
    name = delivery.component.name or update.component_id
    time = moment(update.created_at, "component_update.created_at")
    facts = [("Status", update.new_status), ("Before", update.old_status), ("Since", time)]
    return DocumentUpdate(
        key=f"{part(delivery.page.id or 'page')}/components/{part(update.component_id)}",
        time=time,
        text=document(f"Status of {name}", facts, [("About", delivery.component.description)]),
        metadata=metadata(tags=["statuspage", "component"], updated=time, services=[name]),
    )


FORMAT = WebhookFormat(
    lambda delivery: event_of(delivery.json()),
    lambda delivery: changes_of(delivery.json()),
    QueryToken(),
    {
        "page": {"id": "test"},
        "incident": {"id": "test", "name": SAMPLE_TITLE, "status": "resolved", "updated_at": SAMPLE_TIME},
    },
    events=("incident", "component"),
    reports_incidents=True,
)
