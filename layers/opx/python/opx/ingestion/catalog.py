"""Which documents there are: the versions of each key, which one is current, and who is changing it.

A change is claimed before it starts and finished when the index has it. A claim is a lease with a token: a worker that
died loses it after a while, and one that was only slow finds at the end that its token no longer counts. The item of
the key is written last, so that whatever was interrupted is simply done again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.times import iso_time
from opx.errors import ConditionFailedError
from opx.ingestion.catalog_items import document_from_item, document_item, tag_items, version_prefix
from opx.ingestion.events import ObjectEvent
from opx.ports import Absent, Clock, Equals, Item, KeyRange, Table

_PAGE = 1000
"""References an item: 20 bytes each, far below the 400 KB of a DynamoDB item."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to change one document. `head` is the key's item as it was found, empty for a new key."""

    key: DocumentKey
    event: ObjectEvent
    token: str
    head: Item

    @property
    def current_id(self) -> str:
        """The document id that is in the index, or "" if none is."""
        return str(self.head.get("documentId", "")) if self.head.get("state") == DocumentState.CURRENT else ""

    @property
    def interrupted(self) -> bool:
        """True if an earlier attempt began to write and didn't finish."""
        return bool(self.head.get("writing"))


class StaleEventError(Exception):
    """The event is not newer than what was applied already."""


class BusyError(Exception):
    """Another worker is changing the document."""


class Catalog:
    """The only writer of the documents, keys and entries tables."""

    def __init__(self, documents: Table, keys: Table, entries: Table, *, clock: Clock, lease_seconds: int) -> None:
        self._documents = documents
        self._keys = keys
        self._entries = entries
        self._clock = clock
        self._lease_seconds = lease_seconds

    # -- changing

    def claim(self, key: DocumentKey, event: ObjectEvent) -> Claim:
        """Begin to apply an event. Raises `StaleEventError` or `BusyError`."""
        head = self._keys.get({"documentKey": key.id}) or {}
        if event.sequencer <= str(head.get(_sequence_name(event), "")):
            raise StaleEventError(event.key)
        now = self._clock()
        if float(head.get("leaseUntil", 0)) > now:
            raise BusyError(event.key)
        token = secrets.token_hex(8)
        lease = {
            "documentKey": key.id,
            "source": key.source,
            "scope": key.scope.key,
            "leaseToken": token,
            "leaseUntil": now + self._lease_seconds,
            "writing": bool(head.get("writing", False)),
        }
        condition = Equals("leaseToken", head["leaseToken"]) if head else Absent()
        try:
            self._keys.put({**head, **lease}, condition=condition)
        except ConditionFailedError as exc:
            raise BusyError(event.key) from exc
        return Claim(key, event, token, head)

    def start_writing(self, claim: Claim) -> None:
        """Note that the index is about to change, so that a crash from here on is seen by the next attempt."""
        self._update(claim, {"writing": True, "leaseUntil": self._clock() + self._lease_seconds})

    def finish(self, claim: Claim, document: KnowledgeDocument, fingerprint: str, references: list[str] | None) -> None:
        """Make `document` the current version. `references` are those to keep, None where ids are derived.

        Raises `ConditionFailedError` if the claim was lost meanwhile; the caller then undoes what it wrote.
        """
        item = document_item(document)
        self._documents.put_many([item, *tag_items(document)])
        if references is not None:
            self._keep_references(claim, references)
        if claim.current_id and claim.current_id != document.document_id:
            self._retire(claim, DocumentState.SUPERSEDED)
        facts = {
            "documentId": document.document_id,
            "version": document.version,
            "state": DocumentState.CURRENT.value,
            "fingerprint": fingerprint,
        }
        self._release(claim, facts)

    def withdraw(self, claim: Claim) -> None:
        """Mark the document as deleted; its versions stay readable. Raises `ConditionFailedError` like `finish`."""
        if claim.current_id:
            self._retire(claim, DocumentState.DELETED)
        self._keep_references(claim, [])
        self._release(claim, {"state": DocumentState.DELETED.value, "fingerprint": ""})

    def release(self, claim: Claim, *, applied: bool) -> None:
        """Give a claim back without a change; `applied` notes the event as done. A lost claim is ignored."""
        facts = {_sequence_name(claim.event): claim.event.sequencer} if applied else {}
        try:
            self._update(claim, {**facts, "leaseUntil": 0})
        except ConditionFailedError:
            return

    def _release(self, claim: Claim, facts: Item) -> None:
        done = {_sequence_name(claim.event): claim.event.sequencer, "leaseUntil": 0, "writing": False}
        self._update(claim, {**facts, **done})

    def _update(self, claim: Claim, facts: Item) -> None:
        head = self._keys.get({"documentKey": claim.key.id}) or {}
        self._keys.put({**head, **facts}, condition=Equals("leaseToken", claim.token))

    def _retire(self, claim: Claim, state: DocumentState) -> None:
        """Mark the version that was current, and take its tags out of their index."""
        old = self.version(claim.key, claim.current_id)
        if old is None:
            return
        retired = replace(old, state=state, superseded_at=iso_time(self._clock()))
        self._documents.put(document_item(retired))
        for item in tag_items(old):
            self._documents.delete({"documentId": item["documentId"], "entry": item["entry"]})

    def _keep_references(self, claim: Claim, references: list[str]) -> None:
        pages = [references[at : at + _PAGE] for at in range(0, len(references), _PAGE)]
        names = [f"{number:06d}" for number in range(len(pages))]
        key = claim.key.id
        self._entries.put_many(
            {"documentKey": key, "page": name, "references": page} for name, page in zip(names, pages, strict=True)
        )
        for item in list(self._entries.query(key)):
            if item["page"] not in names:
                self._entries.delete({"documentKey": key, "page": item["page"]})

    # -- reading

    def references(self, key: DocumentKey) -> list[str]:
        """The references that were kept of the current version."""
        return [reference for item in self._entries.query(key.id) for reference in item["references"]]

    def head(self, key: DocumentKey) -> Item | None:
        return self._keys.get({"documentKey": key.id})

    def version(self, key: DocumentKey, document_id: str) -> KnowledgeDocument | None:
        """The last version of the key with this document id (a text may come back after it was replaced)."""
        where = KeyRange(begins_with=version_prefix(key))
        item = next(self._documents.query(document_id, where=where, reverse=True, limit=1), None)
        return document_from_item(item) if item else None

    def versions(self, key: DocumentKey) -> Iterator[KnowledgeDocument]:
        """All versions of a key, the newest first."""
        for item in self._documents.query(key.id, index="documentKey-version-index", reverse=True):
            yield document_from_item(item)

    def find(self, document_id: str) -> Iterator[KnowledgeDocument]:
        """Every document with this id: the same text may have come in under several keys and scopes."""
        for item in self._documents.query(document_id, where=KeyRange(begins_with="document#")):
            yield document_from_item(item)

    def in_category(self, category: str, *, current_only: bool = True) -> Iterator[KnowledgeDocument]:
        """Documents of a category, the last updated first."""
        for item in self._documents.query(category, index="category-lastUpdated-index", reverse=True):
            document = document_from_item(item)
            if not current_only or document.state is DocumentState.CURRENT:
                yield document

    def tagged(self, tag: str) -> Iterator[KnowledgeDocument]:
        """Current documents with a tag, the last updated first."""
        for item in self._documents.query(tag, index="tags-index", reverse=True):
            prefix = KeyRange(begins_with=f"document#{item['keyId']}#")
            found = next(self._documents.query(item["documentId"], where=prefix, reverse=True, limit=1), None)
            if found and found["state"] == DocumentState.CURRENT:
                yield document_from_item(found)


def _sequence_name(event: ObjectEvent) -> str:
    """A sidecar's sequencers can't be compared with its document's."""
    return "sidecarSequencer" if event.is_sidecar else "sequencer"
