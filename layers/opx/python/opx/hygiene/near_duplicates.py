"""Detects near-duplicates: chunks with nearly the same words, found by a fingerprint and confirmed by comparison.

The fingerprint is Charikar's SimHash (Similarity estimation techniques from rounding algorithms, STOC 2002) over words: of
texts that share most words most bits are equal. It only selects the texts worth comparing; docs/decisions/0022-hygiene.md
has the figures behind the numbers here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from struct import unpack
from typing import Protocol, TypeVar

from msgspec import Struct

from opx.domain.documents import DocumentChunk

BITS = 64
MAX_DISTANCE = 14
"""Bits in which the fingerprints of near-duplicates differ at most."""
MIN_SIMILARITY = 0.8
"""Share of words, each as often as it occurs, that near-duplicates have in common."""
MIN_WORDS = 20
"""Shorter texts are compared word for word: one word is too large a share of them."""

_FIRST_WORDS = 4
_ANY = "1"
"""A fingerprint for chunks that are compared whatever theirs are."""

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


class CopyMarks(Struct, frozen=True, gc=False):
    """Numbers of a chunk that decide if it is a copy of another one, but for the words that two have in common: its
    fingerprint (0 for none), hashes of its headings, its first words, its numbers, its distinctive words, its text and the
    distinctive words of all its headings, and how many words it has."""

    fingerprint: int
    headings: int
    beginning: int
    numbers: int
    distinctive: int
    text: int
    subject: int
    words: int

    def may_be_copy_of(self, other: CopyMarks) -> bool:
        """False if the chunks differ in more than some of their words: nearly the same words under the same headings are a
        copy, and so are the same words under others.

        All identifiers have to be equal, and so do negations and comparisons. Identifiers are what has a digit, an inner
        capital or an inner mark: hosts, versions, CVE ids, error codes, commands. A chunk without a fingerprint, indexed
        before fingerprints existed, is only a copy of the same text under the same headings.
        """
        is_same = self.headings == other.headings and self.text == other.text
        if not (self.fingerprint and other.fingerprint):
            return is_same
        if self.numbers != other.numbers or (self.fingerprint ^ other.fingerprint).bit_count() > MAX_DISTANCE:
            return False
        if is_same or min(self.words, other.words) < MIN_WORDS:
            return is_same
        if self.headings == other.headings:
            return self.distinctive == other.distinctive
        return self.text == other.text and self.subject == other.subject


def copy_marks(chunk: DocumentChunk, fingerprint: str) -> CopyMarks:
    """The marks of a chunk; `fingerprint` is its hexadecimal one, or "" for none."""
    text = chunk.content.lower().split()
    subject = _distinctive_words(" ".join((chunk.title, *chunk.section)))
    return CopyMarks(
        fingerprint=int(fingerprint or "0", 16),
        headings=_hash(_headings(chunk)),
        beginning=_hash(text[:_FIRST_WORDS]),
        numbers=_hash(sorted(frozenset(_NUMBER.findall(chunk.content)))),  # most differences are found by these
        distinctive=_hash(sorted(map(str, _distinctive_words(chunk.content)))),
        text=_hash(text),
        subject=_hash(sorted(map(str, subject))),
        words=len(text),
    )


def are_copies(one: DocumentChunk, other: DocumentChunk) -> bool:
    """True for near-duplicates, whatever their fingerprints."""
    return _are_copies(copy_marks(one, _ANY), one, copy_marks(other, _ANY), other)


def _are_copies(mine: CopyMarks, one: DocumentChunk, its: CopyMarks, other: DocumentChunk) -> bool:
    return mine.may_be_copy_of(its) and (mine.text == its.text or _are_similar(one, other))


def _hash(words: Sequence[str]) -> int:
    data = "\n".join(words).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


class HoldsChunk(Protocol):
    """A chunk that may be read only when it is needed."""

    @property
    def chunk(self) -> DocumentChunk: ...


class GroupsOfCopies:
    """Finds the group of near-duplicates that each of many chunks belongs to: that of the first chunk that it is a copy of.

    A copy has the same headings or the same text. So only chunks with the same headings, or that begin alike, are compared,
    of these only those with a close fingerprint, and the words only of those with the same marks.
    """

    def __init__(self) -> None:
        self._firsts: list[tuple[int, CopyMarks, HoldsChunk]] = []
        self._alike: defaultdict[int, list[int]] = defaultdict(list)

    def place(self, marks: CopyMarks, holder: HoldsChunk, new: int) -> int:
        """The group of a chunk; `new`, a group that begins with it, if it is no copy. The chunk is read only if its words
        have to be compared."""
        alike, begins = self._alike[marks.headings], self._alike[marks.beginning]
        for at in sorted({*alike, *begins}) if alike or begins else ():
            group, its, other = self._firsts[at]
            if marks.may_be_copy_of(its) and (marks.text == its.text or _are_similar(holder.chunk, other.chunk)):
                return group
        alike.append(len(self._firsts))
        begins.append(len(self._firsts))
        self._firsts.append((new, marks, holder))
        return new


def _are_similar(one: DocumentChunk, other: DocumentChunk) -> bool:
    mine, its = _counts(one.content), _counts(other.content)
    return (mine & its).total() >= MIN_SIMILARITY * max(mine.total(), its.total())


@lru_cache(maxsize=1024)
def _counts(text: str) -> Counter[str]:
    return Counter(words(text))


_MOST_COMPARED = 50
"""Passages with the same headings that one is compared with."""


def copies(chunks: Iterable[tuple[K, DocumentChunk]]) -> Iterator[tuple[K, K, DocumentChunk]]:
    """Finds near-duplicates among the chunks of different documents: yields the document of the first one, that of the copy,
    and the copy. Only chunks with the same headings or the same text can be copies, so that no others are compared."""
    alike: defaultdict[int, list[tuple[K, CopyMarks, DocumentChunk]]] = defaultdict(list)
    for document, chunk in chunks:
        mine = copy_marks(chunk, _ANY)
        if not mine.words:
            continue
        buckets = [alike[mine.headings], alike[mine.text]]
        known = (held for bucket in buckets for held in bucket if held[0] != document)
        first = next((name for name, its, other in known if _are_copies(mine, chunk, its, other)), None)
        if first is not None:
            yield first, document, chunk
            continue
        for bucket in buckets:
            if len(bucket) < _MOST_COMPARED:
                bucket.append((document, mine, chunk))


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
    return tuple(map(_letters, (chunk.title, *chunk.section[-1:])))


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
