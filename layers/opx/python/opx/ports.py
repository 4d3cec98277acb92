"""What the library needs from the outside. The docstrings are the specification that every adapter is tested against.

Adapters raise `StoreUnavailableError` (or a subclass) when the service behind them fails for now, never a vendor's
error. They don't change what they are given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Protocol

from opx.domain.documents import DocumentKey
from opx.domain.results import IndexedChunk

Item = dict[str, Any]
"""A table item: JSON-like values (str, int, float, bool, None, list, dict) and bytes. Numbers come back as they went in."""


# -- objects ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """`etag` changes exactly when the content does; `location` is a full URI; `metadata` as it was put."""

    key: str
    size: int
    etag: str
    location: str
    metadata: Mapping[str, str] = field(default_factory=dict)


class ObjectStore(Protocol):
    """Bytes by key. Keys are `/`-separated, non-empty, without `..` segments, at most 1,024 UTF-8 bytes."""

    def put(self, key: str, data: bytes | BinaryIO, *, metadata: Mapping[str, str] | None = None) -> ObjectInfo:
        """Store `data` whole or not at all, replacing what was there. A stream is read from its position to its end,
        in bounded memory. Raises `InvalidInputError` for a malformed key."""

    def open(self, key: str) -> BinaryIO:
        """A readable stream of the object. Raises `ObjectNotFoundError`. The caller closes it."""

    def head(self, key: str) -> ObjectInfo | None:
        """The object's facts, or None if there is none."""

    def delete(self, key: str) -> None:
        """Remove the object. Removing what is not there does nothing."""

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """All objects whose key starts with `prefix`, in the order of their keys' UTF-8 bytes. `metadata` may be empty."""


@dataclass(frozen=True, slots=True)
class SignedPut:
    """Where an object is to be put (HTTP PUT), with exactly which headers."""

    url: str
    headers: Mapping[str, str]


class UploadSigner(Protocol):
    """Lets somebody else put one object, whose bytes are settled, without rights of their own."""

    def sign_put(
        self, key: str, *, size: int, sha256: str, metadata: Mapping[str, str] | None = None, seconds: int = 900
    ) -> SignedPut:
        """An address that takes `size` bytes with this SHA-256 (in hex) and nothing else, for so long. Raises
        `InvalidInputError` for a malformed key, and for metadata that `ObjectStore.put` refuses."""

    def sha256_of(self, key: str) -> str:
        """The SHA-256 (in hex) of an object that was put so; "" if it was put otherwise, or is not there."""


# -- tables ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Absent:
    """True if the item or the attribute doesn't exist. Without attribute: the item itself."""

    attribute: str = ""


@dataclass(frozen=True, slots=True)
class Equals:
    """True if the attribute exists and equals the value."""

    attribute: str
    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class LessThan:
    """True if the attribute exists and sorts before the value (same type)."""

    attribute: str
    value: str | int | float


@dataclass(frozen=True, slots=True)
class AnyOf:
    """True if one of the conditions is."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """True if all of the conditions are."""

    conditions: tuple[Condition, ...]


Condition = Absent | Equals | LessThan | AnyOf | AllOf


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Bounds on a sort attribute, both included; `begins_with` excludes the other two."""

    low: str | int | None = None
    high: str | int | None = None
    begins_with: str = ""


class Table(Protocol):
    """Items by key with secondary indexes, as described by a `TableSpec`. Writes are durable when the call returns.

    Items whose `ttl` attribute lies in the past are never returned. Empty strings are valid values, but not as keys.
    """

    def get(self, key: Mapping[str, Any]) -> Item | None:
        """The item with this full key, read consistently, or None."""

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        """The items that exist among `keys`, in no particular order; any number of keys, duplicates allowed."""

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        """Write the item, replacing one with the same key. With a condition, only if it holds for the stored item
        (atomically); raises `ConditionFailedError` otherwise."""

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Write all items, unconditionally, in batches; the last of several with one key wins. Not atomic as a whole."""

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        """Remove the item. Removing what is not there does nothing, unless a condition fails: `ConditionFailedError`."""

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Items of one partition of the table or an index, ordered by its sort attribute (in an index, ties in no
        particular order). Reads page by page as the caller goes on. An index may lag behind on AWS."""


# -- queue -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Message:
    """A received message. `receives` counts deliveries, this one included."""

    body: str
    receipt: str
    receives: int


class Queue(Protocol):
    """Messages delivered at least once, in no particular order, hidden while they are worked on."""

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        """Add a message of 1 to 262,144 bytes; delivered after `delay_seconds` (0-900). Raises `InvalidInputError`."""

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        """Up to `limit` (1-10) visible messages, hidden from others for `hide_seconds`. Empty if there is none now."""

    def done(self, receipt: str) -> None:
        """Remove a received message. Doing so twice does nothing."""

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        """Make a received message visible again after a delay. A message that is gone is ignored."""

    def waiting(self) -> int:
        """About how many messages there are, hidden and delayed ones included."""


# -- embedding -------------------------------------------------------------------------------------------------------

Vector = Sequence[float]
"""A unit vector; adapters return compact sequences (arrays), not lists of objects."""


class Embedder(Protocol):
    """Texts to unit vectors whose dot product is their similarity.

    `model_id` identifies model, version and dimension; vectors of different ids must never be compared.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector a text, in order; `[]` for none. Longer texts than the model reads are cut by it. An empty text
        has a vector too. Raises `EmbeddingError`."""

    def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises `EmbeddingError`."""


# -- search index ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """What may be found. Each non-empty part must match; within a part any value does. `scopes` is never empty.

    Applied before the best hits are chosen, in both legs.
    """

    scopes: tuple[str, ...]
    categories: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A search of up to two legs: `text` for the lexical, `vector` for the other; None leaves the leg out.

    `depth` bounds the hits of each leg.
    """

    filter: SearchFilter
    text: str | None = None
    vector: Vector | None = None
    depth: int = 50


@dataclass(frozen=True, slots=True)
class Leg:
    """Entry ids with their scores, best first; equal scores in the order of the ids. `error` says why a leg is missing,
    `took_ms` how long the engine worked on it, if it says so."""

    hits: tuple[tuple[str, float], ...] = ()
    error: str = ""
    took_ms: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """Both legs and every chunk they name. `term_frequencies` maps each analysed term of the text to the number of
    entries that contain it, and `entry_count` is how many entries there are to compare with.

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
    """A chunk with its vector, ready to be searched."""

    indexed: IndexedChunk
    vector: Vector


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The new entries of a document and the references of the entries that they replace.

    No entries: the document leaves the index. `entries` may be a generator; it is consumed once, in bounded memory.
    """

    key_id: str
    document_id: str
    entries: Iterable[IndexEntry] = ()
    superseded: Sequence[str] = ()


class SearchEngine(Protocol):
    """Search over chunks, whoever put them there."""

    def search(self, request: SearchRequest) -> SearchResponse:
        """All that is asked for in one round trip. A leg that fails has its `error` set and the other's hits stand;
        raises `IndexUnavailableError` only if nothing could be searched. An empty or meaningless text gives no hits."""


class SearchIndex(SearchEngine, Protocol):
    """Hybrid search over chunks that are put here.

    The lexical leg is BM25 (k1 = 1.2, b = 0.75) over the terms of `opx.text.analyzer`, times a constant of the engine;
    the vector leg is the cosine with all entries that pass the filter.
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


# -- chunks for a managed index --------------------------------------------------------------------------------------


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


# -- time ------------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Now, in seconds since the epoch."""

    def __call__(self) -> float: ...
