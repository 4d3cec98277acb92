"""What would have been answered at a time: which versions were current then, by the catalog's times.

Of a document that was changed since, the version that was replaced first after that time was current, if it had begun by
then; of any other, the one that is current now, if it had. Versions that don't say when they began count as begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from opx.domain.documents import DocumentChunk, KnowledgeDocument
from opx.domain.knowledge import KnowledgeModel
from opx.domain.remarks import RemarkKind
from opx.domain.results import IndexedChunk
from opx.domain.times import iso_time
from opx.errors import EmbeddingError, ModelError, ObjectNotFoundError, UnknownCategoryError
from opx.hygiene.instructions import FLAG
from opx.ingestion.calendar import Calendar, CalendarEntry
from opx.ingestion.catalog import Catalog
from opx.ingestion.chunk_files import read_chunks
from opx.ingestion.embedding_cache import CachedEmbedder
from opx.ingestion.prepared import as_indexed
from opx.lifecycle.past_engine import PastEngine, PastEntry
from opx.parallel import Each
from opx.ports import Clock, ObjectStore, SearchEngine, SearchFilter, Vector
from opx.retrieval.asking import Asked

OF_TODAY = (
    "who may see what, trust, tags, outcomes and the graph are those of today; what was pruned since is not found"
)
UNDATED = "some documents don't say since when they have been current: they count as current then"
IN_FUTURE = "as_of is in the future: this is answered as of now"
NOT_ALL = "partial: not all versions that were replaced since could be searched (at most {documents} documents)"
UNREADABLE = "partial: the texts of some versions that were replaced since are gone"
BY_WORDS = "partial: some versions that were replaced since were searched by words alone, as their vectors are gone"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the work for one question: rows of the calendar, versions and chunks read, texts embedded anew, and seconds
    after which no more is read."""

    rows: int = 20_000
    documents: int = 400
    chunks: int = 3_000
    embedded: int = 128
    seconds: float = 8.0


class CurrentThen:
    """Which version of each document was current at a time. What was looked up is remembered."""

    def __init__(self, catalog: Catalog, at: str, then: Mapping[str, str], lacks: Callable[[str], None]) -> None:
        self._catalog = catalog
        self._at = at
        self._then = dict(then)
        self._lacks = lacks

    def kept(self, found: Iterable[IndexedChunk]) -> set[str]:
        """The ids of those entries that were current."""
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
    """Whether a version was current by then, as far as it says."""
    return document.current_since <= at


@dataclass
class _Read:
    """What was read of replaced versions, and what the answer lacks."""

    entries: list[IndexedChunk] = field(default_factory=list)
    unreadable: bool = False
    cut: bool = False


class AsOf:
    """Makes the search engine for a question as of a time. One instance may serve several threads."""

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
        self._store = store
        self._knowledge = knowledge
        self._embedder = embedder
        self._clock = clock
        self._each = Each(threads)
        self._bounds = bounds

    def engine(self, asked: Asked, where: SearchFilter, index: SearchEngine) -> SearchEngine:
        """What to search for this question, whose filter names the visible scopes. Raises `StoreUnavailableError`."""
        at = asked.config.as_of
        if at > iso_time(self._clock()):
            asked.note(IN_FUTURE)
            return index
        asked.note(f"as of {at}: {OF_TODAY}")
        with asked.timed("as_of"):
            ended, cut = self._ended(where.scopes, at)
            replaced = self._replaced(ended, at)
            then = dict.fromkeys(ended, "") | {one.key.id: one.document_id for one in replaced}
            if any(not one.current_since for one in replaced):
                asked.note(UNDATED)
            read = self._read([one for one in replaced if self._may_pass(one, where)])
            entries = self._with_vectors(read.entries, asked)
        if cut or read.cut:
            asked.lacks(NOT_ALL.format(documents=self._bounds.documents))
        if read.unreadable:
            asked.lacks(UNREADABLE)
        return PastEngine(index, CurrentThen(self._catalog, at, then, asked.note), entries, asked.lacks)

    def _ended(self, scopes: Sequence[str], at: str) -> tuple[dict[str, CalendarEntry], bool]:
        """Of each document that was changed since, the version that ended first; and whether there may be more."""
        rows = islice(
            (row for scope in scopes for row in self._calendar.replaced_since(scope, at)), self._bounds.rows + 1
        )
        ended: dict[str, CalendarEntry] = {}
        count = 0
        for row in rows:
            count += 1
            if count <= self._bounds.rows:
                ended.setdefault(row.key.id, row)
        return ended, count > self._bounds.rows

    def _replaced(self, ended: Mapping[str, CalendarEntry], at: str) -> list[KnowledgeDocument]:
        """Those of them that had begun, the one that ended first before the others."""
        wanted = [(name, one.document_id, one.version) for name, one in ended.items()]
        found = [one for one in self._catalog.numbered(wanted) if begun(one, at)]
        return sorted(found, key=lambda one: (one.superseded_at, one.key.id))

    def _may_pass(self, document: KnowledgeDocument, where: SearchFilter) -> bool:
        """Whether there is a reason to read it."""
        try:
            searched = bool(self._knowledge.category(document.category).embed)
        except UnknownCategoryError:
            searched = True
        return (
            searched
            and (not where.categories or document.category in where.categories)
            and (not where.document_ids or document.document_id in where.document_ids)
            and document.tier.value in where.tiers
        )

    def _read(self, documents: Sequence[KnowledgeDocument]) -> _Read:
        """Their chunks, as far as the bounds go."""
        read = _Read()
        started = time.monotonic()
        for portion in _portions(documents[: self._bounds.documents]):
            if len(read.entries) > self._bounds.chunks or time.monotonic() - started > self._bounds.seconds:
                read.cut = True
                return read
            for document, chunks in zip(portion, self._each(self._chunks, portion), strict=True):
                read.unreadable |= chunks is None
                flags = _flags(document)
                read.entries.extend(as_indexed(chunk, document, flags) for chunk in chunks or ())
        read.cut = len(documents) > self._bounds.documents or len(read.entries) > self._bounds.chunks
        del read.entries[self._bounds.chunks :]
        return read

    def _chunks(self, document: KnowledgeDocument) -> list[DocumentChunk] | None:
        """The chunks of a version; None if they are gone. One document alone can't take all the memory."""
        try:
            return list(islice(read_chunks(self._store, document.key, document.document_id), self._bounds.chunks + 1))
        except ObjectNotFoundError:
            return None

    def _with_vectors(self, entries: Sequence[IndexedChunk], asked: Asked) -> list[PastEntry]:
        texts = [one.chunk.text for one in entries]
        vectors = self._embedder.stored(texts) if texts else {}
        missing = list(dict.fromkeys(text for text in texts if text not in vectors))
        vectors |= self._embedded(missing[: self._bounds.embedded])
        if any(text not in vectors for text in missing):
            asked.lacks(BY_WORDS)
        return [PastEntry(one, vectors.get(text)) for one, text in zip(entries, texts, strict=True)]

    def _embedded(self, texts: Sequence[str]) -> dict[str, Vector]:
        """Vectors made anew, and not kept: who asks changes nothing."""
        try:
            return dict(zip(texts, self._embedder.unkept(texts), strict=True)) if texts else {}
        except (EmbeddingError, ModelError):
            return {}


def _portions(documents: Sequence[KnowledgeDocument], size: int = 16) -> Iterator[Sequence[KnowledgeDocument]]:
    for at in range(0, len(documents), size):
        yield documents[at : at + size]


def _flags(document: KnowledgeDocument) -> tuple[str, ...]:
    """Which passage was suspicious isn't kept: all of the document is."""
    suspected = any(remark.kind == RemarkKind.SUSPECTED_INSTRUCTION for remark in document.remarks)
    return (FLAG,) if suspected else ()
