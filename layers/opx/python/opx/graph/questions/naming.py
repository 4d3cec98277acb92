"""What a question names: references as they stand, identifiers, and words that may be the name of a service or such."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from opx.graph.extraction.references import has_namespace, made, of_shape, read

if TYPE_CHECKING:
    from opx.graph.knowledge_graph import KnowledgeGraph

MAX_CANDIDATES = 60
"""References that are looked up for one question, in each scope that the reader sees."""

_MAX_WORDS = 40
_WORD = re.compile(r"[^\s,;!?()\[\]{}\"'`<>|“”„‘’]+")
_ENDS = ".:/-_"
_POSSESSIVE = re.compile(r"['’]s?\Z")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+\Z|[\w-]+\.[a-z]{1,5}\Z")
_WORDS = """
    a about after all an and any are as at be been before behind between breaks but by came can changed change changes
    could cover covers depend depends did do does down during every everything fails fires for from goes had handles has
    have how i if in into is it its last least made me my need no not of off on one or our out over per run runbook
    runbooks runs service services shall should since so team than that the their them then there these they this those
    to today until up upstream us version was we were what when where which while who whose why will with within would
    yesterday you
"""
"""Words of questions that are hardly the name of something."""

_COMMON = frozenset(_WORDS.split())


def candidates(text: str, identifiers: Sequence[str] = ()) -> list[str]:
    """References that the text may name, the likeliest first, at most `MAX_CANDIDATES`.

    What is written as a reference, then codes by their shape (CVE-2024-3094, INC-12), then other names: in CamelCase an
    alert, a path a file, with digits a host; and each word and pair of words a service, a product or a team.
    """
    words = [word for word in map(_bare, _WORD.findall(text)[: 4 * _MAX_WORDS]) if word][:_MAX_WORDS]
    names = dict.fromkeys((*words, *identifiers))
    found = dict.fromkeys(read(name, "") for name in names if has_namespace(name))
    found.update(dict.fromkeys(map(of_shape, names)))
    found.update(dict.fromkeys(key for name in names for key in _by_look(name)))
    plain = [word for word in words if word.casefold() not in _COMMON and len(word) > 1 and not has_namespace(word)]
    for namespace in ("service", "product", "team"):
        found.update(dict.fromkeys(made(namespace, name) for name in _joined(plain, words)))
    found.pop("", None)
    return list(found)[:MAX_CANDIDATES]


def named(graph: KnowledgeGraph, text: str, identifiers: Sequence[str] = ()) -> list[str]:
    """What the text names of what is in the reader's graph, by canonical references, the likeliest first. Raises
    `StoreUnavailableError`."""
    return list(dict.fromkeys(graph.existing(candidates(text, identifiers)).values()))


def _bare(word: str) -> str:
    return _POSSESSIVE.sub("", word).strip(_ENDS)


def _by_look(name: str) -> Iterator[str]:
    if has_namespace(name):
        return
    if _CAMEL.search(name) and "/" not in name:
        yield made("alert", name)
        yield made("class", name)
    if _PATH.match(name):
        yield made("file", name)
        yield made("runbook", name)
    if any(character.isdigit() for character in name) and not name.isdigit():
        yield made("host", name)


def _joined(plain: Sequence[str], words: Sequence[str]) -> Iterable[str]:
    """Each word, and neighbours as one name: `freight desk` may be `freight-desk`."""
    yield from plain
    known = set(plain)
    yield from (f"{one}-{two}" for one, two in pairwise(words) if one in known and two in known)
