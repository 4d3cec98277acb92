"""Known names, found in a text in one pass over its words.

Many services are called by everyday words: `search`, `orders`. Such a name counts only where the text shows that it is
one: alone in back quotes, next to a word for its kind (the orders service), or as the value of a field (app=orders).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from opx.domain.graph import node_type

_WORD = re.compile(r"[^\W_]+(?:[-_.@][^\W_]+)*")
_BETWEEN_WORDS = re.compile(r"[ \t/]+|[ \t]*\n[ \t]*")
_BESIDE = re.compile(r"[ \t]*[:=/]?[ \t]*[`\"'*]{0,3}[ \t]*\n?[ \t]*")
_PLAIN = re.compile(r"[^\W\d_]+\Z")
_INNER_CAPITAL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_SENTENCE_START = re.compile(r"(?:\A|[.!?:|>\n#*-])[\s*_`|#>-]*\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)*\Z")
_MIN_LETTERS = 3
_MAX_WORDS = 6

_KIND_WORDS = {
    "service": "service services svc app apps application component microservice deployment deploy deployments pod pods",
    "host": "host hosts hostname server servers node nodes machine instance vm",
    "alert": "alert alerts alarm alertname",
    "product": "product version package",
    "team": "team teams squad group oncall owner",
    "class": "class classes interface",
}
_KINDS = {kind: frozenset(words.split()) for kind, words in _KIND_WORDS.items()}
"""Words that say of a name beside them what it is a name of."""


@dataclass(frozen=True, slots=True)
class _Name:
    """`words` in lower case; `plain` if they might as well be a word of the language."""

    key: str
    type: str
    words: tuple[str, ...]
    plain: bool


_Word = re.Match[str]


class Dictionary:
    """Names by their first word: what is looked up is a word of the text, however many names there are."""

    def __init__(self) -> None:
        self._names: dict[str, list[_Name]] = defaultdict(list)
        self._keys: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self._keys:
                continue
            self._keys.add(key)
            for words in spellings(key):
                self._names[words[0]].append(_Name(key, node_type(key), words, _is_plain(words)))

    def found_in(self, text: str) -> list[str]:
        """The keys that the text names, each once, in its order."""
        words = list(_WORD.finditer(text))
        found: dict[str, None] = {}
        for at, word in enumerate(words):
            for name in self._names.get(word[0].lower(), ()):
                if name.key not in found and _stands(name, text, words, at):
                    found[name.key] = None
        return list(found)


def spellings(key: str) -> Iterator[tuple[str, ...]]:
    """The words that a thing is called by, in lower case: a product also without its vendor."""
    value = key.partition(":")[2]
    texts = [value]
    if node_type(key) == "product" and "/" in value:
        texts.append(value.rpartition("/")[2].replace("_", " "))
    for text in dict.fromkeys(texts):
        words = tuple(match[0].lower() for match in _WORD.finditer(text))
        if 0 < len(words) <= _MAX_WORDS:
            yield words


def _is_plain(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and (len(words[0]) < _MIN_LETTERS or words[0].isdecimal() or bool(_PLAIN.match(words[0])))


def _stands(name: _Name, text: str, words: list[_Word], at: int) -> bool:
    """Whether the words from there are this name, used as one."""
    last = at + len(name.words) - 1
    if last >= len(words) or any(words[at + n][0].lower() != one for n, one in enumerate(name.words)):
        return False
    if any(not _BETWEEN_WORDS.fullmatch(text, words[n].end(), words[n + 1].start()) for n in range(at, last)):
        return False
    start, end = words[at].start(), words[last].end()
    if not name.plain and name.type != "class":
        return True
    return not _is_part_of_path(text, start, end) and _shown(name, text, words, (at, last), (start, end))


def _shown(name: _Name, text: str, words: list[_Word], span: tuple[int, int], place: tuple[int, int]) -> bool:
    """Whether the text shows that a plain word is a name."""
    (at, last), (start, end) = span, place
    if text[start - 1 : start] == "`" and text[end : end + 1] == "`":
        return True
    if name.type != "class" and _INNER_CAPITAL.search(words[at][0]):
        return True
    if _beside(name, text, words, at, last):
        return True
    return name.type == "product" and _is_proper(text, words, at, last)


def _beside(name: _Name, text: str, words: list[_Word], at: int, last: int) -> bool:
    kinds = _KINDS.get(name.type, frozenset())
    before = words[at - 1] if at else None
    if before and before[0].lower() in kinds and _BESIDE.fullmatch(text, before.end(), words[at].start()):
        # "this service orders" would be a verb; a colon, a quote or a slash makes it a name
        return not text[before.end() : words[at].start()].isspace() or before[0].lower() not in ("service", "app")
    after = words[last + 1] if last + 1 < len(words) else None
    return bool(
        after
        and after[0].lower() in kinds
        and re.fullmatch(r"[`*\"]{0,3}[ \t]+", text[words[last].end() : after.start()])
    )


def _is_proper(text: str, words: list[_Word], at: int, last: int) -> bool:
    """A product with its version, or with a capital where no sentence begins."""
    after = words[last + 1][0] if last + 1 < len(words) else ""
    if _VERSION.match(after) and text[words[last].end() : words[last + 1].start()] == " ":
        return True
    start = words[at].start()
    return words[at][0][:1].isupper() and not _SENTENCE_START.search(text, max(0, start - 40), start)


def _is_part_of_path(text: str, start: int, end: int) -> bool:
    """Within a path, a variable or an option it is a name of something else."""
    return text[end : end + 1] == "/" or text[start - 1 : start] in ("\\", "$", "%", "-")
