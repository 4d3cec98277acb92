"""Detects near-duplicates: chunks with nearly the same words, found by a fingerprint and confirmed by comparison.

The fingerprint is Charikar's SimHash (Similarity estimation techniques from rounding algorithms, STOC 2002) over words: of
texts that share most words most bits are equal. It only selects the texts worth comparing; docs/decisions/0022-hygiene.md
has the figures behind the numbers here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from struct import unpack
from typing import TypeVar

from opx.domain.documents import DocumentChunk

BITS = 64
MAX_DISTANCE = 14
"""Bits in which the fingerprints of near-duplicates differ at most."""
MIN_SIMILARITY = 0.8
"""Share of words, each as often as it occurs, that near-duplicates have in common."""
MIN_WORDS = 20
"""Shorter texts are compared word for word: one word is too large a share of them."""

_FIRST_WORDS, _BEGINNING = 4, 80
_TEXTS_KEPT, _HEADINGS_KEPT = 4096, 8192
"""Texts and headings whose derived values are kept: the same ones are compared in several steps of an answer."""

_NUMBER = re.compile(r"\d+")
_COMPARISON = re.compile(r"[<>]=?|!=")
_WORD = re.compile(r"\w+(?:[-./:@+'’]\w+)*")
_LANE = 16
"""Bits of a counter: a chunk has less than 2^16 words."""
_LANES_BYTES = BITS * _LANE // 8
_LANES = f"<{BITS}H"
_NEGATING = """
    not no never without except unless only don't doesn't can't cannot won't must mustn't shouldn't disable disabled enable
    enabled before after stop start deny allow nicht kein keine nie ne pas jamais sin nunca
"""
_NEGATIONS = frozenset(_NEGATING.split())
"""Words that change the meaning of a sentence."""


def fingerprint(text: str) -> str:
    """SimHash of the words: 64 bits in hexadecimal, the same on every platform; "" for text without words."""
    distinct = set(words(text))
    if not distinct:
        return ""
    ones = sum(map(_spread, distinct)).to_bytes(_LANES_BYTES, "little")
    bits = 0
    for bit, count in enumerate(unpack(_LANES, ones)):
        if 2 * count > len(distinct):
            bits |= 1 << bit
    return f"{bits:016x}"


K = TypeVar("K")


class Comparable:
    """A chunk to be compared with many others: derived values are computed once, at first use."""

    def __init__(self, chunk: DocumentChunk) -> None:
        self._chunk = chunk

    @cached_property
    def _content(self) -> _Content:
        return _kept_content(self._chunk.content)

    @property
    def text(self) -> list[str]:
        return self._content.text

    @cached_property
    def headings(self) -> tuple[str, ...]:
        return _headings(self._chunk)

    @cached_property
    def subject(self) -> frozenset[tuple[str, int]]:
        """Distinctive words of the title and all headings."""
        return _distinctive_words(" ".join((self._chunk.title, *self._chunk.section)))

    def is_copy_of(self, other: Comparable) -> bool:
        """True for near-duplicates: nearly the same words under the same headings, or the same words under others.

        All identifiers have to be equal, and so do negations and comparisons. Identifiers are what has a digit, an inner
        capital or an inner mark: hosts, versions, CVE ids, error codes, commands.
        """
        mine, its = self._content, other._content
        if mine.numbers != its.numbers:
            return False
        alike, equal = self.headings == other.headings, mine.text == its.text
        if alike and equal:
            return True
        if min(len(mine.text), len(its.text)) < MIN_WORDS:
            return False
        if alike:
            return mine.distinctive == its.distinctive and mine.is_similar_to(its)
        return equal and self.subject == other.subject


class _Content:
    """The text of a chunk without its headings."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def text(self) -> list[str]:
        return self._text.lower().split()

    @cached_property
    def numbers(self) -> frozenset[str]:
        """All numbers. Each is part of an identifier, so that most differences are found by these."""
        return frozenset(_NUMBER.findall(self._text))

    @cached_property
    def distinctive(self) -> frozenset[tuple[str, int]]:
        return _distinctive_words(self._text)

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(words(self._text))

    def is_similar_to(self, other: _Content) -> bool:
        common = (self.counts & other.counts).total()
        return common >= MIN_SIMILARITY * max(self.counts.total(), other.counts.total())


_kept_content = lru_cache(maxsize=_TEXTS_KEPT)(_Content)


class GroupsOfCopies:
    """Finds the group of near-duplicates that each of many chunks belongs to: that of the first chunk that it is a copy of.

    A copy has the same headings or the same text. So only chunks with the same headings, or that begin alike, are compared,
    and of these only those with a close fingerprint.
    """

    def __init__(self) -> None:
        self._firsts: list[tuple[int, int, Comparable]] = []
        self._alike: defaultdict[tuple[str, ...] | str, list[int]] = defaultdict(list)

    def place(self, chunk: DocumentChunk, mark: int, new: int) -> int:
        """The group of a chunk whose fingerprint is `mark`; `new`, a group that begins with it, if it is no copy."""
        alike, begins = self._alike[_headings(chunk)], self._alike[_first_words(chunk.content)]
        mine = Comparable(chunk)
        for at in sorted({*alike, *begins}) if alike or begins else ():
            group, other, first = self._firsts[at]
            if (other ^ mark).bit_count() <= MAX_DISTANCE and mine.is_copy_of(first):
                return group
        alike.append(len(self._firsts))
        begins.append(len(self._firsts))
        self._firsts.append((new, mark, mine))
        return new


_MOST_COMPARED = 50
"""Passages with the same headings that one is compared with."""


def copies(chunks: Iterable[tuple[K, DocumentChunk]]) -> Iterator[tuple[K, K, DocumentChunk]]:
    """Finds near-duplicates among the chunks of different documents: yields the document of the first one, that of the copy,
    and the copy. Only chunks with the same headings or the same text can be copies, so that no others are compared."""
    alike: defaultdict[int, list[tuple[K, Comparable]]] = defaultdict(list)
    for document, chunk in chunks:
        mine = Comparable(chunk)
        if not mine.text:
            continue
        buckets = [alike[hash(tuple(mine.headings))], alike[hash(tuple(mine.text))]]
        known = [one for bucket in buckets for one in bucket]
        first = next((other for other, its in known if other != document and mine.is_copy_of(its)), None)
        if first is not None:
            yield first, document, chunk
            continue
        for bucket in buckets:
            if len(bucket) < _MOST_COMPARED:
                bucket.append((document, mine))


def words(text: str) -> list[str]:
    """The words of `text` in lower case, identifiers as one word each."""
    return _WORD.findall(text.lower())


def _distinctive_words(text: str) -> frozenset[tuple[str, int]]:
    """Identifiers, each once, and negations and comparisons, each as often as it occurs."""
    found = _WORD.findall(text)
    counts = Counter(filter(_is_identifier, set(found)))
    counts.update(filter(_NEGATIONS.__contains__, map(str.lower, found)))
    counts.update(_COMPARISON.findall(text))
    return frozenset(counts.items())


def _headings(chunk: DocumentChunk) -> tuple[str, ...]:
    """The title and the last heading, letters and digits only: `NodeDown` equals `Node down`."""
    return _letters_of(chunk.title, chunk.section[-1:])


@lru_cache(maxsize=_HEADINGS_KEPT)
def _letters_of(title: str, section: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_letters, (title, *section)))


@lru_cache(maxsize=_TEXTS_KEPT)
def _first_words(text: str) -> str:
    """The first words, which chunks with the same text have in common."""
    found = text[:_BEGINNING].split(None, _FIRST_WORDS)
    if len(found) <= _FIRST_WORDS:  # the last one may be cut
        found = text.split(None, _FIRST_WORDS)
    return " ".join(found[:_FIRST_WORDS]).lower()


def _letters(heading: str) -> str:
    return re.sub(r"[\W_]+", "", heading).casefold()


def _is_identifier(word: str) -> bool:
    if word.isalpha():
        rest = word[1:]
        return not rest.islower() and any(map(str.isupper, rest))
    return True


@lru_cache(maxsize=65_536)
def _spread(word: str) -> int:
    """The 64 bits of a word's hash, each in a lane of its own, so that adding numbers counts bits."""
    spread = _spread_bytes()
    value = 0
    for byte in blake2b(word.encode("utf-8", "surrogatepass"), digest_size=BITS // 8).digest():
        value = value << 8 * _LANE | spread[byte]
    return value


@cache
def _spread_bytes() -> tuple[int, ...]:
    return tuple(sum(1 << _LANE * bit for bit in range(8) if byte >> bit & 1) for byte in range(256))
