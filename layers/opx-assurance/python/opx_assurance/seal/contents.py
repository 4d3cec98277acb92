"""Hashes everything that an archive restores: documents, versions with their files, and rows.

What differs between two homes that were restored from one archive is left out: locations, indexes, caches and work in
progress.

The recorded checksums of the catalog may stand for the bytes: of an object as long as the store has the very version of it
that was ingested, and of the files of a version always. Where all is as it was ingested, the leaves are the same. What has no
recorded checksum is read.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import islice
from typing import Any

from opx.domain.documents import DocumentKey, KnowledgeDocument
from opx.domain.ids import stable_hash
from opx.domain.provenance import Provenance
from opx.domain.scopes import scope_of_object
from opx.errors import ObjectNotFoundError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.catalog import PROVENANCE, document_from_item
from opx.ingestion.corpus.chunk_files import chunk_file, outline_file
from opx.ingestion.corpus.proving import digest_of
from opx.ingestion.events import SIDECAR_SUFFIX, document_at
from opx.ports import Item, ObjectInfo, Storage, Tables
from opx.ports.tables import AUDIT, DOCUMENTS, GAPS, TableSpec, to_json
from opx.records.audit import INSTALLATION
from opx.runtime.threads import Each
from opx_assurance.archive.exporting import ArchivedTable, archived_tables
from opx_assurance.seal.merkle import leaf_hash

DOCUMENTS_PART, VERSIONS_PART = "documents", "versions"
_AT_ONCE = 100
_OF_A_HOME = ("s3Location",)
"""Fields of a version that name the home or bucket."""

_ADDED = ("attributes",)
"""Fields of a version that earlier seals don't have: one without a value is left out."""

_OF_AN_INGESTION = ("ingestedAt", "objectVersion")
"""Fields of its provenance that a restored home has anew."""

_OVERWRITABLE = ("", "null")
"""Versions of an object whose bytes may change: those of a bucket that keeps no versions, or kept none at the time."""


_BEFORE_DOCUMENTS = "clients/"
"""Keys of all documents are behind this one, and the chunk files of the global scope before it."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """Hash of one thing, by part and id. Ids are hashes: a seal must not name what is removed later. `name` is for people."""

    part: str
    id: str
    hash: bytes
    name: str


@dataclass(frozen=True, slots=True)
class Position:
    """A step of reading, and the key of the last item that was read in it; None at its beginning."""

    step: str
    after: Item | None = None


@dataclass(frozen=True, slots=True)
class LeafBatch:
    """Leaves, and the position behind them."""

    leaves: list[Leaf]
    position: Position


@dataclass(frozen=True, slots=True)
class _Step:
    """Items behind a key, the key of an item, and the leaves of a batch of them."""

    items: Callable[[Item | None], Iterator[Any]]
    key: Callable[[Any], Item]
    leaves: Callable[[list[Any]], list[Leaf]]


@dataclass(frozen=True, slots=True)
class _Listed:
    """A document's object."""

    name: str
    key: DocumentKey
    has_sidecar: bool

    @classmethod
    def of(cls, name: str, sidecars: set[str]) -> _Listed:
        return cls(name, DocumentKey(*scope_of_object(name)), name + SIDECAR_SUFFIX in sidecars)


@dataclass(eq=False)
class SealedContents:
    """Lists the leaves of an installation. `progress` is called with the kind of item read and the count so far. If
    `is_recorded`, recorded checksums stand for bytes, as above."""

    tables: Tables
    storage: Storage
    corpus: Corpus
    progress: Callable[[str, int], None]
    _: KW_ONLY
    is_recorded: bool = False

    def leaves(self) -> Iterator[Leaf]:
        """All leaves, in no particular order. Raises `StoreUnavailableError`."""
        for batch in self.batches():
            yield from batch.leaves

    def batches(self, begin: Position | None = None) -> Iterator[LeafBatch]:
        """All leaves in batches, from the position of an earlier one on, also of another process. Raises
        `StoreUnavailableError`."""
        steps = self._steps()
        names = list(steps)
        for name in names[names.index(begin.step) if begin else 0 :]:
            step, count = steps[name], 0
            items = step.items(begin.after if begin and begin.step == name else None)
            while batch := list(islice(items, _AT_ONCE)):
                yield LeafBatch(step.leaves(batch), Position(name, step.key(batch[-1])))
                count += len(batch)
                self.progress(name, count)

    def _steps(self) -> dict[str, _Step]:
        tables = [table for table in archived_tables() if table.spec is not GAPS or not table.private]
        return {
            DOCUMENTS_PART: _Step(self._listed, lambda one: {"key": one.name}, self._documents),
            VERSIONS_PART: _Step(
                self._versions, DOCUMENTS.key_of, partial(Each(self.storage.read_threads), self._version)
            ),
            **{
                table.spec.short_name: _Step(
                    partial(self._rows, table), table.spec.key_of, partial(_leaves_of, table.spec)
                )
                for table in tables
            },
        }

    # -- documents

    def _listed(self, after: Item | None) -> Iterator[_Listed]:
        """Documents, each when the listing is behind the key of its sidecar."""
        waiting, sidecars = deque[str](), set[str]()
        for info in self.corpus.store.list(after=after["key"] if after else _BEFORE_DOCUMENTS):
            while waiting and waiting[0] + SIDECAR_SUFFIX < info.key:
                yield _Listed.of(waiting.popleft(), sidecars)
            if info.key.endswith(SIDECAR_SUFFIX):
                sidecars.add(info.key)
            elif document_at(info.key):
                waiting.append(info.key)
        for object_key in waiting:
            yield _Listed.of(object_key, sidecars)

    def _documents(self, listed: list[_Listed]) -> list[Leaf]:
        origins = self.corpus.catalog.origins(one.key.id for one in listed) if self.is_recorded else {}
        found = Each(self.storage.read_threads)(lambda one: self._document(one, origins.get(one.key.id)), listed)
        return [leaf for leaf in found if leaf]

    def _document(self, listed: _Listed, origin: Provenance | None) -> Leaf | None:
        info = self.corpus.store.head(listed.name)
        if info is None:
            return None
        checksum = _recorded_checksum(info, origin) or self._digest(listed.name)
        sidecar = self._digest(listed.name + SIDECAR_SUFFIX) if listed.has_sidecar else ""
        facts = [listed.name, checksum, dict(sorted(info.metadata.items())), sidecar]
        return _leaf(DOCUMENTS_PART, listed.key.id, facts, listed.name)

    def is_as_ingested(self, object_key: str) -> bool:
        """True if an object has the checksum that was recorded when its document was ingested."""
        key_id = DocumentKey(*scope_of_object(object_key)).id
        origin = self.corpus.catalog.origins([key_id]).get(key_id)
        recorded = origin.object_checksum if origin else ""
        return recorded != "" and self._digest(object_key) == recorded

    def _digest(self, object_key: str) -> str:
        try:
            return digest_of(self.corpus.store, object_key)
        except ObjectNotFoundError:
            return ""

    # -- versions

    def _versions(self, after: Item | None) -> Iterator[Item]:
        found = self.tables.every_item(DOCUMENTS, after=after)
        return (item for item in found if str(item["entry"]).startswith("document#"))

    def _version(self, item: Item) -> Leaf:
        document = document_from_item(item)
        stated = item.get(PROVENANCE) or {}
        provenance = {name: value for name, value in stated.items() if name not in _OF_AN_INGESTION}
        stated_fields = document.to_json().items()
        row = {name: value for name, value in stated_fields if name not in _OF_A_HOME and (value or name not in _ADDED)}
        if document.source_uri == document.location:
            row["source"] = ""
        key, document_id = document.key, document.document_id
        files = [
            self._file(document, "chunks_checksum", chunk_file(key, document_id)),
            self._file(document, "outline_checksum", outline_file(key, document_id)),
        ]
        name = f"version {document.version} of {key.scope.prefix}{key.source}"
        return _leaf(VERSIONS_PART, f"{key.id}#{document.version}", [row, provenance, *files], name)

    def _file(self, document: KnowledgeDocument, field: str, name: str) -> str:
        """The checksum of a version's file: the recorded one also where a version of the same content in the same scope,
        which shares the file, has written it since."""
        recorded = str(getattr(document, field))
        if self.is_recorded and recorded:
            return recorded
        checksum = self._digest(name)
        if recorded in ("", checksum):
            return checksum
        shared = (one for one in self.corpus.catalog.find(document.document_id) if one.scope == document.scope)
        return recorded if checksum and checksum in {getattr(one, field) for one in shared} else checksum

    # -- rows

    def _rows(self, table: ArchivedTable, after: Item | None) -> Iterator[Item]:
        items = self.tables.every_item(table.spec, after=after)
        return (item for item in items if table.keeps(item) and item.get("scopeKey") != INSTALLATION)

    def answer(self, receipt_id: str) -> tuple[Item, Leaf] | None:
        """The record of an answer in the audit log, with its leaf; None if there is none."""
        item = self.tables.table(AUDIT).get({"receiptId": receipt_id})
        return (item, _row(AUDIT, item)) if item else None


def _recorded_checksum(info: ObjectInfo, origin: Provenance | None) -> str:
    """The checksum of the version of an object that was ingested, if that is the object; else ""."""
    if origin is None or info.version in _OVERWRITABLE or info.version != origin.object_version:
        return ""
    return origin.object_checksum


def _leaves_of(spec: TableSpec, items: list[Item]) -> list[Leaf]:
    return [_row(spec, item) for item in items]


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
