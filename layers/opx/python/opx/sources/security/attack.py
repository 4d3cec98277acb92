"""Techniques of attackers and what helps against them: MITRE ATT&CK, from its STIX 2.1 bundles.

Bundles are published a few times a year, each as one file. If none has changed since the last pull, that is all that is
read; if one has, all are, as groups and software are shared between them and have one document each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from opx.domain.sources import Page, PullRequest, Refused, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx.ports.sources import WebReply
from opx.sources.connector import Connector, Options, Texts
from opx.sources.security.attack_bundle import KINDS, Entry, Knowledge, key_of, objects
from opx.sources.security.attack_documents import attack_document
from opx.sources.shapes import OddRecordError, Shape, shaped

BASE_URL = "https://raw.githubusercontent.com/mitre-attack/attack-stix-data/master"
DOMAINS = ("enterprise", "mobile", "ics")
PAGE_DOCUMENTS = 100
_MAX_BYTES = 192 * 1024 * 1024
_MAX_ODD = 50


class AttackOptions(Options, frozen=True):
    """`domains` are some of enterprise, mobile and ics."""

    domains: Texts = ("enterprise",)
    base_url: str = BASE_URL


class _Index(Shape, frozen=True):
    collections: list[Any]


class AttackConnector(Connector[AttackOptions]):
    """One document a technique, mitigation, group, software, campaign and tactic."""

    options_type = AttackOptions

    def probe(self) -> None:
        """The list of releases tells that the address is right; bundles are too large to ask for."""
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

    def _bundles(self, *, whole: bool) -> list[tuple[Knowledge, str]]:
        """The bundles of the domains, with hashes of them; none if all are as they were. A pull that goes on has had the
        bundles before, and needs them nevertheless: `whole`."""
        found: dict[str, tuple[Knowledge, str] | None] = {}
        for domain in self._domains():
            reply = self._asked(domain, conditional=not whole)
            found[domain] = None if reply.not_modified else _read(reply)
        if not any(found.values()):
            return []
        return [bundle or _read(self._asked(domain, conditional=False)) for domain, bundle in found.items()]

    def _asked(self, domain: str, *, conditional: bool) -> WebReply:
        url = f"{self._base}/{domain}-attack/{domain}-attack.json"
        reply = self.web.get(url, conditional=conditional, limit=_MAX_BYTES)
        if reply.gone:
            raise SourceRefusedError(f"{reply.url}: there is no bundle; set base_url", reply.status)
        return reply


def _read(reply: WebReply) -> tuple[Knowledge, str]:
    knowledge = Knowledge()
    for found in objects(reply.body.decode("utf-8", errors="replace"), reply.url):
        try:
            knowledge.add(found)
        except OddRecordError as exc:
            knowledge.odd[key_of(found) or f"object {len(knowledge.known):,}"] = str(exc)
    if not any(entry.kind == "technique" for entry in knowledge.entries.values()) or len(knowledge.odd) > _MAX_ODD:
        first = next(iter(knowledge.odd.values()), "no attack-pattern")
        raise SourceShapeError(f"{reply.url}: {len(knowledge.odd):,} objects are not as expected; the first: {first}")
    return knowledge, hashlib.sha256(reply.body).hexdigest()


def _merged(bundles: Iterator[Knowledge]) -> Knowledge:
    """One of several. What they share is taken once; their relationships are different ones."""
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


def _pages(knowledge: Knowledge, mark: str, position: int) -> Iterator[Page]:
    entries = [entry for entry in knowledge.entries.values() if entry.kind in KINDS.values()]
    living = [entry for entry in entries if not entry.gone]
    gone = {entry.key for entry in entries if entry.gone} - {entry.key for entry in living}
    refused = tuple(Refused(key, reason) for key, reason in knowledge.odd.items())
    for at in range(position, len(living), PAGE_DOCUMENTS):
        some = living[at : at + PAGE_DOCUMENTS]
        documents, odd = _documents(some, knowledge)
        yield Page(documents=documents, refused=odd, cursor={"bundles": mark, "position": at + len(some)})
    cursor = {"bundles": mark, "position": len(living)}
    yield Page(withdrawn=tuple(sorted(gone)), refused=refused, cursor=cursor, complete=True)


def _documents(entries: list[Entry], knowledge: Knowledge) -> tuple[tuple[SourceDocument, ...], tuple[Refused, ...]]:
    documents: list[SourceDocument] = []
    refused: list[Refused] = []
    for entry in entries:
        try:
            documents.append(attack_document(entry, knowledge))
        except OddRecordError as exc:
            refused.append(Refused(entry.key, str(exc)))
    return tuple(documents), tuple(refused)
