"""Answers queries as of a past time, with the versions that were current then by the catalog's times.

Of a document that was changed since, the first version replaced after that time was current, if it had begun by then; of
any other document, the present version, if it had. Versions without a start time count as begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from opx.domain.documents import DocumentChunk, KnowledgeDocument, RemarkKind
from opx.domain.ids import iso_time
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.errors import DamagedStoreError, EmbeddingError, ModelError, ObjectNotFoundError, UnknownCategoryError
from opx.hygiene.instructions import FLAG
from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.chunk_files import read_chunks
from opx.ingestion.indexing.embedding_cache import CachedEmbedder
from opx.ingestion.prepared import as_indexed
from opx.ports import Clock, ObjectStore, SearchEngine, SearchFilter, Vectors
from opx.retrieval.query_language import ParsedQuery
from opx.runtime.threads import Each
from opx_assurance.past.engine import PastEngine, PastEntry

# -- reading replaced versions


NOT_ALL = "partial: not all versions that were replaced since could be searched (at most {documents} documents)"
UNREADABLE = "partial: the text of some versions that were replaced since is gone"
BY_WORDS = "partial: some versions that were replaced since were searched by words alone, as their vectors are gone"

T = TypeVar("T")
_AT_ONCE = 16
_KEPT_CHUNKS = 1000
"""Largest number of chunks cached from the last query: queries about one incident are as of one time."""

_Names = tuple[str, tuple[tuple[str, int], ...]]
"""Cache key: embedding model, and versions by key id and number."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of the work for one query: calendar rows, versions and chunks read, texts embedded again, and seconds after
    which reading stops."""

    rows: int = 20_000
    documents: int = 400
    chunks: int = 3_000
    embedded: int = 128
    seconds: float = 8.0


@dataclass
class PastVersions:
    """Entries of versions that were replaced since, with their gaps: `cut` by a limit, `unreadable` for missing chunk files,
    `by_words` for missing vectors."""

    entries: list[PastEntry] = field(default_factory=list)
    cut: bool = False
    unreadable: bool = False
    by_words: bool = False

    def lacks(self, bounds: Bounds) -> Iterator[str]:
        if self.cut:
            yield NOT_ALL.format(documents=bounds.documents)
        if self.unreadable:
            yield UNREADABLE
        if self.by_words:
            yield BY_WORDS

    @property
    def whole(self) -> bool:
        return not (self.cut or self.unreadable or self.by_words)


class PastReader:
    """Reads versions and their vectors; thread-safe."""

    def __init__(self, store: ObjectStore, embedder: CachedEmbedder, *, threads: int, bounds: Bounds) -> None:
        self._store = store
        self._embedder = embedder
        self._each = Each(threads)
        self._bounds = bounds
        self._last: tuple[_Names, list[PastEntry]] | None = None

    def entries(self, documents: Sequence[KnowledgeDocument], until: float) -> PastVersions:
        """The searchable entries of these versions; those of the previous query are cached."""
        versions = documents[: self._bounds.documents]
        names = self._embedder.model_id, tuple((one.key.id, one.version) for one in versions)
        known = self._last
        if known and known[0] == names:
            return PastVersions(known[1])
        read = self._read(versions, until)
        if read.whole and len(read.entries) <= _KEPT_CHUNKS:
            self._last = names, read.entries
        return read

    def _read(self, documents: Sequence[KnowledgeDocument], until: float) -> PastVersions:
        """Chunks and vectors of the versions, within the limits."""
        read = PastVersions()
        found: list[IndexedChunk] = []
        for portion in portions(documents, _AT_ONCE):
            if len(found) >= self._bounds.chunks or time.monotonic() > until:
                read.cut = True
                break
            for document, chunks in zip(portion, self._each(self._chunks, portion), strict=True):
                read.unreadable |= chunks is None
                flags = _flags(document)
                found.extend(as_indexed(chunk, document, flags, fingerprint="") for chunk in chunks or ())
        read.cut |= len(found) > self._bounds.chunks
        self._add_vectors(read, found[: self._bounds.chunks])
        return read

    def _chunks(self, document: KnowledgeDocument) -> list[DocumentChunk] | None:
        """The chunks of a version, up to the limit, so that one document can't exhaust memory; None if they are gone or
        damaged."""
        try:
            return list(islice(read_chunks(self._store, document.key, document.document_id), self._bounds.chunks + 1))
        except (ObjectNotFoundError, DamagedStoreError):
            return None

    def _add_vectors(self, read: PastVersions, found: Sequence[IndexedChunk]) -> None:
        texts = [one.chunk.text for one in found]
        vectors = self._embedder.stored(texts) if texts else {}
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        vectors |= self._embedded(missing[: self._bounds.embedded])
        read.by_words = any(text not in vectors for text in missing)
        read.entries = [
            PastEntry(one, vectors.get(text, ()), unmarked=True) for one, text in zip(found, texts, strict=True)
        ]

    def _embedded(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Vectors that are computed and not cached: a query writes nothing."""
        try:
            return dict(zip(texts, self._embedder.unkept(texts), strict=True)) if texts else {}
        except (EmbeddingError, ModelError):
            return {}


def portions(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]


def _flags(document: KnowledgeDocument) -> tuple[str, ...]:
    """Flags of every chunk of a version: the catalog doesn't record which passage was suspicious."""
    suspected = any(remark.kind == RemarkKind.SUSPECTED_INSTRUCTION for remark in document.remarks)
    return (FLAG,) if suspected else ()


# -- as of


OF_TODAY = "permissions, trust, tags, outcomes and the graph are those of today; documents pruned since are not found"
UNDATED = "some documents have no start time of their current version: they count as current then"
IN_FUTURE = "as_of is in the future: this is answered as of now"

_LOOKUP_BATCH = 400
"""Versions that are read from the catalog together."""


class CatalogVersions:
    """Finds the version of each document that was current at a time; caches lookups in the catalog."""

    def __init__(self, catalog: Catalog, at: str, then: Mapping[str, str], lacks: Callable[[str], None]) -> None:
        self._catalog = catalog
        self._at = at
        self._then = dict(then)
        self._lacks = lacks

    def current_entries(self, found: Iterable[IndexedChunk]) -> set[str]:
        """Ids of the entries whose version was current."""
        found = list(found)
        unknown = list(dict.fromkeys(one.key_id for one in found if one.key_id not in self._then))
        current = self._catalog.current_versions(unknown) if unknown else {}
        for key_id in unknown:
            document = current.get(key_id)
            began = document is not None and begun(document, self._at)
            self._then[key_id] = document.document_id if document and began else ""
            if document and began and not document.current_since:
                self._lacks(UNDATED)
        return {one.entry_id for one in found if self._then[one.key_id] == one.chunk.document_id}


def begun(document: KnowledgeDocument, at: str) -> bool:
    """True if a version had become current by then, or has no start time."""
    return document.current_since <= at


class AsOf:
    """Builds the search engine for a query as of a time; thread-safe."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        calendar: Calendar,
        store: ObjectStore,
        knowledge: KnowledgeModel,
        embedder: CachedEmbedder,
        clock: Clock,
        threads: int = 1,
        bounds: Bounds = Bounds(),
    ) -> None:
        self._catalog = catalog
        self._calendar = calendar
        self._knowledge = knowledge
        self._clock = clock
        self._bounds = bounds
        self._read = PastReader(store, embedder, threads=threads, bounds=bounds)

    def engine(self, query: ParsedQuery, where: SearchFilter, index: SearchEngine) -> SearchEngine:
        """The search engine for this query; `where` names the visible scopes. Raises `StoreUnavailableError`."""
        at = query.config.as_of
        if at > iso_time(self._clock()):
            query.note(IN_FUTURE)
            return index
        query.note(f"as of {at}: {OF_TODAY}")
        until = time.monotonic() + self._bounds.seconds
        with query.timed("as_of"):
            ended, cut = self._ended(where.scopes, at)
            replaced = self._begun(ended, at, until)
            then = dict.fromkeys(ended, "") | {one.key.id: one.document_id for one in replaced}
            read = self._read.entries([one for one in replaced if self._may_pass(one, where)], until)
        if any(not one.current_since for one in replaced):
            query.note(UNDATED)
        for lack in replace(read, cut=read.cut or cut or len(replaced) > self._bounds.documents).lacks(self._bounds):
            query.lacks(lack)
        return PastEngine(index, CatalogVersions(self._catalog, at, then, query.note), read.entries, query.lacks)

    def _ended(self, scopes: Sequence[str], at: str) -> tuple[dict[str, CalendarEntry], bool]:
        """The version of each changed document that was replaced first after that time, in that order; and True if the limit
        cut the list."""
        rows = (row for scope in scopes for row in self._calendar.replaced_since(scope, at))
        read = list(islice(rows, self._bounds.rows + 1))
        ended: dict[str, CalendarEntry] = {}
        for row in read[: self._bounds.rows]:
            ended.setdefault(row.key.id, row)
        in_order = sorted(ended.items(), key=lambda one: (one[1].at, one[0]))
        return dict(in_order), len(read) > self._bounds.rows

    def _begun(self, ended: Mapping[str, CalendarEntry], at: str, until: float) -> list[KnowledgeDocument]:
        """Those versions that had begun by then, in the same order; up to one more than may be read, to detect the limit."""
        wanted = [(name, one.document_id, one.version) for name, one in ended.items()]
        found: list[KnowledgeDocument] = []
        for portion in portions(wanted, _LOOKUP_BATCH):
            if len(found) > self._bounds.documents or (found and time.monotonic() > until):
                break
            there = {one.key.id: one for one in self._catalog.numbered(portion) if begun(one, at)}
            found += [there[name] for name, _, _ in portion if name in there]
        return found[: self._bounds.documents + 1]

    def _may_pass(self, document: KnowledgeDocument, where: SearchFilter) -> bool:
        """False if the filter excludes the version, or its category is not searched."""
        try:
            searched = bool(self._knowledge.category(document.category).embed)
        except UnknownCategoryError:
            searched = True
        return (
            searched
            and (not where.categories or document.category in where.categories)
            and (not where.document_ids or document.document_id in where.document_ids)
            and (not where.tiers or document.tier.value in where.tiers)
        )
