"""Composes the index and its embedder: those of the active edition, or fixed ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from opx.errors import StoreUnavailableError
from opx.ingestion.indexing.book import Edition, EditionBook, Journal
from opx.ingestion.indexing.editions import (
    EditionedIndex,
    EditionEmbedder,
    Editions,
    IndexGeneration,
    IndexService,
    OneIndex,
)
from opx.ports import Embedder, SearchEngine, SearchIndex, Tables
from opx.ports.search import WakeableIndex
from opx.ports.tables import DOCUMENTS, EMBEDDINGS, GRAPH, LIFECYCLE
from opx.runtime.knowledge_file import Installation
from opx.settings import MANAGED_ENGINE

if TYPE_CHECKING:
    from opx.ingestion.corpus.version import CorpusCount
    from opx.ingestion.indexing.editions import Writers
    from opx.ingestion.indexing.embedding_cache import CachedEmbedder
    from opx.ingestion.indexing.words import WordsShelf
    from opx.ports import ObjectStore
    from opx.ports.search import CorpusVersion

NewEmbedder = Callable[[str, str, int], Embedder]
"""Creates the embedder of a model, a model folder and a dimension (0: the model's own). Raises `InvalidInputError` for an
unknown model, and `EmbeddingError`."""

NewEngine = Callable[[], SearchEngine]


class Indexing:
    """The active index and its embedder. `managed` opens the search service that replaces the index for queries, if the
    settings name one; `index` and `embedder`, if passed, replace those of the editions."""

    def __init__(
        self,
        installation: Installation,
        tables: Tables,
        indexes: IndexService,
        new_embedder: NewEmbedder,
        managed: NewEngine,
        *,
        index: SearchIndex | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._installation = installation
        self._tables = tables
        self.indexes = indexes
        self._new_embedder = new_embedder
        self._managed = managed
        self._embedders: dict[tuple[str, str, int], Embedder] = {}
        if index is not None:
            self.index = index
        if embedder is not None:
            self.embedder = embedder

    # -- the index

    @cached_property
    def index(self) -> SearchIndex:
        """The active index, for readers and writers."""
        return EditionedIndex(self.editions)

    @cached_property
    def editions(self) -> Editions:
        """The editions of the index, the active one, and the journals of the others."""
        table, subject = self._tables.table(LIFECYCLE), self.indexes.subject
        book = EditionBook(table, self._first_edition, subject=subject)
        return Editions(book, Journal(table, subject), self, cache_seconds=self.indexes.cache_seconds)

    def _first_edition(self) -> Edition:
        model, model_path = self._settings_model
        return Edition(model=model, model_path=model_path, collection=next(iter(self.indexes.collections), ""))

    @property
    def _settings_model(self) -> tuple[str, str]:
        settings = self._installation.settings
        return settings.address("embedder").partition(":")[2] or settings.embedding_model, settings.model_path

    @property
    def has_editions(self) -> bool:
        """False where a fixed index was passed."""
        return isinstance(self.index, EditionedIndex)

    @property
    def writers(self) -> Writers:
        """Keeps writers of the index in step with a new edition that is being built."""
        return self.editions if self.has_editions else OneIndex()

    def every_index(self) -> list[SearchIndex]:
        """All indexes with entries of documents, for removals that must be complete."""
        return [edition.index for edition in self.editions.every()] if self.has_editions else [self.index]

    @property
    def written_index(self) -> SearchIndex:
        """The index for writers: changes are counted where the index doesn't."""
        if self.indexes.counts_changes:
            return self.index
        from opx.ingestion.corpus.version import CountedIndex

        return CountedIndex(self.index, self._corpus_count)

    @property
    def search_engine(self) -> SearchEngine:
        """Engine for queries: the index, or the managed service instead of it."""
        return self._managed_engine if self._is_managed else self.index

    def wake(self, *, wait: bool = False) -> None:
        """Wakes the index if its service may sleep, as `WakeableIndex.wake`. Nothing is raised without `wait`."""
        try:
            if self.indexes.may_sleep and isinstance(self.search_engine, WakeableIndex):
                self.search_engine.wake(wait=wait)
        except StoreUnavailableError:
            if wait:
                raise

    @property
    def keeps_words(self) -> bool:
        """True if segments of words are kept, which answer while the index wakes up."""
        return self._installation.settings.warm_words == "on" and self.indexes.may_sleep and not self._is_managed

    def words_shelf(self, store: ObjectStore) -> WordsShelf:
        """The segments of words in the corpus store."""
        from opx.ingestion.indexing.words import WordsShelf

        budget = self._installation.settings.warm_words_bytes
        return WordsShelf(store, budget=budget, clock=self._installation.clock)

    @cached_property
    def _managed_engine(self) -> SearchEngine:
        return self._managed()

    @property
    def _is_managed(self) -> bool:
        return self._installation.settings.search_engine == MANAGED_ENGINE

    @property
    def settling_seconds(self) -> float:
        """Time after which all writes are visible to all readers."""
        return max(self._tables.settling_seconds, self.indexes.settling_seconds)

    # -- its version and identity

    @property
    def corpus_version(self) -> CorpusVersion | None:
        """Identifies the state of the searchable corpus. None where changes aren't counted: for a fixed index, and for a
        managed knowledge base, which applies changes asynchronously without reporting it."""
        if self.indexes.counts_changes:
            return IndexGeneration(self.index) if isinstance(self.index, EditionedIndex) else None
        return None if self._is_managed else self._corpus_count

    @cached_property
    def _corpus_count(self) -> CorpusCount:
        from opx.ingestion.corpus.version import CorpusCount

        return CorpusCount(self._tables.table(DOCUMENTS), self._installation.clock)

    def count_change(self) -> None:
        """Counts a change of the searchable corpus, where the index itself doesn't."""
        if not self.indexes.counts_changes:
            self._corpus_count.advance()

    @property
    def identity(self) -> str:
        """Identifies this index, and this graph: documents that were indexed under another identity are missing here. An
        index of a service has a name; tables of a folder may be replaced by empty ones, and with them the graph. Copies for
        a managed knowledge base lack documents that were indexed before the copies were enabled."""
        own = self.indexes.own_name
        index = self.editions.identity(own) if self.has_editions else own
        if self._tables.in_folder:
            from opx.ingestion.corpus.version import incarnation

            index = f"{index} {incarnation(self._tables.table(GRAPH))}"
        return index + (" with copies" if self._installation.settings.sync_queue_url else "")

    # -- models

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the settings."""
        return self._new_embedder(*self._settings_model, 0)

    def replace_embedder(self, embedder: Embedder) -> None:
        """Replaces `embedder` by another object of the same model, one that measures."""
        self.embedder = embedder

    @contextmanager
    def replaced(self, index: SearchIndex, embedder: Embedder) -> Iterator[None]:
        """Replaces index and embedder within the block, by measuring wrappers of the same ones."""
        before = self.index, self.embedder
        self.index, self.embedder = index, embedder
        try:
            yield
        finally:
            self.index, self.embedder = before

    @property
    def query_embedder(self) -> Embedder | None:
        """The embedder of queries; None if the engine embeds them itself."""
        if self._is_managed:
            return None
        return EditionEmbedder(self.editions) if self.has_editions else self.embedder

    @cached_property
    def document_embedder(self) -> CachedEmbedder:
        """The embedder of documents, with its cache."""
        from opx.ingestion.indexing.embedding_cache import CachedEmbedder

        days, clock = self._installation.settings.embedding_cache_days, self._installation.clock
        table = self._tables.table(EMBEDDINGS)
        if not self.has_editions:
            return CachedEmbedder(self.embedder, table, days=days, clock=clock)
        from opx.ingestion.indexing.embedding_cache import EditionCache

        return EditionCache(self.editions, table, days=days, clock=clock)

    # -- editions

    def edition_index(self, edition: Edition) -> SearchIndex:
        return self.indexes.open(edition, lambda: self.edition_embedder(edition))

    def edition_embedder(self, edition: Edition) -> Embedder:
        """The model of an edition: the one of the settings, unless the edition is for another."""
        same = (edition.model, edition.model_path) == self._settings_model
        if same and edition.dimension in (0, self.embedder.dimension):
            return self.embedder
        wanted = (edition.model, edition.model_path, edition.dimension)
        if wanted not in self._embedders:
            self._embedders[wanted] = self._new_embedder(*wanted)
        return self._embedders[wanted]

    def close(self) -> None:
        """Closes index and editions, if they were opened."""
        for name in ("index", "editions"):
            close = getattr(self.__dict__.get(name), "close", None)
            if close:
                close()
