"""Imports an archive: verifies all of it, restores catalog, files and rows, and then the objects, from which the pipeline
rebuilds everything else.

It may be interrupted at any moment and run again. It writes only where nothing exists; the item of a document's key names
the import that wrote it until the pipeline has ingested the document, so that an interrupted import resumes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
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
from opx_assurance.archive.contents import ArchiveContents, Contents
from opx_assurance.archive.exporting import BATCH_SIZE, ArchivedTable, archived_tables
from opx_assurance.archive.file import ArchiveReader, Blob, BlobReader
from opx_assurance.archive.references import ArchivedDocument
from opx_assurance.archive.report import ArchiveFacts, Fate, ImportReport

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


@dataclass(eq=False)
class Importer:
    """Imports archives, one process at a time. `schedule` applies the schedules of the imported sources and streams."""

    installation: Installation
    _: KW_ONLY
    tables: Tables
    storage: Storage
    corpus: Corpus
    ingestion: Ingestion
    schedule: Callable[[], None]
    progress: Progress

    def run(self, path: Path, *, merge: bool = False, dry_run: bool = False) -> ImportReport:
        """Import an archive. A system that has knowledge needs `merge`: then documents that are new, or newer than the
        present ones, are imported, and of everything else what is missing.

        Raises `ArchiveError` before anything is changed, and `StoreUnavailableError`: then run it again.
        """
        with ArchiveReader(path) as archive:
            contents = ArchiveContents(archive, self.installation, tables=self.tables, storage=self.storage)
            self._check_target(archive, merge=merge)
            found = contents.check(self.progress)
            self._check_owners(found)
            report = ImportReport(_facts(archive), found.counts, found.notes, dry_run)
            task = ArchiveRestoration(
                archive, contents, report, self.progress, tables=self.tables, corpus=self.corpus, merge=merge
            )
            if dry_run:
                task.preview()
            else:
                self._mark(archive, UNDER_WAY, merge=merge)
                task.restore()
                self.schedule()
                self._work(report)
                self._mark(archive, DONE, merge=merge)
        return report

    # -- preconditions

    def _check_target(self, archive: ArchiveReader, *, merge: bool) -> None:
        under_way = [item for item in self.tables.table(LIFECYCLE).query(SUBJECT) if item["state"] == UNDER_WAY]
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
        listed = (info.key for info in self.corpus.store.list() if not info.key.startswith(_REPORTS))
        key = next(listed, "")
        if key:
            return f"object {key}"
        for spec in _KNOWLEDGE_TABLES:
            if next(iter(self.tables.every_item(spec)), None):
                return f"items in {spec.name}"
        return ""

    def _check_owners(self, contents: Contents) -> None:
        for client_id in sorted(contents.clients - {""}):
            try:
                self.corpus.clients.check(client_id)
            except ClientRemovedError as exc:
                raise ArchiveError(f"the archive holds knowledge of a client that was removed here: {exc}") from exc

    def _mark(self, archive: ArchiveReader, state: str, *, merge: bool) -> None:
        made, since = str(archive.manifest.get("made", "")), iso_time(self.installation.clock())
        mark = {"state": state, "made": made, "since": since, "merge": merge}
        self.tables.table(LIFECYCLE).put({"subject": SUBJECT, "entry": archive.sha256, **mark})

    # -- ingestion

    def _work(self, report: ImportReport) -> None:
        if self.ingestion.drain is None:
            report.waiting = report.documents[Fate.RESTORED] + report.documents[Fate.REPLACED]
            return
        for outcome in self.ingestion.drain.run():
            self.progress(f"ingesting {outcome.object_key}")
            report.failed += outcome.result is Result.FAILED


def _facts(archive: ArchiveReader) -> ArchiveFacts:
    return ArchiveFacts(*(str(archive.manifest.get(name, "")) for name in ("made", "version", "backend", "sha256")))


# -- restoring


_MAX_ATTEMPTS = 5

Progress = Callable[[str], None]
"""Called with a description of the next step."""


@dataclass(eq=False)
class ArchiveRestoration:
    """Restores the contents of one archive."""

    archive: ArchiveReader
    contents: ArchiveContents
    report: ImportReport
    progress: Progress
    _: KW_ONLY
    tables: Tables
    corpus: Corpus
    merge: bool

    def preview(self) -> None:
        """Count the documents by their outcome, without writing."""
        for document in self.contents.documents():
            self.report.documents[self._fate(document, self._head(document))] += 1

    def restore(self) -> None:
        for table in archived_tables():
            self.progress(f"restoring {table.spec.name}")
            self._rows(table)
        self.progress("restoring versions")
        for batch in batched(self.contents.versions(), BATCH_SIZE):
            self._versions(batch)
        with BlobReader(self.archive) as blobs:
            for file in self.contents.files():
                self.progress(f"restoring {file.key}")
                self._file(blobs, file)
        with BlobReader(self.archive) as blobs:
            for document in self.contents.documents():
                self.progress(f"restoring {document.object_key}")
                self._document(blobs, document)

    # -- rows

    def _rows(self, table: ArchivedTable) -> None:
        stored = self.tables.table(table.spec)
        for batch in batched(self.contents.rows(table), BATCH_SIZE):
            keys = [table.spec.key_of(item) for item in batch]
            known = {_item_key(table.spec, item) for item in stored.get_many(keys)}
            missing = [item for item in batch if _item_key(table.spec, item) not in known]
            stored.put_many(missing)
            self.report.rows[table.entry] += len(missing)

    def _versions(self, found: list[tuple[KnowledgeDocument, Provenance | None]]) -> None:
        """Restore versions of documents that are missing here, or that this import restored."""
        documents, provenances = [document for document, _ in found], dict(found)
        keys = [{"documentKey": key} for key in dict.fromkeys(document.key.id for document in documents)]
        heads = {str(item["documentKey"]): item for item in self.tables.table(KEYS).get_many(keys)}
        wanted = [document for document in documents if self._is_free(heads.get(document.key.id))]
        table = self.tables.table(DOCUMENTS)
        items = [document_item(document, provenances[document]) for document in wanted]
        known = {_item_key(DOCUMENTS, item) for item in table.get_many([DOCUMENTS.key_of(item) for item in items])}
        table.put_many(item for item in items if _item_key(DOCUMENTS, item) not in known)
        for document in wanted:
            self.corpus.calendar.complete(document)

    # -- objects

    def _file(self, blobs: BlobReader, blob: Blob) -> None:
        if self.corpus.store.head(blob.key) is None and self._is_wanted(blob):
            self._put(blobs, blob)
            self.report.files += 1

    def _is_wanted(self, blob: Blob) -> bool:
        """True unless merging and the file is a chunk file of a version that the catalog still lacks."""
        scope, name = scope_of_object(blob.key)
        match = VERSION_FILE.match(name) if self.merge else None
        return not match or any(version.key.scope == scope for version in self.corpus.catalog.find(match[1]))

    def _put(self, blobs: BlobReader, blob: Blob) -> None:
        with blobs.open(blob) as data:
            self.corpus.store.put(blob.key, _stream(data), metadata=blob.metadata)

    def _document(self, blobs: BlobReader, document: ArchivedDocument) -> None:
        """Restore the sidecar, then the item of the key, then the object, whose event makes the pipeline ingest it."""
        fate = self._fate(document, self._head(document))
        self.report.documents[fate] += 1
        if fate in (Fate.SAME, Fate.KEPT):
            return
        sidecar = document.object_key + SIDECAR_SUFFIX
        if document.sidecar:
            self._put(blobs, document.sidecar)
        elif document.object and self.corpus.store.head(sidecar):
            self.corpus.store.delete(sidecar)
        if fate is Fate.RESTORED and document.head:
            self._put_head(document)
        if document.object:
            self._put(blobs, document.object)

    # -- the item of a key

    def _head(self, document: ArchivedDocument) -> Item | None:
        return self.corpus.catalog.head(document.key)

    def _is_free(self, head: Item | None) -> bool:
        """True if this system has no such document, or only what this import wrote and the pipeline hasn't ingested."""
        if not (head and head.get("documentId")):
            return True
        return head.get("imported") == self.archive.sha256 and not head.get("fingerprint")

    def _fate(self, document: ArchivedDocument, head: Item | None) -> Fate:
        if self._is_free(head):
            return self._fate_of_object(document, head)
        if head and current_id(head) == document.head.get("documentId"):
            return Fate.SAME
        newest = next(self.corpus.catalog.versions(document.key), None)
        since = (newest.superseded_at or newest.current_since or newest.created_at) if newest else ""
        is_newer = document.object is not None and document.since > since
        return Fate.REPLACED if is_newer else Fate.KEPT

    def _fate_of_object(self, document: ArchivedDocument, head: Item | None) -> Fate:
        """An existing object that was not ingested yet is kept if that of the archive wasn't either."""
        waits = not head and not document.head and self.corpus.store.head(document.object_key)
        return Fate.KEPT if waits else Fate.RESTORED

    def _put_head(self, document: ArchivedDocument) -> None:
        """Write the key's item without a fingerprint, so that the object is read again; retries after a concurrent change."""
        table = self.tables.table(KEYS)
        attributes = {
            **document.head,
            "documentKey": document.key.id,
            "imported": self.archive.sha256,
            "fingerprint": "",
        }
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
