"""Records of chunks: the same from a chunk and from bytes, and never half of one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.record import replace
from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import fingerprint
from opx.ports import SearchResponse, StoredRecord
from opx.retrieval.evidence import evidence_of
from opx.retrieval.hybrid import FusedHits
from opx.retrieval.judging import pages_of
from opx.retrieval.judging_records import ChunkRecords, JudgingRecord, grams, hashed, made, packed_record, read
from opx.text.analyzer import analyze
from opx.text.fields import all_terms, words
from opx.text.languages import document_languages
from opx_testing.entries import an_entry
from tests.support.judging_support import Found, found_lists, searched, texts

LANGUAGES = st.sampled_from(["en", "de", "fr", "zh", ""])


def a_chunk(title: str, content: str, language: str = "en") -> IndexedChunk:
    indexed = an_entry(content, title=title).indexed
    return replace(indexed, language=language, fingerprint=fingerprint(content), expires="2027-01-31")


def stored(chunk: IndexedChunk, data: bytes) -> StoredRecord:
    return StoredRecord(made(chunk).facts, data)


def parts(record: JudgingRecord) -> list[object]:
    arrays = (record.terms, record.english, record.title, record.title_words, record.grams)
    return [*(list(part) for part in arrays), record.marks, record.identifiers, record.expires, record.facts]


@given(texts, texts, LANGUAGES)
def test_any_chunk_has_a_record(title: str, content: str, language: str) -> None:
    chunk = a_chunk(title, content, language)
    record = made(chunk)
    languages = document_languages(language)
    assert list(record.terms) == hashed(all_terms(chunk.chunk.text, languages))
    assert list(record.english) == hashed(analyze(chunk.chunk.text))
    assert list(record.title) == hashed(term for word in words(title, languages).values() for term in word)
    assert list(record.grams) == sorted(set(hashed(grams(title))))
    assert record.expires == chunk.expires


def test_it_has_the_identifiers_of_the_chunk() -> None:
    record = made(a_chunk("Festplatten voll", "Die Festplatten von web-server-01 sind voll: CVE-2024-3094.", "de"))
    assert record.identifiers == ["web-server-01", "CVE-2024-3094"]
    assert made(a_chunk("Disk full", "Remove old logs.")).identifiers == []


CHUNK = a_chunk("Disk full", "Remove old logs of web-server-01, then restart it.")
RECORD = packed_record(CHUNK)


@pytest.mark.parametrize("length", [0, 1, 4, 5, 40, len(RECORD) - 1])
def test_a_record_that_was_cut_short_is_none(length: int) -> None:
    assert read(stored(CHUNK, RECORD[:length])) is None


@given(st.integers(0, len(RECORD) - 1), st.integers(1, 255))
def test_a_damaged_record_is_none(at: int, change: int) -> None:
    damaged = bytearray(RECORD)
    damaged[at] ^= change
    assert read(stored(CHUNK, bytes(damaged))) is None


@pytest.mark.parametrize("data", [None, b"", b"\x00", RECORD[:-1], b"\x02" + RECORD[1:], RECORD])
def test_without_a_whole_record_it_is_made_from_the_chunk(data: bytes | None) -> None:
    records = {} if data is None else {"e": stored(CHUNK, data)}
    found = ChunkRecords(SearchResponse(chunks={"e": CHUNK}, records=records))
    assert parts(found["e"]) == parts(made(CHUNK))


def test_a_chunk_of_any_length_has_a_record() -> None:
    chunk = a_chunk("Disk full", "disks fill with logs " * 40_000)
    assert len(made(chunk).terms) > 100_000


# -- evidence, against its definition in sets of words


def terms_of(indexed: IndexedChunk) -> list[str]:
    return all_terms(indexed.chunk.text, document_languages(indexed.language))


def title_words(indexed: IndexedChunk) -> list[tuple[str, ...]]:
    return list(words(indexed.chunk.title, document_languages(indexed.language)).values())


class Definition:
    """Inputs of the models for each document, word by word."""

    def __init__(self, text: str, hits: FusedHits) -> None:
        self._text, self._hits, self.pages = text, hits, pages_of(hits)
        self._best = [page.best.indexed for page in self.pages]
        self._weights = {term: hits.term_weights.get(word, 0.0) for word, some in hits.words.items() for term in some}
        names = [page.document_id for page in self.pages]
        there = [{term for passage in hits.passages[name] for term in terms_of(passage.indexed)} for name in names]
        self._documents = [some & self._weights.keys() for some in there]
        self._titles = [{term for word in title_words(one) for term in word} for one in self._best]
        self._letters = [grams(one.chunk.title).keys() for one in self._best]

    def _rarity(self, sets: Sequence[frozenset[str] | set[str]]) -> dict[str, float]:
        counts = Counter(member for some in sets for member in some)
        return {member: math.log((len(sets) + 1) / (count + 0.5)) for member, count in counts.items()}

    def document(self, at: int) -> float:
        total = sum(self._hits.term_weights.values())
        there = (w for word, w in self._hits.term_weights.items() if self._documents[at] & set(self._hits.words[word]))
        return sum(there) / total if total else 0.0

    def document_rare(self, at: int) -> float:
        rare = self._rarity(self._documents)
        worth = {term: weight * rare[term] for term, weight in self._weights.items() if term in rare}
        total = sum(worth.values())
        return sum(v for term, v in worth.items() if term in self._documents[at]) / total if total else 0.0

    def title_match(self, at: int) -> float:
        title = title_words(self._best[at])
        question = [word for word in self._hits.words if self._hits.term_weights.get(word, 0) > 0] or [
            *self._hits.words
        ]
        if not (title and question):
            return 0.0
        in_query = sum(bool(self._weights.keys() & set(word)) for word in title) / len(title)
        in_title = sum(bool(self._titles[at] & set(self._hits.words[word])) for word in question) / len(question)
        return math.sqrt(in_query * in_title)

    def title_share(self, at: int) -> float:
        return len(self._titles[at] & self._weights.keys()) / max(len(self._titles[at]), 1)

    def title_missing(self, at: int) -> float:
        rare = self._rarity(self._titles)
        missing = sum(rare[term] for term in self._titles[at] - self._weights.keys())
        return missing / max(1.0, math.log(len(self.pages) + 1))

    def title_letters(self, at: int) -> float:
        rare, question = self._rarity(self._letters), grams(self._text)  # type: ignore[arg-type]
        total = sum(rare[gram] for gram in self._letters[at])
        return sum(rare[gram] for gram in self._letters[at] if gram in question) / total if total else 0.0

    def question_letters(self, at: int) -> float:
        rare, question = self._rarity(self._letters), grams(self._text)  # type: ignore[arg-type]
        total = sum(rare.get(gram, 0.0) for gram in question)
        return sum(rare[gram] for gram in question if gram in self._letters[at]) / total if total else 0.0

    def pairs(self, at: int) -> float:
        order = [term for term in analyze(self._text) if self._weights.get(term, 0.0) > 0]
        question = {pair: min(self._weights[pair[0]], self._weights[pair[1]]) for pair in pairwise(order)}
        found = [set(pairwise(analyze(hit.chunk.text))) for hit in self.pages[at].evidence]
        most = max((sum(w for pair, w in question.items() if pair in some) for some in found), default=0.0)
        return most / sum(question.values()) if sum(question.values()) else 0.0


INPUTS = [name for name in vars(Definition) if not name.startswith("_")]


@given(texts, found_lists)
def test_evidence_in_arrays_is_that_of_its_definition(text: str, found: list[Found]) -> None:
    hits = searched(text, *found)
    definition = Definition(text, hits)
    rows = evidence_of(text, hits, definition.pages)
    assert len(rows) == len(definition.pages)
    for at, row in enumerate(rows):
        expected = {name: getattr(definition, name)(at) for name in INPUTS}
        found_parts = {name: row["title_asked" if name == "title_share" else name] for name in INPUTS}
        assert found_parts == pytest.approx(expected, abs=1e-9)


def test_terms_are_numbers_of_32_bits() -> None:
    assert hashed(["disk", "disk", "full"]) == [208985346, 208985346, 3766473888]
