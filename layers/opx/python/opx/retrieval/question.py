"""Represents a parsed question with its identifiers, phrases and filters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache, lru_cache
from itertools import chain, islice
from typing import Any

from msgspec import Struct, field

from opx.domain.ids import day_text, shortened
from opx.domain.record import replace
from opx.hygiene.invisible import blanked
from opx.ports import SearchFilter
from opx.text.analyzer import STEMMERS, STOP_WORDS
from opx.text.analyzer import folded as without_accents
from opx.text.fields import query_terms, words

# -- identifiers: names and codes that a person copied, and searches verbatim

MAX_IDENTIFIERS = 32
_LONGEST = 200
_MOST_WORDS = 2_000

_BREAKS = re.compile(r"[\s\"'`()\[\]{}<>,;|=«»“”„‘’]+")
_ENDS = ".:!?…*"
_WHOLE = re.compile(
    r"\bHTTP(?:/[\d.]+)? [1-5](?:\d\d|xx)\b|\b[a-z][a-z0-9+.-]{0,20}://[^\s\"'<>()]+(?<![.,;:!?])", re.IGNORECASE
)

_LETTER = r"[^\W\d_]"
_WORD = r"[^\W_]+"
_FORMS = {
    "arn": r"arn:aws[\w-]*(?::[^:]*){3}:\S+",
    "path": r"(?:~|\.{1,2})?(?:/[\w.@+%*-]+)+/?|[A-Za-z]:\\\S+|\\\\\S+",
    "ip": r"\d{1,3}(?:\.\d{1,3}){3}(?:[/:]\d+)?|(?=\S*::|(?:\S*:){7})[0-9a-f:]{3,39}(?:/\d+)?",
    "version": r"[vV]?\d+(?:\.\d+)+(?:[-+.]?[a-z]+[\w.-]*)?|[vV]\d+",
    "hexadecimal": r"0x[0-9a-f]{2,}|(?=\S*\d)(?=\S*[a-f])[0-9a-f]{7,64}",
    "code": rf"[A-Z]{{1,12}}-?\d{{2,}}[A-Z0-9]*(?:[-.]\w+)*|[A-Z]{{2,}}(?:_[A-Z0-9]+)+|{_LETTER}+-\d{{2,}}(?:-\d+)*",
    "dotted": rf"(?=\S*{_LETTER}{{2}}){_WORD}(?:(?:\.|::){_LETTER}[\w-]+)+(?::\d+)*",
    "joined": rf"(?=\S*{_LETTER})_*{_WORD}(?:[_-]+{_WORD}(?:\.\d+)*)+_*|_+{_LETTER}\w+",
    "mixed case": r"_*[a-z][a-z0-9]*[A-Z]\w*|_*(?:[A-Z][a-z0-9]+){2,}[A-Z]*|[A-Z]{2,}[a-z]\w*|[A-Z]+[a-z]+[A-Z]\w*",
    "with digits": r"[A-Za-z]+\d\w*",
}
_IDENTIFIER = re.compile("|".join(f"(?:{form})" for form in _FORMS.values()))
_LOWER_CASE = re.compile("|".join(f"(?:{_FORMS[name]})" for name in ("arn", "ip", "hexadecimal")))


def identifiers(text: str) -> tuple[str, ...]:
    """The distinct identifiers in `text`, in order, as they are written; `MAX_IDENTIFIERS` at most.

    Addresses, ARNs, paths, IPs, versions, error codes and numbers of issues (CVE-2024-3094, ORA-01555, 0x80070005,
    HTTP 503), names of several words (moduleControllerCreate, KubePodCrashLooping, hook.player.connected, kube-proxy,
    snake_case), names with digits (eth0). A hyphenated word of plain English counts as one too: it is searched as one.
    """
    found: dict[str, None] = {}
    if "://" in text or "http" in text.lower():
        found = dict.fromkeys(_WHOLE.findall(text)[:MAX_IDENTIFIERS])
        text = _WHOLE.sub(" ", text)
    for piece in dict.fromkeys(_BREAKS.split(text, _MOST_WORDS)[:_MOST_WORDS]):
        if len(found) == MAX_IDENTIFIERS:
            break
        word = piece.rstrip(_ENDS).lstrip(_ENDS.replace(".", ""))
        if 2 <= len(word) <= _LONGEST and is_identifier(word):
            found[word] = None
    return tuple(found)


def is_identifier(word: str) -> bool:
    """True if a word without blanks is a name or code."""
    if word.isalpha() and (word.islower() or word.istitle() or word.isupper()):
        return False
    return (_known_form if len(word) <= _LONGEST_KEPT else _has_form)(word)


def _has_form(word: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(word) or _LOWER_CASE.fullmatch(word.lower()))


_LONGEST_KEPT = 64
_known_form = lru_cache(16_384)(_has_form)


# -- the question without its values: pod names, percentages, durations
#
# Alerts are full of them. They identify the location of a problem, not the problem, so their words count less, and titles
# and pairs of words are compared without them.

_SHELL = ".,:;()[]{}%\"'`"
_DIGIT = re.compile(r"\d")
_MEANT = re.compile(
    r"[A-Za-z]+\d{1,3}|[1-5][xX]{2}|[1-5]\d\d|v\d[\d.]*|\d+[A-Za-z]{3,}\w*|\w*_\w*|[A-Z]{2,}-\d+(?:-\d+)*"
)
"""Words with digits that aren't values: IPv4, p99, 5xx, 503, v1.2, 3scale, api_v1_push, ORA-01555."""

LEAST_WORDS = 3
"""Fewest words after the removal of values; a question that would have fewer is unchanged."""


def focused(text: str) -> str:
    """Removes values from the text: words with digits, and `namespace/name` pairs.

    Codes, versions, and identifiers with underscores are kept. A question that is hardly more than its values is
    unchanged.
    """
    split = text.split()
    kept = [word for word in split if not _is_value(word.strip(_SHELL))]
    return " ".join(kept) if LEAST_WORDS <= len(kept) < len(split) else text


def value_words(text: str, languages: Sequence[str]) -> frozenset[str]:
    """The words that only the values of `text` have, by their first term."""
    rest = focused(text)
    return frozenset() if rest == text else frozenset(words(text, languages)).difference(words(rest, languages))


def _is_value(word: str) -> bool:
    if "/" in word and "://" not in word and not word.startswith("/"):
        return True
    return bool(_DIGIT.search(word)) and not _MEANT.fullmatch(word)


# -- phrases: comparison with text, and the terms that every text with a phrase has

TermGroups = tuple[tuple[str, ...], ...]
"""Groups of alternative terms: at least one of each group is required."""

_RUN = re.compile(r"[^\W_]+(?:[._\-'’]+[^\W_]+|_+[^\W_]+)*")
_PIECE = re.compile(r"[^\W_]+")
_ALIKE = str.maketrans("‘’‚‛′“”„‟″«»‐‑‒–—−", "'''''" + '"""""""' + "------", "*`")
"""Typographic and Markdown marks, with the plain ones."""


def folded(text: str) -> str:
    """Normalises text for comparison with phrases: NFKC, without case, invisible characters and marks of emphasis, with
    plain quotes and dashes, and one blank for each run of white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", blanked(text))
    return " ".join(text.translate(_ALIKE).casefold().split())


folded_phrase = lru_cache(256)(folded)


def contains(text: str, phrase: str) -> bool:
    """True if folded text contains a folded phrase as consecutive whole words."""
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        end = at + len(phrase)
        if not (at and _joined(text[at - 1], text[at])) and not (end < len(text) and _joined(text[end - 1], text[end])):
            return True
        at = text.find(phrase, at + 1)
    return False


def required_groups(phrase: str) -> TermGroups:
    """Terms that every text with this phrase has, whatever its case and whatever is joined to its ends.

    Hence the pieces of compounds and not the compounds: `player.connected` is part of `hook.player.connected`. Words that
    are stop words, or split differently, in some language are required only if there are no others.
    """
    required: dict[tuple[str, ...], None] = {}
    unsure: dict[tuple[str, ...], None] = {}
    for part in chain.from_iterable(map(_parts, _RUN.findall(folded(phrase)))):
        (unsure if _is_unsure(part) else required).update(dict.fromkeys(words(part).values()))
    return tuple(required or unsure)


def whole_terms(word: str) -> tuple[str, ...]:
    """The terms that only texts with this word have, in any of its forms: for a compound, not those of its pieces."""
    return tuple(query_terms("".join(_PIECE.findall(folded(word)))))


def _parts(run: str) -> list[str]:
    pieces = _PIECE.findall(run)
    whole = "'" in run or all(piece.isdigit() for piece in pieces)
    return [run] if whole else pieces


def _is_unsure(part: str) -> bool:
    return "'" in part or (len(part) == 1 and _is_unspaced(part)) or without_accents(part) in _stop_words()


@cache
def _stop_words() -> frozenset[str]:
    """Stop words of all languages that text is analysed in."""
    return frozenset(without_accents(word) for language in STEMMERS for word in STOP_WORDS[language])


def _joined(one: str, other: str) -> bool:
    """True if two adjacent characters belong to one word."""
    return _is_of_word(one) and _is_of_word(other)


def _is_of_word(character: str) -> bool:
    return (character.isalnum() or character == "_") and not _is_unspaced(character)


def _is_unspaced(character: str) -> bool:
    """True for scripts without blanks between words: East and South-East Asian ones."""
    code = ord(character)
    return code >= 0x2E80 or 0x0E00 <= code < 0x0F00 or 0x1000 <= code < 0x10A0 or 0x1780 <= code < 0x1800


# -- the question

MAX_GROUPS = 100
"""Required groups of a search, as engines limit its conditions; `matches` checks all of them."""

_SHOWN_CHARACTERS = 200
_SHOWN_VALUES = 10


class Question(Struct, frozen=True):
    """A parsed question: the words to search (`text`), and conditions on each result.

    A result has every one of `phrases` in its title, section or content, every word of `title` in its title, none of
    `excluded` (words and phrases) anywhere; it has one of `tags`, one of `resources`, is in one of `categories` (paths,
    with all that is below those that were named) and of one of `tiers`; it was updated from the day `updated_from` on
    and before the day `updated_before` (counted from 1970-01-01). Empty or None means no condition. `title` holds words and
    phrases.

    `identifiers` are the names and codes in `text`, as they were written. `notes` list text that looked like an operator
    and isn't one, and conditions that exclude each other: then `impossible` is true, and nothing can be found. `plain`:
    operators were not parsed; `pasted`: it looks like a log or code, in which quotes and dashes are no operators. `alert` is
    the name of a pasted alert, with its `labels`, which are not among the question's words, and the address or the name of
    its `runbook`, "" for none. `about` are the resources that the labels name.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    title: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    updated_from: int | None = None
    updated_before: int | None = None
    identifiers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    impossible: bool = False
    plain: bool = False
    pasted: bool = False
    alert: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    runbook: str = ""
    about: tuple[str, ...] = ()

    @property
    def narrows(self) -> bool:
        """True if it has any condition beside words."""
        conditions = (*self.phrases, *self.excluded, *self.title, *self.tags, *self.resources)
        bounds = (self.updated_from, self.updated_before)
        return bool(conditions or self.categories or self.tiers) or any(bound is not None for bound in bounds)

    @property
    def exact(self) -> bool:
        """True if results have to be checked with `matches`."""
        return bool(self.phrases or self.excluded or self.title)

    def narrowed(self, where: SearchFilter) -> SearchFilter | None:
        """The conjunction of a filter and the question's conditions; None if nothing can pass. Never wider than `where`."""
        if self.impossible:
            return None
        tiers, categories = _both(where.tiers, self.tiers), _both(where.categories, self.categories)
        if tiers is None or categories is None:
            return None
        first = [day for day in (where.updated_from, self.updated_from) if day is not None]
        end = [day for day in (where.updated_before, self.updated_before) if day is not None]
        if first and end and max(first) >= min(end):
            return None
        return replace(
            where,
            tiers=tiers,
            categories=categories,
            tags=where.tags or self.tags,
            also_tags=self.tags if where.tags else (),
            resources=where.resources or self.resources,
            also_resources=self.resources if where.resources else (),
            updated_from=max(first, default=None),
            updated_before=min(end, default=None),
            title_terms=_groups(self.title),
            required_terms=_groups(self.phrases),
            excluded_terms=tuple(
                term for words in self.excluded if len(words.split()) == 1 for term in whole_terms(words)
            ),
        )

    def matches(self, title: str, section: Sequence[str], content: str) -> bool:
        """True if a result has each phrase, those of `title` in its title, and nothing excluded.

        Words are compared after `folded`, each part of the result separately. Other words of `title` are left to the index,
        which knows their forms.
        """
        texts = [folded(text) for text in (title, *section, content)]
        return (
            all(_any_has(texts, phrase) for phrase in self.phrases)
            and all(_any_has(texts[:1], phrase) for phrase in self.title if " " in phrase)
            and not any(_any_has(texts, phrase) for phrase in self.excluded)
        )

    def relaxed(self) -> Question:
        """The same question with its phrases as words, for when nothing contains them, and a note."""
        if not self.phrases:
            return self
        shown = ", ".join(f'"{_cut(phrase)}"' for phrase in self.phrases[:_SHOWN_VALUES])
        note = f"no passage that came near has exactly {shown}: the words were searched"
        return replace(self, phrases=(), notes=(*self.notes, note))

    @property
    def understood(self) -> dict[str, Any]:
        """The parsed question as small JSON, without empty values, with long ones cut."""
        lists = {
            "phrases": self.phrases,
            "excluded": self.excluded,
            "title": self.title,
            "tags": self.tags,
            "resources": self.resources,
            "categories": self.categories,
            "tiers": self.tiers,
            "identifiers": self.identifiers,
        }
        days = {"updatedFrom": self.updated_from, "updatedBefore": self.updated_before}
        alert = (
            {"alert": _cut(self.alert), "labels": dict(islice(self.labels.items(), _SHOWN_VALUES))}
            if self.alert
            else {}
        )
        flags = {"plain": self.plain, "pasted": self.pasted, "impossible": self.impossible}
        return {
            "text": _cut(self.text),
            **{name: [_cut(value) for value in values[:_SHOWN_VALUES]] for name, values in lists.items() if values},
            **{name: day_text(day) for name, day in days.items() if day is not None},
            **{name: value for name, value in flags.items() if value},
            **alert,
        }


def _both(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...] | None:
    """Intersection of two filters, of which an empty one means everything; None if it is empty."""
    if not (one and other):
        return one or other
    return tuple(value for value in one if value in other) or None


def _groups(texts: Sequence[str]) -> TermGroups:
    return tuple(dict.fromkeys(group for text in texts for group in required_groups(text)))[:MAX_GROUPS]


def _any_has(texts: Sequence[str], phrase: str) -> bool:
    wanted = folded_phrase(phrase)
    return any(contains(text, wanted) for text in texts)


def _cut(text: str) -> str:
    return shortened(text, _SHOWN_CHARACTERS)


# -- rewording: unknown words, corrected or translated


class Why(StrEnum):
    SPELLING = "spelling"
    TRANSLATION = "translation"
    LEARNT = "learnt"


class TermChange(Struct, frozen=True):
    """A part of a question, by its first character and the one after it, with the text searched instead, or if learnt,
    in addition."""

    start: int
    end: int
    before: str
    after: str
    why: Why

    def to_json(self) -> dict[str, str]:
        return {"from": self.before, "to": self.after, "why": self.why.value}
