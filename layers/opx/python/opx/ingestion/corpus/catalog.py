"""The catalog: versions of each document key, and the current one.

A change is claimed before it starts and finished when the index has it. A claim is a lease with a token: the lease of a dead
worker expires, and a slow worker finds at the end that its token is not valid any more. The item of the key is written last,
so that an interrupted change is simply repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from heapq import merge
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument, is_kept_out
from opx.domain.ids import iso_time
from opx.domain.knowledge import NO_KNOWLEDGE, KnowledgeModel, Tier
from opx.domain.provenance import Provenance
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.claims import BusyError, Claim, Claims, StaleEventError, current_id
from opx.ingestion.events import ObjectEvent
from opx.ports import Clock, Item, KeyRange, Table
from opx.ports.tables import DOCUMENTS

__all__ = ["BusyError", "Catalog", "Claim", "StaleEventError", "StoredReferences"]

_PAGE = 1000
"""References per item: 20 bytes each, far below the 400 KB of a DynamoDB item."""

_EXPECTED = "expected"
PROVENANCE = "provenance"
"""Attribute of a version's item that is no field of the document: its principal is not for all readers."""


class VersionOrigin(Struct, frozen=True):
    """The object state that a version was made of: its fingerprint, and its provenance."""

    fingerprint: str
    provenance: Provenance | None = None


class StoredReferences(Struct, frozen=True):
    """References of a key's entries in the index of one edition. `expected_since` is when a write began whose references
    aren't stored, in seconds since the epoch; 0 if there is none: it was interrupted, or is under way."""

    found: list[str]
    expected_since: float = 0.0


def _pages_of(edition: str) -> str:
    """Beginning of the names of an edition's pages: those of the first edition, which has no name, are numbers."""
    return f"{edition}#" if edition else "0"


@dataclass(eq=False)
class Catalog:
    """The only writer of the documents, keys and entries tables, but for the removal of a whole client. `claims` are the
    claims on its documents.

    Every version is entered in `calendar`; `admits` returns whether documents of a scope may be ingested at all. By
    `knowledge`, those that are reports are read as untrusted.
    """

    documents: Table
    keys: Table
    entries: Table
    _: KW_ONLY
    clock: Clock
    lease_seconds: int
    calendar: Calendar
    admits: Callable[[Scope], bool] = lambda _: True
    knowledge: KnowledgeModel = NO_KNOWLEDGE

    def __post_init__(self) -> None:
        self.claims = Claims(self.keys, clock=self.clock, lease_seconds=self.lease_seconds)

    # -- changing

    def claim(self, key: DocumentKey, event: ObjectEvent) -> Claim:
        """Claims a document to apply an event. Raises `StaleEventError`, also for a removed client, or `BusyError`."""
        if not self.admits(key.scope):
            raise StaleEventError(event.key)
        claim = self.claims.claim(key, event)
        if not self.admits(key.scope):  # a removal is recorded before it looks for claims: one of both sees the other
            self.claims.forget(claim)
            raise StaleEventError(event.key)
        return claim

    def finish(
        self,
        claim: Claim,
        document: KnowledgeDocument,
        made: VersionOrigin,
        references: list[str] | None,
        *,
        edition: str = "",
    ) -> None:
        """Makes `document` the current version. `references` are its entries in the index of the edition, None where ids are
        derived.

        Raises `ConditionFailedError` if the claim was lost meanwhile; the caller then undoes what it wrote.
        """
        self.claims.renew(claim)  # first: a worker that lost the claim must not touch the other tables
        since = self._put(claim, document, made.provenance)
        if references is not None:
            self.keep_references({claim.key.id: references}, edition)
        if claim.current_id != document.document_id:
            self._retire(claim, DocumentState.SUPERSEDED, since)
        self._drop_unfinished(claim, document.document_id)
        facts = {
            "documentId": document.document_id,
            "version": document.version,
            "state": DocumentState.CURRENT.value,
            "fingerprint": made.fingerprint,
        }
        if (kept_out := is_kept_out(document)) or claim.head.get("keptOut"):
            facts["keptOut"] = kept_out
        self.claims.settle(claim, facts)

    def withdraw(self, claim: Claim, *, gone_by: float | None = None, edition: str = "") -> None:
        """Marks the document as deleted; its versions stay readable, the one that was current until `gone_by` (seconds since
        the epoch), if that is given. Raises `ConditionFailedError` like `finish`."""
        self.claims.renew(claim)
        self._retire(claim, DocumentState.DELETED, iso_time(self.clock()), gone_by)
        self._drop_unfinished(claim, "")
        self.keep_references({claim.key.id: []}, edition)
        self.claims.settle(claim, {"state": DocumentState.DELETED.value, "fingerprint": ""})

    def remove_version(self, document: KnowledgeDocument) -> None:
        """Deletes a version that is not current, but for its expiry entry in the calendar."""
        self.calendar.leave(document)
        self._delete([*tag_items(document), document_item(document)])

    def keep_version(self, document: KnowledgeDocument) -> None:
        """Cancels the removal of a version."""
        self.documents.put(document_item(document, self.provenance(document)))

    def forget_key(self, key: DocumentKey, removed: Container[tuple[str, int]]) -> bool:
        """Deletes the item of a key all versions of which are `removed` (document ids and numbers). False if it has others,
        or a worker has claimed it."""
        if any((version.document_id, version.version) not in removed for version in self.versions(key)):
            return False
        return self.claims.remove(key)

    def _put(self, claim: Claim, document: KnowledgeDocument, provenance: Provenance | None = None) -> str:
        """Writes the version and its tags, and returns since when it is current. An earlier write of the same version may
        have had other tags."""
        tags = tag_items(document)
        entries = {item["entry"] for item in tags}
        known = self._written(claim, document.document_id)
        if known and known.version != document.version:  # an old version with the same text stays as it is
            known = None
        stays = known is not None and document.document_id == claim.current_id  # its `current_since` may be empty
        document = replace(document, current_since=known.current_since if known and stays else iso_time(self.clock()))
        if known and known.superseded_at:
            self.calendar.leave(known)
        self.calendar.enter(document, known)
        gone = [item for item in tag_items(known) if item["entry"] not in entries] if known else []
        made = replace(provenance, ingested_at=iso_time(self.clock())) if provenance else None
        self.documents.put(document_item(document, made))
        self.documents.put_many(tags)
        self._delete(gone)
        return document.current_since

    def _written(self, claim: Claim, document_id: str) -> KnowledgeDocument | None:
        """The stored version with this id, if it is the current one or one that was never finished."""
        if document_id not in (claim.current_id, *claim.unfinished):
            return None
        return self.version(claim.key, document_id)

    def _retire(self, claim: Claim, state: DocumentState, at: str, gone_by: float | None = None) -> None:
        """Marks the current version as replaced at `at`, and deletes its tags from their index.

        An end that an interrupted attempt recorded is moved to `at`: the change of that attempt was never finished.
        """
        old = self.version(claim.key, claim.current_id) if claim.current_id else None
        if old is None:
            return
        if old.superseded_at and claim.interrupted:
            self.calendar.leave(old)  # first: its row is found by the time that is changed here
        elif old.superseded_at:
            at = old.superseded_at  # set by the worker that took over the claim
        retired = replace(old, state=state, superseded_at=at)
        leaving = {} if gone_by is None else {DOCUMENTS.ttl: int(gone_by)}
        self.documents.put(document_item(retired, self.provenance(old)) | leaving)
        self.calendar.replaced(retired)
        self._delete(tag_items(old))

    def _drop_unfinished(self, claim: Claim, kept: str) -> None:
        """Deletes versions that an interrupted attempt wrote and that never became current."""
        for document_id in claim.unfinished:
            found = self._written(claim, document_id)
            if document_id in (kept, claim.current_id) or found is None or found.state is not DocumentState.CURRENT:
                continue
            self.calendar.forget(found)
            self._delete([*tag_items(found), document_item(found)])

    def _delete(self, items: list[Item]) -> None:
        for item in items:
            self.documents.delete(DOCUMENTS.key_of(item))

    def expect_references(self, key_ids: Iterable[str], edition: str) -> None:
        """Records that entries of these keys are about to be written to the index of an edition, which assigns references."""
        page = {"page": f"{_pages_of(edition)}{_EXPECTED}", "references": [], "since": round(self.clock(), 3)}
        self.entries.put_many({"documentKey": key, **page} for key in key_ids)

    def keep_references(self, references: Mapping[str, Sequence[str]], edition: str) -> None:
        """Stores the references of the current versions by key id, in place of those of before."""
        first = _pages_of(edition)
        for key, found in references.items():
            pages = {
                f"{first}{number:05d}": list(found[at : at + _PAGE])
                for number, at in enumerate(range(0, len(found), _PAGE))
            }
            self.entries.put_many(
                {"documentKey": key, "page": name, "references": page} for name, page in pages.items()
            )
            for item in list(self.entries.query(key, where=KeyRange(begins_with=first))):
                if item["page"] not in pages:
                    self.entries.delete({"documentKey": key, "page": item["page"]})

    # -- reading

    @property
    def abandoned_before(self) -> str:
        """Time before which files of versions were written whose writers hold no lease any more."""
        return iso_time(self.clock() - self.lease_seconds)

    def without_version(self, claim: Claim, document_ids: Iterable[str]) -> Iterator[str]:
        """Those of the ids that no version of the scope has, but for what interrupted attempts entered for this document."""
        for document_id in document_ids:
            unfinished = self._written(claim, document_id) if document_id != claim.current_id else None
            found = (one for one in self.find(document_id) if one.key.scope == claim.key.scope)
            if not any(one != unfinished or one.state is not DocumentState.CURRENT for one in found):
                yield document_id

    def provenance(self, document: KnowledgeDocument) -> Provenance | None:
        """The provenance of a version; None for one that was ingested before it was recorded."""
        key = {"documentId": document.document_id, "entry": version_entry(document.key.id, document.version)}
        found = (self.documents.get(key) or {}).get(PROVENANCE)
        return Provenance.from_json(found) if found else None

    def references(self, key_id: str, edition: str = "") -> StoredReferences:
        """References of the current version in the index of an edition."""
        pages = list(self.entries.query(key_id, where=KeyRange(begins_with=_pages_of(edition))))
        found = [reference for item in pages for reference in item["references"]]
        return StoredReferences(found, max((float(item.get("since", 0)) for item in pages), default=0.0))

    def all_references(self, key_id: str) -> list[str]:
        """References of a key in the indexes of all editions."""
        return [reference for item in self.entries.query(key_id) for reference in item["references"]]

    def head(self, key: DocumentKey) -> Item | None:
        return self.claims.head(key)

    def version(self, key: DocumentKey, document_id: str) -> KnowledgeDocument | None:
        """The last version of the key with this document id (replaced content may come back)."""
        where = KeyRange(begins_with=version_prefix(key))
        item = next(self.documents.query(document_id, where=where, reverse=True, limit=1), None)
        return self._document(item) if item else None

    def versions(self, key: DocumentKey) -> Iterator[KnowledgeDocument]:
        """All versions of a key, the newest first."""
        for item in self.documents.query(key.id, index="documentKey-version-index", reverse=True):
            yield self._document(item)

    def current_versions(self, key_ids: Iterable[str]) -> dict[str, KnowledgeDocument]:
        """Current versions of these keys, by key id; keys without one are left out."""
        return {document.key.id: document for document in map(self._document, self._current_items(key_ids))}

    def origins(self, key_ids: Iterable[str]) -> dict[str, Provenance]:
        """Provenance of the current versions of these keys, by key id, as far as it was recorded."""
        found = {str(item["documentKey"]): item.get(PROVENANCE) for item in self._current_items(key_ids)}
        return {key_id: Provenance.from_json(stated) for key_id, stated in found.items() if stated}

    def _current_items(self, key_ids: Iterable[str]) -> list[Item]:
        heads = [head for head in self.claims.heads(key_ids) if current_id(head)]
        return self._numbered((head["documentKey"], str(head["documentId"]), int(head["version"])) for head in heads)

    def leaving(self, entries: Iterable[CalendarEntry]) -> dict[CalendarEntry, tuple[KnowledgeDocument, bool]]:
        """Versions of these entries that exist, each with a flag that its removal has begun."""
        wanted = {(one.document_id, version_entry(one.key.id, one.version)): one for one in entries}
        keys = [{"documentId": document_id, "entry": entry} for document_id, entry in wanted]
        items = self.documents.get_many(keys)
        found = ((wanted[item["documentId"], item["entry"]], item) for item in items)
        return {entry: (self._document(item), DOCUMENTS.ttl in item) for entry, item in found}

    def numbered(self, wanted: Iterable[tuple[str, str, int]]) -> list[KnowledgeDocument]:
        """Versions with these key ids, document ids and numbers that exist, in no particular order."""
        return list(map(self._document, self._numbered(wanted)))

    def _numbered(self, wanted: Iterable[tuple[str, str, int]]) -> list[Item]:
        keys = [{"documentId": name, "entry": version_entry(key_id, number)} for key_id, name, number in wanted]
        return self.documents.get_many(keys)

    def find(self, document_id: str) -> Iterator[KnowledgeDocument]:
        """All versions with this document id: the same content may be stored under several keys and scopes."""
        for item in self.documents.query(document_id, where=KeyRange(begins_with="document#")):
            yield self._document(item)

    def named(self, wanted: Collection[tuple[str, str]]) -> dict[tuple[str, str], KnowledgeDocument]:
        """The newest versions with these key ids and document ids; those without one are left out."""
        current = self.current_versions({key_id for key_id, _ in wanted}).values()
        found = {(one.key.id, one.document_id): one for one in current}
        for missing in {document_id for key_id, document_id in wanted if (key_id, document_id) not in found}:
            found |= {(one.key.id, missing): one for one in self.find(missing)}
        return {name: found[name] for name in wanted if name in found}

    def in_category(self, category: str, *, current_only: bool = True, until: str = "") -> Iterator[KnowledgeDocument]:
        """Documents of a category, of all scopes, the last updated first; those updated after `until` are left out."""
        where = KeyRange(high=until) if until else None
        items = self.documents.query(category, index="category-lastUpdated-index", where=where, reverse=True)
        return self._listed(items, current_only=current_only)

    def visible(
        self,
        scopes: Sequence[str],
        *,
        categories: Sequence[str],
        current_only: bool = True,
        begin: tuple[str, ...] = (),
    ) -> Iterator[KnowledgeDocument]:
        """Documents of these scopes (keys) and categories (sorted), by category, in each the last updated first; those
        before `begin`, a category and a time of update, are left out. Nothing of any other scope is read."""
        return self._listed(items_of_scopes(self.documents, scopes, categories, begin), current_only=current_only)

    def _listed(self, items: Iterable[Item], *, current_only: bool) -> Iterator[KnowledgeDocument]:
        documents = map(self._document, items)
        return (one for one in documents if not current_only or one.state is DocumentState.CURRENT)

    def _document(self, item: Item) -> KnowledgeDocument:
        document = document_from_item(item)
        untrusted = self.knowledge.is_untrusted(document.category, document.tier)
        return document if document.untrusted == untrusted else replace(document, untrusted=untrusted)


# -- catalog items


def version_prefix(key: DocumentKey) -> str:
    """Prefix of the sort keys of all versions of a document key; the version follows, so that they sort by it."""
    return f"document#{key.id}#"


def version_entry(key_id: str, version: int) -> str:
    """Sort key of a version."""
    return f"document#{key_id}#{version:08d}"


def category_entry(category: str, last_updated: str = "") -> str:
    """Sort key of a version in the index by scope; without a time, the prefix of its category."""
    return f"{category}#{last_updated}"


def document_item(document: KnowledgeDocument, provenance: Provenance | None = None) -> Item:
    """The item of a version: its JSON with the scope's ids as attributes, the table's original attribute names, the key
    attributes of `tables.DOCUMENTS`, and its provenance, if that is known. Whether it is a report isn't kept: that follows
    from its category, as it is declared today."""
    item = document.to_json() | ({PROVENANCE: provenance.to_json()} if provenance else {})
    return {
        **item,
        "untrusted": document.tier is not Tier.INTERNAL,
        **item.pop("scope"),
        "source": item.pop("key"),
        "sourceUri": item["source"],
        "entry": version_entry(document.key.id, document.version),
        "documentKey": document.key.id,
        "scopeKey": document.scope.key,
        "categoryUpdated": category_entry(document.category, document.last_updated),
        "lastUpdated": document.last_updated,
    }


def tag_items(document: KnowledgeDocument) -> list[Item]:
    """One item per tag: a list can't be the key of an index."""
    return [
        {
            "documentId": document.document_id,
            "entry": f"tag#{tag}#{document.key.id}",
            "tag": tag,
            "keyId": document.key.id,
            "lastUpdated": document.last_updated,
        }
        for tag in dict.fromkeys(document.tags)
    ]


def document_from_item(item: Item) -> KnowledgeDocument:
    """The version of an item, also of one by an older release: without all fields, or with the path of its file in a home."""
    scope = Scope(item["clientId"], item["groupId"], item["projectId"])
    location, address = item["s3Location"], item["sourceUri"]
    kept = scope.prefix + item["source"] if location.startswith("file:") else location
    data = {
        **item,
        "scope": scope.to_json(),
        "metadata": {**item["metadata"], "lastUpdated": item["lastUpdated"]},
        "key": item["source"],
        "source": kept if address == location else address,
        "s3Location": kept,
    }
    return KnowledgeDocument.from_json(data)


# -- listing by scope and category


INDEX = "scope-category-index"

_BEYOND = "$"
"""The character after the `#` of `category_entry`; paths of categories have neither, nor any that sorts before."""


def items_of_scopes(
    documents: Table, scopes: Sequence[str], categories: Sequence[str], begin: tuple[str, ...] = ()
) -> Iterator[Item]:
    """Versions of these scopes (keys) and categories (sorted): by category, in each the last updated first, equal ones in
    no particular order.

    `begin` is a category and a time of update: versions before that position are left out, those at it are not.
    """
    wanted = [path for path in categories if not begin or path >= begin[0]]
    held = merge(*(_held(documents, scope, wanted) for scope in scopes))
    for category, found in groupby(held, key=itemgetter(0)):
        where = _part(category, begin)
        parts = [documents.query(scope, index=INDEX, where=where, reverse=True) for _, scope in found]
        yield from merge(*parts, key=itemgetter("lastUpdated"), reverse=True)


def _held(documents: Table, scope: str, wanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Categories that the scope has versions of, each with the scope. One item is read of each, and the rest is skipped:
    there are more categories than most scopes have."""
    if len(wanted) < 2:
        yield from ((path, scope) for path in wanted)
        return
    low, high = category_entry(wanted[0]), wanted[-1] + _BEYOND
    while item := next(documents.query(scope, index=INDEX, where=KeyRange(low, high), limit=1), None):
        category = str(item["category"])
        if category in wanted:
            yield category, scope
        low = category + _BEYOND


def _part(category: str, begin: tuple[str, ...]) -> KeyRange:
    first = category_entry(category)
    return KeyRange(first, category_entry(*begin)) if begin[:1] == (category,) else KeyRange(begins_with=first)
