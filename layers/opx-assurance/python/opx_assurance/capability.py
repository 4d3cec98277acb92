"""Composes seals, archives, answers as of a past time, and the comparison and repair of the stores."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError, SecretNotFoundError
from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.indexing.capability import Indexing
from opx.lifecycle.daily import DailyFeed
from opx.operations.system import Backend, StartSystem, System
from opx.ports.tables import DOCUMENTS, LIFECYCLE
from opx.runtime.knowledge_file import Installation
from opx.runtime.threads import cores
from opx.settings import DEPLOYED_KEY, Settings
from opx_assurance.seal.signing import SigningKey

if TYPE_CHECKING:
    from opx.lifecycle.retention.holds import Holds
    from opx_assurance.archive.exporting import Exporter
    from opx_assurance.archive.importing import Importer
    from opx_assurance.consistency.comparing import Comparison
    from opx_assurance.consistency.leftovers import LeftoverFiles
    from opx_assurance.consistency.reconcile import Reconciler, Repairs
    from opx_assurance.consistency.repair import StoreRepair
    from opx_assurance.consistency.store_checks import CheckedDocuments, ComparedStores, StoreChecks
    from opx_assurance.past.as_of import AsOf
    from opx_assurance.seal.contents import SealedContents
    from opx_assurance.seal.daily import DailySealing
    from opx_assurance.seal.sealing import Sealing

log = logging.getLogger(__name__)


def assurance(system: System) -> Assurance:
    """The capability of a system: `system.part(assurance)`."""
    return Assurance(
        system.installation,
        system.ports,
        corpus=system.corpus,
        indexing=system.indexing,
        graph=system.graph,
        ingestion=system.ingestion,
        schedule=lambda: system.connectors.schedule(),  # noqa: PLW0108 - connectors are made when they are needed
        restart=system.restart,
    )


def feed(system: System) -> DailyFeed:
    """Daily seals within the background loop of a single-process installation."""
    return DailyFeed("seal", lambda: system.part(assurance).daily_sealing().run().lines(), system.clock)


@contextmanager
def opened(restart: StartSystem, settings: Settings) -> Iterator[Assurance]:
    """The capability of the system that the settings name, which is closed afterwards."""
    with restart(settings) as system:
        yield system.part(assurance)


@dataclass(eq=False)
class Assurance:
    """Seals, archives, compares and repairs what is stored, and searches it as of a past time. `schedule` applies the
    schedules of registered sources and streams; `restart` opens the system again, in other processes."""

    installation: Installation
    ports: Backend
    _: KW_ONLY
    corpus: Corpus
    indexing: Indexing
    graph: Graph
    ingestion: Ingestion
    schedule: Callable[[], None]
    restart: StartSystem | None = None

    # -- answers as of a past time

    @cached_property
    def as_of(self) -> AsOf:
        """Searches the knowledge base as of a past time."""
        from opx_assurance.past.as_of import AsOf

        return AsOf(
            catalog=self.corpus.catalog,
            calendar=self.corpus.calendar,
            store=self.corpus.store,
            knowledge=self.installation.knowledge,
            embedder=self.indexing.document_embedder,
            clock=self.installation.clock,
            threads=self.ports.storage.read_threads,
        )

    # -- archives

    def exporter(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> Exporter:
        """Writes archives. `progress` is called with the kind of item written and the count so far."""
        from opx_assurance.archive.exporting import Exporter

        tables, storage, corpus = self.ports.tables, self.ports.storage, self.corpus
        return Exporter(self.installation, tables=tables, storage=storage, corpus=corpus, progress=progress)

    def importer(self, progress: Callable[[str], None] = lambda _: None) -> Importer:
        """Imports archives. `progress` is called with a description of the next step."""
        from opx_assurance.archive.importing import Importer

        return Importer(
            self.installation,
            tables=self.ports.tables,
            storage=self.ports.storage,
            corpus=self.corpus,
            ingestion=self.ingestion,
            schedule=self.schedule,
            progress=progress,
        )

    # -- comparison and repair

    def reconciler(
        self, *, thorough: bool = False, progress: Callable[[str, int], None] = lambda _what, _count: None
    ) -> Reconciler:
        """Reconciles the stores; with `thorough`, index entries are compared one by one, and all files are read.
        `progress` is called with the kind of item compared and the count so far."""
        from opx_assurance.consistency.reconcile import Reconciler

        checks, repairs = self._checks(thorough=thorough), self.repairs(thorough=thorough)
        compared = partial(self._compared, thorough=thorough)
        return Reconciler(self.ports.tables, checks, repairs, progress, compared=compared)

    def repairs(self, *, thorough: bool = False) -> Repairs:
        """Repairs differences between the stores."""
        from opx_assurance.consistency.reconcile import Repairs

        checks = self._checks(thorough=thorough)
        return Repairs(self._compared_stores, checks, self.graph, self.ingestion, self.ports.work)

    def comparison(self, *, thorough: bool = False) -> Comparison:
        """Compares the stores by segments, which may be compared at the same time, here or elsewhere."""
        from opx_assurance.consistency.comparing import Comparison

        return Comparison(self._compared_stores, self._checks(thorough=thorough))

    def _compared(self, *, thorough: bool) -> Iterator[CheckedDocuments]:
        """Findings of everything: by this process, or by one for each core where there are many documents."""
        from opx_assurance.consistency.comparing import WHOLE
        from opx_assurance.consistency.noted import NotedSegments
        from opx_assurance.consistency.processes import (
            DOCUMENTS_A_SEGMENT,
            SEGMENTS_A_PROCESS,
            compared_in_processes,
        )

        comparison, processes = self.comparison(thorough=thorough), cores()
        if self.restart is None or processes < 2:
            return chain.from_iterable(map(comparison.compare, WHOLE))
        noted = NotedSegments(self.ports.storage.objects, self.installation.clock, thorough=thorough)
        segments = noted.begin(lambda: comparison.cut(DOCUMENTS_A_SEGMENT, processes * SEGMENTS_A_PROCESS)[0])
        if len(segments) == len(WHOLE):
            return chain.from_iterable(map(comparison.compare, segments))
        start = partial(opened, self.restart, self.installation.settings)
        compare = partial(compared_in_processes, start, processes=processes, thorough=thorough)
        return noted.compared(segments, compare)

    def _checks(self, *, thorough: bool) -> StoreChecks:
        from opx_assurance.consistency.store_checks import StoreChecks

        return StoreChecks(self._compared_stores, self.installation, self.ingestion, thorough=thorough)

    @property
    def _compared_stores(self) -> ComparedStores:
        from opx_assurance.consistency.store_checks import ComparedStores

        return ComparedStores(self.ports.tables, self.ports.storage, self.corpus, self.indexing, self.ports.files)

    def leftovers(self, holds: Holds) -> LeftoverFiles:
        """Removes files that killed writers left, but for those that holds may cover."""
        from opx_assurance.consistency.leftovers import LeftoverFiles

        state, checks = self.ports.tables.table(LIFECYCLE), self._checks(thorough=False)
        return LeftoverFiles(self.corpus.store, state, checks, self.repairs(), holds.in_force)

    def repair(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> StoreRepair:
        """Rebuilds stores from whatever is left. `progress` is called with the kind of item compared and the count so far."""
        from opx_assurance.consistency.repair import StoreRepair

        return StoreRepair(
            self.ports.files, self.ports.tables, partial(self.reconciler, thorough=True, progress=progress), progress
        )

    # -- seals

    def sealing(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> Sealing:
        """Seals all contents, and compares them with the last seal. `progress` is called with the kind of item read and the
        count so far."""
        from opx_assurance.seal.contents import SealedContents

        return self._sealing(SealedContents(self.ports.tables, self.ports.storage, self.corpus, progress))

    def _sealing(self, contents: SealedContents) -> Sealing:
        from opx_assurance.seal.records import SealStore
        from opx_assurance.seal.sealing import Sealing

        clock, documents = self.installation.clock, self.ports.tables.table(DOCUMENTS)
        store = SealStore(self.ports.tables.table(LIFECYCLE), clock)
        return Sealing(contents, store, documents, self._signing_key, clock)

    def _signing_key(self) -> SigningKey | None:
        """The key of the settings: of a file, a secret, or the deployment's secret, which may be empty."""
        named = self.installation.settings.signing_key
        if not named:
            return None
        if named.startswith(DEPLOYED_KEY):
            return self._deployed_key(named.removeprefix(DEPLOYED_KEY))
        if "/" not in named:
            return SigningKey.of_pem(self.ports.secrets.get(named))
        try:
            return SigningKey.of_pem(Path(named).expanduser().read_text())
        except (OSError, UnicodeDecodeError) as exc:
            raise InvalidInputError(f"the signing key {named} can't be read: {exc}") from exc

    def _deployed_key(self, name: str) -> SigningKey | None:
        try:
            return SigningKey.of_pem(self.ports.deployment_secrets.get(name))
        except SecretNotFoundError as exc:
            log.warning("seals are not signed: %s", exc)
            return None

    def daily_sealing(self) -> DailySealing:
        """Makes the seal of a day. Where the store keeps every version of an object, recorded checksums stand for bytes."""
        from opx_assurance.seal.contents import SealedContents
        from opx_assurance.seal.daily import DailySealing

        tables, storage, corpus, clock = self.ports.tables, self.ports.storage, self.corpus, self.installation.clock
        is_recorded = storage.past is not None
        contents = SealedContents(tables, storage, corpus, lambda _what, _count: None, is_recorded=is_recorded)
        return DailySealing(self._sealing(contents), corpus.announcements.waiting_objects, clock)
