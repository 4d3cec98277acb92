"""Which passages of a source file hold a definition or a call."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from opx.domain.documents import DocumentChunk
from opx.graph.extraction.code_reading import Definition

_WORD = re.compile(r"[^\W\d]\w*")
_HEADING = re.compile(r"^#{1,6} .*", re.MULTILINE)


class Places:
    """The words of passages, and which of them stand in headings: each class and function is a section under its
    signature."""

    def __init__(self, passages: Iterable[DocumentChunk]) -> None:
        self._ids: list[str] = []
        self._words: dict[str, set[int]] = defaultdict(set)
        self._headed: dict[str, set[int]] = defaultdict(set)
        for at, chunk in enumerate(passages):
            self._ids.append(chunk.chunk_id)
            for word in _WORD.findall(chunk.content):
                self._words[word].add(at)
            headings = " ".join((*chunk.section, *_HEADING.findall(chunk.content)))
            for word in _WORD.findall(headings):
                self._headed[word].add(at)

    def of_definition(self, definition: Definition) -> tuple[str, ...]:
        """The passage with its beginning; () if none has its name."""
        name = _word(definition.name)
        headed = self._headed.get(name, set())
        owner = self._headed.get(_word(definition.owner), set())
        for found in (headed & owner, headed, self._words.get(name, set())):
            if found:
                return (self._ids[min(found)],)
        return ()

    def of_use(self, definition: Definition, name: str) -> tuple[str, ...]:
        """Passages of a definition that have a name in them; its beginning if none has."""
        words = self._words.get(_word(name), set())
        caller = _word(definition.name)
        headed = self._headed.get(caller, set())
        owner = self._headed.get(_word(definition.owner), headed)
        for found in (words & headed & owner, words & headed, words & self._words.get(caller, set())):
            if found:
                return self._named(sorted(found))
        return self.of_definition(definition)

    def _named(self, places: Sequence[int]) -> tuple[str, ...]:
        return tuple(self._ids[at] for at in places[:3])


def _word(name: str) -> str:
    """What of a name is looked for: the last word of `Get-Item` and of `empty?`."""
    words = _WORD.findall(name)
    return words[-1] if words else ""
