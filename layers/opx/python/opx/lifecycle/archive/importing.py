"""Takes an archive in: all of it is verified first, then catalog, files and rows are put back, and then the objects, from
which the pipeline makes everything else anew.

It may end at any moment and be run again. What it puts is put only where nothing is; the item of a document's key says
which import put it, until the pipeline has taken the document in, so that one which was cut short goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from opx.domain.times import iso_time
from opx.errors import ArchiveError, ClientRemovedError
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.outcomes import Result
from opx.lifecycle.archive.contents import ArchiveContents, Contents
from opx.lifecycle.archive.file import ArchiveReader
from opx.lifecycle.archive.putting_back import Progress, PuttingBack
from opx.lifecycle.report import ArchiveFacts, Fate, ImportReport
from opx.ports import Storage, Table, Tables
from opx.ports.tables_specs import ALIASES, KEYS, LIFECYCLE, OUTCOMES, PATTERNS, PROJECTS, STAGING, TableSpec
from opx.runtime.installation import Installation

SUBJECT = "import"
"""In the table of what becomes of documents: which archives were taken in, and which one is being."""

UNDER_WAY, DONE, GIVEN_UP = "under way", "done", "given up"
_OCCUPIED_BY = (KEYS, PROJECTS, ALIASES, STAGING, PATTERNS, OUTCOMES)


def give_up(table: Table) -> int:
    """Forget imports that were begun and never finished, once all stores agree about what they left. Returns how many."""
    begun = [item for item in table.query(SUBJECT) if item["state"] == UNDER_WAY]
    table.put_many({**item, "state": GIVEN_UP} for item in begun)
    return len(begun)


class Importer:
    """Takes archives in. One process at a time. `schedule` has sources and streams of the rows read at their times."""

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
        """Take an archive in. Into a system that has knowledge only with `merge`: then documents that are new, or newer
        than those here, are taken from the archive, and of everything else what is not here.

        Raises `ArchiveError` before anything is changed, and `StoreUnavailableError`: then run it again.
        """
        with ArchiveReader(path) as archive:
            contents = ArchiveContents(archive, self._installation, tables=self._tables, storage=self._storage)
            self._check_target(archive, merge=merge)
            found = contents.check(self._progress)
            self._check_owners(found)
            report = ImportReport(_facts(archive), found.counts, found.notes, dry_run)
            task = PuttingBack(
                archive, contents, report, self._progress, tables=self._tables, corpus=self._corpus, merge=merge
            )
            if dry_run:
                task.foresee()
            else:
                self._mark(archive, UNDER_WAY, merge=merge)
                task.restore()
                self._schedule()
                self._work(report)
                self._mark(archive, DONE, merge=merge)
        return report

    # -- whether it may be taken in here

    def _check_target(self, archive: ArchiveReader, *, merge: bool) -> None:
        under_way = [item for item in self._table(LIFECYCLE).query(SUBJECT) if item["state"] == UNDER_WAY]
        if any(item["entry"] != archive.sha256 for item in under_way):
            began = under_way[0]
            raise ArchiveError(
                f"the import of another archive, of {began['made']}, was begun on {began['since']} and is not finished: "
                "run it again first; if that archive is lost, `opx reconcile --repair` puts in order what it left"
            )
        if not merge and not under_way and (found := self._occupied()):
            raise ArchiveError(
                f"there is knowledge here already ({found}): an archive is taken in where there is none, or with --merge"
            )

    def _occupied(self) -> str:
        """What there is here, "" for nothing."""
        listed = (info.key for info in self._corpus.store.list() if not info.key.startswith("offboarding/"))
        key = next(listed, "")
        if key:
            return f"object {key}"
        for spec in _OCCUPIED_BY:
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

    # -- what comes after the objects

    def _work(self, report: ImportReport) -> None:
        if self._ingestion.drain is None:
            report.waiting = report.documents[Fate.RESTORED] + report.documents[Fate.REPLACED]
            return
        for outcome in self._ingestion.drain.run():
            self._progress(f"taking in {outcome.object_key}")
            report.failed += outcome.result is Result.FAILED

    def _table(self, spec: TableSpec) -> Any:
        return self._tables.table(spec)


def _facts(archive: ArchiveReader) -> ArchiveFacts:
    return ArchiveFacts(*(str(archive.manifest.get(name, "")) for name in ("made", "version", "backend", "sha256")))
