"""Reads and validates the contents of an archive, which is untrusted input; changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.scopes import Scope, scope_of_object
from opx.errors import ArchiveError, InvalidInputError, UnknownCategoryError
from opx.ingestion.corpus.catalog import document_from_item, document_item
from opx.ingestion.corpus.chunk_files import VERSION_FILE
from opx.ingestion.corpus.clients import CLIENTS
from opx.ingestion.events import SIDECAR_SUFFIX, is_document
from opx.lifecycle.archive.exporting import (
    ARCHIVED,
    DOCUMENT_LINES,
    FILE_LINES,
    HEAD_ATTRIBUTES,
    VERSION_LINES,
    ArchivedTable,
)
from opx.lifecycle.archive.file import ArchiveReader, Blob, BlobReader
from opx.lifecycle.report import FOLDER as REMOVALS
from opx.ports import Item, Storage, Tables
from opx.ports.tables import DOCUMENTS, PROJECTS, from_json
from opx.runtime.knowledge_file import Installation

_NAMING_SCOPES = ("scopeKey", "scope", "within", "place", "seriesKey", "who", "canonicalPlace")
_CLIENT = re.compile(r"\bclient:([A-Za-z0-9][A-Za-z0-9._-]{0,63})")

STATES = tuple(state.value for state in DocumentState)


@dataclass(frozen=True, slots=True)
class ArchivedDocument:
    """A document of an archive: its key, the key's item in the catalog (empty if it was never ingested), the time since
    which it has been in that state, its object and its sidecar."""

    key: DocumentKey
    head: Mapping[str, Any]
    since: str
    object: Blob | None
    sidecar: Blob | None

    @property
    def object_key(self) -> str:
        return self.key.scope.prefix + self.key.source


@dataclass(slots=True)
class Contents:
    """Counts by kind of item, the clients concerned, and notes for the operator before the import."""

    counts: Counter[str] = field(default_factory=Counter)
    clients: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


class ArchiveContents:
    """Reads the contents of an archive for one system. All methods raise `ArchiveError`, which names the problem."""

    def __init__(self, archive: ArchiveReader, installation: Installation, *, tables: Tables, storage: Storage) -> None:
        self._archive = archive
        self._installation = installation
        self._tables = tables
        self._storage = storage

    def check(self, progress: Callable[[str], None] = lambda _: None) -> Contents:
        """Validate every checksum and line, and that this system's stores would accept each item."""
        contents = Contents()
        with BlobReader(self._archive) as blobs:
            for file in self.files():
                progress("checking files")
                blobs.check(file)
                contents.counts["files"] += 1
        with BlobReader(self._archive) as blobs:
            for document in self.documents():
                progress("checking documents")
                contents.counts["documents"] += 1
                contents.clients.add(document.key.scope.client_id)
                for one in filter(None, (document.sidecar, document.object)):
                    blobs.check(one)
        self._check_rows(contents)
        self._archive.verify(lambda name: progress(f"checking {name}"))
        return contents

    def _check_rows(self, contents: Contents) -> None:
        unknown: Counter[str] = Counter()
        for version in self.versions():
            contents.counts["versions"] += 1
            contents.clients.add(version.key.scope.client_id)
            try:
                self._installation.knowledge.category(version.category)
            except UnknownCategoryError:
                unknown[version.category] += 1
        for table in ARCHIVED:
            for row in self.rows(table):
                contents.counts[table.entry] += 1
                contents.clients |= set() if table.spec is PROJECTS else _clients_of(row)
        contents.notes += [
            f"{count} versions are of category {category}, which this system's knowledge.yaml lacks: its documents can't be "
            "ingested until it is added"
            for category, count in unknown.items()
        ]

    # -- iteration

    def documents(self) -> Iterator[ArchivedDocument]:
        for line in self._archive.lines(DOCUMENT_LINES):
            yield self._document(line)

    def files(self) -> Iterator[Blob]:
        """Objects other than documents: chunk files, outlines and reports of removals."""
        for line in self._archive.lines(FILE_LINES):
            blob = self._blob(line)
            is_ours = VERSION_FILE.match(scope_of_object(blob.key)[1]) or blob.key.startswith(REMOVALS)
            if not is_ours:
                raise ArchiveError(f"{FILE_LINES}: {blob.key[:200]} is no file that the system writes")
            yield blob

    def versions(self) -> Iterator[KnowledgeDocument]:
        for line in self._archive.raw_lines(VERSION_LINES):
            yield self._version(line)

    def rows(self, table: ArchivedTable) -> Iterator[Item]:
        for line in self._archive.raw_lines(table.entry):
            yield self._row(table, line)

    # -- validation of single items

    def _document(self, line: Mapping[str, Any]) -> ArchivedDocument:
        name, head = line.get("key"), line.get("head")
        if not isinstance(name, str) or not isinstance(head, dict | None):
            raise ArchiveError(f"{DOCUMENT_LINES}: a document without a key or head")
        key = self._key(name)
        attributes = dict(head or {})
        since = attributes.pop("since", "")
        if attributes and not _is_head(attributes, key):
            raise ArchiveError(
                f"{DOCUMENT_LINES}: the head of {name[:200]} belongs to another document, or is incomplete"
            )
        found, sidecar = (self._blob(line[part]) if line.get(part) else None for part in ("object", "sidecar"))
        if (found and found.key != name) or (sidecar and sidecar.key != name + SIDECAR_SUFFIX):
            raise ArchiveError(f"{DOCUMENT_LINES}: the object of {name[:200]} has another name")
        return ArchivedDocument(key, attributes, str(since), found, sidecar)

    def _key(self, object_key: str) -> DocumentKey:
        self._check_object(object_key, {})
        key = DocumentKey(*scope_of_object(object_key))
        if not is_document(key.source):
            raise ArchiveError(f"{DOCUMENT_LINES}: {object_key[:200]} is no name of a document")
        return key

    def _blob(self, data: Any) -> Blob:
        blob = Blob.from_json(data)
        self._check_object(blob.key, blob.metadata)
        return blob

    def _check_object(self, key: str, metadata: Mapping[str, str]) -> None:
        try:
            self._storage.check(key, metadata)
            scope_of_object(key)
        except InvalidInputError as exc:
            raise ArchiveError(f"an object of the archive has an invalid name or metadata: {exc}") from exc

    def _version(self, line: bytes) -> KnowledgeDocument:
        """A version, with the location that its object gets in this system."""
        try:
            item = _item(line)
            location = self._storage.location(_object_key(item))
            item["sourceUri"] = location if item["sourceUri"] == item["s3Location"] else item["sourceUri"]
            document = document_from_item({**item, "s3Location": location})
            self._check_object(document.key.scope.prefix + document.key.source, {})
            self._tables.check_item(DOCUMENTS, document_item(document))
        except (KeyError, TypeError, ValueError, AttributeError, InvalidInputError) as exc:
            raise ArchiveError(f"{VERSION_LINES}: a version is incomplete or malformed: {str(exc)[:300]}") from exc
        if item.get("documentKey") != document.key.id:
            raise ArchiveError(f"{VERSION_LINES}: a version of {document.key.source[:200]} is filed under another key")
        return document

    def _row(self, table: ArchivedTable, line: bytes) -> Item:
        try:
            item = _item(line)
            self._tables.check_item(table.spec, item)
            belongs = table.keeps(item)
        except (KeyError, TypeError, ValueError, InvalidInputError) as exc:
            raise ArchiveError(f"{table.entry}: the table can't hold a row: {str(exc)[:300]}") from exc
        if not belongs:
            raise ArchiveError(f"{table.entry}: a row that is never exported: {str(table.spec.key_of(item))[:200]}")
        return item


def _item(line: bytes) -> Item:
    try:
        item = from_json(line.decode("utf-8", "surrogatepass"))
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    if not isinstance(item, dict):
        raise TypeError("it is no JSON object")
    return item


def _object_key(item: Item) -> str:
    scope = Scope(item["clientId"], item["groupId"], item["projectId"])
    return f"{scope.prefix}{item['source']}"


def _is_head(attributes: Mapping[str, Any], key: DocumentKey) -> bool:
    """True if these are the exported attributes of the key's item."""
    if set(attributes) != set(HEAD_ATTRIBUTES) or (attributes["scope"], attributes["source"]) != (
        key.scope.key,
        key.source,
    ):
        return False
    version, document_id = attributes["version"], attributes["documentId"]
    return isinstance(version, int) and version > 0 and isinstance(document_id, str) and attributes["state"] in STATES


def _clients_of(row: Item) -> set[str]:
    """Clients that own a row, by the attributes that name scopes."""
    named = {str(row[name]) for name in ("clientId",) if row.get(name) and row[name] != CLIENTS}
    keys = (str(value) for name, value in row.items() if name in _NAMING_SCOPES)
    return named | {match[1] for key in keys for match in [_CLIENT.search(key)] if match}
