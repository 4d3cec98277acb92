"""Extracts relations that a document writes out, links to other documents, and names of code.

Relations are `jira:TASK-123|BLOCKS|jira:TASK-9`, `file:a.py->CALLS->file:b.py` or `class:A -[EXTENDS]-> class:B`, one a line
or in a block `relationships:`.

Outside of a block a line counts only if both ends and the edge have the strict form: tables, diagrams, queries and code
have pipes and arrows, too. Malformed lines of a block stay text, with a remark.
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from opx.domain.documents import DocumentChunk, Remark, RemarkKind
from opx.domain.graph import EdgeStatement, NodeStatement, node_type
from opx.domain.knowledge import Tier
from opx.errors import InvalidReferenceError
from opx.formats.registry import is_known
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import (
    has_namespace,
    make_reference,
    reference_of_identifier,
    reference_of_source,
    value_of,
)
from opx.graph.names import edge_type, normalised
from opx.ingestion.events import DOCUMENTS_FOLDER

MAX_LINE = 1_000
"""Characters of a relation; references are cut at fewer bytes."""

INVERSES = {
    "mitigated_by": "mitigates",
    "detected_by": "detects",
    "used_by": "uses",
    "has_subtechnique": "subtechnique_of",
    "has_campaign": "attributed_to",
}
"""Inverse edge types: pages of ATT&CK state an edge from either end, each in its own direction."""

_KNOWN_EDGES = frozenset((
    "contains", "extends", "calls", "modifies", "modified_by", "creates", "parent", "blocks", "assigned_to", "mentions",
    "mentions_file", "affects", "fixes", "documents", "references", "related_to", "handles", "fires_on", "instance_of",
    "caused", "resolved_by", "depends_on", "runs", "hosted_on", "owned_by", "mitigates",
))  # fmt: skip
"""Edge types that count in lower case, too, outside of a block."""

OURS = frozenset(("service", "host", "alert", "alert_event", "incident", "change", "runbook", "team"))
"""Namespaces of nodes to which only documents of the internal tier can state edges other than mentions."""

_CAPITALS = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_ARROW = re.compile(r"(?P<source>.*?\S)[ \t]*-\[[ \t]*(?P<edge>[^\[\]]*?)[ \t]*\]->[ \t]*(?P<target>\S.*)")
_ITEM = re.compile(r"[ \t]*(?:>[ \t]*)?(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(.*?)[ \t]*")
_HEADER = re.compile(r"[ \t]*(?:[-*][ \t]+)?(\"?)relationships\1[ \t]*:[ \t]*(?:(\[)(.*))?")
_BULLET = re.compile(r"[ \t]*[-*+][ \t]+\S")
_ELEMENT = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|(\])|([^\s,\[\]\"'](?:-\[[^\[\]]*\]->|[^,\]\"'])*)")
_PORT = re.compile(r":\d{1,5}\Z")
_NOTE = "relationships"
_LIST, _ARRAY = "list", "array"
_HOW = "write from|edge|to, from->edge->to or from -[edge]-> to"


class MalformedRelationError(ValueError):
    """A string is not a relation, with the reason."""


def stated_relations(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: the relations of a passage, with remarks on malformed ones in a block."""
    content = chunk.content
    if not findings.notes.get(_NOTE) and "|" not in content and "->" not in content and _NOTE not in content:
        return
    block = _Block(material, chunk.chunk_id, findings)
    for line in content.splitlines():
        block.read(line)
    block.leave()


def relationships_field(material: Material, findings: Findings) -> None:
    """A document rule: the field `relationships` of the metadata."""
    for text in material.facts.get(_NOTE, ()):
        _state(text, material, (), findings)


class _Block:
    """Reads lines in order, and keeps track of blocks, also from one passage to the next."""

    def __init__(self, material: Material, chunk_id: str, findings: Findings) -> None:
        self._material = material
        self._chunk_ids = (chunk_id,)
        self._findings = findings
        self._within = findings.notes.pop(_NOTE, "")
        self._items: dict[str, None] = {}
        self._seen: set[str] = set()

    def read(self, line: str) -> None:
        if self._within == _ARRAY and line.strip() and not line.startswith(("```", "#")):
            self._elements(line)
        elif header := _HEADER.fullmatch(line) if _NOTE in line else None:
            self._end()
            self._within = _ARRAY if header[2] else _LIST
            self._elements(header[3] or "")
        elif self._within and _is_item(line):
            self._items[_bare(line)] = None
        else:
            self._end()
            self._alone(line)

    def leave(self) -> None:
        """End the passage; an open block may continue in the next one."""
        within = self._within
        self._end()
        if within:
            self._findings.notes[_NOTE] = within

    def _elements(self, line: str) -> None:
        """Read elements of a list in brackets; an unclosed list ends with its paragraph."""
        for match in _ELEMENT.finditer(line):
            if match[3]:
                self._end()
                return
            self._items[(match[1] or match[2] or match[4] or "").strip()] = None

    def _end(self) -> None:
        """End the block. One without `|` and `->` is ignored: others use the word `relationships:`, too."""
        if any("|" in item or "->" in item for item in self._items):
            for item in self._items:
                _state(item, self._material, self._chunk_ids, self._findings)
        self._items.clear()
        self._within = ""

    def _alone(self, line: str) -> None:
        if ("|" in line or "->" in line) and len(line) <= MAX_LINE and line not in self._seen:
            self._seen.add(line)
            bare = _bare(line)
            if _strict_parts(bare, self._material.own):
                _state(bare, self._material, self._chunk_ids, self._findings)


def _is_item(line: str) -> bool:
    """True if a list continues: a bullet, or a line with a relation that is not a table row."""
    if _BULLET.match(line):
        return True
    bare = line.strip()
    return ("|" in bare or "->" in bare) and not bare.startswith("|")


def _bare(line: str) -> str:
    """The line without the syntax of Markdown, YAML and JSON around it."""
    match = _ITEM.fullmatch(line)
    text = (match[1] if match else line).rstrip(",").rstrip()
    for quote in ('"', "'", "`"):
        if len(text) > 1 and text[0] == text[-1] == quote:
            return text[1:-1].strip()
    return text


# -- parts of a relation

_Parts = tuple[str, str, str]


def _state(text: str, material: Material, chunk_ids: tuple[str, ...], findings: Findings) -> None:
    """Add the relation in a string, or a remark if it is malformed."""
    try:
        _add(_parts(text), material, chunk_ids, findings)
    except (MalformedRelationError, InvalidReferenceError) as exc:
        shown = text if len(text) <= 120 else text[:117] + "..."
        findings.remarks.append(Remark(RemarkKind.MALFORMED_RELATION, f"malformed relation {shown!r}: {exc}"))


def _parts(text: str) -> _Parts:
    """Source, edge type and target of a relation. Raises `MalformedRelationError`."""
    if len(text) > MAX_LINE:
        raise MalformedRelationError(f"it has {len(text):,} characters, at most {MAX_LINE:,} are read")
    if text.endswith("…"):
        raise MalformedRelationError("it was cut, as metadata are short; write it into the text")
    if arrow := _ARROW.fullmatch(text):
        found = [arrow["source"], arrow["edge"], arrow["target"]]
    else:
        found = [part.strip() for part in text.split("|" if "|" in text else "->")]
    if len(found) != 3:
        raise MalformedRelationError(f"it has {len(found)} part{'s' * (len(found) != 1)} and not 3; {_HOW}")
    names = ("from", "edge", "to")
    missing = [name for name, part in zip(names, found, strict=True) if not part]
    if missing:
        raise MalformedRelationError(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} empty; {_HOW}")
    return found[0], found[1], found[2]


def _strict_parts(text: str, own: str) -> _Parts | None:
    """The parts of an unambiguous relation, else None. Spaces around `|` and `->` aren't permitted: tables and diagrams have
    them."""
    if arrow := _ARROW.fullmatch(text):
        found = [arrow["source"], arrow["edge"], arrow["target"]]
    else:
        found = text.split("|" if "|" in text else "->")
        if len(found) != 3:
            return None
    source, edge, target = found
    if not (_CAPITALS.fullmatch(edge) and len(edge) > 1) and edge not in _KNOWN_EDGES:
        return None
    if "|" not in text and not arrow and (_PORT.search(source) or _PORT.search(target)):  # part of a diagram
        return None
    return (source, edge, target) if _is_end(source, own) and _is_end(target, own) else None


def _is_end(text: str, own: str) -> bool:
    if "|" in text or "->" in text:
        return False
    return has_namespace(text) or bool(reference_of_identifier(text)) or _is_own(text, own)


def _is_own(text: str, own: str) -> bool:
    return bool(own) and text.casefold() == value_of(own)


def _end(text: str, own: str) -> tuple[str, str]:
    """The reference of an end, and the name as it is written if that differs. Raises `MalformedRelationError` and
    `InvalidReferenceError`."""
    if "://" in text:
        raise MalformedRelationError(f"{text[:60]!r} is an address, not a reference; write namespace:value")
    key = normalised(text) if ":" in text else own if _is_own(text, own) else reference_of_identifier(text)
    if not key:
        raise MalformedRelationError(
            f"{text[:60]!r} has no namespace, and is neither the page's own name nor an id; write namespace:value"
        )
    name = " ".join(text.partition(":")[2].split()) or text
    return key, "" if name == value_of(key) else name


def _add(parts: _Parts, material: Material, chunk_ids: tuple[str, ...], findings: Findings) -> None:
    edge = edge_type(parts[1])
    ends = [_end(parts[0], material.own), _end(parts[2], material.own)]
    ours = [key for key, _ in ends if key.partition(":")[0] in OURS]
    if ours and edge != "mentions" and material.document.tier is not Tier.INTERNAL:
        raise MalformedRelationError(f"only internal documents can state relations of {ours[0]}")
    for key, name in ends:
        if name:
            findings.add(NodeStatement(key, node_type(key), {"name": name}, chunk_ids))
    if edge in INVERSES:
        edge, ends = INVERSES[edge], ends[::-1]
    findings.add(EdgeStatement(ends[0][0], edge, ends[1][0], chunk_ids, rule="relationship"))


# -- pages

LINK_RULE, CODE_RULE = "link", "code name"
PAGES = frozenset(("document", "runbook", "confluence_page"))
"""Types of nodes whose documents are written about code."""

_MAX_TARGET = 500
_LINK = re.compile(r"(?<!!)\[[^\[\]\n]{0,300}\]\([ \t]*<?([^\s()<>]{1,500})>?(?:[ \t]+\"[^\"\n]*\")?[ \t]*\)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//|#|/")
_INLINE = re.compile(r"(?<!`)`([^`\n]{3,120})`(?!`)")
_METHOD = re.compile(r"([A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)(?:\.|#|::)([a-z_]\w*)\([^()]*\)")
_CLASS_SUFFIXES = (
    "Adapter|Builder|Client|Connector|Controller|Dao|Factory|Gateway|Handler|Impl|Interceptor|Listener|Mapper|"
    "Middleware|Provider|Repository|Resolver|Serializer|Service|Servlet|Validator"
)
_CLASS = re.compile(rf"(?:[A-Z][a-z0-9]+)+(?:{_CLASS_SUFFIXES})")
"""The shape of class names only: alerts and metrics are written in CamelCase, too."""


def links(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: own -references-> targets of relative links, also of documents that don't exist yet."""
    if not material.own or "](" not in chunk.content:
        return
    for match in _LINK.finditer(chunk.content):
        key = _linked(material.document.key.source, match[1])
        if key and key != material.own:
            findings.add(EdgeStatement(material.own, "references", key, (chunk.chunk_id,), rule=LINK_RULE))


def named_code(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: page -documents-> classes and methods in code format, where their shape is unambiguous."""
    if node_type(material.own) not in PAGES:
        return
    for match in _INLINE.finditer(chunk.content):
        text = match[1].strip()
        method = _METHOD.fullmatch(text)
        if method:
            _document(material, findings, chunk, "method", f"{method[1]}.{method[2]}")
            _document(material, findings, chunk, "class", method[1])
        elif _CLASS.fullmatch(text):
            _document(material, findings, chunk, "class", text)


def _document(material: Material, findings: Findings, chunk: DocumentChunk, namespace: str, name: str) -> None:
    key = make_reference(namespace, name)
    if key:
        where = (chunk.chunk_id,)
        findings.add(
            NodeStatement(key, namespace, {"name": name}, where),
            EdgeStatement(material.own, "documents", key, where, rule=CODE_RULE, confidence=0.7),
        )


def _linked(source: str, target: str) -> str:
    """The reference of the document at a relative address; "" for other addresses and formats."""
    path = unquote(re.split(r"[?#]", target, maxsplit=1)[0])
    if not path or len(path) > _MAX_TARGET or _SCHEME.match(target) or "\\" in path:
        return ""
    linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not linked.startswith(DOCUMENTS_FOLDER) or linked == source or not is_known(posixpath.splitext(linked)[1]):
        return ""
    return reference_of_source(linked)
