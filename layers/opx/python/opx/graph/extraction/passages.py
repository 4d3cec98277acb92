"""Passages of a document for the rules: with whole lines, and looked through for names.

Windows over long sections overlap, and begin and end where their tokens are full.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from opx.domain.documents import DocumentChunk
from opx.domain.record import replace

MAX_LINE = 16_384
"""Characters of the longest line that is put together again."""

MAX_PASSAGES = 20
"""Chunk ids that are kept of a statement, the first ones."""

Pair = tuple[str, str]

_WORD = re.compile(r"\w+")


def whole_lines(passages: Iterable[DocumentChunk]) -> Iterator[DocumentChunk]:
    """The same passages in their order, each with the lines that begin in it and in none before. A line of over `MAX_LINE`
    characters stays in parts."""
    held: list[tuple[DocumentChunk, str]] = []
    end = -1
    for chunk in passages:
        known = end - chunk.start
        follows = 0 <= known <= len(chunk.content) and bool(held)
        fresh = chunk.content[known:] if follows else chunk.content
        end = chunk.start + len(chunk.content)
        if follows and (size := _open_line(held[0][1])):
            rest = fresh[: fresh.find("\n") + 1] or fresh
            if size + len(rest) <= MAX_LINE:
                held[0] = held[0][0], held[0][1] + rest
                fresh = fresh[len(rest) :]
                if not rest.endswith("\n"):
                    held.append((chunk, fresh))
                    continue
        yield from _read(held)
        held = [(chunk, fresh)]
    yield from _read(held)


def _open_line(text: str) -> int:
    """How many characters the last line has, if it isn't at its end."""
    return len(text) - text.rfind("\n") - 1


def _read(held: list[tuple[DocumentChunk, str]]) -> Iterator[DocumentChunk]:
    for chunk, text in held:
        yield chunk if text == chunk.content else replace(chunk, content=text)


class Naming:
    """Looks for names in passages, each as whole words in any case, and for pairs of them.

    The names are by reference. They are looked up by their longest word: what a passage costs grows with what it names,
    and not with how many there are.
    """

    def __init__(self, names: Mapping[str, str], pairs: Iterable[Pair]) -> None:
        self._by_word: dict[str, list[tuple[str, str]]] = {}
        self._others: dict[str, set[str]] = {}
        self._found: dict[str | Pair, list[str]] = {}
        for key, name in names.items():
            folded = name.casefold()
            words = _WORD.findall(folded)
            if words:
                self._by_word.setdefault(max(words, key=len), []).append((key, folded))
        for one, other in pairs:
            self._others.setdefault(one, set()).add(other)

    def read(self, passage: DocumentChunk) -> None:
        """Note what this passage names. The document's title doesn't count: all of its passages have it."""
        if not self._by_word:
            return
        text = "\n".join((*passage.section, passage.content)).casefold()
        words = self._by_word.keys() & set(_WORD.findall(text))
        named = {key for word in words for key, name in self._by_word[word] if has_words(text, name)}
        for key in named:
            self._note(key, passage.chunk_id)
            for other in self._others.get(key, set()) & named:
                self._note((key, other), passage.chunk_id)

    def _note(self, what: str | Pair, chunk_id: str) -> None:
        ids = self._found.setdefault(what, [])
        if len(ids) < MAX_PASSAGES:
            ids.append(chunk_id)

    def of(self, *what: str | Pair) -> tuple[str, ...]:
        """The first passages that name it; if none does, those of what is given next."""
        return next((tuple(self._found[one]) for one in what if one in self._found), ())


def has_words(text: str, name: str) -> bool:
    """Whether the name is in the text and not within a longer one: `checkout` isn't in `checkout-edge`."""
    at = text.find(name)
    while at >= 0:
        if not (_goes_on(text[at - 1 : at]) or _goes_on(text[at + len(name) : at + len(name) + 1])):
            return True
        at = text.find(name, at + 1)
    return False


def _goes_on(character: str) -> bool:
    return character.isalnum() or character in ("_", "-")
