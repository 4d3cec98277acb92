"""Composes retention, legal holds, reviews, use of clients, calibration and reindexing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol

from opx.errors import InvalidInputError, ObjectNotFoundError
from opx.graph.capability import Graph
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.ingestion.indexing.capability import Indexing
from opx.learning.capability import Learning
from opx.lifecycle.daily import DailyFeed
from opx.lifecycle.holdings import DocumentSizes
from opx.lifecycle.usage import UsageLog
from opx.ports import Embedder, Storage, Tables, WorkQueue
from opx.ports.tables import DOCUMENTS, KEYS, LIFECYCLE, USAGE
from opx.runtime.knowledge_file import Installation, read_section
from opx.runtime.metrics import Report, unreported
from opx.settings import MANAGED_ENGINE

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

log = logging.getLogger(__name__)

WRITERS_DONE_SECONDS = 330.0
"""Time after which no ingesting function that began before is still running: their timeout is 300 seconds."""

REINDEX_LEASE_SECONDS = 960.0
"""Longer than a function may run: a lease older than this belongs to a worker that has ended."""

MANAGED = "a managed knowledge base builds its own index with the model that its deployment names: see docs/deploy.md"
JUDGES_ITSELF = "a managed knowledge base scores relevance itself: there is nothing to calibrate"


class Leftovers(Protocol):
    """Files that killed writers left."""

    def remove(self, is_over: Callable[[], bool], /) -> tuple[int, int]:
        """Removes them; returns the numbers of those removed, and of those kept by holds."""


class HasLeftovers(Protocol):
    """The part `assurance`, as pruning uses it."""

    def leftovers(self, holds: Holds, /) -> Leftovers: ...


@dataclass(eq=False)
class Lifecycle:
    """Retains, reviews and removes documents of all scopes, and builds their index. `assurance` returns the part that removes
    leftover files, None without it."""

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
    words: Callable[[], WordsSegments]
    assurance: Callable[[], HasLeftovers | None]

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
        assurance = self.assurance()
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
            leftovers=assurance.leftovers(self.holds).remove if assurance else None,
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

    # -- calibration

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
