"""Text to search terms, the same for every index and for documents and questions.

Operations text is full of identifiers, which ordinary analyzers either cut up or leave whole. Here each compound is
kept whole and split into its parts: `moduleControllerCreate` gives `modulecontrollercr`, `modul`, `control`, `creat`;
`hook.player.connected`, `hook-player-connected` and `hookPlayerConnected` share one whole term. Words are stemmed with
Snowball, in English and in the text's own language; identifiers that are neither words nor compounds pass through it
unchanged. Chinese, Japanese and Korean are cut into overlapping pairs of characters, as Lucene's `CJKBigramFilter` does.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import Stemmer

from opx.text.vocabulary import ELISIONS, STOP_WORDS

ANALYZER_VERSION = "2"
"""Part of an index's identity: terms of different versions must not be mixed."""

ENGLISH = ("en",)

STEMMERS = {"en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian", "pt": "portuguese"}
"""Languages whose words are stemmed, and Snowball's names of their algorithms."""

_RUN = re.compile(r"[^\W_]+(?:[._\-'’][^\W_]+|_+[^\W_]+)*")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_SEPARATORS = re.compile(r"[._\-'’]+")
_CASE_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]+s?(?![a-z])|[A-Z]?[^\WA-Z_]+|[^\W_]+")
_CJK_LETTERS = (
    "\u1100-\u11ff\u3005-\u3007\u3041-\u30ff\u3105-\u312f\u3131-\u318e\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
_LONGEST_CACHED = 64


def analyze(text: str, languages: Sequence[str] = ENGLISH) -> list[str]:
    """The terms of `text` in these languages, in order, a compound's whole term before its parts; stop words are left out.

    A pure function.
    """
    return [term for terms in stems(text, languages) for term in terms]


def stems(text: str, languages: Sequence[str] = ENGLISH) -> Iterator[tuple[str, ...]]:
    """The words of `text` in order, each as its distinct terms in the languages, the first language's first.

    A word that is a stop word of the first language is left out, and so is a language without a stemmer.
    """
    chosen = tuple(language for language in languages if language in STEMMERS) or ENGLISH
    for match in _RUN.finditer(unicodedata.normalize("NFKC", text)):
        run = match.group()
        yield from _cached_words_of(run, chosen) if len(run) <= _LONGEST_CACHED else _words_of(run, chosen)


def split_identifiers(text: str) -> str:
    """`text` with camelCase words apart, for models whose tokenizer lowercases first: `KubePod` -> `Kube Pod`."""
    return _WORD.sub(lambda match: " ".join(_split_case(match.group())), text)


@cache
def cjk_runs() -> re.Pattern[str]:
    """Finds runs of Chinese, Japanese and Korean, which have no blanks between words, or not where words are looked for.
    Compiled when it is first needed: that takes a while."""
    return re.compile(f"([{_CJK_LETTERS}]+)")


def folded(word: str) -> str:
    """`word` without the accents of Latin letters: `cámara` -> `camara`."""
    return word if word.isascii() else "".join(map(_folded_letter, word))


def _words_of(run: str, languages: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The words of one run of letters and digits that `.`, `_`, `-` or an apostrophe may join.

    Nothing is named twice, but pairs of characters, which come from a text without blanks.
    """
    if run.isascii() or not cjk_runs().search(run):
        return tuple(dict.fromkeys(_terms(_units(run, languages), languages)))
    words: list[tuple[str, ...]] = []
    for at, piece in enumerate(cjk_runs().split(run)):
        if at % 2:
            words.extend((pair,) for pair in _pairs(piece))
        elif piece.strip("._-'’"):
            words.extend(dict.fromkeys(_terms(_units(piece.strip("._-'’"), languages), languages)))
    return tuple(words)


_cached_words_of = lru_cache(1 << 16)(_words_of)


def _pairs(run: str) -> Iterator[str]:
    """Each two neighbours; a single character alone."""
    if len(run) == 1:
        yield run
    for at in range(len(run) - 1):
        yield run[at : at + 2]


def _units(run: str, languages: tuple[str, ...]) -> list[str]:
    """What of a run is stemmed: the whole, its pieces and their parts by case, without case."""
    if run[-2:].casefold() in ("'s", "’s"):
        run = run[:-2]
    run = _without_elision(run, languages)
    pieces = [piece for piece in _SEPARATORS.split(run) if piece]
    if len(pieces) > 1 and all(piece.isdigit() for piece in pieces):
        return [".".join(pieces)]  # an address or a version: its numbers alone mean nothing
    whole = "".join(pieces).casefold()
    if "'" in run or "’" in run:
        return [whole]
    return [whole, *(part.casefold() for piece in pieces for part in (piece, *_split_case(piece)))]


def _without_elision(run: str, languages: tuple[str, ...]) -> str:
    """`l'erreur` -> `erreur` where a language joins its small words like that."""
    before, apostrophe, behind = run.replace("’", "'").partition("'")
    if apostrophe and any(before.casefold() in ELISIONS.get(language, ()) for language in languages):
        return behind
    return run


def _terms(units: list[str], languages: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for unit in units:
        first = _term(unit, languages[0])
        if len(languages) == 1 and first:
            yield (first,)
        elif first:
            others = (_term(unit, language) for language in languages[1:])
            yield tuple(dict.fromkeys((first, *filter(None, others))))


def _term(unit: str, language: str) -> str:
    """The term of a word in a language; "" for its stop words, of which English has the terms listed."""
    plain = folded(unit)
    if language == "en":
        term = _stem(plain, language)
        return "" if term in STOP_WORDS["en"] else term
    return "" if plain in _folded_stop_words(language) else folded(_stem(unit, language))


def _split_case(piece: str) -> list[str]:
    """`KubePod` -> Kube, Pod. A single letter goes with its neighbour: vSphere, IPv4 and PVs stay whole."""
    if piece.islower() or piece.isupper() or piece.isdigit():
        return [piece]
    parts: list[str] = []
    carried = ""
    for found in _CASE_PARTS.findall(piece):
        part = carried + found
        carried = part if len(part) == 1 else ""
        if not carried:
            parts.append(part)
    if carried and parts:
        parts[-1] += carried
    return parts or [piece]


def _stem(word: str, language: str) -> str:
    if len(word) <= 2 or word[0].isdigit():
        return word
    return str(_stemmer(language).stemWord(word))


@cache
def _stemmer(language: str) -> Any:
    return Stemmer.Stemmer(STEMMERS[language], 0)


@cache
def _folded_stop_words(language: str) -> frozenset[str]:
    return frozenset(map(folded, STOP_WORDS[language]))


@lru_cache(4096)
def _folded_letter(letter: str) -> str:
    """The letter below the accents if it is one of a to z, or the letter."""
    base = unicodedata.normalize("NFD", letter)[0]
    return base if base.isascii() and base.isalpha() else _BARRED.get(letter, letter)


_BARRED = {"ø": "o", "đ": "d", "ł": "l", "ı": "i", "ħ": "h", "æ": "ae", "œ": "oe"}
"""Letters that Unicode doesn't take apart, casefolded."""
