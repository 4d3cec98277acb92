"""What an agent searches log lines for: words and phrases, and no query language.

Nothing of it can become a command of the store's language, as no store is given the text: words are all it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from opx.errors import InvalidInputError

EVERYTHING = "*"
MOST_WORDS = 10

_TERM = re.compile(r'(?P<minus>-)?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
_PLAIN = re.compile(r"[A-Za-z0-9_\- ]+\Z")


@dataclass(frozen=True, slots=True)
class Words:
    """A line fits if all of `wanted` and none of `unwanted` are in it, whatever the case and the spaces between."""

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()

    def fit(self, line: str) -> bool:
        text = _folded(line)
        return all(_folded(word) in text for word in self.wanted) and not any(
            _folded(word) in text for word in self.unwanted
        )

    @property
    def are_plain(self) -> bool:
        """Whether there is nothing in them that a store may take for any character."""
        return all(_PLAIN.match(word) for word in self.wanted)


def read_words(text: str) -> Words:
    """`timeout "connection reset" -healthcheck` as words. Raises `InvalidInputError` for what can't be searched for."""
    if text.strip() == EVERYTHING:
        return Words()
    if text.count('"') % 2:
        raise InvalidInputError('query has a " without its other one')
    wanted: list[str] = []
    unwanted: list[str] = []
    for term in _TERM.finditer(text):
        word = " ".join((term["phrase"] if term["phrase"] is not None else term["word"]).split())
        _check(word, excluded=bool(term["minus"]))
        (unwanted if term["minus"] else wanted).append(word)
    if not 1 <= len(wanted) + len(unwanted) <= MOST_WORDS:
        raise InvalidInputError(f"query must have 1 to {MOST_WORDS} words and phrases, or be * alone for every line")
    return Words(tuple(wanted), tuple(unwanted))


def _check(word: str, *, excluded: bool) -> None:
    if not any(character.isascii() and character.isalnum() for character in word):
        raise InvalidInputError(f"{word[:60]!r} can't be searched for: a word needs a letter (a-z) or a digit")
    if excluded and not _PLAIN.match(word):
        raise InvalidInputError(f"-{word[:60]} can't be left out: such a word has letters (a-z), digits, _ and - only")


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
