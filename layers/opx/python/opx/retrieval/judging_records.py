"""Makes the record of what judging needs to know of a chunk: numbers in place of its text, made once, at ingestion.

A term is the CRC-32 of its UTF-8, so that indexes need no vocabulary. Of the ten terms of a question and 20,000 terms of
candidates, two different ones are taken for the same once in 20,000 questions. An index stores records packed, beside its
chunks; where it has none, or one of another format, or a damaged one, the record is made from the chunk again.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from msgspec import Struct

from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import CopyMarks, copy_marks
from opx.ports import DocumentFacts, SearchResponse, StoredRecord
from opx.retrieval.question import identifiers
from opx.text.analyzer import ENGLISH, split_identifiers
from opx.text.fields import all_terms, words
from opx.text.languages import document_languages

Terms = Sequence[int]
"""Terms as their CRC-32."""

FORMAT = 1
GRAM = 3
"""Characters of the n-grams of titles and questions that are compared: they match inflected and joined words."""

_READ_FOR_IDENTIFIERS = 2_000
"""Characters of a chunk whose identifiers may be named in place of one that no document has."""

_HEAD, _LENGTHS = struct.Struct("<BI"), struct.Struct("<5I7QI")
"""The format with the CRC-32 of all that follows; and the lengths of the arrays, with the marks."""
_TERM_BYTES = 4


class JudgingRecord(Struct, frozen=True, gc=False):
    """Facts of a chunk's document, and numbers of the chunk under its title and section. `marks` decide if it is a copy,
    `identifiers` are those in its beginning, in order, and `expires` is the day of the document's end, "" for none. Terms are
    decoded when they are needed."""

    facts: DocumentFacts
    marks: CopyMarks
    _numbers: bytes
    _ends: tuple[int, ...]
    _names: bytes

    @property
    def terms(self) -> Terms:
        """All terms, in order, in the languages of the document."""
        return self._array(0)

    @property
    def english(self) -> Terms:
        """The terms in English."""
        return self._array(1) if self._ends[1] > self._ends[0] else self._array(0)

    def has_neighbours(self, one: int, other: int) -> bool:
        """True if the English terms have one before the other."""
        data, pair = bytes(self.english), array("I", (one, other)).tobytes()
        at = data.find(pair)
        while at % _TERM_BYTES and at > 0:
            at = data.find(pair, at + 1)
        return at >= 0

    @property
    def title(self) -> Terms:
        """The terms of the title."""
        return self._array(2)

    @property
    def title_words(self) -> Terms:
        """For each term of the title the number of the word that it represents."""
        return self._array(3)

    @property
    def grams(self) -> Terms:
        """The distinct trigrams of the title."""
        return self._array(4)

    @property
    def expires(self) -> str:
        return self._names.partition(b"\n")[0].decode()

    @property
    def identifiers(self) -> list[str]:
        return self._names.decode("utf-8", "surrogatepass").split("\n")[1:]

    def _array(self, number: int) -> Terms:
        start, end = (self._ends[number - 1] if number else 0), self._ends[number]
        return memoryview(self._numbers)[_TERM_BYTES * start : _TERM_BYTES * end].cast("I")


class ChunkRecords(Mapping[str, JudgingRecord]):
    """The record of each chunk of a response, by its entry's id: as it is stored, if it is whole and of this format. Each is
    read, or made, when it is first needed."""

    def __init__(self, response: SearchResponse) -> None:
        self._chunks, self._stored = response.chunks, response.records
        self._read: dict[str, JudgingRecord] = {}

    def __getitem__(self, entry_id: str) -> JudgingRecord:
        record = self._read.get(entry_id)
        if record is None:
            stored = self._stored.get(entry_id)
            record = self._read[entry_id] = (read(stored) if stored else None) or made(self._chunks[entry_id])
        return record

    def category(self, entry_id: str) -> str:
        """The category of a chunk."""
        stored = self._stored.get(entry_id)
        return stored.facts.category if stored else self._chunks[entry_id].chunk.category

    def document_id(self, entry_id: str) -> str:
        """The document of a chunk."""
        stored = self._stored.get(entry_id)
        return stored.facts.document_id if stored else self._chunks[entry_id].chunk.document_id

    def __iter__(self) -> Iterator[str]:
        return iter(self._chunks)

    def __len__(self) -> int:
        return len(self._chunks)


@lru_cache(4096)
def made(indexed: IndexedChunk) -> JudgingRecord:
    """The record of a chunk, made from its text. Engines without records find the same chunks again and again."""
    record = read(stored_record(indexed, packed_record(indexed)))
    assert record is not None
    return record


def stored_record(indexed: IndexedChunk, data: bytes) -> StoredRecord:
    """The record of a chunk from its packed numbers."""
    chunk = indexed.chunk
    about = (indexed.tier, indexed.trust, indexed.source_uri, indexed.last_updated, chunk.tags, indexed.resources)
    return StoredRecord(DocumentFacts(chunk.document_id, indexed.key_id, chunk.category, *about), data)


def packed_record(indexed: IndexedChunk) -> bytes:
    """The numbers of a chunk as bytes, without the facts of its document that every index has."""
    chunk = indexed.chunk
    languages, text = document_languages(indexed.language), chunk.own_text
    title = words(chunk.title, languages).values()
    arrays = (
        hashed(all_terms(text, languages)),
        hashed(() if languages == ENGLISH else all_terms(text, ENGLISH)),
        hashed(term for word in title for term in word),
        [number for number, word in enumerate(title) for _ in word],
        sorted(set(hashed(grams(chunk.title)))),
    )
    marks = copy_marks(chunk, indexed.fingerprint)
    names = "\n".join((indexed.expires, *identifiers(text[:_READ_FOR_IDENTIFIERS])))
    rest = [_LENGTHS.pack(*map(len, arrays), *(getattr(marks, name) for name in CopyMarks.__struct_fields__))]
    rest += [array("I", part).tobytes() for part in arrays]
    data = b"".join([*rest, names.encode("utf-8", "surrogatepass")])
    return _HEAD.pack(FORMAT, zlib.crc32(data)) + data


def read(stored: StoredRecord) -> JudgingRecord | None:
    """The record of which `packed_record` returned the bytes; None if they are of another format, or damaged."""
    data = stored.data
    try:
        form, checksum = _HEAD.unpack_from(data)
        rest = data[_HEAD.size :]
        if form != FORMAT or zlib.crc32(rest) != checksum:
            return None
        fields = _LENGTHS.unpack_from(rest)
    except struct.error:
        return None
    ends = tuple(accumulate(fields[:5]))
    numbers = rest[_LENGTHS.size :]
    return JudgingRecord(stored.facts, CopyMarks(*fields[5:]), numbers, ends, numbers[ends[-1] * _TERM_BYTES :])


def hashed(terms: Iterable[str]) -> list[int]:
    """Terms as numbers, in the same order."""
    return list(map(_number, terms))


@lru_cache(65_536)
def _number(term: str) -> int:
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


@lru_cache(2048)
def grams(text: str) -> Counter[str]:
    """Trigrams of the words of `text`, with identifiers split."""
    plain = " ".join("".join(c if c.isalnum() else " " for c in split_identifiers(text).lower()).split())
    padded = f" {plain} "
    return Counter(padded[at : at + GRAM] for at in range(len(padded) - GRAM + 1))
