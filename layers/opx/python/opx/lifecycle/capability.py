"""Composes retention, legal holds, reviews, archives, reconciliation, as-of queries and reindexing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from opx.errors import InvalidInputError, ObjectNotFoundError, SecretNotFoundError
from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.ingestion.corpus.sizes import DocumentSizes
from opx.ingestion.indexing.capability import Indexing
from opx.learning.capability import Learning
from opx.lifecycle.daily import DailyFeed
from opx.lifecycle.usage import UsageLog
from opx.ports import Embedder, Storage, Tables, WorkQueue
from opx.ports.files import StoreFiles
from opx.ports.sources import Secrets
from opx.ports.tables import DOCUMENTS, KEYS, LIFECYCLE, USAGE
from opx.runtime.knowledge_file import Installation, read_section
from opx.runtime.metrics import Report, unreported
from opx.runtime.threads import cores
from opx.settings import DEPLOYED_KEY, MANAGED_ENGINE
from opx_assurance.seal.signing import SigningKey

if TYPE_CHECKING:
    from opx.domain.documents import DocumentChunk, DocumentKey
    from opx.lifecycle.coverage import CoverageReport
    from opx.lifecycle.holdings import HoldingsCount
    from opx.lifecycle.reindex.filling import Filler, SearchedDocuments
    from opx.lifecycle.reindex.job import Pace
    from opx.lifecycle.reindex.reindexing import Reindexer
    from opx.lifecycle.report import PruneReports
    from opx.lifecycle.retention.due import RetentionState
    from opx.lifecycle.retention.holds import Holds
    from opx.lifecycle.retention.pruning import DailyCalibration, DailyPruning, KnowledgePruningService
    from opx.lifecycle.retention.reviews import Reviews
    from opx.lifecycle.usage import DayCount
    from opx.lifecycle.warm_words import WarmWords
    from opx.ports.search import WordsSegments
    from opx.records.audit import AuditLog
    from opx.retrieval.calibration.calibrating import Calibrator
    from opx.retrieval.calibration.models import CalibrationStore
    from opx_assurance.archive.exporting import Exporter
    from opx_assurance.archive.importing import Importer
    from opx_assurance.consistency.comparing import Comparison
    from opx_assurance.consistency.processes import StartSystem
    from opx_assurance.consistency.reconcile import Reconciler, Repairs
    from opx_assurance.consistency.repair import StoreRepair
    from opx_assurance.consistency.store_checks import CheckedDocuments, ComparedStores, StoreChecks
    from opx_assurance.past.as_of import AsOf
    from opx_assurance.seal.contents import SealedContents
    from opx_assurance.seal.daily import DailySealing
    from opx_assurance.seal.sealing import Sealing

log = logging.getLogger(__name__)

WRITERS_DONE_SECONDS = 330.0
"""Time after which no ingesting function that began before is still running: their timeout is 300 seconds."""

REINDEX_LEASE_SECONDS = 960.0
"""Longer than a function may run: a lease older than this belongs to a worker that has ended."""

MANAGED = "a managed knowledge base builds its own index with the model that its deployment names: see docs/deploy.md"
JUDGES_ITSELF = "a managed knowledge base scores relevance itself: there is nothing to calibrate"


@dataclass(eq=False)
class Lifecycle:
    """Retains, reviews, archives, reconciles and removes documents of all scopes. `schedule` applies the schedules of
    registered sources and streams; `restart` opens the system again, in other processes."""

    installation: Installation
    tables: Tables
    storage: Storage
    work: WorkQueue
    _: KW_ONLY
    corpus: Corpus
    indexing: Indexing
    graph: Graph
    ingestion: Ingestion
    learning: Learning
    calibrations: Callable[[], CalibrationStore]
    audit: Callable[[], AuditLog]
    schedule: Callable[[], None]
    files: Callable[[], StoreFiles | None]
    secrets: Callable[[], Secrets]
    deployment_secrets: Callable[[], Secrets]
    words: Callable[[], WordsSegments]
    restart: StartSystem | None = None

    # -- retention

    @cached_property
    def holds(self) -> Holds:
        """Legal holds: bans on deleting documents."""
        from opx.lifecycle.retention.holds import Holds

        return Holds(self.tables.table(LIFECYCLE), self.installation.clock)

    @cached_property
    def prune_reports(self) -> PruneReports:
        """Reports of past pruning runs."""
        from opx.lifecycle.report import PruneReports

        return PruneReports(self.tables.table(LIFECYCLE), self.installation.clock)

    def check_removal(self, object_keys: Sequence[str]) -> None:
        """Raises `HeldError` if a legal hold covers any version of one of these objects' documents."""
        from opx.lifecycle.retention.holds import versions_of_objects

        self.holds.check(versions_of_objects(self.corpus.catalog, object_keys))

    def _retention_state(self) -> RetentionState:
        from opx.lifecycle.retention.due import RetentionState

        return RetentionState(self.tables.table(LIFECYCLE), self.installation.knowledge)

    def daily_pruning(self) -> DailyPruning:
        """Daily pruning within the background loop of a single-process installation."""
        from opx.lifecycle.retention.pruning import DailyPruning

        return DailyPruning(self.pruning, self._retention_state, self.installation.clock)

    def pruning(self, report: Report = unreported) -> KnowledgePruningService:
        """Removes expired versions in all scopes. Raises `KnowledgeConfigError`."""
        from opx.lifecycle.retention.due import DueVersions, PatternKeeper, Redating
        from opx.lifecycle.retention.pruning import KnowledgePruningService, read_guard_rules
        from opx.lifecycle.retention.removal import Removal
        from opx_assurance.consistency.leftovers import LeftoverFiles

        corpus, tables, installation = self.corpus, self.tables, self.installation
        state = self._retention_state()
        patterns = PatternKeeper(lambda: self.learning.patterns, installation.knowledge)
        removal = Removal(
            store=corpus.store,
            catalog=corpus.catalog,
            calendar=corpus.calendar,
            pipeline=self.ingestion.pipeline,
            clock=installation.clock,
            unit_of_work=tables.unit_of_work,
            threads=self.storage.read_threads,
            forgotten=patterns.forget,
        )
        leftovers = LeftoverFiles(
            corpus.store,
            tables.table(LIFECYCLE),
            self._checks(thorough=False),
            self.repairs(),
            self.holds.in_force,
        )
        return KnowledgePruningService(
            catalog=corpus.catalog,
            calendar=corpus.calendar,
            state=state,
            holds=self.holds,
            removal=removal,
            rules=installation.declared(read_guard_rules),
            reports=self.prune_reports,
            clock=installation.clock,
            due=partial(DueVersions, corpus.catalog, corpus.calendar, installation.knowledge, corpus.uses),
            exclusive=self.work.exclusive,
            redating=Redating(corpus.catalog, corpus.calendar, state, tables.unit_of_work),
            patterns=patterns,
            purge=tables.purge_expired,
            leftovers=leftovers.remove,
            report=report,
        )

    @cached_property
    def reviews(self) -> Reviews:
        """Lists documents due for review. Raises `KnowledgeConfigError`."""
        from opx.lifecycle.retention.reviews import Reviews
        from opx.records.gaps.listing import read_owners

        installation = self.installation
        read_owners(installation.knowledge, installation.knowledge_path)  # raises if the section is malformed
        section = read_section("owners", installation.knowledge_path)
        named = {name: value.text() for name, value in section.entries().items()} if section else {}
        services = {name.casefold(): owner for name, owner in named.items()}
        return Reviews(self.corpus.catalog, self.corpus.calendar, {**named, **services}, installation.clock)

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
            threads=self.storage.read_threads,
        )

    # -- use of clients

    @cached_property
    def usage(self) -> UsageLog:
        """Daily use of clients."""
        audit = self.audit() if self.installation.settings.audit_days else None
        return UsageLog(self.tables.table(USAGE), audit, self.installation.clock)

    def measure_usage(self, day: str = "") -> DayCount:
        """Counts the use of a past day, the last one by default. Reads the sizes of all versions in the catalog. Raises
        `InvalidInputError` and `StoreUnavailableError`."""
        return self.usage.record(self.holdings.all(self.usage.tally(day)).usage)

    @cached_property
    def holdings(self) -> HoldingsCount:
        """Counts stored documents by category and client."""
        from opx.lifecycle.holdings import HoldingsCount

        return HoldingsCount(
            DocumentSizes(self.tables.table(DOCUMENTS)),
            self.tables.table(LIFECYCLE),
            categories=lambda: list(self.installation.knowledge.categories),
            clock=self.installation.clock,
        )

    def count_holdings(self, coverage: CoverageReport, report: Report, *, seconds: float) -> dict[str, int]:
        """Counts documents for so long; the next call goes on. When all are counted, they are reported, and the use of
        clients is recorded. Returns the counts, or `unfinished`."""
        counted = self.holdings.run(self.usage.tally(), seconds=seconds)
        if counted is None:
            log.info("the documents are not all counted yet: the next run goes on")
            return {"unfinished": 1}
        found = coverage.holdings(counted, report) | {"clients": self.usage.record(counted.usage).clients}
        self.holdings.end()
        return found

    def daily_usage(self) -> DailyFeed:
        """Counts of the last day's use within the background loop of a single-process installation."""
        return DailyFeed("use of clients", self._measure_last_day, self.installation.clock)

    def _measure_last_day(self) -> tuple[str, ...]:
        if not self.usage.has(self.usage.tally().day):
            self.measure_usage()
        return ()

    # -- archives, reconciliation and calibration

    def exporter(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> Exporter:
        """Writes archives. `progress` is called with the kind of item written and the count so far."""
        from opx_assurance.archive.exporting import Exporter

        tables, storage, corpus = self.tables, self.storage, self.corpus
        return Exporter(self.installation, tables=tables, storage=storage, corpus=corpus, progress=progress)

    def importer(self, progress: Callable[[str], None] = lambda _: None) -> Importer:
        """Imports archives. `progress` is called with a description of the next step."""
        from opx_assurance.archive.importing import Importer

        return Importer(
            self.installation,
            tables=self.tables,
            storage=self.storage,
            corpus=self.corpus,
            ingestion=self.ingestion,
            schedule=self.schedule,
            progress=progress,
        )

    def reconciler(
        self, *, thorough: bool = False, progress: Callable[[str, int], None] = lambda _what, _count: None
    ) -> Reconciler:
        """Reconciles the stores; with `thorough`, index entries are compared one by one, and all files are read.
        `progress` is called with the kind of item compared and the count so far."""
        from opx_assurance.consistency.reconcile import Reconciler

        checks, repairs = self._checks(thorough=thorough), self.repairs(thorough=thorough)
        compared = partial(self._compared, thorough=thorough)
        return Reconciler(self.tables, checks, repairs, progress, compared=compared)

    def repairs(self, *, thorough: bool = False) -> Repairs:
        """Repairs differences between the stores."""
        from opx_assurance.consistency.reconcile import Repairs

        checks = self._checks(thorough=thorough)
        return Repairs(self._compared_stores, checks, self.graph, self.ingestion, self.work)

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
        noted = NotedSegments(self.storage.objects, self.installation.clock, thorough=thorough)
        segments = noted.begin(lambda: comparison.cut(DOCUMENTS_A_SEGMENT, processes * SEGMENTS_A_PROCESS)[0])
        if len(segments) == len(WHOLE):
            return chain.from_iterable(map(comparison.compare, segments))
        opened = partial(self.restart, self.installation.settings)
        compare = partial(compared_in_processes, opened, processes=processes, thorough=thorough)
        return noted.compared(segments, compare)

    def _checks(self, *, thorough: bool) -> StoreChecks:
        from opx_assurance.consistency.store_checks import StoreChecks

        return StoreChecks(self._compared_stores, self.installation, self.ingestion, thorough=thorough)

    @property
    def _compared_stores(self) -> ComparedStores:
        from opx_assurance.consistency.store_checks import ComparedStores

        return ComparedStores(self.tables, self.storage, self.corpus, self.indexing, self.files())

    def repair(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> StoreRepair:
        """Rebuilds stores from whatever is left. `progress` is called with the kind of item compared and the count so far."""
        from opx_assurance.consistency.repair import StoreRepair

        return StoreRepair(
            self.files(), self.tables, partial(self.reconciler, thorough=True, progress=progress), progress
        )

    def sealing(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> Sealing:
        """Seals all contents, and compares them with the last seal. `progress` is called with the kind of item read and the
        count so far."""
        from opx_assurance.seal.contents import SealedContents

        return self._sealing(SealedContents(self.tables, self.storage, self.corpus, progress))

    def _sealing(self, contents: SealedContents) -> Sealing:
        from opx_assurance.seal.records import SealStore
        from opx_assurance.seal.sealing import Sealing

        clock, documents = self.installation.clock, self.tables.table(DOCUMENTS)
        store = SealStore(self.tables.table(LIFECYCLE), clock)
        return Sealing(contents, store, documents, self._signing_key, clock)

    def _signing_key(self) -> SigningKey | None:
        """The key of the settings: of a file, a secret, or the deployment's secret, which may be empty."""
        named = self.installation.settings.signing_key
        if not named:
            return None
        if named.startswith(DEPLOYED_KEY):
            return self._deployed_key(named.removeprefix(DEPLOYED_KEY))
        if "/" not in named:
            return SigningKey.of_pem(self.secrets().get(named))
        try:
            return SigningKey.of_pem(Path(named).expanduser().read_text())
        except (OSError, UnicodeDecodeError) as exc:
            raise InvalidInputError(f"the signing key {named} can't be read: {exc}") from exc

    def _deployed_key(self, name: str) -> SigningKey | None:
        try:
            return SigningKey.of_pem(self.deployment_secrets().get(name))
        except SecretNotFoundError as exc:
            log.warning("seals are not signed: %s", exc)
            return None

    def daily_sealing(self) -> DailySealing:
        """Makes the seal of a day. Where the store keeps every version of an object, recorded checksums stand for bytes."""
        from opx_assurance.seal.contents import SealedContents
        from opx_assurance.seal.daily import DailySealing

        tables, storage, corpus, clock = self.tables, self.storage, self.corpus, self.installation.clock
        is_recorded = storage.past is not None
        contents = SealedContents(tables, storage, corpus, lambda _what, _count: None, is_recorded=is_recorded)
        return DailySealing(self._sealing(contents), corpus.announcements.waiting_objects, clock)

    def daily_seal(self) -> DailyFeed:
        """Daily seals within the background loop of a single-process installation."""
        return DailyFeed("seal", lambda: self.daily_sealing().run().lines(), self.installation.clock)

    def calibrator(self, progress: Callable[[str, int], None] = lambda _what, _count: None) -> Calibrator:
        """Fits the confidence models to this corpus, for the active embedding model. `progress` is called with the kind of
        item processed and the count so far. Raises `InvalidInputError` where a managed service scores relevance."""
        from opx.graph.naming import ScopeDirectory
        from opx.retrieval.calibration.calibrating import CalibrationCorpus, Calibrator

        corpus, indexing, installation = self.corpus, self.indexing, self.installation
        embedder = indexing.query_embedder
        if embedder is None:
            raise InvalidInputError(JUDGES_ITSELF)
        calibration_corpus = CalibrationCorpus(
            catalog=corpus.catalog,
            scopes=ScopeDirectory(corpus.clients, corpus.projects).all,
            categories=sorted(installation.knowledge.categories),
            read=lambda document: self._chunks_on_file(document.key, document.document_id),
            index=indexing.index,
            embedder=embedder,
        )
        return Calibrator(calibration_corpus, self.calibrations(), installation.clock, progress)

    def daily_calibration(self) -> DailyCalibration:
        """Due calibrations within the background loop of a single-process installation."""
        from opx.lifecycle.retention.pruning import DailyCalibration

        return DailyCalibration(self.calibrator, self.installation.clock)

    # -- reindexing

    @property
    def reindexer(self) -> Reindexer:
        """Builds a new edition of the index. Raises `InvalidInputError` where the search engine can't have a second one."""
        from opx.graph.naming import ScopeDirectory
        from opx.lifecycle.reindex.job import JobStore, ReindexParts
        from opx.lifecycle.reindex.reindexing import Reindexer

        self._require_editions()
        corpus, indexing, installation = self.corpus, self.indexing, self.installation
        lease = 0.0 if self.work.in_process else REINDEX_LEASE_SECONDS
        table, subject = self.tables.table(LIFECYCLE), indexing.indexes.subject
        parts = ReindexParts(
            editions=indexing.editions,
            jobs=JobStore(table, subject, clock=installation.clock, lease_seconds=lease),
            indexes=indexing.indexes,
            embedder=indexing.edition_embedder,
            filler=self.filler(self.indexing.document_embedder),
            catalog=corpus.catalog,
            keys=self.tables.table(KEYS),
            chunks=self._chunks_on_file,
            scopes=ScopeDirectory(corpus.clients, corpus.projects).all,
            categories=lambda: list(installation.knowledge.categories),
            clock=installation.clock,
            pace=self._reindex_pace,
            exclusive=self.work.exclusive,
            switched=indexing.count_change,
        )
        return Reindexer(parts)

    @property
    def _reindex_pace(self) -> Pace:
        from opx.lifecycle.reindex.job import Pace

        settling = self.indexing.indexes.settling_seconds
        if self.work.in_process:
            return Pace(settling_seconds=settling)
        return Pace(start_seconds=WRITERS_DONE_SECONDS, settling_seconds=settling, pause_seconds=10.0, alone=False)

    def _chunks_on_file(self, key: DocumentKey, document_id: str) -> Iterator[DocumentChunk]:
        """Chunks of a version, read without the pipeline, which needs a readable index; none if the chunk file is gone."""
        try:
            yield from read_chunks(self.corpus.store, key, document_id)
        except ObjectNotFoundError:
            return

    def _require_editions(self) -> None:
        settings = self.installation.settings
        if settings.search_engine == MANAGED_ENGINE:
            raise InvalidInputError(MANAGED)
        if not self.indexing.has_editions:
            raise InvalidInputError("the index was passed in to this process: it can't build another one")

    def filler(self, embedder: Embedder) -> Filler:
        """Fills an edition of the index with vectors of this embedder."""
        from opx.lifecycle.reindex.filling import Filler

        return Filler(
            catalog=self.corpus.catalog,
            read_chunks=self._chunks_on_file,
            documents=self.searched_documents(),
            embedder=embedder,
            editions=self.indexing.editions,
            clock=self.installation.clock,
            settling_seconds=self.indexing.indexes.settling_seconds,
            threads=self.storage.read_threads,
        )

    def searched_documents(self) -> SearchedDocuments:
        """Reads the chunks of versions as they are searched."""
        from opx.lifecycle.reindex.filling import SearchedDocuments

        return SearchedDocuments(self._chunks_on_file, self.installation.knowledge, self.ingestion.context_writer)

    # -- words for the time in which the index wakes up

    def warm_words(self) -> WarmWords | None:
        """Makes the segment of words that answers while the index wakes up; None where none is kept."""
        version = self.indexing.corpus_version
        if not self.indexing.keeps_words or version is None:
            return None
        from opx.lifecycle.warm_words import WarmWords

        return WarmWords(
            catalog=self.corpus.catalog,
            documents=self.searched_documents(),
            knowledge=self.installation.knowledge,
            shelf=self.indexing.words_shelf(self.corpus.store),
            segments=self.words(),
            version=version,
            threads=self.storage.read_threads,
        )
