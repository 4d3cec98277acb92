"""Hashes everything that an archive restores: documents, versions with their files, and rows.

What differs between two homes that were restored from one archive is left out: locations, indexes, caches and work in
progress.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from opx.domain.documents import DocumentKey
from opx.domain.ids import stable_hash
from opx.domain.scopes import scope_of_object
from opx.errors import InvalidScopeError, ObjectNotFoundError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.catalog import PROVENANCE, document_from_item
from opx.ingestion.corpus.chunk_files import chunk_file, outline_file
from opx.ingestion.corpus.proving import digest_of
from opx.ingestion.events import SIDECAR_SUFFIX, is_document
from opx.lifecycle.archive.exporting import ARCHIVED, INSTALLATION, ArchivedTable
from opx.lifecycle.seal.merkle import leaf_hash
from opx.ports import Item, Storage, Tables
from opx.ports.tables import AUDIT, DOCUMENTS, GAPS, TableSpec, to_json
from opx.runtime.threads import Each

DOCUMENTS_PART, VERSIONS_PART = "documents", "versions"
_AT_ONCE = 100
_OF_A_HOME = ("s3Location",)
"""Fields of a version that name the home or bucket."""

_OF_AN_INGESTION = ("ingestedAt", "objectVersion")
"""Fields of its provenance that a restored home has anew."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Hash of one thing, by part and id. Ids are hashes: a seal must not name what is removed later. `name` is for people."""

    part: str
    id: str
    hash: bytes
    name: str


class SealedContents:
    """Lists the leaves of an installation. `progress` is called with the kind of item read and the count so far."""

    def __init__(self, tables: Tables, storage: Storage, corpus: Corpus, progress: Callable[[str, int], None]) -> None:
        self._tables = tables
        self._corpus = corpus
        self._progress = progress
        self._each = Each(storage.read_threads)

    def leaves(self) -> Iterator[Leaf]:
        """All leaves, in no particular order. Raises `StoreUnavailableError`."""
        yield from self._in_batches("documents", self._document_keys(), self._document)
        yield from self._in_batches("versions", self._versions(), self._version)
        for table in ARCHIVED:
            if table.spec is not GAPS or not table.private:
                yield from self._rows(table)

    def _in_batches(self, kind: str, items: Iterator[Any], hashed: Callable[[Any], Leaf | None]) -> Iterator[Leaf]:
        count = 0
        while batch := list(islice(items, _AT_ONCE)):
            yield from filter(None, self._each(hashed, batch))
            count += len(batch)
            self._progress(kind, count)

    # -- documents

    def _document_keys(self) -> Iterator[str]:
        return (info.key for info in self._corpus.store.list() if _is_document(info.key))

    def _document(self, object_key: str) -> Leaf | None:
        store = self._corpus.store
        info = store.head(object_key)
        if info is None:
            return None
        sidecar = self._digest(object_key + SIDECAR_SUFFIX)
        facts = [object_key, self._digest(object_key), dict(sorted(info.metadata.items())), sidecar]
        key = DocumentKey(*scope_of_object(object_key))
        return _leaf(DOCUMENTS_PART, key.id, facts, object_key)

    def _digest(self, object_key: str) -> str:
        try:
            return digest_of(self._corpus.store, object_key)
        except ObjectNotFoundError:
            return ""

    # -- versions

    def _versions(self) -> Iterator[Item]:
        return (item for item in self._tables.every_item(DOCUMENTS) if str(item["entry"]).startswith("document#"))

    def _version(self, item: Item) -> Leaf:
        document = document_from_item(item)
        stated = item.get(PROVENANCE) or {}
        provenance = {name: value for name, value in stated.items() if name not in _OF_AN_INGESTION}
        row = {name: value for name, value in document.to_json().items() if name not in _OF_A_HOME}
        if document.source_uri == document.location:
            row["source"] = ""
        key, document_id = document.key, document.document_id
        files = [self._digest(chunk_file(key, document_id)), self._digest(outline_file(key, document_id))]
        name = f"version {document.version} of {key.scope.prefix}{key.source}"
        return _leaf(VERSIONS_PART, f"{key.id}#{document.version}", [row, provenance, *files], name)

    # -- rows

    def _rows(self, table: ArchivedTable) -> Iterator[Leaf]:
        count = 0
        for item in self._tables.every_item(table.spec):
            if table.keeps(item) and item.get("scopeKey") != INSTALLATION:
                count += 1
                yield _row(table.spec, item)
        self._progress(table.spec.short_name, count)

    def answer(self, receipt_id: str) -> tuple[Item, Leaf] | None:
        """The record of an answer in the audit log, with its leaf; None if there is none."""
        item = self._tables.table(AUDIT).get({"receiptId": receipt_id})
        return (item, _row(AUDIT, item)) if item else None


def _row(spec: TableSpec, item: Item) -> Leaf:
    """The leaf of a row, in the part of its table, and of the audit log in that of the day."""
    name = "/".join(str(value) for value in spec.key_of(item).values())
    day = f" {str(item.get('askedAt', ''))[:10]}" if spec is AUDIT and "queryHash" in item else ""
    return _leaf(f"{spec.short_name}{day}", stable_hash("row", name), [to_json(_sorted(item))], name)


def _sorted(item: Item) -> Item:
    return dict(sorted(item.items()))


def _leaf(part: str, leaf_id: str, facts: list[Any], name: str) -> Leaf:
    data = json.dumps([part, leaf_id, facts], sort_keys=True, separators=(",", ":"))
    return Leaf(part, leaf_id, leaf_hash(data.encode()), name)


def _is_document(object_key: str) -> bool:
    try:
        return is_document(scope_of_object(object_key)[1])
    except InvalidScopeError:
        return False
