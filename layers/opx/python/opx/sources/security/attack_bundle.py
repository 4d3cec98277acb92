"""ATT&CK's STIX bundles, reduced to what documents are made of while they are read.

A bundle has 50 MB and 25,000 objects, most of them relationships: as one tree of Python objects it would take five times
as much. Source of the fields: "The ATT&CK Specification" and the ATT&CK data model (mitre-attack/attack-data-model).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.errors import SourceShapeError
from opx.sources.shapes import given_text, items, maybe_text, member, names, text

KINDS = {
    "attack-pattern": "technique",
    "course-of-action": "mitigation",
    "intrusion-set": "group",
    "malware": "software",
    "tool": "software",
    "campaign": "campaign",
    "x-mitre-tactic": "tactic",
}
"""Types of objects that become documents, and what they are called."""

_PARTS = ("x-mitre-detection-strategy", "x-mitre-analytic", "x-mitre-data-component", "x-mitre-data-source")
_OBJECTS = re.compile(r'"objects"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_IDS = ("mitre-attack", "mitre-mobile-attack", "mitre-ics-attack")
_FIELDS = (
    "x_mitre_platforms",
    "x_mitre_shortname",
    "x_mitre_detection",
    "x_mitre_analytic_refs",
    "x_mitre_log_source_references",
    "x_mitre_data_source_ref",
    "x_mitre_domains",
    "x_mitre_aliases",
    "aliases",
    "kill_chain_phases",
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An object. `gone`: it was revoked or deprecated. `fields` are those of its type."""

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
    fields: Mapping[str, Any]

    @property
    def key(self) -> str:
        return _key(self.kind, self.attack_id)

    @property
    def label(self) -> str:
        return f"{self.attack_id} {self.name}".strip()

    def listed(self, name: str) -> list[str]:
        """A field that is a list of texts."""
        return names(self.fields, name)


@dataclass(frozen=True, slots=True)
class Link:
    """`source` does `kind` to `target` (STIX ids)."""

    kind: str
    source: str
    target: str
    description: str


@dataclass(slots=True)
class Knowledge:
    """The objects of several bundles, in their order, and the relationships of each object in either direction. `odd` are
    objects that can't be read, with the reason."""

    entries: dict[str, Entry] = field(default_factory=dict)
    outgoing: dict[str, list[Link]] = field(default_factory=dict)
    incoming: dict[str, list[Link]] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    _living: dict[str, list[Entry]] = field(default_factory=dict)

    def add(self, found: Any) -> None:
        """Keep an object of a bundle, once. Raises `OddRecordError`."""
        kind, stix_id = text(found, "type"), text(found, "id")
        if stix_id in self.known:
            return
        self.known.add(stix_id)
        if kind == "relationship":
            self._link(found)
        elif kind in KINDS or kind in _PARTS:
            self.entries[stix_id] = _entry(found, KINDS.get(kind, kind))

    def living(self, kind: str) -> list[Entry]:
        """The objects of a kind that are not gone. To be asked once all objects are there."""
        if kind not in self._living:
            self._living[kind] = [each for each in self.entries.values() if each.kind == kind and not each.gone]
        return self._living[kind]

    def links(self, entry: Entry, kind: str, *, to: bool = False) -> Iterator[tuple[Entry, str]]:
        """The other ends of an object's relationships that it is the source of (`to`: the target of), by their ids, with
        what the relationship says. What is gone is left out."""
        links = (self.incoming if to else self.outgoing).get(entry.stix_id, ())
        found = [(self.entries.get(link.source if to else link.target), link) for link in links if link.kind == kind]
        there = [(other, link.description) for other, link in found if other is not None and not other.gone]
        yield from sorted(there, key=lambda pair: (pair[0].kind, pair[0].attack_id, pair[0].name))

    def _link(self, found: Any) -> None:
        if _is_gone(found):
            return
        kind, source, target = (text(found, name) for name in ("relationship_type", "source_ref", "target_ref"))
        link = Link(kind, source, target, maybe_text(found, "description"))
        self.outgoing.setdefault(source, []).append(link)
        self.incoming.setdefault(target, []).append(link)


def _entry(found: Any, kind: str) -> Entry:
    references = items(found, "external_references")
    own = next((each for each in references if maybe_text(each, "source_name") in _IDS), None)
    return Entry(
        stix_id=text(found, "id"),
        kind=kind,
        attack_id=text(own, "external_id") if kind in KINDS.values() else maybe_text(own, "external_id"),
        name=text(found, "name"),
        description=given_text(found, "description"),
        url=maybe_text(own, "url"),
        created=maybe_text(found, "created"),
        modified=maybe_text(found, "modified"),
        version=maybe_text(found, "x_mitre_version"),
        gone=_is_gone(found),
        fields={name: found[name] for name in _FIELDS if name in found},
    )


def key_of(found: Any) -> str:
    """The key of the document of an object that can't be read, as far as it says; else its STIX id."""
    kind = KINDS.get(maybe_text(found, "type"))
    references = member(found, "external_references")
    ids = [maybe_text(each, "external_id") for each in references] if isinstance(references, list) else []
    return _key(kind, ids[0]) if kind and ids and ids[0] else maybe_text(found, "id")


def _key(kind: str, attack_id: str) -> str:
    """With the kind: deprecated mitigations bear the ids of techniques that are not."""
    return f"{kind}/{attack_id}"


def _is_gone(found: Any) -> bool:
    return member(found, "revoked") is True or member(found, "x_mitre_deprecated") is True


def objects(bundle: str, url: str) -> Iterator[Any]:
    """The objects of a bundle, one at a time. Raises `SourceShapeError` for what is none, or one that was cut."""
    start = _OBJECTS.search(bundle, 0, 4096)
    if not (bundle.lstrip().startswith("{") and start):
        raise SourceShapeError(f"{url}: expected a STIX bundle with 'objects'")
    decoder = json.JSONDecoder()
    at = start.end()
    while True:
        at = _end(_BETWEEN.match(bundle, at))
        if bundle.startswith("]", at):
            return
        try:
            found, at = decoder.raw_decode(bundle, at)
        except (ValueError, RecursionError) as exc:
            raise SourceShapeError(f"{url}: the bundle is not JSON from character {at:,} on; it may be cut") from exc
        yield found


def _end(match: re.Match[str] | None) -> int:
    assert match is not None
    return match.end()
