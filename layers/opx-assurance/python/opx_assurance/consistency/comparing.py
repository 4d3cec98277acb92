"""Compares the stores by segments: ranges of object keys, and ranges of ids of document keys.

Segments are independent of one another: they may be compared in any order, at once, in other processes, and again. The ids
are hashes, so that equal ranges of them have about as many documents, and that the documents of a small range are a sample of
all: their object keys, sorted, cut the corpus into ranges with about as many objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from heapq import merge
from itertools import chain, groupby, takewhile

from opx.domain.ids import batched
from opx.domain.record import Record
from opx.domain.scopes import scope_of_key, scope_of_object
from opx.errors import InvalidScopeError
from opx.graph.naming import ScopeDirectory
from opx.ingestion.corpus.chunk_files import OUTLINE_SUFFIX, VERSION_FILE
from opx.ingestion.events import is_document
from opx.ports import HeldDocument, Item, KeyRange, ObjectInfo
from opx.ports.tables import KEYS
from opx_assurance.consistency.store_checks import CheckedDocuments, ComparedStores, KnownKey, ListedKeys, StoreChecks

AT_ONCE = 100
_LISTED = 500
"""Objects at once: more than documents, as only between two of a batch it is known that a sidecar doesn't exist."""

_SAMPLED = 2_000
"""Documents that the corpus is cut by: with as many a segment has its share of objects, give or take a few of a hundred."""

_DIGITS = 4
"""Of an id, that a sample begins with: one document of 65,536."""

_PAGE = 1000
_LAST = "~"
"""Sorts behind all ids, which are hexadecimal."""


class SegmentKind(StrEnum):
    """Kind of a segment: of the corpus, or of catalog and index."""

    OBJECTS = "objects"
    DOCUMENTS = "documents"


class StoreSegment(Record, frozen=True):
    """A range of object keys, or of ids of document keys in all scopes: behind `low`, up to `high` with that one. An empty
    bound is none."""

    kind: SegmentKind
    low: str = ""
    high: str = ""

    @property
    def counts_documents(self) -> bool:
        return self.kind is SegmentKind.DOCUMENTS

    def reaches(self, key: str) -> bool:
        return not self.high or key <= self.high


WHOLE = (StoreSegment(SegmentKind.OBJECTS), StoreSegment(SegmentKind.DOCUMENTS))
"""Everything, the corpus first."""


class Comparison:
    """Compares segments, a batch at a time; changes nothing."""

    def __init__(self, stores: ComparedStores, checks: StoreChecks) -> None:
        self._tables = stores.tables
        self._corpus = stores.corpus
        self._indexing = stores.indexing
        self._checks = checks

    def documents(self) -> int:
        """The number of documents of the catalog, estimated where there are many."""
        sample, share = self._sample()
        return len(sample) * share

    def cut(self, documents: int, most: int) -> tuple[list[StoreSegment], int]:
        """Segments of about so many documents each, and at most `most` of a kind, which together are everything; `WHOLE` for
        a catalog with fewer documents. With the number of documents of all together, estimated where there are many. Raises
        `StoreUnavailableError`."""
        sample, share = self._sample()
        total = len(sample) * share
        count = min(most, total // documents)
        if count < 2:
            return list(WHOLE), total
        ids = [f"{number * 16**_DIGITS // count:0{_DIGITS}x}" for number in range(1, count)]
        files = sorted(chain.from_iterable(map(_objects_of, sample)))
        keys = list(dict.fromkeys(files[number * len(files) // count] for number in range(1, count)))
        return [*_cut(SegmentKind.OBJECTS, keys), *_cut(SegmentKind.DOCUMENTS, ids)], total

    def compare(self, segment: StoreSegment) -> Iterator[CheckedDocuments]:
        """Findings of a segment, batch by batch. Raises `StoreUnavailableError`."""
        return self._objects(segment) if segment.kind is SegmentKind.OBJECTS else self._documents(segment)

    # -- sample

    def _sample(self) -> tuple[list[Item], int]:
        """Items of some document keys, evenly chosen, and the number of keys that each stands for."""
        found: list[Item] = []
        for digits in range(_DIGITS, -1, -1):
            where = KeyRange(begins_with="0" * digits) if digits else None
            found = [head for scope in self._scopes() for head in self._heads(scope, where)]
            if len(found) >= _SAMPLED:
                return found, 16**digits
        return found, 1

    def _scopes(self) -> list[str]:
        directory = ScopeDirectory(self._corpus.clients, self._corpus.projects)
        return sorted(scope.key for scope in directory.all())

    def _heads(self, scope: str, where: KeyRange | None) -> Iterator[Item]:
        return self._tables.table(KEYS).query(scope, index="scope-index", where=where)

    # -- corpus

    def _objects(self, segment: StoreSegment) -> Iterator[CheckedDocuments]:
        listed = self._corpus.store.list(after=segment.low)
        for batch in batched(takewhile(lambda info: segment.reaches(info.key), listed), _LISTED):
            keys = ListedKeys(batch[0].key, batch[-1].key, {info.key for info in batch})
            documents = [info for info in batch if _is_document(info)]
            files = [info for info in batch if _is_version_file(info)]
            outlines = sum(info.key.endswith(OUTLINE_SUFFIX) for info in files)
            checked = self._checks.objects(documents, keys)
            checked.add(self._checks.version_files(files))
            checked.compared.update(objects=len(documents), chunk_files=len(files) - outlines, outlines=outlines)
            yield checked

    # -- catalog and index

    def _documents(self, segment: StoreSegment) -> Iterator[CheckedDocuments]:
        for batch in batched(self._known(segment), AT_ONCE):
            checked = self._checks.documents(batch)
            checked.compared.update(
                documents=sum(1 for one in batch if one.head), index_documents=sum(len(one.held) for one in batch)
            )
            yield checked

    def _known(self, segment: StoreSegment) -> Iterator[KnownKey]:
        """Every document key of the catalog or the index, by scope and key."""
        held = groupby(self._held(segment), key=lambda one: one.scope_key)
        registered = ((scope, iter(())) for scope in self._scopes())
        everywhere = merge(registered, held, key=lambda one: one[0])
        for scope, parts in groupby(everywhere, key=lambda one: one[0]):
            yield from self._known_in(scope, segment, chain.from_iterable(part for _, part in parts))

    def _known_in(self, scope: str, segment: StoreSegment, held: Iterable[HeldDocument]) -> Iterator[KnownKey]:
        heads = self._heads(scope, KeyRange(low=segment.low + "\0" if segment.low else None, high=segment.high or None))
        of_catalog: Iterator[tuple[str, Item | HeldDocument]] = ((str(item["documentKey"]), item) for item in heads)
        of_index: Iterator[tuple[str, Item | HeldDocument]] = ((one.key_id, one) for one in held)
        both = merge(of_catalog, of_index, key=lambda one: one[0])
        for key_id, found in groupby(both, key=lambda one: one[0]):
            parts = [part for _, part in found]
            head = next((part for part in parts if isinstance(part, dict)), None)
            yield KnownKey(key_id, head, tuple(part for part in parts if isinstance(part, HeldDocument)))

    def _held(self, segment: StoreSegment) -> Iterator[HeldDocument]:
        """The documents of the index in the range, scope by scope; what is outside of it is skipped."""
        after: HeldDocument | None = None
        most = _PAGE
        while page := self._indexing.index.held(after=after, limit=most):
            after, most = page[-1], _PAGE
            for one in page:
                if one.key_id > segment.low and segment.reaches(one.key_id):
                    yield one
                    continue
                end = segment.low if one.key_id <= segment.low else _LAST
                after, most = HeldDocument(one.scope_key, end, _LAST, _LAST, 0), 1
                break


def _cut(kind: SegmentKind, bounds: Sequence[str]) -> list[StoreSegment]:
    return [StoreSegment(kind, low, high) for low, high in zip(["", *bounds], [*bounds, ""], strict=True)]


def _objects_of(head: Item) -> list[str]:
    """Keys of a document's object and of a file of its version."""
    prefix = scope_of_key(str(head["scope"])).prefix
    version = head.get("documentId")
    return [f"{prefix}{head['source']}", *([f"{prefix}chunks/{version}"] if version else [])]


def _is_document(info: ObjectInfo) -> bool:
    try:
        return is_document(scope_of_object(info.key)[1])
    except InvalidScopeError:
        return True  # reported as malformed


def _is_version_file(info: ObjectInfo) -> bool:
    try:
        return bool(VERSION_FILE.match(scope_of_object(info.key)[1]))
    except InvalidScopeError:
        return False
