"""Reads and validates the contents of an archive, which is untrusted input; changes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opx.domain.documents import DocumentKey, KnowledgeDocument
from opx.domain.provenance import Provenance
from opx.domain.scopes import Scope, scope_of_object
from opx.errors import ArchiveError, InvalidInputError, UnknownCategoryError
from opx.ingestion.corpus.catalog import PROVENANCE, document_from_item, document_item
from opx.ingestion.corpus.chunk_files import VERSION_FILE
from opx.ingestion.corpus.clients import CLIENTS
from opx.ingestion.events import SIDECAR_SUFFIX, is_document
from opx.lifecycle.report import FOLDER as REMOVALS
from opx.lifecycle.rows import all_rows, missing_rows
from opx.ports import Item, Storage, Tables
from opx.ports.rows import REFUSALS, RowKind, check_row, require_text, require_time
from opx.ports.tables import DOCUMENTS, PROJECTS, from_json, to_json
from opx.runtime.knowledge_file import Installation
from opx_assurance.archive.exporting import (
    DOCUMENT_LINES,
    FILE_LINES,
    HEAD_ATTRIBUTES,
    TABLES,
    VERSION_LINES,
    ArchivedTable,
    archived_tables,
)
from opx_assurance.archive.file import ArchiveReader, Blob, BlobReader
from opx_assurance.archive.references import (
    ArchivedDocument,
    DocumentHead,
    PackOrder,
    References,
    check_file_content,
    reason_of,
    refusal,
)

_NAMING_SCOPES = ("scopeKey", "scope", "within", "place", "seriesKey", "who", "canonicalPlace")
_CLIENT = re.compile(r"\bclient:([A-Za-z0-9][A-Za-z0-9._-]{0,63})")
_DOCUMENT_ID = re.compile(r"[0-9a-f]{16,64}\Z")


@dataclass(slots=True)
class Contents:
    """Counts by kind of item, the clients concerned, and notes for the operator before the import."""

    counts: Counter[str] = field(default_factory=Counter)
    clients: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


class ArchiveContents:
    """Reads the contents of an archive for one system. All methods raise `ArchiveError`, which names the entry, the line and
    the problem."""

    def __init__(self, archive: ArchiveReader, installation: Installation, *, tables: Tables, storage: Storage) -> None:
        self._archive = archive
        self._installation = installation
        self._tables = tables
        self._storage = storage
        self._missing = missing_rows()

    def check(self, progress: Callable[[str], None] = lambda _: None) -> Contents:
        """Validate every checksum and line, that lines agree with each other, and that this system's stores would accept
        each item."""
        contents, known = Contents(), References()
        with BlobReader(self._archive) as blobs:
            for document in self.documents():
                progress("checking documents")
                contents.counts["documents"] += 1
                contents.clients.add(document.key.scope.client_id)
                known.add_document(document)
                for one in filter(None, (document.sidecar, document.object)):
                    blobs.check(one)
        self._check_versions(contents, known)
        with BlobReader(self._archive) as blobs:
            for file in self.files():
                progress("checking files")
                known.check_file(file)
                with blobs.open(file) as data:
                    check_file_content(file, data)
                contents.counts["files"] += 1
        self._check_rows(contents)
        self._archive.verify(lambda name: progress(f"checking {name}"))
        return contents

    def _check_versions(self, contents: Contents, known: References) -> None:
        unknown: Counter[str] = Counter()
        for version, _ in self.versions():
            contents.counts["versions"] += 1
            contents.clients.add(version.key.scope.client_id)
            known.add_version(version)
            try:
                self._installation.knowledge.category(version.category)
            except UnknownCategoryError:
                unknown[version.category] += 1
        known.check_heads()
        contents.notes += [
            f"{count} versions are of category {category}, which this system's knowledge.yaml lacks: its documents can't be "
            "ingested until it is added"
            for category, count in unknown.items()
        ]

    def _check_rows(self, contents: Contents) -> None:
        tables = archived_tables()
        entries = {name for name in self._archive.names if name.startswith(TABLES)}
        if unknown := entries - {table.entry for table in tables}:
            raise ArchiveError(
                f"{min(unknown)} has rows of a distribution that isn't installed: install it, then import again; the archive "
                "is refused, and nothing was changed"
            )
        for table in tables:
            keys: set[tuple[Any, ...]] = set()
            for row in self.rows(table):
                contents.counts[table.entry] += 1
                contents.clients |= set() if table.spec is PROJECTS else _clients_of(row)
                key = tuple(table.spec.key_of(row).values())
                if key in keys:
                    raise refusal(table.entry, len(keys) + 1, f"two rows have the key {str(key)[:200]}")
                keys.add(key)

    # -- iteration

    def documents(self) -> Iterator[ArchivedDocument]:
        order = PackOrder(DOCUMENT_LINES)
        for number, line in enumerate(self._archive.lines(DOCUMENT_LINES), start=1):
            try:
                document = self._document(line)
            except REFUSALS as exc:
                raise refusal(DOCUMENT_LINES, number, str(exc)) from exc
            for blob in filter(None, (document.sidecar, document.object)):
                order.check(blob, number)
            yield document

    def files(self) -> Iterator[Blob]:
        """Objects other than documents: chunk files, outlines and reports of removals."""
        order = PackOrder(FILE_LINES)
        for number, line in enumerate(self._archive.lines(FILE_LINES), start=1):
            try:
                blob = self._blob(line)
            except REFUSALS as exc:
                raise refusal(FILE_LINES, number, str(exc)) from exc
            is_ours = VERSION_FILE.match(scope_of_object(blob.key)[1]) or blob.key.startswith(REMOVALS)
            if not is_ours:
                raise refusal(FILE_LINES, number, f"{blob.key[:200]} is no file that the system writes")
            order.check(blob, number)
            yield blob

    def versions(self) -> Iterator[tuple[KnowledgeDocument, Provenance | None]]:
        """Versions with their provenance, None for those of earlier releases. Raises `ArchiveError`."""
        for number, line in enumerate(self._archive.raw_lines(VERSION_LINES), start=1):
            try:
                version = self._version(line)
            except REFUSALS as exc:
                raise refusal(VERSION_LINES, number, f"a version is incomplete or malformed: {exc}") from exc
            yield version

    def rows(self, table: ArchivedTable) -> Iterator[Item]:
        kinds = [kind for rows in all_rows() if rows.table.name == table.spec.name for kind in rows.kinds]
        for number, line in enumerate(self._archive.raw_lines(table.entry), start=1):
            try:
                item = self._row(table, line, kinds)
            except REFUSALS as exc:
                raise refusal(table.entry, number, f"the table can't hold the row: {reason_of(exc)}") from exc
            yield item

    # -- validation of single items

    def _document(self, line: Mapping[str, Any]) -> ArchivedDocument:
        name, given = line.get("key"), line.get("head")
        if not isinstance(name, str) or not isinstance(given, dict | None):
            raise ArchiveError("a document without a key or head")
        key = self._key(name)
        head = DocumentHead.from_json(given) if given else None
        if head and not _is_of(head, given or {}, key):
            raise ArchiveError(f"the head of {name[:200]} belongs to another document, or is incomplete")
        since = head.since if head else ""
        require_time(since, "since")
        found, sidecar = (
            self._blob(line[part]) if line.get(part) is not None else None for part in ("object", "sidecar")
        )
        if (found and found.key != name) or (sidecar and sidecar.key != name + SIDECAR_SUFFIX):
            raise ArchiveError(f"the object of {name[:200]} has another name")
        attributes = {name: value for name, value in (given or {}).items() if name != "since"}
        return ArchivedDocument(key, attributes, since, found, sidecar)

    def _key(self, object_key: str) -> DocumentKey:
        self._check_object(object_key, {})
        key = DocumentKey(*scope_of_object(object_key))
        if not is_document(key.source):
            raise ArchiveError(f"{object_key[:200]} is no name of a document")
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

    def _version(self, line: bytes) -> tuple[KnowledgeDocument, Provenance | None]:
        """A version, with the location that its object gets in this system, and its provenance."""
        item = _item(line)
        location = self._storage.location(_object_key(item))
        item["sourceUri"] = location if item["sourceUri"] == item["s3Location"] else item["sourceUri"]
        document = document_from_item({**item, "s3Location": location})
        self._check_object(document.key.scope.prefix + document.key.source, {})
        self._tables.check_item(DOCUMENTS, document_item(document))
        if item.get("documentKey") != document.key.id:
            raise ArchiveError(f"a version of {document.key.source[:200]} is filed under another key")
        if not _DOCUMENT_ID.match(document.document_id) or document.version < 1 or document.chunk_count < 0:
            raise ArchiveError(f"the id, number or size of a version of {document.key.source[:200]} is malformed")
        for time in document.times:
            require_time(time, "a time of the version")
        provenance = item.get(PROVENANCE)
        return document, Provenance.from_json(provenance) if provenance is not None else None

    def _row(self, table: ArchivedTable, line: bytes, kinds: Sequence[RowKind]) -> Item:
        item = _item(line)
        self._tables.check_item(table.spec, item)
        if not table.keeps(item):
            raise ArchiveError(f"a row that is never exported: {str(table.spec.key_of(item))[:200]}")
        for rows in self._missing:
            if rows.has(table.spec, item):
                raise ArchiveError(rows.remedy)
        check_row(table.spec, item, kinds, self._installation.knowledge)
        return item


def _item(line: bytes) -> Item:
    try:
        item = from_json(line.decode("utf-8", "surrogatepass"))
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    if not isinstance(item, dict):
        raise TypeError("it is no JSON object")
    if b"NaN" in line or b"Infinity" in line:
        to_json(item)  # raises `ValueError` for such a number, which no store holds
    return item


def _object_key(item: Item) -> str:
    scope = Scope(*(require_text(item[name], name) for name in ("clientId", "groupId", "projectId")))
    return f"{scope.prefix}{item['source']}"


def _is_of(head: DocumentHead, given: Mapping[str, Any], key: DocumentKey) -> bool:
    """True if these are all exported attributes of the key's item."""
    is_whole = set(given) - {"since"} == set(HEAD_ATTRIBUTES)
    return is_whole and (head.scope, head.source) == (key.scope.key, key.source)


def _clients_of(row: Item) -> set[str]:
    """Clients that own a row, by the attributes that name scopes."""
    named = {str(row[name]) for name in ("clientId",) if row.get(name) and row[name] != CLIENTS}
    keys = (str(value) for name, value in row.items() if name in _NAMING_SCOPES)
    return named | {match[1] for key in keys for match in [_CLIENT.search(key)] if match}
