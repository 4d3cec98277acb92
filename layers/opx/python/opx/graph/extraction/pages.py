"""What pages point at: other documents by their place, classes and methods by their names in code format."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote

from opx.domain.documents import DocumentChunk
from opx.domain.graph import EdgeStatement, NodeStatement, node_type
from opx.formats.registry import is_known
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import reference_of_source
from opx.graph.extraction.references import made
from opx.ingestion.events import DOCUMENTS_FOLDER

LINK_RULE, CODE_RULE = "link", "code name"
PAGES = frozenset(("document", "runbook", "confluence_page"))
"""Types of documents that are written about code."""

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
"""The shape of a class's name and nothing else's: alerts and metrics are written in capitals, too."""


def links(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """own -references-> the documents that relative links lead to, whether they are there yet or not."""
    if not material.own or "](" not in chunk.content:
        return
    for match in _LINK.finditer(chunk.content):
        key = _linked(material.document.key.source, match[1])
        if key and key != material.own:
            findings.add(EdgeStatement(material.own, "references", key, (chunk.chunk_id,), rule=LINK_RULE))


def named_code(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """page -documents-> the classes and methods whose names it gives in code format, where their shape leaves no doubt."""
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
    key = made(namespace, name)
    if key:
        where = (chunk.chunk_id,)
        findings.add(
            NodeStatement(key, namespace, {"name": name}, where),
            EdgeStatement(material.own, "documents", key, where, rule=CODE_RULE, confidence=0.7),
        )


def _linked(source: str, target: str) -> str:
    """The reference of the document at a relative address; "" for an address elsewhere, or of no document."""
    path = unquote(re.split(r"[?#]", target, maxsplit=1)[0])
    if not path or len(path) > _MAX_TARGET or _SCHEME.match(target) or "\\" in path:
        return ""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if not place.startswith(DOCUMENTS_FOLDER) or place == source or not is_known(posixpath.splitext(place)[1]):
        return ""
    return reference_of_source(place)
