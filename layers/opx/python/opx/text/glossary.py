"""Translates words of operations' questions into English, by a glossary for each language.

A glossary is a file of `glossaries/`, `de.txt` for German: lines such as `festplatte = disk`, the left side one to three
words in lower case; `#` begins a comment. Files are read when a question first needs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from pathlib import Path

from opx.text.analyzer import folded, stem

FOLDER = Path(__file__).with_name("glossaries")

WORD = re.compile(r"[^\W\d_]+")
"""A word, or a piece of one that a hyphen or an apostrophe joins."""

LONGEST_WORD = 60
_COMPOUNDING = ("de",)
_LINKS = ("", "s", "n", "en", "es", "e", "er", "ns")
"""Letters that German puts between the words of a compound."""

_MIN_PART = 3
_MIN_KNOWN_PART = 5
"""Fewest letters of a compound's parts, and of a known part beside an unknown one."""

_MIN_COMPOUND = 8

_PREFIXES = frozenset("ab an auf aus bei ein ent her hin los miss mit nach um ver vor weg zer zu zurück".split())  # noqa: SIM905
"""Prefixes of German verbs: never words of a compound."""

_LONGER = 2
"""Letters that an entry may have more than an inflected form of it: `librería` is no form of `libre`."""

_TYPED_UMLAUTS = (("ae", "a"), ("oe", "o"), ("ue", "u"))


class Glossary:
    """Words and phrases of a language with their English. They are compared without case and accents, then by their
    stems, so that inflected forms are found."""

    def __init__(self, language: str, lines: Iterable[str] = ()) -> None:
        self._language = language
        self._exact: dict[tuple[str, ...], str] = {}
        self._by_stems: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for source, english in _entries(lines):
            written = tuple(map(str.casefold, WORD.findall(source)))
            plain = tuple(map(folded, written))
            self._exact.setdefault(plain, english)
            self._by_stems.setdefault(self._stems_of(written), []).append(plain)
        self.longest = max(map(len, self._exact), default=0)
        """Number of words of the longest entry."""

    def english(self, words: Sequence[str]) -> str:
        """Translates consecutive words, or one, which may be a compound; "" if unknown."""
        if not 0 < len(words) <= self.longest or any(len(word) > LONGEST_WORD for word in words):
            return ""
        forms = list(_spellings(words, self._language))
        found = next(filter(None, map(self._listed, forms)), "")
        if found or not self._may_be_compound(words):
            return found
        return next((" ".join(parts) for (word,) in forms if (parts := self._parts(word, {}))), "")

    def with_rests(self, word: str) -> Iterator[tuple[str, str]]:
        """Yields, for a compound with an unknown part, that part and the English of the whole with the part unchanged.
        Many such parts are names and English words, as in `clusterknoten`. The longest known parts come first."""
        if not self._may_be_compound([word]):
            return
        plain = word.casefold()
        for length in range(len(plain) - _MIN_PART, _MIN_KNOWN_PART - 1, -1):
            first = plain[:-length]
            if first not in _PREFIXES and (tail := self._listed((plain[-length:],))):
                yield first, f"{first} {tail}"
            head = self._exact.get((folded(plain[:length]),))
            for link in _LINKS if head else ():
                rest = plain[length + len(link) :]
                if plain.startswith(link, length) and len(rest) >= _MIN_PART:
                    yield rest, f"{head} {rest}"

    def _may_be_compound(self, words: Sequence[str]) -> bool:
        return self._language in _COMPOUNDING and len(words) == 1 and _MIN_COMPOUND <= len(words[0]) <= LONGEST_WORD

    def _listed(self, words: Sequence[str]) -> str:
        """The English of an entry, else of the most similar entry with the same stems."""
        plain = tuple(map(folded, words))
        if plain in self._exact:
            return self._exact[plain]
        alike = [(_common(plain, entry), entry) for entry in self._by_stems.get(self._stems_of(words), ())]
        near = [one for one in alike if len("".join(one[1])) <= len("".join(plain)) + _LONGER]
        return self._exact[max(near, key=lambda one: one[0])[1]] if near else ""

    def _stems_of(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(stem(word, self._language) for word in words)

    def _parts(self, word: str, seen: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        """The English of the parts, with the longest possible first part; () if a part is unknown."""
        if word not in seen:
            seen[word] = ()
            whole = self._listed((word,))
            seen[word] = (whole,) if whole else next(filter(None, self._splits(word, seen)), ())
        return seen[word]

    def _splits(self, word: str, seen: dict[str, tuple[str, ...]]) -> Iterator[tuple[str, ...]]:
        for end in range(len(word) - _MIN_PART, _MIN_PART - 1, -1):
            head = self._exact.get((folded(word[:end]),))
            rests = (word[end + len(link) :] for link in _LINKS if head and word.startswith(link, end))
            for rest in rests:
                tail = self._parts(rest, seen) if len(rest) >= _MIN_PART else ()
                if head and tail:
                    yield (head, *tail)


@cache
def glossary_of(language: str) -> Glossary:
    """The glossary of a language; an empty one if there is none."""
    path = FOLDER / f"{language}.txt"
    if not path.is_file():
        return Glossary(language)
    return Glossary(language, path.read_text(encoding="utf-8").splitlines())


def _entries(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        source, equals, english = line.partition("#")[0].partition("=")
        if equals and WORD.search(source) and english.strip():
            yield source, " ".join(english.replace(",", " ").split())


def _spellings(words: Sequence[str], language: str) -> Iterator[tuple[str, ...]]:
    """The words casefolded, and in German also without the `e` of umlauts typed as `ae`, `oe` and `ue`."""
    written = tuple(map(str.casefold, words))
    yield written
    if language == "de":
        plain = written
        for typed, letter in _TYPED_UMLAUTS:
            plain = tuple(word.replace(typed, letter) for word in plain)
        if plain != written:
            yield plain


def _common(words: tuple[str, ...], others: tuple[str, ...]) -> int:
    """Length of the common prefixes."""
    pairs = (zip(word, other, strict=False) for word, other in zip(words, others, strict=True))
    return sum(len(list(takewhile(lambda pair: pair[0] == pair[1], letters))) for letters in pairs)
