"""Rewords a question with words that no visible entry has: corrects their spelling, translates them into English.

Imported only for such questions. A correction is a word of the reader's own corpus, one edit away; a translation is from the
language's glossary. Measured: docs/decisions/0052-rewording.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from string import ascii_lowercase

from msgspec import Struct

from opx.domain.documents import DEFAULT_LANGUAGE
from opx.ports import SearchEngine, SearchFilter, SearchRequest
from opx.retrieval.query_language import ParsedQuery
from opx.retrieval.question import Question, TermChange, Why, is_identifier
from opx.text.analyzer import KNOWN_BY, folded
from opx.text.fields import words
from opx.text.glossary import LONGEST_WORD, WORD, Glossary, glossary_of

MAX_WORDS = 6
"""Words of a question that are corrected, the first ones: each has some hundred neighbours, which are looked up."""

MIN_LETTERS, MAX_LETTERS = 5, 30
"""Letters of a word that is corrected."""

_TRIED = 3
_ENTRIES_READ = 50
"""Candidates of a correction that are searched in the text of entries, and entries that are read for each."""

_DERIVING = ("er", "ers", "or", "ors", "y", "ly", "able", "less", "ful", "ness")
"""Derivational endings of English words that stemmers keep."""

_RESTS = 5
"""Splits of a compound that are tried."""

_READ_PIECES = 2_000
_SHOWN = 10
_PIECE = re.compile(r"[^\s\"'`()\[\]{}<>,;|=«»“”„‘’]+")
_MARKS = ".:!?…*¿¡"
_JOINED = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_GAP = re.compile(r"[\s'’-]*")
_BLANKS = re.compile(r"[^\S\n]+")
_ASCII_WORD = re.compile("[a-z]+")


class Reworded(Struct, frozen=True):
    """A question with changes, in the order of their positions. `left_out` are spans of untranslated words beside translated
    ones: they mean nothing in an index of English text, and an embedding model takes them for the subject."""

    before: str
    changes: tuple[TermChange, ...]
    left_out: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        edits = [(change.start, change.end, change.after) for change in self.changes]
        edits += [(start, end, "") for start, end in self.left_out]
        parts, at = [], 0
        for start, end, after in sorted(edits):
            parts += [self.before[at:start], after]
            at = end
        text = "".join((*parts, self.before[at:]))
        return _BLANKS.sub(" ", text).strip() if self.left_out else text

    @property
    def note(self) -> str:
        shown = list(dict.fromkeys(f"{one.after} ({one.before})" for one in self.changes))
        more = len(shown) - _SHOWN
        return f"searched also for: {', '.join(shown[:_SHOWN])}{f' and {more} more' if more > 0 else ''}"


class QuestionWord(Struct, frozen=True):
    """A word of a question with its terms, none for a stop word. `unknown`: the search found none of them; `joined`: it is
    part of a hyphenated word."""

    start: int
    end: int
    text: str
    terms: tuple[str, ...]
    unknown: bool
    joined: bool


def reworded(parsed: ParsedQuery, as_typed: Question, engine: SearchEngine, scopes: Sequence[str]) -> Reworded | None:
    """The question's text with its unknown words replaced, None if none can be. Words in the phrases and operators of
    `as_typed` stay. Raises `IndexUnavailableError`."""
    found = list(words_of(parsed, parsed.text, as_typed))
    if not any(word.unknown for word in found):
        return None
    glossaries = [glossary_of(language) for language in parsed.languages if language != DEFAULT_LANGUAGE]
    misspelt = _misspelt(found, glossaries)
    near = {word: _near_words(word, parsed.languages) for word in misspelt}
    terms = [term for word in found if word.unknown for term in word.terms]
    terms += [
        term for word in found if word.unknown for rest, _ in _rests(glossaries, word) for term in _terms_of(rest)
    ]
    terms += [term for word in misspelt for base in _bases(word) for term in _terms_of(base)]
    terms += [term for others in near.values() for of_it in others.values() for term in of_it]
    corpus = _Corpus(engine, tuple(scopes), parsed.languages, engine.entries_with(terms, scopes))
    changes = tuple(_changes(parsed.text, found, glossaries, near, corpus))
    if not changes:
        return None
    return Reworded(parsed.text, changes, tuple(_untranslated(found, changes, corpus)))


def _untranslated(
    found: Sequence[QuestionWord], changes: Sequence[TermChange], corpus: _Corpus
) -> list[tuple[int, int]]:
    """Spans of words beside translated ones that are stop words, or that no entry has; none if unknown words outnumber the
    others: then the question is about something else."""
    if not any(change.why is Why.TRANSLATION for change in changes):
        return []
    spans, unknown, known = [], 0, 0
    for word in found:
        is_changed = any(change.start <= word.start < change.end for change in changes)
        if is_changed or word.joined or (word.terms and (not word.unknown or corpus.knows(word))):
            known += 1
            continue
        unknown += bool(word.terms)
        spans.append((word.start, word.end))
    return spans if unknown <= known else []


# -- the words of a question


def words_of(parsed: ParsedQuery, text: str, as_typed: Question) -> Iterator[QuestionWord]:
    """The words of `text` that consist of letters, in order; no identifiers, and no words of phrases and operators."""
    typed = as_typed
    values = (*typed.phrases, *typed.title, *typed.excluded, *typed.tags, *typed.resources, *typed.categories)
    fixed = {word.casefold() for value in values for word in WORD.findall(value)}
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number == _READ_PIECES:
            return
        bare = piece.group().strip(_MARKS)
        joined = bool(_JOINED.fullmatch(bare))
        if len(bare) > LONGEST_WORD or not (joined or bare.isalpha()) or (is_identifier(bare) and not joined):
            continue
        for match in WORD.finditer(text, *piece.span()):
            word = match.group()
            if word.casefold() not in fixed:
                yield _word(match, parsed, joined=joined)


def _word(match: re.Match[str], parsed: ParsedQuery, *, joined: bool) -> QuestionWord:
    terms = words(match.group(), parsed.languages)
    first, of_it = next(iter(terms.items()), ("", ()))
    unknown = len(terms) == 1 and first in (parsed.unknown or ())
    return QuestionWord(match.start(), match.end(), match.group(), of_it, unknown, joined)


def _misspelt(found: Sequence[QuestionWord], glossaries: Sequence[Glossary]) -> list[str]:
    """The words that may be misspelt, the first `MAX_WORDS` of them."""
    some: dict[str, None] = {}
    for word in found:
        if word.unknown and not word.joined and _may_be_misspelt(word.text) and not _english(glossaries, [word]):
            some[word.text] = None
        if len(some) == MAX_WORDS:
            break
    return list(some)


def _may_be_misspelt(word: str) -> bool:
    plain = _plain(word)
    if not MIN_LETTERS <= len(plain) <= MAX_LETTERS or (word.isupper() and len(word) > 1):
        return False
    return bool(_ASCII_WORD.fullmatch(plain)) and plain not in KNOWN_BY[DEFAULT_LANGUAGE]


# -- replacements


class _Corpus(Struct, frozen=True):
    """The entries visible to the reader. `counts`: the number of entries with a term."""

    engine: SearchEngine
    scopes: tuple[str, ...]
    languages: tuple[str, ...]
    counts: Mapping[str, int]

    def knows(self, word: QuestionWord) -> bool:
        """True if an entry has the word after all: a search counts only entries that pass its filter."""
        return any(term in self.counts for term in word.terms)

    def with_known_rest(self, compounds: Iterable[tuple[str, str]]) -> str:
        """The first translation whose untranslated part an entry has."""
        return next((english for rest, english in compounds if any(one in self.counts for one in _terms_of(rest))), "")

    def correction(self, word: str, near: Mapping[str, tuple[str, ...]]) -> str:
        """The most frequent neighbour of a word that occurs in an entry, "" if none does: terms are stems, and a word that
        doesn't occur may have the stem of one that does. "" also for a derivation of a known word: `loader` isn't
        `loaded`."""
        if any(term in self.counts for base in _bases(word) for term in _terms_of(base)):
            return ""
        by_terms: dict[tuple[str, ...], list[str]] = {}
        for other, terms in near.items():
            by_terms.setdefault(terms, []).append(other)
        entries = {terms: max(self.counts.get(term, 0) for term in terms) for terms in by_terms}
        ranked = sorted((terms for terms in by_terms if entries[terms]), key=lambda of: -entries[of])
        written = (self._written(by_terms[terms]) for terms in ranked[:_TRIED])
        return next(filter(None, written), "")

    def _written(self, words_of_one_stem: Sequence[str]) -> str:
        """The word that occurs in most of the entries read."""
        where = SearchFilter(self.scopes)
        request = SearchRequest(where, words_of_one_stem[0], depth=_ENTRIES_READ, languages=self.languages)
        texts = [_plain(indexed.chunk.text) for indexed in self.engine.search(request).chunks.values()]
        having = {word: sum(_stands_in(text, word) for text in texts) for word in words_of_one_stem}
        best = max(having, key=lambda word: having[word])
        return best if having[best] else ""


def _changes(
    text: str,
    found: Sequence[QuestionWord],
    glossaries: Sequence[Glossary],
    near: Mapping[str, Mapping[str, tuple[str, ...]]],
    corpus: _Corpus,
) -> Iterator[TermChange]:
    """Replacements for parts of the text: phrases before words, translations before corrections."""
    unknown = [word.unknown and not corpus.knows(word) for word in found]
    corrections = {
        word.text: corpus.correction(word.text, near[word.text])
        for word, missing in zip(found, unknown, strict=True)
        if missing and word.text in near
    }
    longest = max((glossary.longest for glossary in glossaries), default=0)
    at = 0
    while at < len(found):
        some, after, why = found[at : at + 1], "", Why.TRANSLATION
        for count in range(min(longest, len(found) - at), 0, -1):
            if any(unknown[at : at + count]) and _is_one_run(text, found[at : at + count]):
                some = found[at : at + count]
                after = _english(glossaries, some)
                if after:
                    break
        if not after and unknown[at]:
            some, after = found[at : at + 1], corpus.with_known_rest(_rests(glossaries, found[at]))
        if not after and unknown[at]:
            some, after, why = found[at : at + 1], corrections.get(found[at].text, ""), Why.SPELLING
        start, end = some[0].start, some[-1].end
        before = " ".join(text[start:end].split())
        if after and after.casefold() != before.casefold():
            yield TermChange(start, end, before, after, why)
        at += len(some) if after else 1


def _plain(text: str) -> str:
    return folded(text.casefold())


def _stands_in(text: str, word: str) -> bool:
    return word in text and bool(re.search(rf"(?<![^\W\d_]){word}(?![^\W\d_])", text))


def _is_one_run(text: str, some: Sequence[QuestionWord]) -> bool:
    return all(_GAP.fullmatch(text, one.end, other.start) for one, other in pairwise(some))


def _english(glossaries: Sequence[Glossary], some: Sequence[QuestionWord]) -> str:
    return next(filter(None, (glossary.english([word.text for word in some]) for glossary in glossaries)), "")


def _rests(glossaries: Sequence[Glossary], word: QuestionWord) -> Iterator[tuple[str, str]]:
    for glossary in glossaries:
        yield from islice(glossary.with_rests(word.text), _RESTS)


def _terms_of(word: str) -> list[str]:
    return [term for terms in words(word).values() for term in terms]


def _bases(word: str) -> Iterator[str]:
    plain = _plain(word)
    return (plain.removesuffix(ending) for ending in _DERIVING if plain.endswith(ending))


def _near_words(word: str, languages: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Candidates for a misspelt word, with their terms; none if one of them is a stop word, as that may be meant, too."""
    near = {other: words(other, languages) for other in _near(_plain(word))}
    if not all(near.values()):
        return {}
    return {other: tuple(term for terms in of_it.values() for term in terms) for other, of_it in near.items()}


def _near(word: str) -> Iterator[str]:
    """Strings that are one edit away and begin with the same letter: transposition, deletion, insertion, substitution."""
    for at in range(1, len(word) - 1):
        if word[at] != word[at + 1]:
            yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at in range(1, len(word)):
        yield word[:at] + word[at + 1 :]
    for at in range(1, len(word) + 1):
        yield from (word[:at] + letter + word[at:] for letter in ascii_lowercase)
    for at in range(1, len(word)):
        yield from (word[:at] + letter + word[at + 1 :] for letter in ascii_lowercase if letter != word[at])
