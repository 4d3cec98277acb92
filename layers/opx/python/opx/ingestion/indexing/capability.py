"""Composes the index and its embedder: those of the edition that answers, or the ones that were given for good."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from opx.ingestion.indexing.editions import EditionedIndex, EditionEmbedder, Editions, IndexGeneration, IndexService
from opx.ports import Embedder, SearchEngine, SearchIndex, Tables
from opx.ports.tables import DOCUMENTS, EMBEDDINGS, GRAPH, LIFECYCLE
from opx.runtime.knowledge_file import Installation
from opx.settings import MANAGED_ENGINE

if TYPE_CHECKING:
    from opx.ingestion.corpus.version import CorpusCount
    from opx.ingestion.indexing.book import Edition
    from opx.ingestion.indexing.editions import Writers
    from opx.ingestion.indexing.embedding_cache import CachedEmbedder
    from opx.ports.search import CorpusVersion

NewEmbedder = Callable[[str, str, int], Embedder]
"""The embedder of a model, a folder of a model and a dimension (0: the model's own). Raises `InvalidInputError` for an
unknown model, and `EmbeddingError`."""

NewEngine = Callable[[], SearchEngine]


class Indexing:
    """The index that answers, of those that there are. `managed` opens the service that searches in its place, where the
    settings name one; `index` and `embedder` are for good where they are given."""

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
        """The index that answers, for readers and writers."""
        return EditionedIndex(self.editions)

    @cached_property
    def editions(self) -> Editions:
        """The indexes there are, the one that answers, and what changed since others had everything."""
        from opx.ingestion.indexing.book import EditionBook, Journal

        table, subject = self._tables.table(LIFECYCLE), self.indexes.subject
        book = EditionBook(table, self._first_edition, subject=subject)
        return Editions(book, Journal(table, subject), self, cache_seconds=self.indexes.cache_seconds)

    def _first_edition(self) -> Edition:
        from opx.ingestion.indexing.book import Edition

        return Edition(model=self._settings_model[0], model_path=self._settings_model[1])

    @property
    def _settings_model(self) -> tuple[str, str]:
        settings = self._installation.settings
        return settings.address("embedder").partition(":")[2] or settings.embedding_model, settings.model_path

    @property
    def has_editions(self) -> bool:
        """False where one index was given, for good."""
        return isinstance(self.index, EditionedIndex)

    @property
    def writers(self) -> Writers:
        """Keeps those who write to the index in step with a new one that is being made."""
        from opx.ingestion.indexing.editions import OneIndex

        return self.editions if self.has_editions else OneIndex()

    def every_index(self) -> list[SearchIndex]:
        """All that hold entries of documents, for those who remove what must not be anywhere."""
        return [edition.index for edition in self.editions.every()] if self.has_editions else [self.index]

    @property
    def written_index(self) -> SearchIndex:
        """The index, for those who change it: changes are counted where the index doesn't."""
        if self.indexes.counts_changes:
            return self.index
        from opx.ingestion.corpus.version import CountedIndex

        return CountedIndex(self.index, self._corpus_count)

    @property
    def search_engine(self) -> SearchEngine:
        """Answers questions: the index, or the managed service in its place."""
        return self._managed_engine if self._is_managed else self.index

    @cached_property
    def _managed_engine(self) -> SearchEngine:
        return self._managed()

    @property
    def _is_managed(self) -> bool:
        return self._installation.settings.search_engine == MANAGED_ENGINE

    @property
    def settling_seconds(self) -> float:
        """After which all that was written is found everywhere."""
        return max(self._tables.settling_seconds, self.indexes.settling_seconds)

    # -- its version and identity

    @property
    def corpus_version(self) -> CorpusVersion | None:
        """Identifies the state of what can be found. None where nobody counts changes: an index that was given, and a
        managed knowledge base, which applies changes when it gets to them and doesn't say so."""
        if self.indexes.counts_changes:
            return IndexGeneration(self.index) if isinstance(self.index, EditionedIndex) else None
        return None if self._is_managed else self._corpus_count

    @cached_property
    def _corpus_count(self) -> CorpusCount:
        from opx.ingestion.corpus.version import CorpusCount

        return CorpusCount(self._tables.table(DOCUMENTS), self._installation.clock)

    def count_change(self) -> None:
        """Note that what can be found has changed, where the index itself doesn't count its changes."""
        if not self.indexes.counts_changes:
            self._corpus_count.advance()

    @property
    def identity(self) -> str:
        """Identifies this index, and this graph: documents that were indexed under another identity are missing here. An
        index of a service has a name; tables of a folder may be replaced by empty ones, and with them the graph. Copies for
        a managed knowledge base lack what was indexed before they were made."""
        own = self.indexes.own_name
        index = self.editions.identity(own) if self.has_editions else own
        if self._tables.in_folder:
            from opx.ingestion.corpus.version import incarnation

            index = f"{index} {incarnation(self._tables.table(GRAPH))}"
        return index + (" with copies" if self._installation.settings.sync_queue_url else "")

    # -- models

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder that the settings name."""
        return self._new_embedder(*self._settings_model, 0)

    def replace_embedder(self, embedder: Embedder) -> None:
        """Have another object embed in place of `embedder`, of the same model: one that measures."""
        self.embedder = embedder

    @contextmanager
    def replaced(self, index: SearchIndex, embedder: Embedder) -> Iterator[None]:
        """Within it, these search and embed, of the same index and model: they measure."""
        before = self.index, self.embedder
        self.index, self.embedder = index, embedder
        try:
            yield
        finally:
            self.index, self.embedder = before

    @property
    def query_embedder(self) -> Embedder | None:
        """For questions; None if the engine embeds them itself."""
        if self._is_managed:
            return None
        return EditionEmbedder(self.editions) if self.has_editions else self.embedder

    @cached_property
    def document_embedder(self) -> CachedEmbedder:
        """The embedder with its cache; questions don't go through it."""
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
        """Close what was opened, and only that."""
        for name in ("index", "editions"):
            close = getattr(self.__dict__.get(name), "close", None)
            if close:
                close()
