"""Atlassian Statuspage ("Enable webhook notifications" of its support pages): incidents, maintenance and components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.webhooks.errors import PayloadError
from opx.webhooks.payloads.shape import Change, document, metadata, moment, needed, part, rows_at, text_at, value_at


def event_of(payload: Mapping[str, Any]) -> str:
    """`incident` or `component`: the body says by what it has. Raises `PayloadError`."""
    if isinstance(payload.get("incident"), Mapping):
        return "incident"
    if isinstance(payload.get("component_update"), Mapping):
        return "component"
    raise PayloadError("the delivery has neither incident nor component_update")


def changes_of(payload: Mapping[str, Any]) -> list[Change]:
    """The incident, or the component, as it is now."""
    page = text_at(payload, "page", "id")
    return [_incident(payload, page) if event_of(payload) == "incident" else _component(payload, page)]


def _incident(payload: Mapping[str, Any], page: str) -> Change:
    incident = payload["incident"]
    created = moment(value_at(incident, "created_at"), "incident.created_at")
    updated = moment(value_at(incident, "updated_at"), "incident.updated_at")
    updates = sorted(rows_at(incident, "incident_updates"), key=lambda row: text_at(row, "created_at"))
    components = [text_at(each, "name") for each in rows_at(incident, "components")]
    facts = [
        ("Status", text_at(incident, "status")),
        ("Impact", text_at(incident, "impact")),
        ("Components", ", ".join(filter(None, components))),
        ("Scheduled", " to ".join(filter(None, (text_at(incident, f"scheduled_{end}") for end in ("for", "until"))))),
        ("Began", created),
        ("Resolved", moment(value_at(incident, "resolved_at"), "incident.resolved_at")),
    ]
    sections = [
        (f"{text_at(row, 'created_at')} {text_at(row, 'status')}".strip(), text_at(row, "body")) for row in updates
    ]
    return Change(
        key=f"{part(page or 'page')}/{part(needed(incident, 'id'))}",
        time=updated or created,
        text=document(needed(incident, "name"), facts, sections),
        metadata=metadata(
            tags=["statuspage", text_at(incident, "status")],
            source_uri=text_at(incident, "shortlink"),
            created=created,
            updated=updated,
            severity=text_at(incident, "impact"),
            services=components,
        ),
    )


def _component(payload: Mapping[str, Any], page: str) -> Change:
    update, component = payload["component_update"], value_at(payload, "component")
    name = text_at(component, "name") or needed(update, "component_id")
    time = moment(value_at(update, "created_at"), "component_update.created_at")
    facts = [
        ("Status", needed(update, "new_status")),
        ("Before", text_at(update, "old_status")),
        ("Since", time),
    ]
    return Change(
        key=f"{part(page or 'page')}/components/{part(needed(update, 'component_id'))}",
        time=time,
        text=document(f"Status of {name}", facts, [("About", text_at(component, "description"))]),
        metadata=metadata(tags=["statuspage", "component"], updated=time, services=[name]),
    )
