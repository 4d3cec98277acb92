"""Ports of search: embedding, indexes, copies of chunks for managed services, corpus state, and graph writes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from opx.domain.documents import DocumentKey
from opx.domain.graph import Origin, Statements
from opx.domain.knowledge import Tier
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope

# -- embedding

Vector = Sequence[float]
"""A unit vector; adapters return compact sequences (arrays), not lists of objects."""

Vectors = Sequence[Vector]
"""The vectors of one text, at least one: a model that reads less than a chunk returns one for each window."""


def cosine(one: Vector, other: Vector) -> float:
    """The cosine of two vectors of length 1."""
    return float(sum(map(mul, one, other)))


def mean_vector(vectors: Vectors) -> Vector:
    """The normalised mean of the vectors of one text, for indexes with one vector an entry; a single vector unchanged.

    Opposite vectors have no mean: then the first is returned.
    """
    if len(vectors) == 1:
        return vectors[0]
    summed = [math.fsum(values) for values in zip(*vectors, strict=True)]
    length = math.hypot(*summed)
    return array("f", (value / length for value in summed)) if length > 1e-6 else vectors[0]


class Embedder(Protocol):
    """Embeds texts to unit vectors whose dot product is their similarity.

    `model_id` identifies model, version and dimension; vectors of different ids must never be compared.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of each text, in order; `[]` for none.

        A model whose input fits a chunk returns one and truncates longer texts. One with a shorter input returns several,
        which cover all of the text. An empty text has a vector, too. Raises `EmbeddingError`."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises `EmbeddingError`."""


class ProgressiveEmbedder(Embedder, Protocol):
    """An `Embedder` that returns vectors as they are computed, so that none is lost when a later one fails."""

    def embed_each(self, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
        """Calls `found` in this thread with the position and the vectors of each text, once each, in any order. Raises
        `ThrottledError` when the quota, or the caller's time, is used up, and `EmbeddingError`, both after the vectors that
        were computed before."""


TEXTS_A_STEP = 192
"""Texts that an embedder without `embed_each` gets at once."""


def embed_each(embedder: Embedder, texts: Sequence[str], found: Callable[[int, Vectors], None]) -> None:
    """`ProgressiveEmbedder.embed_each` of any embedder; without that ability, vectors are returned step by step."""
    each = getattr(embedder, "embed_each", None)
    if each is not None:
        each(texts, found)
        return
    for start in range(0, len(texts), TEXTS_A_STEP):
        for position, vectors in enumerate(embedder.embed_documents(texts[start : start + TEXTS_A_STEP]), start):
            found(position, vectors)


def embedded_in_order(embedder: ProgressiveEmbedder, texts: Sequence[str]) -> list[Vectors]:
    """The vectors of all texts, by `embed_each`. Raises `EmbeddingError`."""
    vectors: dict[int, Vectors] = {}
    embedder.embed_each(texts, vectors.__setitem__)
    return [vectors[position] for position in range(len(texts))]


# -- searching


class WrappedEmbedder:
    """An `Embedder` that passes everything on to another one: a wrapper overrides what it changes."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def model_id(self) -> str:
        return self._embedder.model_id

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        return self._embedder.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        return self._embedder.embed_query(text)


class SearchFilter(Struct, frozen=True):
    """Filter of a search. Each non-empty part must match; within a part any value does, but for the terms. `scopes` is
    never empty.

    `updated_from` (included) and `updated_before` (excluded) bound the day of a document's last update, counted in days
    since 1970-01-01; a document without a day passes neither bound. `also_tags` and `also_resources` are second sets, of
    which any value must match, too. Terms are those of `opx.text.analyzer`: an entry must have a term of each group of
    `title_terms` in its title and of each group of `required_terms` in its title or text, and none of `excluded_terms` in
    either. Applied before the best hits are chosen, in both legs.
    """

    scopes: tuple[str, ...]
    categories: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    updated_from: int | None = None
    updated_before: int | None = None
    title_terms: tuple[tuple[str, ...], ...] = ()
    required_terms: tuple[tuple[str, ...], ...] = ()
    excluded_terms: tuple[str, ...] = ()
    also_tags: tuple[str, ...] = ()
    also_resources: tuple[str, ...] = ()

    @property
    def has_terms(self) -> bool:
        """True if it filters by terms of an entry, and not only by metadata of the document."""
        return bool(self.title_terms or self.required_terms or self.excluded_terms)


class SearchRequest(Struct, frozen=True):
    """A search of up to two legs: `text` for the lexical, `vector` for the other; None leaves the leg out.

    `depth` bounds the hits of each leg. `languages` are the candidate languages of the text, the likeliest first: a word
    scores as the best of its terms in them (`opx.text.analyzer.words`). `values` are words, by their first term, whose scores
    count `VALUE_WEIGHT`.
    """

    filter: SearchFilter
    text: str | None = None
    vector: Vector | None = None
    depth: int = 50
    languages: tuple[str, ...] = ("en",)
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Leg:
    """Entry ids with their scores, best first; equal scores in the order of the ids. `error` is the reason why a leg is
    missing, `took_ms` the engine's time for it, if reported."""

    hits: tuple[tuple[str, float], ...] = ()
    error: str = ""
    took_ms: float | None = field(default=None, compare=False)


class DocumentFacts(Struct, frozen=True, gc=False):
    """Facts of a document that its chunks share, as judging needs them."""

    document_id: str
    key_id: str
    category: str
    tier: Tier
    trust: float
    source_uri: str
    last_updated: str
    tags: tuple[str, ...]
    resources: tuple[str, ...] = ()


class StoredRecord(Struct, frozen=True, gc=False):
    """The judging record of a chunk as an engine stores it (`opx.retrieval.judging_records`), with facts of its document."""

    facts: DocumentFacts
    data: bytes


class SearchResponse(Struct, frozen=True):
    """Both legs and every chunk they name. `term_frequencies` maps each word of the text, by its first term, to the
    number of entries that contain it, and `entry_count` is the total number of entries. `records` are those of chunks that
    have a stored one: others are made from the chunk. An engine may decode a chunk when it is needed.

    An engine that fuses by itself has no legs and no statistics. It returns one list, `fused`, with relevance scores in
    [0, 1]. `notes` are shown to readers of the answer.
    """

    lexical: Leg = Leg()
    vector: Leg = Leg()
    chunks: Mapping[str, IndexedChunk] = msgspec.field(default_factory=dict)
    term_frequencies: Mapping[str, int] = msgspec.field(default_factory=dict)
    entry_count: int = 0
    fused: Leg | None = None
    notes: tuple[str, ...] = ()
    records: Mapping[str, StoredRecord] = msgspec.field(default_factory=dict)


class IndexEntry(Struct, frozen=True):
    """A chunk with its vectors, at least one, ready to be searched."""

    indexed: IndexedChunk
    vectors: Vectors


class DocumentChange(Struct, frozen=True):
    """The new entries of a document and the references of the entries that they replace.

    No entries: the document leaves the index. `entries` may be a generator; it is consumed once, in bounded memory.
    """

    key_id: str
    document_id: str
    entries: Iterable[IndexEntry] = ()
    superseded: Sequence[str] = ()


@dataclass(frozen=True, slots=True, order=True)
class HeldDocument:
    """A document version with visible entries in an index, and their number. They sort by key id."""

    scope_key: str
    key_id: str
    document_id: str
    category: str
    entries: int


class SearchEngine(Protocol):
    """Search over indexed chunks, independent of the writer."""

    def search(self, request: SearchRequest) -> SearchResponse:
        """Runs all legs in one round trip. A leg that fails has its `error` set and the other's hits stand; raises
        `IndexUnavailableError` only if nothing could be searched. An empty text, or one without terms, returns no
        hits."""

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        """Counts the entries of these scopes with each of the terms (of `opx.text.analyzer`) in title or text. A term
        that none of them has is left out, even if entries of other scopes have it; entries that were just removed may
        count for a while. `{}` from an engine that doesn't report counts. Thousands of terms are one round trip. Raises
        `IndexUnavailableError`."""


@runtime_checkable
class WakeableIndex(Protocol):
    """An index of a service that stops while it is idle. Not every `SearchEngine` is one."""

    def wake(self, *, wait: bool = False) -> None:
        """Starts to wake the index in the background, unless it answered lately; nothing is raised. With `wait`, returns when
        it answers, within the caller's deadline; raises `IndexWakingError` and `IndexUnavailableError`."""

    def waking(self, within: float) -> float:
        """Seconds after which the index will probably answer; 0 if it answered lately, or answers `within` seconds. The
        request wakes it. Raises `IndexUnavailableError` for a refusal."""


VersionName = tuple[str, str, int]
"""Key id, document id and number of a version."""


class WordsCount(Struct, frozen=True):
    """Documents and chunks of a segment of words; `whole` if no document was left out."""

    documents: int
    chunks: int
    whole: bool


class WordsSegments(Protocol):
    """Immutable segments of the corpus's words in folders of this machine, for searches without an index. `identity` names
    the format and the analyzer: a segment of another identity can't be used."""

    identity: str

    def write(
        self, folder: Path, documents: Iterable[tuple[int, Sequence[IndexedChunk]]], *, chunks: int, size: int
    ) -> WordsCount:
        """Fills a new folder with documents, each a version's number and its chunks, until one of them would exceed so many
        chunks, or about so many bytes."""

    def open(self, folder: Path, current: Callable[[Collection[VersionName]], Collection[VersionName]]) -> SearchEngine:
        """An engine for the lexical leg. It finds only chunks of versions that `current` returns. Raises
        `IndexUnavailableError` for a damaged folder."""


class SearchIndex(SearchEngine, Protocol):
    """Hybrid search over chunks that the library writes.

    The lexical leg is BM25 (k1 = 1.2, b = 0.75) over the terms of `opx.text.analyzer`, times a constant of the engine;
    the vector leg is the cosine with all entries that pass the filter. For an entry with several vectors it is the
    highest cosine, or that of their mean where the engine holds one vector an entry.
    """

    @property
    def derives_ids(self) -> bool:
        """True if an entry's reference is its `entry_id`; False if the service assigns references, which must be kept."""

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        """Make each change visible, whole where the engine can, and return the references of each change's entries.

        Durable on return. Applying a change again results in the same entries (where ids are derived). References that
        don't exist are ignored. Raises `IndexUnavailableError`; then some changes may be applied, and all may be applied
        again."""

    def count(self, where: SearchFilter) -> int:
        """Number of entries that pass the filter."""

    def references(self, key_id: str) -> list[str]:
        """References of all visible entries of a document key: a repair tool, not for every write."""

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        """Lists the index page by page: the first `limit` (1-10,000) document versions behind `after`, in the order of
        scope, key, document and category, by UTF-8 bytes. Fewer than `limit` are the last. An entry that is stored twice
        counts twice. Raises `IndexUnavailableError`."""


class WrappedIndex:
    """A `SearchIndex` that passes everything on to `current()`: a wrapper overrides what it changes."""

    def __init__(self, current: Callable[[], SearchIndex]) -> None:
        self._current = current

    @property
    def derives_ids(self) -> bool:
        return self._current().derives_ids

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        return self._current().apply(changes)

    def search(self, request: SearchRequest) -> SearchResponse:
        return self._current().search(request)

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        return self._current().entries_with(terms, scopes)

    def count(self, where: SearchFilter) -> int:
        return self._current().count(where)

    def references(self, key_id: str) -> list[str]:
        return self._current().references(key_id)

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        return self._current().held(after=after, limit=limit)


# -- copies of chunks for a managed search service


class CopyChange(Struct, frozen=True):
    """The chunks of a document version, and the ids of other versions of the same key that they replace.

    `chunks` may be a generator; it is consumed once, in bounded memory. A version without chunks is removed;
    `document_id` is empty if only superseded versions are removed.
    """

    key: DocumentKey
    document_id: str
    chunks: Iterable[IndexedChunk] = ()
    superseded: Sequence[str] = ()


class ChunkCopies(Protocol):
    """Copies of the searchable chunks, from which a managed service builds its own index."""

    def apply(self, changes: Iterable[CopyChange]) -> None:
        """Write and remove copies, and request their indexing. Durable on return; they are searchable some minutes later.
        Idempotent; removing a missing copy does nothing. Raises `StoreUnavailableError`; then some changes may be
        applied, and all may be applied again."""


class IndexSync(Protocol):
    """Starts a managed service's indexing of the copies that `ChunkCopies` wrote, one run at a time."""

    def cover(self, since: float) -> bool:
        """Ensure that a run began after `since` (seconds since the epoch). True if one did or does now; False while an
        earlier one is running, or if the service is to be called again later. Raises `StoreUnavailableError`."""


# -- state of the corpus


class CorpusState(Struct, frozen=True):
    """State of the searchable corpus. `version` differs after each change of it, and only then; "" if it isn't counted.

    `settled`: every change that `version` counts is searchable by now. Otherwise, two searches at one version may have
    different results.
    """

    version: str
    settled: bool = True


class CorpusVersion(Protocol):
    """Reports the state of the corpus. Cheap enough to be called with every query."""

    def current(self) -> CorpusState:
        """The state now, not older than the call. Raises `StoreUnavailableError`."""


# -- graph


Canonical = Callable[[Scope, Sequence[str]], Mapping[str, str]]
"""Maps normalised references to canonical ones, by the aliases visible to the owner of this scope; references without one
are left out. Raises `StoreUnavailableError`."""


class GraphWriter(Protocol):
    """Stores the graph statements of documents. One worker at a time writes a document, while it holds the claim on
    it."""

    def write(self, origin: Origin, statements: Statements) -> None:
        """Replace the statements of the document key. Idempotent, also after an interrupted attempt. Raises
        `InvalidInputError` for a statement without evidence, and `StoreUnavailableError`."""

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        """Remove the statements of the document key; with `document_ids`, only of those versions. Removing missing ones
        does nothing. Raises `StoreUnavailableError`."""
