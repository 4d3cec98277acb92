"""Pulls attackers' techniques and their mitigations from the STIX 2.1 bundles of MITRE ATT&CK.

Bundles are published a few times a year, each as one file. If none has changed since the last pull, nothing else is
read; if one has, all are read, as groups and software are shared between them and have one document each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

from opx.connectors.connector import Batch, Connector, Options, Texts
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, Refused, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx.formats.data.replies import OddRecordError, Shape, shaped, utc
from opx.formats.markdown import block, facts, fenced, joined, nested, one_line, reference, relation
from opx.ports.sources import WebReply
from opx_connectors.security.attack_bundle import KINDS, AttackKnowledge, BundleEntry, LogSource, key_of, objects

NOTICE = (
    "© The MITRE Corporation. This work is reproduced and distributed with the permission of The MITRE Corporation."
)
"""Required by ATT&CK's terms of use, with a year, which is left out: every document would change with it."""
_MAX_TAGS = 20
_MAX_TAG = 50
"""Characters of a tag. Metadata of an object in S3 have 2 KB in all."""
_CITATION = re.compile(r"\(Citation: [^()]*(?:\([^()]*\)[^()]*)*\)")
_OWN_LINK = re.compile(r"\[([^\[\]]*)\]\(https?://attack\.mitre\.org/[a-z]+/([A-Z0-9]+)(?:/(\d{3}))?/?\)")
_CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)
_NAMESPACES = {"x-mitre-detection-strategy": "detection", "x-mitre-data-component": "data component"}

Sections = Iterator[tuple[str, str]]
"""Titles and texts of sections; those without text are left out."""


def attack_document(entry: BundleEntry, knowledge: AttackKnowledge) -> SourceDocument:
    """Renders the document of a technique, mitigation, group, software, campaign or tactic. Raises `OddRecordError`."""
    parts = [plain(entry.description, 2), _facts(entry, knowledge)]
    parts += [f"## {title}\n\n{text}" for title, text in _SECTIONS[entry.kind](entry, knowledge) if text]
    related = block(_relations(entry, knowledge))
    parts += [f"## Relationships\n\n{fenced(related, 'yaml')}"] if related else []
    metadata: dict[str, Any] = {
        "title": f"{entry.attack_id}: {one_line(entry.name)}",
        "tags": _tags(entry),
        "version": entry.version,
        "created_at": utc(entry.created, "created"),
        "last_updated": utc(entry.modified, "modified"),
    }
    if entry.url:
        metadata["source_uri"] = entry.url
    return SourceDocument(entry.key, joined([*parts, NOTICE]), metadata)


def plain(description: str, under: int) -> str:
    """Returns a description without citations, with ATT&CK's links as ids: `PowerShell (T1059.001)`."""
    return nested(_CODE.sub(r"`\1`", _OWN_LINK.sub(_named, _CITATION.sub("", description))), under)


def _named(link: re.Match[str]) -> str:
    return f"{link[1]} ({link[2]}{f'.{link[3]}' if link[3] else ''})"


def _tags(entry: BundleEntry) -> list[str]:
    phases = [phase.phase_name for phase in entry.fields.kill_chain_phases]
    aliases = [*entry.fields.aliases, *entry.fields.x_mitre_aliases]
    found = [entry.attack_id, entry.kind, *phases, *entry.fields.x_mitre_platforms, *aliases]
    return [one_line(tag)[:_MAX_TAG] for tag in dict.fromkeys(found) if tag.strip()][:_MAX_TAGS]


def _facts(entry: BundleEntry, knowledge: AttackKnowledge) -> str:
    aliases = dict.fromkeys(entry.fields.aliases + entry.fields.x_mitre_aliases)
    parents = [other.label for other, _ in knowledge.links(entry, "subtechnique-of")]
    owners = [other.label for other, _ in knowledge.links(entry, "attributed-to")]
    pairs = (
        ("ATT&CK id", f"{entry.attack_id} ({entry.kind})"),
        ("Also known as", ", ".join(name for name in aliases if name != entry.name)),
        ("Tactics", ", ".join(tactic.label for tactic in _tactics(entry, knowledge))),
        ("Platforms", ", ".join(entry.fields.x_mitre_platforms)),
        ("Sub-technique of", ", ".join(parents)),
        ("Attributed to", ", ".join(owners)),
        ("Replaces", ", ".join(other.label for other in _replaced(entry, knowledge))),
    )
    return facts(pairs)


def _tactics(entry: BundleEntry, knowledge: AttackKnowledge) -> list[BundleEntry]:
    """Returns the tactics of a technique, whose names are unique within a domain."""
    phases = {phase.phase_name for phase in entry.fields.kill_chain_phases}
    domains = set(entry.fields.x_mitre_domains)
    return [
        tactic
        for tactic in knowledge.living("tactic")
        if tactic.fields.x_mitre_shortname in phases and domains & set(tactic.fields.x_mitre_domains)
    ]


def _replaced(entry: BundleEntry, knowledge: AttackKnowledge) -> list[BundleEntry]:
    """Returns the objects that were revoked in favour of this one."""
    links = knowledge.incoming.get(entry.stix_id, ())
    found = [knowledge.entries.get(link.source) for link in links if link.kind == "revoked-by"]
    return sorted((other for other in found if other is not None), key=lambda other: other.attack_id)


# -- sections


def _of_technique(entry: BundleEntry, knowledge: AttackKnowledge) -> Sections:
    yield "Sub-techniques", _bullets(knowledge.links(entry, "subtechnique-of", to=True), described=False)
    yield "Mitigations", _bullets(knowledge.links(entry, "mitigates", to=True))
    yield "Detection", "\n\n".join(part for part in _detection(entry, knowledge) if part)
    users: dict[str, list[str]] = {}
    for other, _ in knowledge.links(entry, "uses", to=True):
        users.setdefault(other.kind, []).append(f"{other.name} ({other.attack_id})")
    yield "Used by", facts((kind.capitalize(), ", ".join(dict.fromkeys(found))) for kind, found in users.items())


def _detection(entry: BundleEntry, knowledge: AttackKnowledge) -> Iterator[str]:
    yield plain(entry.fields.x_mitre_detection, 2)
    for other, description in knowledge.links(entry, "detects", to=True):
        yield _bullet(other, description or other.description)
        yield "\n".join(_analytics(other, knowledge))


def _analytics(strategy: BundleEntry, knowledge: AttackKnowledge) -> Iterator[str]:
    for stix_id in strategy.fields.x_mitre_analytic_refs:
        analytic = knowledge.entries.get(stix_id)
        if analytic is None or analytic.gone:
            continue
        platforms = ", ".join(analytic.fields.x_mitre_platforms)
        yield f"  - {analytic.attack_id} {f'({platforms})' if platforms else ''}: {one_line(plain(analytic.description, 2))}"
        logs = [_log(each, knowledge) for each in analytic.fields.x_mitre_log_source_references]
        if logs:
            yield f"    Logs: {'; '.join(dict.fromkeys(logs))}"


def _log(log: LogSource, knowledge: AttackKnowledge) -> str:
    component = knowledge.entries.get(log.x_mitre_data_component_ref)
    source = f"{log.name} {log.channel}".strip()
    return one_line(f"{source} ({component.name})" if component else source)


def _of_user(entry: BundleEntry, knowledge: AttackKnowledge) -> Sections:
    """Sections of groups, software and campaigns."""
    used = list(knowledge.links(entry, "uses"))
    yield "Techniques", _bullets(pair for pair in used if pair[0].kind == "technique")
    yield "Software", _bullets(pair for pair in used if pair[0].kind == "software")
    yield "Used by", _bullets(knowledge.links(entry, "uses", to=True))
    yield "Campaigns", _bullets(knowledge.links(entry, "attributed-to", to=True), described=False)


def _of_mitigation(entry: BundleEntry, knowledge: AttackKnowledge) -> Sections:
    yield "Mitigates", _bullets(knowledge.links(entry, "mitigates"))


def _of_tactic(entry: BundleEntry, knowledge: AttackKnowledge) -> Sections:
    found = [each for each in knowledge.living("technique") if entry in _tactics(each, knowledge)]
    found.sort(key=lambda each: each.attack_id)
    yield "Techniques", _bullets(((other, "") for other in found), described=False)


_SECTIONS: dict[str, Callable[[BundleEntry, AttackKnowledge], Sections]] = {
    "technique": _of_technique,
    "mitigation": _of_mitigation,
    "group": _of_user,
    "software": _of_user,
    "campaign": _of_user,
    "tactic": _of_tactic,
}


def _bullets(pairs: Iterable[tuple[BundleEntry, str]], *, described: bool = True) -> str:
    return "\n".join(_bullet(other, description if described else "") for other, description in pairs)


def _bullet(other: BundleEntry, description: str) -> str:
    words = one_line(plain(description, 2))
    return f"- {one_line(other.label)}" + (f": {words}" if words else "")


# -- relations


def _relations(entry: BundleEntry, knowledge: AttackKnowledge) -> Iterator[str]:
    """Lines such as `technique:T1059|MITIGATED_BY|mitigation:M1038`, for the graph."""
    own = _reference(entry)
    for kind, forth, back in (
        ("mitigates", "MITIGATES", "MITIGATED_BY"),
        ("detects", "DETECTS", "DETECTED_BY"),
        ("uses", "USES", "USED_BY"),
        ("subtechnique-of", "SUBTECHNIQUE_OF", "HAS_SUBTECHNIQUE"),
        ("attributed-to", "ATTRIBUTED_TO", "HAS_CAMPAIGN"),
    ):
        yield from (relation(own, forth, _reference(other)) for other, _ in knowledge.links(entry, kind))
        yield from (relation(own, back, _reference(other)) for other, _ in knowledge.links(entry, kind, to=True))
    yield from (relation(own, "ACHIEVES", _reference(tactic)) for tactic in _tactics(entry, knowledge))
    yield from (relation(own, "REPLACES", _reference(other)) for other in _replaced(entry, knowledge))


def _reference(entry: BundleEntry) -> str:
    return reference(_NAMESPACES.get(entry.kind, entry.kind), entry.attack_id or entry.name)


BASE_URL = "https://raw.githubusercontent.com/mitre-attack/attack-stix-data/master"
DOMAINS = ("enterprise", "mobile", "ics")
PAGE_DOCUMENTS = 100
_MAX_BYTES = 192 * 1024 * 1024
_MAX_ODD = 50


class AttackOptions(Options, frozen=True):
    """Options of MITRE ATT&CK."""

    domains: Annotated[Texts, about("Domains: some of enterprise, mobile and ics.")] = ("enterprise",)
    base_url: Annotated[str, about("The address of the bundles, for a mirror.")] = BASE_URL


class _Index(Shape, frozen=True):
    collections: list[Any]


class AttackConnector(Connector[AttackOptions]):
    """Pulls one document per technique, mitigation, group, software, campaign and tactic."""

    about = "MITRE ATT&CK: techniques, mitigations, groups, software and tactics"

    def probe(self) -> None:
        """Requests the list of releases to check the address, as bundles are too large."""
        self._domains()
        reply = self.web.get(f"{self._base}/index.json")
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: no ATT&CK data there; set base_url", reply.status)
        shaped(_Index, reply.json(), reply.url)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        bundles = self._bundles(whole=bool(request.cursor))
        if not bundles:
            yield Page()
            return
        mark = hashlib.sha256("".join(digest for _, digest in bundles).encode()).hexdigest()[:16]
        begun = request.cursor.get("bundles") == mark
        knowledge = _merged(bundle for bundle, _ in bundles)
        yield from _pages(knowledge, mark, int(request.cursor.get("position", 0)) if begun else 0)

    @property
    def _base(self) -> str:
        return self.options.base_url.rstrip("/")

    def _domains(self) -> tuple[str, ...]:
        wrong = [name for name in self.options.domains if name not in DOMAINS]
        if wrong or not self.options.domains:
            raise InvalidInputError(
                f"source {self.name}: domains are some of {', '.join(DOMAINS)}, not {', '.join(wrong) or 'none'}"
            )
        return self.options.domains

    def _bundles(self, *, whole: bool) -> list[tuple[AttackKnowledge, str]]:
        """Returns the bundles of the domains with their hashes; none if all are unchanged. A resumed pull needs them although
        it has read them before: `whole`."""
        found: dict[str, tuple[AttackKnowledge, str] | None] = {}
        for domain in self._domains():
            reply = self._request(domain, conditional=not whole)
            found[domain] = None if reply.not_modified else _read(reply)
        if not any(found.values()):
            return []
        return [bundle or _read(self._request(domain, conditional=False)) for domain, bundle in found.items()]

    def _request(self, domain: str, *, conditional: bool) -> WebReply:
        url = f"{self._base}/{domain}-attack/{domain}-attack.json"
        reply = self.web.get(url, conditional=conditional, limit=_MAX_BYTES)
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: there is no bundle; set base_url", reply.status)
        return reply


def _read(reply: WebReply) -> tuple[AttackKnowledge, str]:
    knowledge = AttackKnowledge()
    for found in objects(reply.body.decode("utf-8", errors="replace"), reply.url):
        try:
            knowledge.add(found)
        except OddRecordError as exc:
            knowledge.odd[key_of(found) or f"object {len(knowledge.known):,}"] = str(exc)
    if not any(entry.kind == "technique" for entry in knowledge.entries.values()) or len(knowledge.odd) > _MAX_ODD:
        first = next(iter(knowledge.odd.values()), "no attack-pattern")
        raise SourceShapeError(f"{reply.url}: {len(knowledge.odd):,} objects are not as expected; the first: {first}")
    return knowledge, hashlib.sha256(reply.body).hexdigest()


def _merged(bundles: Iterator[AttackKnowledge]) -> AttackKnowledge:
    """Merges several bundles. Shared objects are kept once; their relationships are different ones."""
    whole = next(bundles)
    for other in bundles:
        for stix_id, entry in other.entries.items():
            whole.entries.setdefault(stix_id, entry)
        for mine, theirs in ((whole.outgoing, other.outgoing), (whole.incoming, other.incoming)):
            for stix_id, links in theirs.items():
                own = mine.setdefault(stix_id, [])
                own += [link for link in links if link not in own]
        whole.odd.update(other.odd)
    return whole


def _pages(knowledge: AttackKnowledge, mark: str, position: int) -> Iterator[Page]:
    entries = [entry for entry in knowledge.entries.values() if entry.kind in KINDS.values()]
    living = [entry for entry in entries if not entry.gone]
    gone = {entry.key for entry in entries if entry.gone} - {entry.key for entry in living}
    refused = tuple(Refused(key, reason) for key, reason in knowledge.odd.items())
    for at in range(position, len(living), PAGE_DOCUMENTS):
        some = living[at : at + PAGE_DOCUMENTS]
        batch = Batch()
        for entry in some:
            with batch.refusing(entry.key):
                batch.add(attack_document(entry, knowledge))
        yield batch.page({"bundles": mark, "position": at + len(some)})
    cursor = {"bundles": mark, "position": len(living)}
    yield Page(withdrawn=tuple(sorted(gone)), refused=refused, cursor=cursor, complete=True)
