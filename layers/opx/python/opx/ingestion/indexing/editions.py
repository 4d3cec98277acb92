"""Follows the active edition of the index, for readers and writers of each process, without a restart."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, Protocol

from opx.domain.ids import stable_hash
from opx.errors import EditionChangedError, IncompatibleIndexError, StoreUnavailableError
from opx.ingestion.indexing.book import Edition, EditionBook, EditionState, IndexState, Journal
from opx.ports import (
    DocumentChange,
    Embedder,
    SearchIndex,
    SearchRequest,
    SearchResponse,
    Vector,
    Vectors,
)
from opx.ports.search import CorpusState, WakeableIndex, WrappedIndex, embed_each


class IndexService(Protocol):
    """The service or folder that holds the indexes of an installation, one per edition.

    The editions are recorded under `subject`; `own_name` identifies the first index where indexes have no identity of their
    own, else it is "". A switch may be noticed after `cache_seconds`, a write is visible after `settling_seconds` at the
    latest. `counts_changes`: an index counts its batches itself (`version`). `may_sleep`: the service stops while it is
    idle, and its indexes are `WakeableIndex`es. `collections` are the names of the service's collections, the one of the
    settings first; empty where it has none.
    """

    subject: str
    own_name: str
    cache_seconds: float
    settling_seconds: float
    counts_changes: bool
    may_sleep: bool
    collections: Sequence[str]

    def open(self, edition: Edition, embedder: Callable[[], Embedder]) -> SearchIndex:
        """The index of an edition. Raises `IncompatibleIndexError` and `IndexUnavailableError`."""

    def make(self, edition: Edition) -> None:
        """Creates its index, unless it exists. Raises `IndexUnavailableError`."""

    def remove(self, edition: Edition) -> None:
        """Deletes its index, if it exists. Raises `IndexUnavailableError`."""

    def check(self, edition: Edition) -> None:
        """Checks that this release can use its index. Raises `IncompatibleIndexError` and `IndexUnavailableError`."""


class EditionParts(Protocol):
    """The index and the model of an edition."""

    def edition_index(self, edition: Edition) -> SearchIndex:
        """Its index. Raises `IncompatibleIndexError` and `IndexUnavailableError`."""

    def edition_embedder(self, edition: Edition) -> Embedder:
        """Its model. Raises `InvalidInputError` for an unknown one, and `EmbeddingError`."""


class OpenEdition:
    """An edition with its index, which is opened on first use, and its model."""

    def __init__(self, edition: Edition, parts: EditionParts) -> None:
        self.edition = edition
        self._parts = parts

    @property
    def name(self) -> str:
        return self.edition.name

    @cached_property
    def index(self) -> SearchIndex:
        return self._parts.edition_index(self.edition)

    @property
    def embedder(self) -> Embedder:
        """Its model. Raises `IncompatibleIndexError` if the model has been replaced by another one."""
        embedder, noted = self._parts.edition_embedder(self.edition), self.edition.model_id
        if noted and embedder.model_id != noted:
            raise IncompatibleIndexError(
                f"the index is for the model {noted}, which was replaced by {embedder.model_id}: build a new index with "
                "`opx reindex`, or restore that model"
            )
        return embedder

    @property
    def incarnation(self) -> str:
        """Name of the index in its service; "" where it has none."""
        return str(getattr(self.index, "incarnation", ""))

    def close(self) -> None:
        close = getattr(self.__dict__.get("index"), "close", None)
        if close:
            close()


@dataclass(eq=False)
class Editions:
    """Opens editions, and implements `Writers`. Threads may share it.

    Readers look up the active edition for each query, where that is cheap, or every `cache_seconds`; writers always look it
    up. `identity` is that of the first edition of an installation.
    """

    book: EditionBook
    journal: Journal
    parts: EditionParts
    _: KW_ONLY
    cache_seconds: float = 0.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, OpenEdition] = {}
        self._seen: tuple[float, IndexState] | None = None
        self._mine = threading.local()

    # -- reading

    def current(self) -> OpenEdition:
        """The active edition, or the one that this thread is writing to."""
        bound: OpenEdition | None = getattr(self._mine, "edition", None)
        return bound or self.open(self.known().active)

    def known(self) -> IndexState:
        """The state as read at most `cache_seconds` ago, or longer ago while the table is unavailable."""
        seen, now = self._seen, self.clock()
        if seen and now - seen[0] < self.cache_seconds:
            return seen[1]
        try:
            state = self.book.read()
        except StoreUnavailableError:
            if seen is None:
                raise
            return seen[1]
        self._seen = now, state
        return state

    def open(self, edition: Edition) -> OpenEdition:
        with self._lock:
            found = self._open.setdefault(edition.name, OpenEdition(edition, self.parts))
            found.edition = edition  # its record changes
            return found

    def named(self, name: str) -> OpenEdition:
        """The edition of a vector's name: also one that was active until a moment ago."""
        found = self._open.get(name)
        return found or self.current()

    def every(self) -> list[OpenEdition]:
        """All editions with entries, for removals that must be complete. Raises `IncompatibleIndexError` if there is one
        that this release can't read."""
        editions = [one for one in self.book.read().editions if one.state is not EditionState.DISCARDED]
        if any(one.state is EditionState.UNREADABLE for one in editions):
            raise IncompatibleIndexError(
                "there is an earlier index that this release can't read, so that no document can be removed from it: delete "
                "the index with `opx reindex --discard`, then try again"
            )
        return [self.open(one) for one in editions]

    def models(self) -> list[str]:
        """Ids of the models of all editions, in any state."""
        return [one.model_id for one in self.book.read().editions if one.model_id]

    def close(self) -> None:
        for one in self._open.values():
            one.close()

    # -- writing

    @property
    def edition(self) -> str:
        return self.current().name

    @contextmanager
    def writing(self) -> Iterator[None]:
        if getattr(self._mine, "edition", None) is not None:
            yield
            return
        with self.bound(self.open(self.book.read().active)):
            yield

    @contextmanager
    def bound(self, edition: OpenEdition) -> Iterator[None]:
        """Binds this thread's index and embedder to the edition within the block."""
        before = getattr(self._mine, "edition", None)
        self._mine.edition = edition
        try:
            yield
        finally:
            self._mine.edition = before

    def note(self, key_ids: Sequence[str]) -> None:
        state = self.book.read()
        self._require(state.active.name)
        self._mine.revision = state.revision
        for edition in state.kept_in_step:
            self.journal.note(edition.name, key_ids)

    def confirm(self) -> None:
        state = self.book.read()
        self._require(state.active.name)
        if state.revision != self._mine.revision:  # a new edition may lack these changes
            raise EditionChangedError(_CHANGED)

    def _require(self, active: str) -> None:
        if self.current().name != active:
            raise EditionChangedError(_CHANGED)

    # -- lineage and identity

    def lineage(self) -> str:
        edition = self.open(self.known().active)
        return edition.edition.lineage if _is_itself(edition) else ""

    def identity(self, own: str) -> str:
        """Identity that changes if the index is deleted and created again: that of the index it was built from, unless it
        was itself deleted since. `own` is its name where indexes have no names of their own."""
        edition = self.open(self.known().active)
        if _is_itself(edition):
            return edition.edition.ancestor
        return edition.incarnation or (stable_hash(own, edition.name) if edition.name else own)


def _is_itself(edition: OpenEdition) -> bool:
    """True if its index is the recorded one, and was not replaced by another one."""
    return bool(edition.edition.lineage) and edition.incarnation == edition.edition.incarnation


_CHANGED = "the index was replaced during ingestion: the documents are ingested again"


class EditionVector(array):  # type: ignore[type-arg]
    """A query's vector with the name of its edition, so that it is never compared with vectors of another one."""

    edition: str

    def __new__(cls, edition: str, values: Vector) -> EditionVector:
        made = super().__new__(cls, getattr(values, "typecode", "f"), values)
        made.edition = edition
        return made


class EditionEmbedder:
    """The `Embedder` of the active edition."""

    def __init__(self, editions: Editions) -> None:
        self._editions = editions

    @property
    def model_id(self) -> str:
        return self._editions.current().embedder.model_id

    @property
    def dimension(self) -> int:
        return self._editions.current().embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return self._editions.current().embedder.embed_documents(texts)

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        embed_each(self._editions.current().embedder, texts, found)

    def embed_query(self, text: str) -> Vector:
        edition = self._editions.current()
        return EditionVector(edition.name, edition.embedder.embed_query(text))


class EditionedIndex(WrappedIndex):
    """The `SearchIndex` of the active edition."""

    def __init__(self, editions: Editions) -> None:
        super().__init__(lambda: editions.current().index)
        self._editions = editions

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        with self._editions.writing():
            return super().apply(changes)

    def search(self, request: SearchRequest) -> SearchResponse:
        vector = request.vector
        edition = (
            self._editions.named(vector.edition) if isinstance(vector, EditionVector) else self._editions.current()
        )
        return edition.index.search(request)

    def wake(self, *, wait: bool = False) -> None:
        index = self._current()
        if isinstance(index, WakeableIndex):
            index.wake(wait=wait)

    def waking(self, within: float) -> float:
        index = self._current()
        return index.waking(within) if isinstance(index, WakeableIndex) else 0.0

    @property
    def version(self) -> str:
        """Changes with each batch and each switch, where the index counts its batches; else ""."""
        return str(getattr(self._current(), "version", ""))

    def close(self) -> None:
        self._editions.close()


class _Versioned(Protocol):
    """An index that counts its batches."""

    @property
    def version(self) -> str: ...


class IndexGeneration:
    """A `CorpusVersion` of an index that counts its batches itself. A batch is visible as soon as it is counted."""

    def __init__(self, index: _Versioned) -> None:
        self._index = index

    def current(self) -> CorpusState:
        return CorpusState(self._index.version)


# -- writers


class Writers(Protocol):
    """Keeps writers of the index in step with a new edition that is being built."""

    @property
    def edition(self) -> str:
        """Name of the edition that is written to, "" for the first one."""

    def writing(self) -> AbstractContextManager[Any]:
        """Binds embedder and index to the edition that is active now, within the block. Reentrant."""

    def note(self, key_ids: Sequence[str]) -> None:
        """Records the documents that are about to change, after their claims and before the index changes. Raises
        `EditionChangedError` if the edition of this block is not active any more."""

    def confirm(self) -> None:
        """Checks that the edition is still active, after the index changed and before the catalog does. Raises
        `EditionChangedError`: then the whole change has to be repeated."""

    def lineage(self) -> str:
        """The model by which documents count as embedded, "" for the embedder's own: an index that was built from another
        one has all its documents."""


class OneIndex:
    """`Writers` for a single fixed index."""

    edition = ""

    def writing(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def note(self, key_ids: Sequence[str]) -> None:
        pass

    def confirm(self) -> None:
        pass

    def lineage(self) -> str:
        return ""
