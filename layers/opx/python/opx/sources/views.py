"""Sources over the wire of the HTTP API and for people, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opx.domain.sources import Health, Refused
from opx.sources.states import PullState, SourceView


def view_to_json(view: SourceView) -> dict[str, Any]:
    """A source and its state in camelCase, without cursors and leases."""
    state = view.state
    return {
        "sourceId": view.source_id,
        "kind": view.kind,
        "category": view.category,
        "tier": view.tier,
        "schedule": view.schedule,
        "timeZone": view.time_zone,
        "enabled": view.enabled,
        "declared": view.declared,
        "state": {
            "pulling": bool(state.owner),
            "unfinished": bool(state.run),
            "since": state.since,
            "lastAttempt": state.last_attempt,
            "lastSuccess": state.last_success,
            "put": state.put,
            "unchanged": state.unchanged,
            "withdrawn": state.withdrawn,
            "refused": state.refused,
            "refusals": [{"key": one.key, "reason": one.reason} for one in state.refusals],
            "error": state.error,
            "failures": state.failures,
            "flag": state.flag,
        },
        **({"health": {"ok": view.health.ok, "reason": view.health.reason}} if view.health else {}),
    }


def view_from_json(data: Mapping[str, Any]) -> SourceView:
    """The view that `view_to_json` was given, as far as it goes over the wire."""
    state, health = data["state"], data.get("health")
    return SourceView(
        source_id=data["sourceId"],
        kind=data["kind"],
        category=data["category"],
        tier=data["tier"],
        schedule=data["schedule"],
        time_zone=data["timeZone"],
        enabled=bool(data["enabled"]),
        declared=bool(data["declared"]),
        state=PullState(
            source_id=data["sourceId"],
            since=state["since"],
            run="unfinished" if state["unfinished"] else "",
            owner="pulling" if state["pulling"] else "",
            put=state["put"],
            unchanged=state["unchanged"],
            withdrawn=state["withdrawn"],
            refused=state["refused"],
            refusals=tuple(Refused(one["key"], one["reason"]) for one in state["refusals"]),
            last_attempt=state["lastAttempt"],
            last_success=state["lastSuccess"],
            error=state["error"],
            failures=state["failures"],
            flag=state["flag"],
        ),
        health=Health(bool(health["ok"]), health["reason"]) if health else None,
    )
