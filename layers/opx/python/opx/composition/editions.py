"""The index that answers, of those that there are, as it is put together."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Any

from opx.composition.backend import Backend
from opx.lifecycle.reindex.editions import EditionedIndex, EditionEmbedder, Editions
from opx.ports import Embedder, SearchIndex
from opx.tables import LIFECYCLE

if TYPE_CHECKING:
    from opx.ingestion.editions import Writers
    from opx.lifecycle.reindex.book import Edition
    from opx.lifecycle.reindex.making import Pace


class EditionServices(Backend):
    """Where the index was not given, it is the one that the pointer names, and so is its model."""

    @cached_property
    def editions(self) -> Editions:
        """Which indexes there are, which one answers, and what changed since others had everything."""
        from opx.lifecycle.reindex.book import EditionBook, Journal

        table = self.table(LIFECYCLE)
        book = EditionBook(table, self._first_edition, subject=self.editions_subject)
        journal = Journal(table, self.editions_subject)
        return Editions(book, journal, self, cache_seconds=self.edition_cache_seconds)

    def _first_edition(self) -> Edition:
        from opx.lifecycle.reindex.book import Edition

        return Edition(model=self.settings.embedding_model, model_path=self.settings.model_path)

    @cached_property
    def index(self) -> SearchIndex:  # type: ignore[override]
        return EditionedIndex(self.editions)

    @property
    def has_editions(self) -> bool:
        """False where one index was given, for good."""
        return isinstance(self.index, EditionedIndex)

    @property
    def query_embedder(self) -> Embedder | None:
        return EditionEmbedder(self.editions) if self.has_editions else self.embedder

    @property
    def writers(self) -> Writers:
        """Keeps those who write to the index in step with a new one that is being made."""
        from opx.ingestion.editions import OneIndex

        return self.editions if self.has_editions else OneIndex()

    def every_index(self) -> list[SearchIndex]:
        """All that hold entries of documents, for those who remove what must not be anywhere."""
        return [edition.index for edition in self.editions.every()] if self.has_editions else [self.index]

    # -- what each backend's class gives

    edition_cache_seconds = 0.0
    """How long it may take until a process that runs follows a switch."""

    @property
    def editions_subject(self) -> str:
        """Under which the editions are noted."""
        return "index"

    def edition_index(self, edition: Edition) -> SearchIndex:
        """The index of an edition."""
        raise TypeError(f"{type(self).__name__} has no index {edition.name}")

    def edition_embedder(self, edition: Edition) -> Embedder:
        """The model of an edition: the one that was given, unless the edition is for another."""
        same = (edition.model, edition.model_path) == (self.settings.embedding_model, self.settings.model_path)
        if same and edition.dimension in (0, self.embedder.dimension):
            return self.embedder
        wanted = (edition.model, edition.model_path, edition.dimension)
        if wanted not in self._embedders:
            self._embedders[wanted] = self.model_embedder(*wanted)
        return self._embedders[wanted]

    @cached_property
    def _embedders(self) -> dict[tuple[str, str, int], Embedder]:
        return {}

    def model_embedder(self, model: str, model_path: str, dimension: int) -> Embedder:
        """Another model than the one of the settings. Raises `InvalidInputError` and `EmbeddingError`."""
        raise TypeError(f"{type(self).__name__} has no model {model} {model_path} {dimension}")

    def make_edition(self, edition: Edition) -> None:
        """Make its index, unless it is there."""

    def remove_edition(self, edition: Edition) -> None:
        """Remove its index; nothing if there is none."""

    def check_edition(self, edition: Edition) -> None:
        """See that this program can use its index. Raises `IncompatibleIndexError` and `IndexUnavailableError`."""

    def exclusive_reindex(self) -> AbstractContextManager[Any]:
        """Held by the one process that makes an index, where a lock of the machine is better than a lease."""
        return nullcontext()

    @property
    def reindex_pace(self) -> Pace:
        """When who makes an index has to wait for others."""
        from opx.lifecycle.reindex.making import Pace

        return Pace()

    reindex_lease_seconds = 0.0

    def index_changed(self) -> None:
        """Note that what can be found has changed, where the index itself doesn't count its changes."""
