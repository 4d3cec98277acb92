"""Composes the catalog of documents, the registries of clients and projects, and the guarded corpus store."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from opx.ingestion.corpus.clients import ClientRegistry, ProjectRegistry
from opx.ports import ObjectStore, Storage, Tables, UploadSigner, WorkQueue
from opx.ports.tables import ANNOUNCEMENTS, CALENDAR, DOCUMENTS, ENTRIES, FAILURES, KEYS, PROJECTS, USES
from opx.runtime.knowledge_file import Installation

if TYPE_CHECKING:
    from opx.ingestion.corpus.announcements import Announcements, Backlog
    from opx.ingestion.corpus.calendar import Calendar
    from opx.ingestion.corpus.catalog import Catalog
    from opx.ingestion.corpus.failures import FailureLog
    from opx.ingestion.corpus.uses import UseLog


class Corpus:
    """The corpus of an installation with its catalog, tenants and failures. `store` and `upload_signer` replace those of the
    storage."""

    def __init__(
        self,
        installation: Installation,
        tables: Tables,
        storage: Storage,
        work: WorkQueue,
        *,
        store: ObjectStore | None = None,
        upload_signer: UploadSigner | None = None,
    ) -> None:
        self._installation = installation
        self._tables = tables
        self._storage = storage
        self._work = work
        if store is not None:
            self.store = store
        if upload_signer is not None:
            self.upload_signer = upload_signer

    @cached_property
    def store(self) -> ObjectStore:
        """The corpus store: it refuses documents of removed clients, and sends events of changes where the bucket doesn't."""
        number = self._work.next_number
        if number is None:
            return self.quiet_store
        from opx.ingestion.corpus.stores import AnnouncingObjectStore

        return AnnouncingObjectStore(
            self.quiet_store,
            self._work.queue,
            number,
            unit_of_work=self._tables.unit_of_work,
            grouped=self._storage.grouped,
        )

    def grouped(self) -> AbstractContextManager[None]:
        """Documents that this thread puts in the block may be stored and announced only when it ends; see
        `Storage.grouped`."""
        from opx.ingestion.corpus.stores import AnnouncingObjectStore

        return self.store.grouped() if isinstance(self.store, AnnouncingObjectStore) else nullcontext()

    @cached_property
    def quiet_store(self) -> ObjectStore:
        """The corpus store, which refuses documents of removed clients, without events of changes by this process."""
        from opx.ingestion.corpus.stores import GuardedObjectStore

        return GuardedObjectStore(self._storage.objects, self.clients.check)

    @property
    def read_threads(self) -> int:
        """Number of threads with which reading objects is fastest."""
        return self._storage.read_threads

    @cached_property
    def upload_signer(self) -> UploadSigner | None:
        """Signs direct uploads to the bucket, for clients that weren't removed; None where the storage has none."""
        from opx.ingestion.corpus.stores import guarded_signer

        signer = self._storage.signer
        return guarded_signer(signer, self.clients.check) if signer else None

    @cached_property
    def clients(self) -> ClientRegistry:
        """The registry of clients, removed ones included."""
        return ClientRegistry(self._tables.table(PROJECTS), self._installation.clock)

    @cached_property
    def projects(self) -> ProjectRegistry:
        return ProjectRegistry(self._tables.table(PROJECTS))

    @cached_property
    def catalog(self) -> Catalog:
        """The catalog. Claims have no lease where one process works at a time: an earlier holder has ended."""
        from opx.ingestion.corpus.catalog import Catalog

        return Catalog(
            *(self._tables.table(spec) for spec in (DOCUMENTS, KEYS, ENTRIES)),
            clock=self._installation.clock,
            lease_seconds=0 if self._works_alone else self._installation.settings.lease_seconds,
            calendar=self.calendar,
            admits=self.clients.admit,
            knowledge=self._installation.knowledge,
        )

    @property
    def _works_alone(self) -> bool:
        return self._work.in_process and self._tables.in_folder

    @cached_property
    def calendar(self) -> Calendar:
        """Expiry, review and replacement of versions by day."""
        from opx.ingestion.corpus.calendar import Calendar

        return Calendar(self._tables.table(CALENDAR), self._installation.knowledge, self._installation.clock)

    @cached_property
    def uses(self) -> UseLog:
        """The last use of documents that age by use. Noted at once where that writes a file, else in the background."""
        from opx.ingestion.corpus.uses import UseLog, in_background

        return UseLog(
            self._tables.table(USES),
            lambda: self.catalog,
            self._installation.knowledge,
            self._installation.clock,
            run=None if self._tables.in_folder else in_background,
        )

    @cached_property
    def announcements(self) -> Announcements:
        """The ledger of announced changes, where the bucket announces them; empty elsewhere."""
        from opx.ingestion.corpus.announcements import Announcements

        tables = self._tables
        return Announcements(
            tables.table(ANNOUNCEMENTS),
            keys=tables.table(KEYS),
            failures=tables.table(FAILURES),
            store=self.store,
            clients=self.clients,
            clock=self._installation.clock,
        )

    def backlog(self) -> Backlog:
        """Changes that are not ingested. Where this process works on the queue, which keeps messages forever, these are
        the waiting ones; elsewhere the announced ones, as messages may be lost."""
        from opx.ingestion.corpus.announcements import Backlog

        return Backlog(self._work.queue.waiting()) if self._work.in_process else self.announcements.backlog()

    def waiting_here(self) -> int:
        """The number of changes in the queue that this process works on; 0 where functions ingest all the time."""
        return self._work.queue.waiting() if self._work.in_process else 0

    @cached_property
    def failures(self) -> FailureLog:
        from opx.ingestion.corpus.failures import FailureLog

        return FailureLog(self._tables.table(FAILURES), self._installation.clock)
