"""Search over chunks: embedding, indexes and their copies, and the state of the corpus."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from opx.domain.documents import DocumentKey
from opx.domain.graph import Origin, Statements
from opx.domain.results import IndexedChunk
from opx.domain.scopes import Scope

# -- embedding

Vector = Sequence[float]
"""A unit vector; adapters return compact sequences (arrays), not lists of objects."""

Vectors = Sequence[Vector]
"""Those of one text, at least one: a model that reads less than a chunk gives one for each window of the text."""


def mean_vector(vectors: Vectors) -> Vector:
    """The direction of the mean of a text's vectors, for whom one must do; the only one unchanged.

    Opposite vectors have no mean: then it is the first.
    """
    if len(vectors) == 1:
        return vectors[0]
    summed = [math.fsum(values) for values in zip(*vectors, strict=True)]
    length = math.hypot(*summed)
    return array("f", (value / length for value in summed)) if length > 1e-6 else vectors[0]


class Embedder(Protocol):
    """Texts to unit vectors whose dot product is their similarity.

    `model_id` identifies model, version and dimension; vectors of different ids must never be compared.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vectors]:
        """The vectors of each text, in order; `[]` for none.

        A model with room for a chunk gives one and cuts what is longer than that. One with less room gives several, and
        all of the text is in them. An empty text has a vector too. Raises `EmbeddingError`."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises `EmbeddingError`."""


# -- searching


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What may be found. Each non-empty part must match; within a part any value does, but for the terms. `scopes` is
    never empty.

    `updated_from` (included) and `updated_before` (excluded) bound the day of a document's last update, counted in days
    since 1970-01-01; a document without a day passes neither bound. `also_tags` and `also_services` are second sets, of
    which any value must match, too. Terms are those of `opx.text.analyzer`: an entry must have a term of each group of
    `title_terms` in its title and of each group of `required_terms` in its title or text, and none of `excluded_terms`
    in either. Applied before the best hits are chosen, in both legs.
    """

    scopes: tuple[str, ...]
    categories: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    updated_from: int | None = None
    updated_before: int | None = None
    title_terms: tuple[tuple[str, ...], ...] = ()
    required_terms: tuple[tuple[str, ...], ...] = ()
    excluded_terms: tuple[str, ...] = ()
    also_tags: tuple[str, ...] = ()
    also_services: tuple[str, ...] = ()

    @property
    def has_terms(self) -> bool:
        """Whether it asks for what is in the words of an entry, and not only for what holds for a whole document."""
        return bool(self.title_terms or self.required_terms or self.excluded_terms)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search of up to two legs: `text` for the lexical, `vector` for the other; None leaves the leg out.

    `depth` bounds the hits of each leg. `languages` are those that the text may be in, the likeliest first: a word counts
    as the best of its terms in them (`opx.text.analyzer.words`).
    """

    filter: SearchFilter
    text: str | None = None
    vector: Vector | None = None
    depth: int = 50
    languages: tuple[str, ...] = ("en",)


@dataclass(frozen=True, slots=True)
class Leg:
    """Entry ids with their scores, best first; equal scores in the order of the ids. `error` says why a leg is missing,
    `took_ms` how long the engine worked on it, if it says so."""

    hits: tuple[tuple[str, float], ...] = ()
    error: str = ""
    took_ms: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """Both legs and every chunk they name. `term_frequencies` maps each word of the text, by its first term, to the
    number of entries that contain it, and `entry_count` is how many entries there are to compare with.

    An engine that fuses by itself has no legs and no statistics. It gives one list, `fused`, whose scores in [0, 1] say
    how relevant each hit is. `notes` say what a reader of the answer should know about the search.
    """

    lexical: Leg = Leg()
    vector: Leg = Leg()
    chunks: Mapping[str, IndexedChunk] = field(default_factory=dict)
    term_frequencies: Mapping[str, int] = field(default_factory=dict)
    entry_count: int = 0
    fused: Leg | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A chunk with its vectors, at least one, ready to be searched."""

    indexed: IndexedChunk
    vectors: Vectors


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The new entries of a document and the references of the entries that they replace.

    No entries: the document leaves the index. `entries` may be a generator; it is consumed once, in bounded memory.
    """

    key_id: str
    document_id: str
    entries: Iterable[IndexEntry] = ()
    superseded: Sequence[str] = ()


@dataclass(frozen=True, slots=True, order=True)
class HeldDocument:
    """A document version that has visible entries in an index, and how many. They sort by key id."""

    scope_key: str
    key_id: str
    document_id: str
    category: str
    entries: int


class SearchEngine(Protocol):
    """Search over chunks, whoever put them there."""

    def search(self, request: SearchRequest) -> SearchResponse:
        """All that is asked for in one round trip. A leg that fails has its `error` set and the other's hits stand;
        raises `IndexUnavailableError` only if nothing could be searched. An empty or meaningless text gives no hits."""

    def entries_with(self, terms: Iterable[str], scopes: Sequence[str]) -> Mapping[str, int]:
        """Counts the entries of these scopes with each of the terms (of `opx.text.analyzer`) in title or text. A term that
        none of them has is left out, whoever else has it; entries that were just removed may count for a while. `{}` from
        an engine that doesn't tell. Thousands of terms are one round trip. Raises `IndexUnavailableError`."""


class SearchIndex(SearchEngine, Protocol):
    """Hybrid search over chunks that are put here.

    The lexical leg is BM25 (k1 = 1.2, b = 0.75) over the terms of `opx.text.analyzer`, times a constant of the engine;
    the vector leg is the cosine with all entries that pass the filter. Of an entry with several vectors it is the highest
    cosine, or that of their mean where the engine holds one vector an entry.
    """

    @property
    def derives_ids(self) -> bool:
        """True if an entry's reference is its `entry_id`; False if the service assigns references, which must be kept."""

    def apply(self, changes: Iterable[DocumentChange]) -> list[list[str]]:
        """Make each change visible, whole where the engine can, and return the references of each change's entries.

        Durable on return. Applying a change again gives the same entries (where ids are derived). References that
        don't exist are ignored. Raises `IndexUnavailableError`; then some changes may be applied, and all may be
        applied again."""

    def count(self, where: SearchFilter) -> int:
        """How many entries pass the filter."""

    def references(self, key_id: str) -> list[str]:
        """References of all visible entries of a document key: a repair tool, not for every write."""

    def held(self, *, after: HeldDocument | None = None, limit: int = 1000) -> list[HeldDocument]:
        """What there is in the index, page by page: the first `limit` (1-10,000) document versions behind `after`, in the
        order of scope, key, document and category, by UTF-8 bytes. Fewer than `limit` are the last. An entry that is
        stored twice counts twice. Raises `IndexUnavailableError`."""


# -- copies of chunks, for a managed service that makes an index of its own


@dataclass(frozen=True, slots=True)
class CopyChange:
    """The chunks of a document version, and the ids of other versions of the same key that they replace.

    `chunks` may be a generator; it is consumed once, in bounded memory. A version without chunks leaves; `document_id`
    is empty if there is only what is superseded.
    """

    key: DocumentKey
    document_id: str
    chunks: Iterable[IndexedChunk] = ()
    superseded: Sequence[str] = ()


class ChunkCopies(Protocol):
    """Copies of the searchable chunks, of which a managed service makes an index of its own."""

    def apply(self, changes: Iterable[CopyChange]) -> None:
        """Write and remove copies, and ask for them to be indexed. Durable on return; they are found some minutes
        later. Applying changes again, or removing what is not there, does no harm. Raises `StoreUnavailableError`; then
        some changes may be applied, and all may be applied again."""


class IndexSync(Protocol):
    """Has a managed service index what `ChunkCopies` wrote, one run at a time."""

    def cover(self, since: float) -> bool:
        """See to it that a run began after `since` (seconds since the epoch). True if one did or does now; False while
        an earlier one is under way, or if the service wants to be asked later. Raises `StoreUnavailableError`."""


# -- the state of the corpus that an answer is from


@dataclass(frozen=True, slots=True)
class CorpusState:
    """`version` is another text after each change of what can be found, and only then; "" where nobody counts.

    `settled`: every change that `version` counts can be found by now. Where that isn't so, two questions of one version
    may find different things.
    """

    version: str
    settled: bool = True


class CorpusVersion(Protocol):
    """Tells the state of the corpus. Cheap enough to be asked with every question."""

    def current(self) -> CorpusState:
        """The state now, not older than the call. Raises `StoreUnavailableError`."""


# -- graph


Canonical = Callable[[Scope, Sequence[str]], Mapping[str, str]]
"""The canonical references of normalised ones, as far as those who own a document in this scope know them; those that
have none are left out. Raises `StoreUnavailableError`."""


class GraphWriter(Protocol):
    """Keeps what documents say of things. One worker at a time writes a document, while it holds the claim on it."""

    def write(self, origin: Origin, statements: Statements) -> None:
        """Make these the statements of the document key, in place of all it said before. Writing again does no harm, also
        after an attempt that was interrupted anywhere. Raises `InvalidInputError` for a statement without evidence, and
        `StoreUnavailableError`."""

    def remove(self, key_id: str, scope: Scope, *, document_ids: Iterable[str] | None = None) -> None:
        """Take out what the document key says; with `document_ids`, only what those versions of it say. Removing what is
        not there does nothing. Raises `StoreUnavailableError`."""
