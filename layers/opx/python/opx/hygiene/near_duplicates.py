"""Texts that say the same in nearly the same words: found by a fingerprint, made sure of by comparing them.

The fingerprint is Charikar's SimHash (Similarity estimation techniques from rounding algorithms, STOC 2002) over words: of
texts that share most words most bits are equal. It only says which texts are worth comparing; docs/decisions/0022-hygiene.md
has the figures behind the numbers here.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from hashlib import blake2b
from struct import unpack

from opx.domain.documents import DocumentChunk

BITS = 64
MAX_DISTANCE = 14
"""Bits in which the fingerprints of near-duplicates differ at most."""
MIN_SIMILARITY = 0.8
"""Share of words, each as often as it occurs, that near-duplicates have in common."""
MIN_WORDS = 20
"""Shorter texts are compared word for word: one word is too much of them."""

_COMPARISON = re.compile(r"[<>]=?|!=")
_WORD = re.compile(r"\w+(?:[-./:@+'’]\w+)*")
_LANE = 16
"""Bits of a counter: a chunk has less than 2^16 words."""
_LANES_BYTES = BITS * _LANE // 8
_LANES = f"<{BITS}H"
_NEGATIONS = frozenset(
    (
        *("not", "no", "never", "without", "except", "unless", "only", "don't", "doesn't", "can't", "cannot", "won't"),
        *(
            "must",
            "mustn't",
            "shouldn't",
            "disable",
            "disabled",
            "enable",
            "enabled",
            "before",
            "after",
            "stop",
            "start",
        ),
        *("deny", "allow", "nicht", "kein", "keine", "nie", "ne", "pas", "jamais", "sin", "nunca"),
    )
)
"""Words that turn what a text says into something else."""


def fingerprint(text: str) -> str:
    """64 bits in hexadecimal, the same everywhere; "" for a text without words."""
    distinct = set(words(text))
    if not distinct:
        return ""
    ones = sum(map(_spread, distinct)).to_bytes(_LANES_BYTES, "little")
    bits = 0
    for bit, count in enumerate(unpack(_LANES, ones)):
        if 2 * count > len(distinct):
            bits |= 1 << bit
    return f"{bits:016x}"


def distance(one: str, other: str) -> int:
    """In how many bits two fingerprints differ; all of them if there is none."""
    return (int(one, 16) ^ int(other, 16)).bit_count() if one and other else BITS


def are_near_duplicates(one: DocumentChunk, other: DocumentChunk) -> bool:
    """Whether two chunks say the same: under the same headings in nearly the same words, or under others in the same.

    All identifiers have to be equal, and so do negations and comparisons. Identifiers are what has a digit, an inner
    capital or an inner mark: hosts, versions, CVE ids, error codes, commands.
    """
    first, second = one.content.lower().split(), other.content.lower().split()
    alike = _headings(one) == _headings(other)
    if first == second and alike:
        return True
    if min(len(first), len(second)) < MIN_WORDS:
        return False
    if alike:
        return _are_similar(one, other) and _telling(one.content) == _telling(other.content)
    return first == second and _telling(_path(one)) == _telling(_path(other))


def _path(chunk: DocumentChunk) -> str:
    return " ".join((chunk.title, *chunk.section))


def _headings(chunk: DocumentChunk) -> list[str]:
    """The title and the last heading, letters and digits alone: `NodeDown` is `Node down`."""
    return [re.sub(r"[\W_]+", "", heading).casefold() for heading in (chunk.title, *chunk.section[-1:])]


def _are_similar(one: DocumentChunk, other: DocumentChunk) -> bool:
    first, second = Counter(words(one.content)), Counter(words(other.content))
    return (first & second).total() >= MIN_SIMILARITY * max(first.total(), second.total())


def words(text: str) -> list[str]:
    """The words of a text in lower case, identifiers as one word each."""
    return _WORD.findall(text.lower())


def _telling(text: str) -> Counter[str]:
    """Identifiers, each once, and negations and comparisons, each as often as it occurs."""
    found = _WORD.findall(text)
    telling = Counter(set(filter(_is_identifier, found)))
    telling.update(word for word in map(str.lower, found) if word in _NEGATIONS)
    telling.update(_COMPARISON.findall(text))
    return telling


def _is_identifier(word: str) -> bool:
    if word.isalpha():
        return any(letter.isupper() for letter in word[1:])
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
