"""Reads ATT&CK's STIX bundles, keeping only the parts that documents are made of.

A bundle has 50 MB and 25,000 objects, most of them relationships: as one tree of Python objects it would take five times
as much. Source of the fields: "The ATT&CK Specification" and the ATT&CK data model (mitre-attack/attack-data-model).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from opx.errors import SourceShapeError
from opx.formats.data.replies import Filled, Loose, OddRecordError, Shape, odd, shaped

KINDS = {
    "attack-pattern": "technique",
    "course-of-action": "mitigation",
    "intrusion-set": "group",
    "malware": "software",
    "tool": "software",
    "campaign": "campaign",
    "x-mitre-tactic": "tactic",
}
"""Types of objects that become documents, and their kinds."""

_PARTS = ("x-mitre-detection-strategy", "x-mitre-analytic", "x-mitre-data-component", "x-mitre-data-source")
_OBJECTS = re.compile(r'"objects"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_IDS = ("mitre-attack", "mitre-mobile-attack", "mitre-ics-attack")

Strings = tuple[Loose[str], ...]


class KillChainPhase(Shape, frozen=True):
    phase_name: Loose[str] = ""


class LogSource(Shape, frozen=True):
    x_mitre_data_component_ref: Loose[str] = ""
    name: Loose[str] = ""
    channel: Loose[str] = ""


class Fields(Shape, frozen=True):
    """Fields that objects of some types have."""

    x_mitre_platforms: Strings = ()
    x_mitre_shortname: Loose[str] = ""
    x_mitre_detection: Loose[str] = ""
    x_mitre_analytic_refs: Strings = ()
    x_mitre_log_source_references: tuple[Loose[LogSource], ...] = ()
    x_mitre_domains: Strings = ()
    x_mitre_aliases: Strings = ()
    aliases: Strings = ()
    kill_chain_phases: tuple[Loose[KillChainPhase], ...] = ()


class _Reference(Shape, frozen=True):
    source_name: Loose[str] = ""
    external_id: Loose[str] = ""
    url: Loose[str] = ""


class _Named(Shape, frozen=True):
    """Names of an object, as far as it has any."""

    type: Loose[str] = ""
    id: Loose[str] = ""
    external_references: Loose[tuple[Loose[_Reference], ...]] = ()


class _Head(Shape, frozen=True, kw_only=True):
    type: Filled
    id: Filled
    revoked: Loose[bool] = False
    x_mitre_deprecated: Loose[bool] = False

    @property
    def is_gone(self) -> bool:
        return self.revoked or self.x_mitre_deprecated


class _Relationship(_Head, frozen=True, kw_only=True):
    relationship_type: Filled
    source_ref: Filled
    target_ref: Filled
    description: Loose[str] = ""


class _Object(_Head, frozen=True, kw_only=True):
    name: Filled
    description: str = ""
    created: Loose[str] = ""
    modified: Loose[str] = ""
    x_mitre_version: Loose[str] = ""
    external_references: tuple[Loose[_Reference], ...] = ()


@dataclass(frozen=True, slots=True)
class BundleEntry:
    """An object of a bundle. `gone`: it was revoked or deprecated. `fields` are those of its type."""

    stix_id: str
    kind: str
    attack_id: str
    name: str
    description: str
    url: str
    created: str
    modified: str
    version: str
    gone: bool
    fields: Fields

    @property
    def key(self) -> str:
        return _key(self.kind, self.attack_id)

    @property
    def label(self) -> str:
        return f"{self.attack_id} {self.name}".strip()


@dataclass(frozen=True, slots=True)
class Link:
    """A relationship: `source` does `kind` to `target` (STIX ids)."""

    kind: str
    source: str
    target: str
    description: str


@dataclass(slots=True)
class AttackKnowledge:
    """The objects of several bundles, in their order, and the relationships of each object in either direction. `odd` are
    objects that can't be read, with the reason."""

    entries: dict[str, BundleEntry] = field(default_factory=dict)
    outgoing: dict[str, list[Link]] = field(default_factory=dict)
    incoming: dict[str, list[Link]] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    _living: dict[str, list[BundleEntry]] = field(default_factory=dict)

    def add(self, found: Any) -> None:
        """Adds an object of a bundle, once. Raises `OddRecordError`."""
        head = odd(_Head, found)
        kind, stix_id = head.type, head.id
        if stix_id in self.known:
            return
        self.known.add(stix_id)
        if kind == "relationship":
            self._link(found)
        elif kind in KINDS or kind in _PARTS:
            self.entries[stix_id] = _entry(found, KINDS.get(kind, kind))

    def living(self, kind: str) -> list[BundleEntry]:
        """Returns the objects of a kind that are not gone. To be called once all objects were added."""
        if kind not in self._living:
            self._living[kind] = [each for each in self.entries.values() if each.kind == kind and not each.gone]
        return self._living[kind]

    def links(self, entry: BundleEntry, kind: str, *, to: bool = False) -> Iterator[tuple[BundleEntry, str]]:
        """Returns the other ends of the relationships that an object is the source of (`to`: the target of), ordered by id,
        with the relationship's description. Objects that are gone are left out."""
        links = (self.incoming if to else self.outgoing).get(entry.stix_id, ())
        found = [(self.entries.get(link.source if to else link.target), link) for link in links if link.kind == kind]
        there = [(other, link.description) for other, link in found if other is not None and not other.gone]
        yield from sorted(there, key=lambda pair: (pair[0].kind, pair[0].attack_id, pair[0].name))

    def _link(self, found: Any) -> None:
        if odd(_Head, found).is_gone:
            return
        relation = odd(_Relationship, found)
        link = Link(relation.relationship_type, relation.source_ref, relation.target_ref, relation.description)
        self.outgoing.setdefault(link.source, []).append(link)
        self.incoming.setdefault(link.target, []).append(link)


def _entry(given: Any, kind: str) -> BundleEntry:
    found = odd(_Object, given)
    own = next((each for each in found.external_references if each.source_name in _IDS), _Reference())
    if kind in KINDS.values() and not own.external_id.strip():
        raise OddRecordError("expected an 'external_id' of ATT&CK in 'external_references'")
    return BundleEntry(
        stix_id=found.id,
        kind=kind,
        attack_id=own.external_id,
        name=found.name,
        description=found.description,
        url=own.url,
        created=found.created,
        modified=found.modified,
        version=found.x_mitre_version,
        gone=found.is_gone,
        fields=odd(Fields, given),
    )


def key_of(found: Any) -> str:
    """Returns the document key of an unreadable object as far as it is known, else its STIX id."""
    names = shaped(_Named, found if isinstance(found, dict) else {})
    kind = KINDS.get(names.type)
    ids = [each.external_id for each in names.external_references]
    return _key(kind, ids[0]) if kind and ids and ids[0] else names.id


def _key(kind: str, attack_id: str) -> str:
    """Document key, with the kind: deprecated mitigations have ids of techniques that are in use."""
    return f"{kind}/{attack_id}"


def objects(bundle: str, url: str) -> Iterator[Any]:
    """Returns the objects of a bundle, one at a time. Raises `SourceShapeError` if it is not a bundle, or was cut."""
    start = _OBJECTS.search(bundle, 0, 4096)
    if not (bundle.lstrip().startswith("{") and start):
        raise SourceShapeError(f"{url}: expected a STIX bundle with 'objects'")
    decoder = json.JSONDecoder()
    at = start.end()
    while True:
        between = _BETWEEN.match(bundle, at)
        assert between is not None
        at = between.end()
        if bundle.startswith("]", at):
            return
        try:
            found, at = decoder.raw_decode(bundle, at)
        except (ValueError, RecursionError) as exc:
            raise SourceShapeError(f"{url}: the bundle is not JSON from character {at:,} on; it may be cut") from exc
        yield found
