"""Everything that can't be made anew, into one archive.

Of each document: its object with what is said about it, all versions in the catalog, and the chunk file of each version.
The item of a key and its versions are read until they agree, and the object after them, so that what an archive says of a
document may be older than its object and never newer: where others write meanwhile, it is taken in as a change later.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from opx import __version__
from opx.domain.times import iso_time
from opx.errors import InvalidInputError
from opx.ingestion.corpus.capability import Corpus
from opx.lifecycle.archive.blobs import BlobWriter
from opx.lifecycle.archive.corpus_export import (
    DOCUMENT_LINES,
    FILE_LINES,
    VERSION_LINES,
    CorpusExport,
    CorpusLines,
    Progress,
    lines_in,
)
from opx.lifecycle.archive.file import BLOCK
from opx.lifecycle.archive.rows import ARCHIVED
from opx.lifecycle.archive.writing import ArchiveWriter, spooled
from opx.lifecycle.report import ExportReport
from opx.ports import Storage, Tables
from opx.ports.item_json import to_json
from opx.runtime.installation import Installation


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
