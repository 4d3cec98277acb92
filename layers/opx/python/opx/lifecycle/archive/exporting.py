"""Everything that can't be made anew, into one archive.

Of each document: its object with what is said about it, all versions in the catalog, and the chunk file of each version.
The item of a key and its versions are read until they agree, and the object after them, so that what an archive says of a
document may be older than its object and never newer: where others write meanwhile, it is taken in as a change later.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from opx import __version__
from opx.domain.documents import DocumentKey
from opx.domain.ids import iso_time
from opx.domain.scopes import scope_of_key, scope_of_object
from opx.errors import InvalidInputError, InvalidScopeError, ObjectNotFoundError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import chunk_file, outline_file
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import SIDECAR_SUFFIX, is_document
from opx.lifecycle.archive.file import BLOCK, ArchiveWriter, Blob, BlobWriter, spooled
from opx.lifecycle.report import FOLDER as REMOVALS
from opx.lifecycle.report import ExportReport
from opx.lifecycle.retention.holds import HOLDS, LIFTED
from opx.ports import Item, Storage, Tables
from opx.ports.tables import (
    ALIASES,
    AUDIT,
    BASELINES,
    DOCUMENTS,
    GAPS,
    KEYS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    SOURCES,
    STAGING,
    TableSpec,
    to_json,
)
from opx.runtime.knowledge_file import Installation


class Exporter:
    """Writes archives of a system. Nothing of the system is changed."""

    def __init__(
        self, installation: Installation, *, tables: Tables, storage: Storage, corpus: Corpus, progress: Progress
    ) -> None:
        self._installation = installation
        self._tables = tables
        self._storage = storage
        self._corpus = corpus
        self._progress = progress

    def write(self, path: Path, *, audit: bool = False) -> ExportReport:
        """Write an archive, which is there whole or not at all. Raises `InvalidInputError` if there is such a file, or it
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
            part.unlink(missing_ok=True)
        return report

    def _fill(self, archive: ArchiveWriter, report: ExportReport, *, audit: bool) -> None:
        with spooled() as documents, spooled() as files, spooled() as versions:
            lines = CorpusLines(documents, files, versions)
            with BlobWriter(archive) as blobs:
                self._corpus_export(blobs, lines, report).write()
            for name, kept in ((VERSION_LINES, versions), (FILE_LINES, files), (DOCUMENT_LINES, documents)):
                archive.add_lines(name, lines_in(kept))
        for table in ARCHIVED:
            if audit or not table.private:
                rows = (item for item in self._tables.every_item(table.spec) if table.keeps(item))
                report.counts[table.entry] = archive.add_lines(table.entry, map(to_json, rows))
                self._progress(table.entry, report.counts[table.entry])
        archive.finish(
            {
                "made": iso_time(self._installation.clock()),
                "version": __version__,
                "backend": self._installation.settings.backend,
                "counts": dict(report.counts),
                "notes": report.notes,
            }
        )

    def _corpus_export(self, blobs: BlobWriter, lines: CorpusLines, report: ExportReport) -> CorpusExport:
        tables, storage, corpus = self._tables, self._storage, self._corpus
        return CorpusExport(blobs, lines, report, self._progress, tables=tables, storage=storage, corpus=corpus)


def _measured(path: Path) -> tuple[int, str]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
        return file.tell(), digest.hexdigest()


def _private_file(path: Path) -> IO[bytes]:
    """An archive holds all that is known: it is its owner's alone."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


# -- corpus export


DOCUMENT_LINES, FILE_LINES, VERSION_LINES = "documents.jsonl", "files.jsonl", "versions.jsonl"
HEAD_FACTS = ("documentId", "version", "state", "source", "scope")
AT_ONCE = 100
_TRIES = 5

Progress = Callable[[str, int], None]
"""Called with what is done, and how many there were."""


@dataclass(frozen=True, slots=True)
class CorpusLines:
    """What is listed: documents with the item of their key, other objects, and versions."""

    documents: IO[bytes]
    files: IO[bytes]
    versions: IO[bytes]


class CorpusExport:
    """Writes the documents of all scopes."""

    def __init__(
        self,
        blobs: BlobWriter,
        lines: CorpusLines,
        report: ExportReport,
        progress: Progress,
        *,
        tables: Tables,
        storage: Storage,
        corpus: Corpus,
    ) -> None:
        self._tables = tables
        self._storage = storage
        self._corpus = corpus
        self._blobs = blobs
        self._lines = lines
        self._report = report
        self._progress = progress

    def write(self) -> None:
        for item in self._tables.every_item(KEYS):
            if item.get("documentId"):
                self._document(DocumentKey(scope_of_key(item["scope"]), item["source"]))
        for key in self._not_taken_in():
            self._line(key, None)
        for info in self._corpus.store.list(REMOVALS):
            self._file(info.key)
        if missing := self._report.counts.pop("missing", 0):
            self._report.notes.append(f"{missing} versions have no text any more; `opx reconcile` names them")

    # -- documents of the catalog

    def _document(self, key: DocumentKey) -> None:
        head, versions = self._agreed(key)
        if head is None:
            return
        for version in versions:
            _add(self._lines.versions, to_json(version))
            self._report.counts["versions"] += 1
        for document_id in dict.fromkeys(str(version["documentId"]) for version in versions):
            self._file(chunk_file(key, document_id))
            self._file(outline_file(key, document_id), required=False)
        facts = {name: head[name] for name in HEAD_FACTS}
        self._line(key.scope.prefix + key.source, {**facts, "since": _since(head, versions)})

    def _agreed(self, key: DocumentKey) -> tuple[Item | None, list[Item]]:
        """The item of a key with all versions, as they were at one moment. Where that can't be had, what was current is
        left out: the object then becomes a further version."""
        table = self._tables.table(DOCUMENTS)
        head: Item | None = None
        versions: list[Item] = []
        for _ in range(_TRIES):
            head = self._corpus.catalog.head(key)
            listed = table.query(key.id, index="documentKey-version-index")
            versions = table.get_many([DOCUMENTS.key_of(item) for item in listed])
            again = self._corpus.catalog.head(key)
            if head is None or again is None:
                return None, []
            if head.get("revision") == again.get("revision") and _has_current(head, versions):
                return head, sorted(versions, key=lambda item: int(item["version"]))
        self._report.notes.append(
            f"{key.source} of {key.scope.key}: the catalog doesn't agree with itself; `opx reconcile`"
        )
        return {**(head or {}), "state": "deleted"}, [item for item in versions if item["state"] != "current"]

    # -- objects that nobody has taken in yet

    def _not_taken_in(self) -> Iterator[str]:
        names = (info.key for info in self._corpus.store.list())
        while batch := list(islice(names, AT_ONCE)):
            documents = {name: key for name in batch if (key := _document_key(name))}
            found = self._tables.table(KEYS).get_many([{"documentKey": key.id} for key in documents.values()])
            known = {str(item["documentKey"]) for item in found if item.get("documentId")}
            yield from (name for name, key in documents.items() if key.id not in known)

    # -- objects

    def _line(self, object_key: str, head: Mapping[str, Any] | None) -> None:
        """A document: what describes it goes before it."""
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
        _add(self._lines.documents, json.dumps(line, ensure_ascii=False, separators=(",", ":")))
        self._report.counts["documents"] += 1
        self._progress("documents", self._report.counts["documents"])

    def _file(self, object_key: str, *, required: bool = True) -> None:
        blob = self._blob(object_key)
        if not (blob or required):
            return
        if blob:
            _add(self._lines.files, json.dumps(blob.to_json(), ensure_ascii=False, separators=(",", ":")))
            self._report.counts["files"] += 1
        else:
            self._report.counts["missing"] += 1

    def _blob(self, object_key: str) -> Blob | None:
        """None for an object that isn't there, and for one that no store would take back, which is noted."""
        info = self._corpus.store.head(object_key)
        if info is None:
            return None
        try:
            self._storage.check(object_key, info.metadata)
            with contextlib.closing(self._corpus.store.open(object_key)) as source:
                return self._blobs.add(object_key, source, dict(info.metadata))
        except ObjectNotFoundError:
            return None
        except InvalidInputError as exc:
            self._report.notes.append(f"left out: {exc}")
            return None


def _has_current(head: Item, versions: Iterable[Item]) -> bool:
    """Whether the version that the head names is among them, and no other one is current."""
    current = [str(item["documentId"]) for item in versions if item["state"] == "current"]
    return current == [current_id(head)] if current_id(head) else not current


def _since(head: Item, versions: list[Item]) -> str:
    """When the document got as it is."""
    if not versions:
        return ""
    last = versions[-1]
    since = last.get("currentSince") or last["createdAt"]
    return str(since if current_id(head) else last.get("supersededAt") or since)


def _document_key(object_key: str) -> DocumentKey | None:
    try:
        key = DocumentKey(*scope_of_object(object_key))
    except InvalidScopeError:
        return None
    return key if is_document(key.source) else None


def _add(lines: IO[bytes], line: str) -> None:
    lines.write(line.encode("utf-8", "surrogatepass") + b"\n")


def lines_in(kept: IO[bytes]) -> Iterator[str]:
    kept.seek(0)
    return (line[:-1].decode("utf-8", "surrogatepass") for line in kept)


# -- rows


INSTALLATION = "#installation"
"""The scope of the key with which this installation hashes questions; only the audit log needs it."""


def _every(_: Item) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Archived:
    """A table, and which of its rows are kept. `private` ones are in an archive only if they are asked for."""

    spec: TableSpec
    keeps: Callable[[Item], bool] = _every
    name: str = ""
    private: bool = False

    @property
    def entry(self) -> str:
        return f"tables/{self.name or self.spec.name}.jsonl"


ARCHIVED = (
    Archived(PROJECTS),
    Archived(ALIASES),
    Archived(STAGING),
    Archived(PATTERNS),
    Archived(OUTCOMES),
    Archived(LIFECYCLE, lambda item: item["subject"] in (HOLDS, LIFTED)),
    Archived(BASELINES),
    Archived(GAPS, lambda item: item["scopeKey"] != INSTALLATION),
    Archived(SOURCES),
    Archived(AUDIT, private=True),
    Archived(GAPS, lambda item: item["scopeKey"] == INSTALLATION, name="installation-key", private=True),
)
"""Not here: vectors and other caches, graph, calendar and index, which are made anew; failed items and deliveries, which
come again; secrets. Versions and keys of documents are with the documents."""
