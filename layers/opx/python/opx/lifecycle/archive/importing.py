"""Imports an archive: verifies all of it, restores catalog, files and rows, and then the objects, from which the pipeline
rebuilds everything else.

It may be interrupted at any moment and run again. It writes only where nothing exists; the item of a document's key names
the import that wrote it until the pipeline has ingested the document, so that an interrupted import resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

from opx.domain.documents import KnowledgeDocument
from opx.domain.ids import batched, iso_time
from opx.domain.provenance import Provenance
from opx.domain.scopes import scope_of_object
from opx.errors import ArchiveError, ClientRemovedError, StoreUnavailableError
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.catalog import document_item
from opx.ingestion.corpus.chunk_files import VERSION_FILE
from opx.ingestion.corpus.claims import current_id
from opx.ingestion.events import SIDECAR_SUFFIX, Result
from opx.lifecycle.archive.contents import ArchiveContents, Contents
from opx.lifecycle.archive.exporting import ARCHIVED, BATCH_SIZE, ArchivedTable
from opx.lifecycle.archive.file import ArchiveReader, Blob, BlobReader
from opx.lifecycle.archive.references import ArchivedDocument
from opx.lifecycle.report import ArchiveFacts, Fate, ImportReport
from opx.ports import Equals, Item, KeyAbsent, Storage, Table, Tables
from opx.ports.tables import (
    ALIASES,
    DOCUMENTS,
    KEYS,
    LIFECYCLE,
    OUTCOMES,
    PATTERNS,
    PROJECTS,
    STAGING,
    TableSpec,
    put_if,
)
from opx.runtime.knowledge_file import Installation

SUBJECT = "import"
"""Partition key in the lifecycle table of archives that were imported, and of the one being imported."""

_REPORTS = ("offboarding/", "bulk/")
"""Folders of the corpus store that are no knowledge."""

UNDER_WAY, DONE, GIVEN_UP = "under way", "done", "given up"
_KNOWLEDGE_TABLES = (KEYS, PROJECTS, ALIASES, STAGING, PATTERNS, OUTCOMES)


def give_up(table: Table) -> int:
    """Mark imports that were begun and never finished as given up, once all stores agree. Returns how many."""
    begun = [item for item in table.query(SUBJECT) if item["state"] == UNDER_WAY]
    table.put_many({**item, "state": GIVEN_UP} for item in begun)
    return len(begun)


class Importer:
    """Imports archives, one process at a time. `schedule` applies the schedules of the imported sources and streams."""

    def __init__(
        self,
        installation: Installation,
        *,
        tables: Tables,
        storage: Storage,
        corpus: Corpus,
        ingestion: Ingestion,
        schedule: Callable[[], None],
        progress: Progress,
    ) -> None:
        self._installation = installation
        self._tables = tables
        self._storage = storage
        self._corpus = corpus
        self._ingestion = ingestion
        self._schedule = schedule
        self._progress = progress

    def run(self, path: Path, *, merge: bool = False, dry_run: bool = False) -> ImportReport:
        """Import an archive. A system that has knowledge needs `merge`: then documents that are new, or newer than the
        present ones, are imported, and of everything else what is missing.

        Raises `ArchiveError` before anything is changed, and `StoreUnavailableError`: then run it again.
        """
        with ArchiveReader(path) as archive:
            contents = ArchiveContents(archive, self._installation, tables=self._tables, storage=self._storage)
            self._check_target(archive, merge=merge)
            found = contents.check(self._progress)
            self._check_owners(found)
            report = ImportReport(_facts(archive), found.counts, found.notes, dry_run)
            task = ArchiveRestoration(
                archive, contents, report, self._progress, tables=self._tables, corpus=self._corpus, merge=merge
            )
            if dry_run:
                task.preview()
            else:
                self._mark(archive, UNDER_WAY, merge=merge)
                task.restore()
                self._schedule()
                self._work(report)
                self._mark(archive, DONE, merge=merge)
        return report

    # -- preconditions

    def _check_target(self, archive: ArchiveReader, *, merge: bool) -> None:
        under_way = [item for item in self._table(LIFECYCLE).query(SUBJECT) if item["state"] == UNDER_WAY]
        if any(item["entry"] != archive.sha256 for item in under_way):
            began = under_way[0]
            raise ArchiveError(
                f"the import of another archive, of {began['made']}, was begun on {began['since']} and is not finished: "
                "run it again first; if that archive is lost, `opx reconcile --repair` repairs what it left"
            )
        if not merge and not under_way and (found := self._existing_knowledge()):
            raise ArchiveError(
                f"this system already has knowledge ({found}): import into an empty system, or use --merge"
            )

    def _existing_knowledge(self) -> str:
        """First object or table with knowledge; "" if the system is empty."""
        listed = (info.key for info in self._corpus.store.list() if not info.key.startswith(_REPORTS))
        key = next(listed, "")
        if key:
            return f"object {key}"
        for spec in _KNOWLEDGE_TABLES:
            if next(iter(self._tables.every_item(spec)), None):
                return f"items in {spec.name}"
        return ""

    def _check_owners(self, contents: Contents) -> None:
        for client_id in sorted(contents.clients - {""}):
            try:
                self._corpus.clients.check(client_id)
            except ClientRemovedError as exc:
                raise ArchiveError(f"the archive holds knowledge of a client that was removed here: {exc}") from exc

    def _mark(self, archive: ArchiveReader, state: str, *, merge: bool) -> None:
        made, since = str(archive.manifest.get("made", "")), iso_time(self._installation.clock())
        mark = {"state": state, "made": made, "since": since, "merge": merge}
        self._table(LIFECYCLE).put({"subject": SUBJECT, "entry": archive.sha256, **mark})

    # -- ingestion

    def _work(self, report: ImportReport) -> None:
        if self._ingestion.drain is None:
            report.waiting = report.documents[Fate.RESTORED] + report.documents[Fate.REPLACED]
            return
        for outcome in self._ingestion.drain.run():
            self._progress(f"ingesting {outcome.object_key}")
            report.failed += outcome.result is Result.FAILED

    def _table(self, spec: TableSpec) -> Any:
        return self._tables.table(spec)


def _facts(archive: ArchiveReader) -> ArchiveFacts:
    return ArchiveFacts(*(str(archive.manifest.get(name, "")) for name in ("made", "version", "backend", "sha256")))


# -- restoring


_MAX_ATTEMPTS = 5

Progress = Callable[[str], None]
"""Called with a description of the next step."""


class ArchiveRestoration:
    """Restores the contents of one archive."""

    def __init__(
        self,
        archive: ArchiveReader,
        contents: ArchiveContents,
        report: ImportReport,
        progress: Progress,
        *,
        tables: Tables,
        corpus: Corpus,
        merge: bool,
    ) -> None:
        self._tables = tables
        self._corpus = corpus
        self._merge = merge
        self._mark = archive.sha256
        self._archive = archive
        self._contents = contents
        self._report = report
        self._progress = progress

    def preview(self) -> None:
        """Count the documents by their outcome, without writing."""
        for document in self._contents.documents():
            self._report.documents[self._fate(document, self._head(document))] += 1

    def restore(self) -> None:
        for table in ARCHIVED:
            self._progress(f"restoring {table.spec.name}")
            self._rows(table)
        self._progress("restoring versions")
        for batch in batched(self._contents.versions(), BATCH_SIZE):
            self._versions(batch)
        with BlobReader(self._archive) as blobs:
            for file in self._contents.files():
                self._progress(f"restoring {file.key}")
                self._file(blobs, file)
        with BlobReader(self._archive) as blobs:
            for document in self._contents.documents():
                self._progress(f"restoring {document.object_key}")
                self._document(blobs, document)

    # -- rows

    def _rows(self, table: ArchivedTable) -> None:
        stored = self._tables.table(table.spec)
        for batch in batched(self._contents.rows(table), BATCH_SIZE):
            keys = [table.spec.key_of(item) for item in batch]
            known = {_item_key(table.spec, item) for item in stored.get_many(keys)}
            missing = [item for item in batch if _item_key(table.spec, item) not in known]
            stored.put_many(missing)
            self._report.rows[table.entry] += len(missing)

    def _versions(self, found: list[tuple[KnowledgeDocument, Provenance | None]]) -> None:
        """Restore versions of documents that are missing here, or that this import restored."""
        documents, provenances = [document for document, _ in found], dict(found)
        keys = [{"documentKey": key} for key in dict.fromkeys(document.key.id for document in documents)]
        heads = {str(item["documentKey"]): item for item in self._tables.table(KEYS).get_many(keys)}
        wanted = [document for document in documents if self._is_free(heads.get(document.key.id))]
        table = self._tables.table(DOCUMENTS)
        items = [document_item(document, provenances[document]) for document in wanted]
        known = {_item_key(DOCUMENTS, item) for item in table.get_many([DOCUMENTS.key_of(item) for item in items])}
        table.put_many(item for item in items if _item_key(DOCUMENTS, item) not in known)
        for document in wanted:
            self._corpus.calendar.complete(document)

    # -- objects

    def _file(self, blobs: BlobReader, blob: Blob) -> None:
        if self._corpus.store.head(blob.key) is None and self._is_wanted(blob):
            self._put(blobs, blob)
            self._report.files += 1

    def _is_wanted(self, blob: Blob) -> bool:
        """True unless merging and the file is a chunk file of a version that the catalog still lacks."""
        scope, name = scope_of_object(blob.key)
        match = VERSION_FILE.match(name) if self._merge else None
        return not match or any(version.key.scope == scope for version in self._corpus.catalog.find(match[1]))

    def _put(self, blobs: BlobReader, blob: Blob) -> None:
        with blobs.open(blob) as data:
            self._corpus.store.put(blob.key, _stream(data), metadata=blob.metadata)

    def _document(self, blobs: BlobReader, document: ArchivedDocument) -> None:
        """Restore the sidecar, then the item of the key, then the object, whose event makes the pipeline ingest it."""
        fate = self._fate(document, self._head(document))
        self._report.documents[fate] += 1
        if fate in (Fate.SAME, Fate.KEPT):
            return
        sidecar = document.object_key + SIDECAR_SUFFIX
        if document.sidecar:
            self._put(blobs, document.sidecar)
        elif document.object and self._corpus.store.head(sidecar):
            self._corpus.store.delete(sidecar)
        if fate is Fate.RESTORED and document.head:
            self._put_head(document)
        if document.object:
            self._put(blobs, document.object)

    # -- the item of a key

    def _head(self, document: ArchivedDocument) -> Item | None:
        return self._corpus.catalog.head(document.key)

    def _is_free(self, head: Item | None) -> bool:
        """True if this system has no such document, or only what this import wrote and the pipeline hasn't ingested."""
        if not (head and head.get("documentId")):
            return True
        return head.get("imported") == self._mark and not head.get("fingerprint")

    def _fate(self, document: ArchivedDocument, head: Item | None) -> Fate:
        if self._is_free(head):
            return self._fate_of_object(document, head)
        if head and current_id(head) == document.head.get("documentId"):
            return Fate.SAME
        newest = next(self._corpus.catalog.versions(document.key), None)
        since = (newest.superseded_at or newest.current_since or newest.created_at) if newest else ""
        is_newer = document.object is not None and document.since > since
        return Fate.REPLACED if is_newer else Fate.KEPT

    def _fate_of_object(self, document: ArchivedDocument, head: Item | None) -> Fate:
        """An existing object that was not ingested yet is kept if that of the archive wasn't either."""
        waits = not head and not document.head and self._corpus.store.head(document.object_key)
        return Fate.KEPT if waits else Fate.RESTORED

    def _put_head(self, document: ArchivedDocument) -> None:
        """Write the key's item without a fingerprint, so that the object is read again; retries after a concurrent change."""
        table = self._tables.table(KEYS)
        attributes = {**document.head, "documentKey": document.key.id, "imported": self._mark, "fingerprint": ""}
        for _ in range(_MAX_ATTEMPTS):
            head = self._head(document) or {}
            if not self._is_free(head):
                return
            revision = int(head.get("revision", 0))
            condition = Equals("revision", revision) if revision else KeyAbsent("revision")
            if put_if(table, {**attributes, "revision": revision + 1}, condition):
                return
        raise StoreUnavailableError(
            f"{document.key.source} keeps being changed by other processes; run the import again"
        )


def _item_key(spec: TableSpec, item: Item) -> tuple[Any, ...]:
    return tuple(spec.key_of(item).values())


def _stream(data: IO[bytes]) -> BinaryIO:
    return cast("BinaryIO", data)
