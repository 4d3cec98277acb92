"""What the rules of extraction are given: a document, and its passages one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import BinaryIO

from opx.domain.documents import MAX_REMARKS, DocumentChunk, KnowledgeDocument, Remark, RemarkKind, bounded
from opx.domain.graph import EdgeName, EdgeStatement, NodeStatement, Value, node_type
from opx.domain.record import replace
from opx.graph.versions import several, union

Statement = NodeStatement | EdgeStatement

Facts = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Material:
    """A document that was read. `own` is the reference of what it is about; `facts` are the fields of its metadata that
    mean nothing to the catalog, as lists of texts without secrets; `open` gives the object's bytes as they are."""

    document: KnowledgeDocument
    own: str
    facts: Facts
    open: Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(slots=True)
class Findings:
    """What the rules have found since it was last looked at; a rule adds to it."""

    statements: list[Statement] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    """Other names of things, each before the reference of the thing; all are references."""
    notes: dict[str, str] = field(default_factory=dict)
    """What a rule that reads passages wants to know when it reads the next one."""

    def add(self, *statements: Statement) -> None:
        self.statements.extend(statements)


DocumentRule = Callable[[Material, Findings], None]
"""Reads the metadata, or the object as a whole. Where its statements have no passages, those that name the thing (of an
edge: both ends, or else the one that the document isn't about, or else its source) are looked for, and the first passage
stands for the document if there are none."""

ChunkRule = Callable[[Material, DocumentChunk, Findings], None]
"""Reads one passage, and gives it as evidence of each of its statements. It is given each line once and whole, with the
first passage that it begins in: see `whole_lines`."""

Passages = Callable[[], Iterable[DocumentChunk]]
"""The passages of a document, from the first one, each time it is called."""

PassagesRule = Callable[[Material, Passages, Findings], None]
"""Reads all passages together, and gives the evidence of its statements itself."""


# -- gathering


MAX_EDGES = 5_000
MAX_NODES = 5_000
"""Of one document, the ends of its edges not counted. What is beyond is left out, and a remark says so."""

VERSIONS = "versions"
"""The property with ranges of versions: what several passages say of it counts together."""

VERSION = "version"
"""The property with what runs, which may be several versions at a time."""

MAX_ALIASES = 100
"""Of one document."""

_MAX_NOTED = 100 * MAX_REMARKS


class Gathered:
    """Statements in the order in which they were found first."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeStatement] = {}
        self.edges: dict[EdgeName, EdgeStatement] = {}
        self.aliases: dict[tuple[str, str], None] = {}
        self._remarks: dict[Remark, None] = {}
        self._beyond: set[str] = set()

    @property
    def is_full(self) -> bool:
        """Whether there are more relations than are kept."""
        return "relations" in self._beyond

    def take(self, findings: Findings) -> None:
        """Add what was found, and forget it there."""
        for one in findings.statements:
            if isinstance(one, EdgeStatement):
                self._add_edge(one)
            else:
                self.add_node(one)
        for remark in findings.remarks:
            if len(self._remarks) < _MAX_NOTED:
                self._remarks[remark] = None
        for alias in findings.aliases:
            if len(self.aliases) < MAX_ALIASES or alias in self.aliases:
                self.aliases[alias] = None
            else:
                self._beyond.add("aliases")
        findings.statements.clear()
        findings.remarks.clear()
        findings.aliases.clear()

    def add_node(self, one: NodeStatement) -> None:
        known = self.nodes.get(one.key)
        if known is not None:
            self.nodes[one.key] = _with(known, one)
        elif len(self.nodes) < MAX_NODES:
            self.nodes[one.key] = replace(one, chunk_ids=one.chunk_ids[:MAX_PASSAGES])
        else:
            self._beyond.add("things")

    def _add_edge(self, one: EdgeStatement) -> None:
        known = self.edges.get(one.name)
        if known is not None:
            self.edges[one.name] = _surest(known, one)
        elif len(self.edges) < MAX_EDGES:
            self.edges[one.name] = replace(one, chunk_ids=one.chunk_ids[:MAX_PASSAGES])
        else:
            self._beyond.add("relations")

    def ends(self) -> Iterator[NodeStatement]:
        """The ends of all edges, with the edges' passages."""
        for edge in self.edges.values():
            for key in (edge.source, edge.target):
                yield NodeStatement(key, node_type(key), chunk_ids=edge.chunk_ids)

    def with_ends(self) -> dict[str, NodeStatement]:
        """All things by their references, those that are only ends of edges last."""
        found = dict(self.nodes)
        for one in self.ends():
            known = found.get(one.key)
            found[one.key] = _with(known, one) if known else one
        return found

    def remarks(self) -> tuple[Remark, ...]:
        """What the document's reader should know, what was left out first."""
        limits = {"relations": MAX_EDGES, "things": MAX_NODES, "aliases": MAX_ALIASES}
        left_out = (
            Remark(
                RemarkKind.LEFT_OUT_OF_GRAPH,
                f"it has more than {limits[what]:,} {what}, and only the first are in the graph: split the document",
            )
            for what in sorted(self._beyond)
        )
        return bounded((*left_out, *self._remarks))


def _with(known: NodeStatement, one: NodeStatement) -> NodeStatement:
    return replace(
        known,
        properties={**one.properties, **known.properties},
        chunk_ids=_joined(known.chunk_ids, one.chunk_ids),
        declared=known.declared or one.declared,
    )


def _surest(known: EdgeStatement, one: EdgeStatement) -> EdgeStatement:
    """The surest rule's statement, with the passages of both."""
    best, other = (known, one) if known.confidence >= one.confidence else (one, known)
    return replace(
        best,
        at=max(best.at, other.at),
        properties=_properties(best.properties, other.properties),
        chunk_ids=_joined(known.chunk_ids, one.chunk_ids),
    )


def _properties(best: Mapping[str, Value], other: Mapping[str, Value]) -> Mapping[str, Value]:
    found = {**other, **best}
    if VERSIONS in best and VERSIONS in other:
        found[VERSIONS] = union(str(best[VERSIONS]), str(other[VERSIONS]))
    if VERSION in best and VERSION in other:
        found[VERSION] = several(str(best[VERSION]), str(other[VERSION]))
    return found


def _joined(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """Both, each once. Looking at no more than is kept: a thing may be in all of thousands of passages."""
    if len(first) >= MAX_PASSAGES or not second:
        return first
    return tuple(dict.fromkeys((*first, *second[:MAX_PASSAGES])))[:MAX_PASSAGES]


# -- passages


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
