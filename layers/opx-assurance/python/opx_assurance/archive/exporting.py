"""Exports everything that can't be rebuilt into one archive.

Each document has its object and sidecar, all versions in the catalog, and the chunk file of each version. The item of a
key and its versions are read until they agree, and the object after them, so that the exported metadata of a document may
be older than its object and never newer: a concurrent change is ingested as a change after the import.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO, Any

from opx import __version__
from opx.domain.documents import DocumentKey
from opx.domain.ids import batched, iso_time
from opx.domain.scopes import scope_of_key
from opx.errors import InvalidInputError, ObjectNotFoundError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import chunk_file, outline_file
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import SIDECAR_SUFFIX, document_at
from opx.lifecycle.report import FOLDER as REMOVALS
from opx.lifecycle.retention.holds import HOLDS, LIFTED
from opx.lifecycle.rows import all_rows
from opx.ports import Item, Storage, Tables
from opx.ports.tables import (
    ALL_TABLES,
    AUDIT,
    DOCUMENTS,
    GAPS,
    KEYS,
    LIFECYCLE,
    TableSpec,
    to_json,
)
from opx.records.audit import INSTALLATION
from opx.runtime.knowledge_file import Installation
from opx_assurance.archive.file import BLOCK, ArchiveWriter, Blob, BlobWriter, spooled
from opx_assurance.archive.report import ExportReport


@dataclass(eq=False)
class Exporter:
    """Writes archives of a system; changes nothing in it."""

    installation: Installation
    _: KW_ONLY
    tables: Tables
    storage: Storage
    corpus: Corpus
    progress: Progress

    def write(self, path: Path, *, audit: bool = False) -> ExportReport:
        """Write an archive atomically: the file is complete or absent. Raises `InvalidInputError` if the file exists or
        can't be written, and `StoreUnavailableError`."""
        if path.exists():
            raise InvalidInputError(f"{path} exists already: an archive never replaces a file")
        report = ExportReport(str(path))
        part = path.with_name(path.name + ".part")
        try:
            with _private_file(part) as file:
                with ArchiveWriter(file) as archive:
                    self._fill(archive, report, audit=audit)
                file.flush()
                os.fsync(file.fileno())
            report.size, report.sha256 = _measured(part)
            part.replace(path)
        except OSError as exc:
            raise InvalidInputError(f"{path} can't be written: {exc.strerror or exc}") from exc
        finally:
            with contextlib.suppress(OSError):  # the name with its suffix may be too long
                part.unlink()
        return report

    def _fill(self, archive: ArchiveWriter, report: ExportReport, *, audit: bool) -> None:
        with spooled() as documents, spooled() as files, spooled() as versions:
            lines = CorpusLines(documents, files, versions)
            with BlobWriter(archive) as blobs:
                self._corpus_export(blobs, lines, report).write()
            for name, kept in ((VERSION_LINES, versions), (FILE_LINES, files), (DOCUMENT_LINES, documents)):
                archive.add_lines(name, lines_in(kept))
        for table in archived_tables():
            if audit or not table.private:
                rows = (item for item in self.tables.every_item(table.spec) if table.keeps(item))
                report.counts[table.entry] = archive.add_lines(table.entry, map(to_json, rows))
                self.progress(table.entry, report.counts[table.entry])
        archive.finish(
            {
                "made": iso_time(self.installation.clock()),
                "version": __version__,
                "backend": self.installation.settings.backend,
                "counts": dict(report.counts),
                "notes": report.notes,
            }
        )

    def _corpus_export(self, blobs: BlobWriter, lines: CorpusLines, report: ExportReport) -> CorpusExport:
        tables, storage, corpus = self.tables, self.storage, self.corpus
        return CorpusExport(blobs, lines, report, self.progress, tables=tables, storage=storage, corpus=corpus)


def _measured(path: Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
        return file.tell(), digest.hexdigest()


def _private_file(path: Path) -> IO[bytes]:
    """Opens a file that only its owner can read: an archive holds the knowledge of all clients."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


# -- documents and other objects


DOCUMENT_LINES, FILE_LINES, VERSION_LINES = "documents.jsonl", "files.jsonl", "versions.jsonl"
HEAD_ATTRIBUTES = ("documentId", "version", "state", "source", "scope")
BATCH_SIZE = 100
_MAX_ATTEMPTS = 5

Progress = Callable[[str, int], None]
"""Called with the kind of item exported and the count so far."""


@dataclass(frozen=True, slots=True)
class CorpusLines:
    """Temporary files with the lines of the lists: documents with the item of their key, other objects, and versions."""

    documents: IO[bytes]
    files: IO[bytes]
    versions: IO[bytes]


@dataclass(eq=False)
class CorpusExport:
    """Exports the documents of all scopes."""

    blobs: BlobWriter
    lines: CorpusLines
    report: ExportReport
    progress: Progress
    _: KW_ONLY
    tables: Tables
    storage: Storage
    corpus: Corpus

    def write(self) -> None:
        for item in self.tables.every_item(KEYS):
            if item.get("documentId"):
                self._document(DocumentKey(scope_of_key(item["scope"]), item["source"]))
        for key in self._not_ingested():
            self._line(key, None)
        for info in self.corpus.store.list(REMOVALS):
            self._file(info.key)
        if missing := self.report.counts.pop("missing", 0):
            self.report.notes.append(f"the chunk files of {missing} versions are missing; `opx reconcile` lists them")

    # -- documents of the catalog

    def _document(self, key: DocumentKey) -> None:
        head, versions = self._consistent_read(key)
        if head is None:
            return
        for version in versions:
            _append_line(self.lines.versions, to_json(version))
            self.report.counts["versions"] += 1
        for document_id in dict.fromkeys(str(version["documentId"]) for version in versions):
            self._file(chunk_file(key, document_id))
            self._file(outline_file(key, document_id), required=False)
        attributes = {name: head[name] for name in HEAD_ATTRIBUTES}
        self._line(key.scope.prefix + key.source, {**attributes, "since": _since(head, versions)})

    def _consistent_read(self, key: DocumentKey) -> tuple[Item | None, list[Item]]:
        """The item of a key with all versions, as of one moment. If no consistent read succeeds, the current version is
        left out: the import then ingests the object as a further version."""
        table = self.tables.table(DOCUMENTS)
        head: Item | None = None
        versions: list[Item] = []
        for _ in range(_MAX_ATTEMPTS):
            head = self.corpus.catalog.head(key)
            listed = table.query(key.id, index="documentKey-version-index")
            versions = table.get_many([DOCUMENTS.key_of(item) for item in listed])
            again = self.corpus.catalog.head(key)
            if head is None or again is None:
                return None, []
            if head.get("revision") == again.get("revision") and _has_current(head, versions):
                return head, sorted(versions, key=lambda item: int(item["version"]))
        self.report.notes.append(f"{key.source} of {key.scope.key}: the catalog is inconsistent; run `opx reconcile`")
        return {**(head or {}), "state": "deleted"}, [item for item in versions if item["state"] != "current"]

    # -- objects that were not ingested yet

    def _not_ingested(self) -> Iterator[str]:
        for batch in batched((info.key for info in self.corpus.store.list()), BATCH_SIZE):
            documents = {name: key for name in batch if (key := document_at(name))}
            found = self.tables.table(KEYS).get_many([{"documentKey": key.id} for key in documents.values()])
            known = {str(item["documentKey"]) for item in found if item.get("documentId")}
            yield from (name for name, key in documents.items() if key.id not in known)

    # -- objects

    def _line(self, object_key: str, head: Mapping[str, Any] | None) -> None:
        """Add a document, its sidecar before its object."""
        sidecar = self._blob(object_key + SIDECAR_SUFFIX)
        blob = self._blob(object_key)
        if blob is None and head is None:
            return
        line = {
            "key": object_key,
            "head": head,
            "object": blob.to_json() if blob else None,
            "sidecar": sidecar.to_json() if sidecar else None,
        }
        _append_line(self.lines.documents, json.dumps(line, ensure_ascii=False, separators=(",", ":")))
        self.report.counts["documents"] += 1
        self.progress("documents", self.report.counts["documents"])

    def _file(self, object_key: str, *, required: bool = True) -> None:
        blob = self._blob(object_key)
        if not (blob or required):
            return
        if blob:
            _append_line(self.lines.files, json.dumps(blob.to_json(), ensure_ascii=False, separators=(",", ":")))
            self.report.counts["files"] += 1
        else:
            self.report.counts["missing"] += 1

    def _blob(self, object_key: str) -> Blob | None:
        """The exported object; None if it is missing, or has a name or metadata that the import would reject (noted)."""
        info = self.corpus.store.head(object_key)
        if info is None:
            return None
        try:
            self.storage.check(object_key, info.metadata)
            with contextlib.closing(self.corpus.store.open(object_key)) as source:
                return self.blobs.add(object_key, source, dict(info.metadata))
        except ObjectNotFoundError:
            return None
        except InvalidInputError as exc:
            self.report.notes.append(f"left out: {exc}")
            return None


def _has_current(head: Item, versions: Iterable[Item]) -> bool:
    """True if the version that the head names is the only current one, or neither has one."""
    current = [str(item["documentId"]) for item in versions if item["state"] == "current"]
    return current == [current_id(head)] if current_id(head) else not current


def _since(head: Item, versions: list[Item]) -> str:
    """Time since which the document has been in its present state."""
    if not versions:
        return ""
    last = versions[-1]
    since = last.get("currentSince") or last["createdAt"]
    return str(since if current_id(head) else last.get("supersededAt") or since)


def _append_line(lines: IO[bytes], line: str) -> None:
    lines.write(line.encode("utf-8", "surrogatepass") + b"\n")


def lines_in(kept: IO[bytes]) -> Iterator[str]:
    kept.seek(0)
    return (line[:-1].decode("utf-8", "surrogatepass") for line in kept)


# -- tables


TABLES = "tables/"


@dataclass(frozen=True, slots=True)
class ArchivedTable:
    """A table with a filter of its exported rows. `private` ones are exported only on request."""

    spec: TableSpec
    keeps: Callable[[Item], bool] = lambda _: True
    name: str = ""
    private: bool = False

    @property
    def entry(self) -> str:
        return f"{TABLES}{self.name or self.spec.name}.jsonl"


ARCHIVED = (
    *(ArchivedTable(spec) for spec in ALL_TABLES if spec.archived),
    ArchivedTable(LIFECYCLE, lambda item: item["subject"] in (HOLDS, LIFTED)),
    ArchivedTable(GAPS, lambda item: item["scopeKey"] != INSTALLATION),
    ArchivedTable(AUDIT, private=True),
    ArchivedTable(GAPS, lambda item: item["scopeKey"] == INSTALLATION, name="installation-key", private=True),
)
"""Not exported: vectors and other caches, graph, calendar and index, which are rebuilt; failed items and deliveries, which
recur; secrets. Versions and keys of documents are exported with the documents. The secret with which this installation hashes
questions is needed by the audit log alone."""


def archived_tables() -> tuple[ArchivedTable, ...]:
    """The tables of archives: those of the library, and those that installed plugins have of their own."""
    known = {spec.name for spec in ALL_TABLES}
    own = {rows.table.name: rows.table for rows in all_rows() if rows.table.archived and rows.table.name not in known}
    return (*ARCHIVED, *map(ArchivedTable, own.values()))
