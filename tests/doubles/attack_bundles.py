"""STIX bundles of a small ATT&CK: the objects that a test names, as the real ones are."""

from __future__ import annotations

from typing import Any

from tests.doubles.misbehaving_site import MisbehavingSite

_PLACES = {"attack-pattern": "techniques", "course-of-action": "mitigations", "intrusion-set": "groups"}


def an_object(kind: str, attack_id: str, name: str, **fields: Any) -> dict[str, Any]:
    """An object whose STIX id is made of type and ATT&CK id."""
    url = f"https://attack.mitre.org/{_PLACES.get(kind, 'software')}/{attack_id.replace('.', '/')}"
    return {
        "type": kind,
        "id": f"{kind}--{attack_id}",
        "created": "2020-01-01T00:00:00.000Z",
        "modified": "2025-10-01T00:00:00.000Z",
        "name": name,
        "description": f"About {name}.",
        "external_references": [{"source_name": "mitre-attack", "external_id": attack_id, "url": url}],
        "x_mitre_domains": ["enterprise-attack"],
        "x_mitre_version": "1.0",
        **fields,
    }


def a_technique(attack_id: str, name: str, *, tactic: str = "execution", **fields: Any) -> dict[str, Any]:
    phases = [{"kill_chain_name": "mitre-attack", "phase_name": tactic}]
    return an_object("attack-pattern", attack_id, name, kill_chain_phases=phases, **fields)


def a_tactic(attack_id: str, name: str, shortname: str) -> dict[str, Any]:
    return an_object("x-mitre-tactic", attack_id, name, x_mitre_shortname=shortname)


def a_link(kind: str, source: dict[str, Any], target: dict[str, Any], description: str = "") -> dict[str, Any]:
    return {
        "type": "relationship",
        "id": f"relationship--{kind}-{source['id']}-{target['id']}",
        "relationship_type": kind,
        "source_ref": source["id"],
        "target_ref": target["id"],
        "description": description,
    }


def a_bundle(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"type": "bundle", "id": "bundle--1", "objects": list(objects)}


def publish(site: MisbehavingSite, domain: str, *objects: dict[str, Any], etag: str = "") -> str:
    """Put a bundle where ATT&CK has it, and give its path."""
    path = f"/{domain}-attack/{domain}-attack.json"
    site.page(path, a_bundle(*objects), etag=etag)
    return path
