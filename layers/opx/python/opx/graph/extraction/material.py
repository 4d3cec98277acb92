"""Input and output of extraction rules: the document and its passages, and the findings that are gathered from them."""

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
    """A parsed document. `own` is the reference of the node that it is about; `facts` are its attributes as lists
    of strings, cut to the length of tags; `open` opens the original object."""

    document: KnowledgeDocument
    own: str
    facts: Facts
    open: Callable[[], AbstractContextManager[BinaryIO]]


@dataclass(slots=True)
class Findings:
    """Findings that the rules add; `Gathered.take` moves them out."""

    statements: list[Statement] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of an alias and the reference that it stands for."""
    notes: dict[str, str] = field(default_factory=dict)
    """State that a chunk rule keeps for the next passage."""

    def add(self, *statements: Statement) -> None:
        self.statements.extend(statements)


DocumentRule = Callable[[Material, Findings], None]
"""Reads the metadata, or the object as a whole. Statements without evidence get the passages that name the node (of an
edge: both ends, or else the end that isn't the document's own node, or else its source); without such passages, the first
passage."""

ChunkRule = Callable[[Material, DocumentChunk, Findings], None]
"""Reads one passage, which is the evidence of each of its statements. Each line is passed once and whole, with the
passage that it begins in: see `whole_lines`."""

Passages = Callable[[], Iterable[DocumentChunk]]
"""Returns the passages of a document, from the first one on each call."""

PassagesRule = Callable[[Material, Passages, Findings], None]
"""Reads all passages together, and states the evidence itself."""


# -- gathering

MAX_EDGES = 5_000
MAX_NODES = 5_000
"""Nodes of one document, without the ends of its edges. Further nodes and edges are left out, with a remark."""

VERSIONS = "versions"
"""The property with version ranges: values of several passages are united."""

VERSION = "version"
"""The property with the versions that run: values of several passages are joined."""

MAX_ALIASES = 100
"""Aliases of one document."""

_MAX_NOTED = 100 * MAX_REMARKS


class Gathered:
    """Gathers statements without duplicates, in the order of their first occurrence, within limits."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeStatement] = {}
        self.edges: dict[EdgeName, EdgeStatement] = {}
        self.aliases: dict[tuple[str, str], None] = {}
        self._remarks: dict[Remark, None] = {}
        self._beyond: set[str] = set()

    @property
    def is_full(self) -> bool:
        """True if there are more edges than are kept."""
        return "relations" in self._beyond

    def take(self, findings: Findings) -> None:
        """Move the findings into this collection."""
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
        """The ends of all edges as nodes, with the edges' evidence."""
        for edge in self.edges.values():
            for key in (edge.source, edge.target):
                yield NodeStatement(key, node_type(key), chunk_ids=edge.chunk_ids)

    def with_ends(self) -> dict[str, NodeStatement]:
        """All nodes by their references, those that are only ends of edges last."""
        found = dict(self.nodes)
        for one in self.ends():
            known = found.get(one.key)
            found[one.key] = _with(known, one) if known else one
        return found

    def remarks(self) -> tuple[Remark, ...]:
        """Remarks for readers of the document, those on exceeded limits first."""
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
    """The statement with the higher confidence, with the evidence of both."""
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
    """Both without duplicates, up to `MAX_PASSAGES`: a node may be in thousands of passages."""
    if len(first) >= MAX_PASSAGES or not second:
        return first
    return tuple(dict.fromkeys((*first, *second[:MAX_PASSAGES])))[:MAX_PASSAGES]


# -- passages

MAX_LINE = 16_384
"""Characters of the longest line that is joined from several passages."""

MAX_PASSAGES = 20
"""Chunk ids that are kept per statement, the first ones."""

Pair = tuple[str, str]

_WORD = re.compile(r"\w+")
_FEW_WORDS = 20
"""So many are found in less time than a passage is divided into words."""


def whole_lines(passages: Iterable[DocumentChunk]) -> Iterator[DocumentChunk]:
    """The passages in order, each with exactly the lines that begin in it: overlaps are removed, and lines that passages
    split are joined up to `MAX_LINE` characters."""
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
    """Length of the last line if it has no line end, else 0."""
    return len(text) - text.rfind("\n") - 1


def _read(held: list[tuple[DocumentChunk, str]]) -> Iterator[DocumentChunk]:
    for chunk, text in held:
        yield chunk if text == chunk.content else replace(chunk, content=text)


class NameFinder:
    """Finds passages that contain names, as whole words in any case, or pairs of names.

    Names are given by reference. They are indexed by their longest word, so that the cost of a passage grows with the names
    in it, not with the number of all names.
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
        """Record the names in this passage. The document's title doesn't count: all passages have it."""
        if not self._by_word:
            return
        text = "\n".join((*passage.section, passage.content)).casefold()
        if len(self._by_word) <= _FEW_WORDS:
            words = {word for word in self._by_word if word in text}
        else:
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
        """The passages of the first of these names or pairs that has any."""
        return next((tuple(self._found[one]) for one in what if one in self._found), ())


def has_words(text: str, name: str) -> bool:
    """True if the text contains the name, not as a part of a longer one: `checkout` isn't in `checkout-edge`."""
    at = text.find(name)
    while at >= 0:
        if not (_goes_on(text[at - 1 : at]) or _goes_on(text[at + len(name) : at + len(name) + 1])):
            return True
        at = text.find(name, at + 1)
    return False


def _goes_on(character: str) -> bool:
    return character.isalnum() or character in ("_", "-")
