"""Which passages name a thing."""

from __future__ import annotations

import re
from collections.abc import Mapping

from opx.domain.documents import DocumentChunk

MAX_PASSAGES = 20
"""Chunk ids that are kept of a statement, the first ones."""

_WORD = re.compile(r"\w+")


class Naming:
    """Looks for names in passages, each as whole words in any case. The names are looked up by their longest word: what a
    passage costs doesn't grow with how many there are."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._by_word: dict[str, list[tuple[str, str]]] = {}
        self._found: dict[str, list[str]] = {}
        for key, name in names.items():
            folded = name.casefold()
            words = _WORD.findall(folded)
            if words:
                self._by_word.setdefault(max(words, key=len), []).append((key, folded))

    def read(self, passage: DocumentChunk) -> None:
        """Note what this passage names. The document's title doesn't count: all of its passages have it."""
        if not self._by_word:
            return
        text = "\n".join((*passage.section, passage.content)).casefold()
        for word in self._by_word.keys() & set(_WORD.findall(text)):
            for key, name in self._by_word[word]:
                ids = self._found.setdefault(key, [])
                if len(ids) < MAX_PASSAGES and has_words(text, name):
                    ids.append(passage.chunk_id)

    def of(self, key: str) -> tuple[str, ...]:
        """The first passages that name it."""
        return tuple(self._found.get(key, ()))

    def of_edge(self, near: str, far: str) -> tuple[str, ...]:
        """The first passages that name both ends, or else the far one, or else the near one."""
        both = set(self.of(near))
        return tuple(chunk for chunk in self.of(far) if chunk in both) or self.of(far) or self.of(near)


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
