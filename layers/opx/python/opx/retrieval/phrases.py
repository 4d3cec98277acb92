"""Exact words: how a phrase is compared with a text, and which terms a text that holds it must have."""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from itertools import chain

from opx.hygiene.invisible import blanked
from opx.text.analyzer import STEMMERS
from opx.text.analyzer import folded as without_accents
from opx.text.fields import query_terms, words
from opx.text.vocabulary import STOP_WORDS

TermGroups = tuple[tuple[str, ...], ...]
"""Of each group, one term at least."""

_RUN = re.compile(r"[^\W_]+(?:[._\-'’]+[^\W_]+|_+[^\W_]+)*")
_PIECE = re.compile(r"[^\W_]+")
_ALIKE = str.maketrans("‘’‚‛′“”„‟″«»‐‑‒–—−", "'''''" + '"""""""' + "------", "*`")
"""Marks that typographers and Markdown put where others type a plain one, or none."""


def folded(text: str) -> str:
    """`text` as phrases are compared with it: NFKC, without case, invisible characters and marks of emphasis, with plain
    quotes and dashes, and one blank for each run of white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", blanked(text))
    return " ".join(text.translate(_ALIKE).casefold().split())


folded_phrase = lru_cache(256)(folded)


def contains(text: str, phrase: str) -> bool:
    """Whether a folded text has a folded phrase as whole words, one after the other."""
    at = text.find(phrase) if phrase else -1
    while at >= 0:
        end = at + len(phrase)
        if not (at and _joined(text[at - 1], text[at])) and not (end < len(text) and _joined(text[end - 1], text[end])):
            return True
        at = text.find(phrase, at + 1)
    return False


def required_groups(phrase: str) -> TermGroups:
    """What any text with this phrase has among its terms, however it writes case and whatever it joins to its ends.

    Hence the pieces of compounds and not the compounds: `player.connected` is part of `hook.player.connected`. Words that
    texts of some language leave out, or cut up in another way, are required only if there are no others.
    """
    required: dict[tuple[str, ...], None] = {}
    unsure: dict[tuple[str, ...], None] = {}
    for part in chain.from_iterable(map(_parts, _RUN.findall(folded(phrase)))):
        (unsure if _is_unsure(part) else required).update(dict.fromkeys(words(part).values()))
    return tuple(required or unsure)


def whole_terms(word: str) -> tuple[str, ...]:
    """The terms that only texts with this very word have, in any of its forms: of a compound, not those of its pieces."""
    return tuple(query_terms("".join(_PIECE.findall(folded(word)))))


def _parts(run: str) -> list[str]:
    pieces = _PIECE.findall(run)
    whole = "'" in run or all(piece.isdigit() for piece in pieces)
    return [run] if whole else pieces


def _is_unsure(part: str) -> bool:
    return "'" in part or (len(part) == 1 and _is_unspaced(part)) or without_accents(part) in _stop_words()


@cache
def _stop_words() -> frozenset[str]:
    """Of every language that texts are analysed in."""
    return frozenset(without_accents(word) for language in STEMMERS for word in STOP_WORDS[language])


def _joined(one: str, other: str) -> bool:
    """Whether two characters side by side belong to one word."""
    return _is_of_word(one) and _is_of_word(other)


def _is_of_word(character: str) -> bool:
    return (character.isalnum() or character == "_") and not _is_unspaced(character)


def _is_unspaced(character: str) -> bool:
    """Whether it is of a writing that puts no blanks between words: East and South-East Asian ones."""
    code = ord(character)
    return code >= 0x2E80 or 0x0E00 <= code < 0x0F00 or 0x1000 <= code < 0x10A0 or 0x1780 <= code < 0x1800
