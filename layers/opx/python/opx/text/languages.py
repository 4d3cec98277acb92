"""Detects the language of text by its script, and for Latin script by its words, letters and endings.

Operations text is half identifiers, commands and English loanwords, which mislead detectors that count sequences of
letters; small words identify a language regardless of the words between them. Pure functions, some microseconds a
question. Measured beside libraries: docs/decisions/0029-languages.md.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import chain

from msgspec import Struct

from opx.domain.documents import DEFAULT_LANGUAGE
from opx.text.analyzer import ENGLISH, KNOWN_BY, STEMMERS, STOP_WORDS

MAX_LIKELY = 3
"""Languages that a question may be in, besides English."""

READ_CHARACTERS = 20_000
"""Leading characters that are examined."""

_NEARLY = 0.5
"""Share of the best language's evidence from which another language is likely, too."""

_ENOUGH_WORDS = 2.0
_ENOUGH_SHARE = 0.1
"""Least evidence for a document's language: words of that language only, and their share of all words."""

_LETTERS = {
    "de": frozenset("ßäöü"),
    "es": frozenset("ñáíóú"),
    "fr": frozenset("œçàâèêëîïùûé"),
    "it": frozenset("àèìòù"),
    "pt": frozenset("ãõçâêáéíóú"),
    "sv": frozenset("åäö"),
    "da": frozenset("åæø"),
    "no": frozenset("åæø"),
    "pl": frozenset("ąćęłńóśźż"),
    "cs": frozenset("ěščřžýáíéůúďťň"),
    "ro": frozenset("ăâîșşțţ"),
    "tr": frozenset("ığşçöü"),
    "fi": frozenset("äö"),
    "hu": frozenset("őűáéíóöü"),
    "ca": frozenset("çàèéíòóú"),
}
_OF_A_LETTER = 0.6
"""Weight of an unknown word with such a letter, divided among the languages that have the letter."""

_ENDINGS = {
    "en": r"(?:ing|ings|ed|ness|ship|ful|less|ly|th|wn|ck|tion|tions|ment|age|ty|er|ers|ate|ates|al|ble|ity|ess)$|wh",
    "de": r"(?:ung|ungen|heit|keit|schaft|ieren|iert|lich|isch|ische|fehler|sperre|dienst|dienste|stau)$|sch|tz|cht",
    "fr": r"(?:tion|tions|ment|age|eur|eurs|eux|euse|aire|ité|ée|ées|és)$|eau|oi[rt]",
    "es": r"(?:ción|cion|ciones|miento|ado|ados|ada|adas|ido|idos|dad|dor|dores|aje|ando|iendo)$",
    "it": r"(?:zione|zioni|mento|menti|ità|ato|ati|uto|uti|tore|tori|aggio|ando|endo|zz[aoie])$|gli",
    "pt": r"(?:ção|ções|cao|coes|mento|ado|ados|ada|adas|ido|idos|dade|dor|agem|ando|endo|indo)$|lh|nh",
}
_OF_AN_ENDING = 0.3

_CODE = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LONGEST_WORD = 100
_LONGEST_CACHED = 64
_AROUND_WORDS = "*_`#|<>()[]{}.,;:!?\"'«»“”„‚‘’¿¡…–—-/\\=+~"
_NO_WORD = re.compile("[\\d@\\\\/_=<>{}|#*$%+~]|[^\\W\\d_][.:][^\\W\\d_]|[a-z\u00df-\u00ff][A-Z]")
_LATIN_WORD = re.compile("[A-Za-z\u00c0-\u024f]+")

_SCRIPTS = {
    "ja": "\u3041-\u30ff\u31f0-\u31ff",
    "zh": "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7fb",
    "ru": "\u0400-\u04ff",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "ar": "\u0600-\u06ff\u0750-\u077f",
    "he": "\u0590-\u05ff",
    "th": "\u0e00-\u0e7f",
    "hi": "\u0900-\u097f",
}
_UKRAINIAN = frozenset("іїєґІЇЄҐ")
_LETTERS_A_WORD = {"ja": 2.0, "zh": 2.0, "ko": 3.0}
_LETTERS_A_WORD_ELSEWHERE = 5.0


class Detected(Struct, frozen=True):
    """A detected language; the default one if the text gave too little evidence (`certain` is False)."""

    language: str
    certain: bool


def detect_language(text: str) -> Detected:
    """Detects the language of a document; English, not certain, for one that is short, mixed, or only code."""
    scores, words = _evidence_of(text)
    language, evidence = _best(scores)
    certain = evidence >= max(_ENOUGH_WORDS, _ENOUGH_SHARE * words)
    return Detected(language, certain=True) if certain else Detected(DEFAULT_LANGUAGE, certain=False)


def question_languages(text: str, declared: str = "") -> tuple[str, ...]:
    """The languages that a question may be in, the likeliest first and English last, always.

    Only English for a question without evidence of another language. `declared` is a language known from another
    source.
    """
    scores, _ = _evidence_of(text)
    likely = [declared.partition("-")[0].lower()] if declared else []
    best, evidence = _best(scores)
    if evidence and best != "en":
        near = sorted(scores, key=lambda language: (-scores[language], language))
        likely += [name for name in near if scores[name] >= _NEARLY * evidence and name in _SUPPORTED][:MAX_LIKELY]
    return tuple(dict.fromkeys([*(name for name in likely if name != "en"), "en"]))


def document_languages(language: str) -> tuple[str, ...]:
    """Languages in which text of this language is analysed: itself, if it has a stemmer, and English."""
    own = language.partition("-")[0].lower()
    return (own, "en") if own in STEMMERS and own != "en" else ENGLISH


_SUPPORTED = frozenset((*STEMMERS, *_SCRIPTS, "uk"))


def _evidence_of(text: str) -> tuple[Mapping[str, float], float]:
    """Evidence of each language in the text's prose, in words of that language only, and the number of all words."""
    prose = _CODE.sub(" ", text[:READ_CHARACTERS])
    count = 0
    scores: defaultdict[str, float] = defaultdict(float)
    for word, times in _latin_words(prose):
        count += times
        for language, weight in _evidence(word):
            scores[language] += weight * times
    script, others = _script(prose)
    if others:
        scores[script] += others
    return scores, count + others


def _latin_words(prose: str) -> Iterator[tuple[str, int]]:
    """Casefolded words with the count of each form; no addresses, paths, options, versions, acronyms or names such as
    `KubePod`."""
    tokens = Counter(prose.split())
    shouted = tokens.total() > 1 and prose.isupper()
    for token, times in tokens.items():
        if token.islower() and token.isalpha() and token.isascii() and len(token) <= _LONGEST_WORD:
            yield token, times  # most tokens
            continue
        words = _cached_words_of(token, shouted) if len(token) <= _LONGEST_CACHED else _words_of(token, shouted)
        for word in words:
            yield word, times


def _words_of(token: str, shouted: bool) -> tuple[str, ...]:
    bare = token.strip(_AROUND_WORDS)
    if not 0 < len(bare) <= _LONGEST_WORD or token.startswith("-") or _NO_WORD.search(bare):
        return ()
    if bare.isupper() and len(bare) > 1 and not shouted:
        return ()
    return tuple(map(str.casefold, _LATIN_WORD.findall(bare)))


_cached_words_of = lru_cache(1 << 14)(_words_of)


def _best(scores: Mapping[str, float]) -> tuple[str, float]:
    """The language with the most evidence; ties: English first, then by name."""
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0] != "en", item[0]))
    return ranked[0] if ranked else (DEFAULT_LANGUAGE, 0.0)


@lru_cache(1 << 15)
def _evidence(word: str) -> tuple[tuple[str, float], ...]:
    """Evidence of one word: shared by the languages that have it as a common word, else by its letters and its ending."""
    known = _known().get(word)
    if known:
        return tuple((language, 1 / len(known)) for language in known)
    lettered = [language for language, letters in _LETTERS.items() if not letters.isdisjoint(word)]
    ended = [language for language, pattern in _patterns() if pattern.search(word)]
    return (
        *((language, _OF_A_LETTER / len(lettered)) for language in lettered),
        *((language, _OF_AN_ENDING / len(ended)) for language in ended),
    )


@cache
def _known() -> dict[str, tuple[str, ...]]:
    languages: dict[str, dict[str, None]] = {}
    for language, words in chain(STOP_WORDS.items(), KNOWN_BY.items()):
        for word in words:
            languages.setdefault(word, {})[language] = None
    return {word: tuple(names) for word, names in languages.items()}


@cache
def _patterns() -> Iterable[tuple[str, re.Pattern[str]]]:
    return tuple((language, re.compile(pattern)) for language, pattern in _ENDINGS.items())


@cache
def _letters_of_scripts() -> Mapping[str, re.Pattern[str]]:
    return {language: re.compile(f"[{letters}]") for language, letters in _SCRIPTS.items()}


def _script(prose: str) -> tuple[str, float]:
    """The language of the most frequent non-Latin script, and its letters converted to words; "", 0 for none."""
    if prose.isascii():
        return "", 0.0
    counts = {language: len(letters.findall(prose)) for language, letters in _letters_of_scripts().items()}
    together = counts["ja"] + counts["zh"]
    counts |= {"ja": together, "zh": 0} if 10 * counts["ja"] > counts["zh"] else {"ja": 0, "zh": together}
    best = max(counts, key=lambda language: counts[language])
    count = counts[best] / _LETTERS_A_WORD.get(best, _LETTERS_A_WORD_ELSEWHERE)
    return ("uk" if best == "ru" and not _UKRAINIAN.isdisjoint(prose) else best), count
