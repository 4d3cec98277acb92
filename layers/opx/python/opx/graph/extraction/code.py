"""What is defined in a source file, what it is derived from, and what it calls: by its syntax tree."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentChunk
from opx.domain.graph import EdgeStatement, NodeStatement
from opx.domain.knowledge import Category
from opx.domain.remarks import Remark, RemarkKind
from opx.errors import UnparsableDocumentError
from opx.graph.extraction.material import Findings, Material, Passages, Statement
from opx.graph.extraction.references import made
from opx.ingestion.parsing.code.languages import LANGUAGES, Language
from opx.ingestion.parsing.decoding import text_lines
from opx.ingestion.parsing.source import HEAD_BYTES, Source

if TYPE_CHECKING:
    from opx.graph.extraction.code_reading import CodeFile, Definition

RULE = "code"

_WORD = re.compile(r"[^\W\d]\w*")
_HEADING = re.compile(r"^#{1,6} .*", re.MULTILINE)


def code_structure(material: Material, passages: Passages, findings: Findings) -> None:
    """file -contains-> class or function, class -contains-> method, class -extends-> class, and what methods and
    functions call. A file that is kept without sections (too large, minified, too tangled) says nothing here."""
    source = material.document.key.source
    language = LANGUAGES.get(PurePosixPath(source).suffix.lower())
    if language is None or not language.grammar or not material.own.startswith("file:"):
        return
    text = _text(material, language)
    found = _read(text, language) if text else None
    if found is None or not (found.definitions or found.bases):
        return
    findings.add(*_statements(found, material.own, Places(passages())))
    if found.cut:
        text = f"{source}: it has more code than is read for the graph; what is beyond is found as text alone"
        findings.remarks.append(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text))


def _text(material: Material, language: Language) -> str:
    """The code as the parser read it, or "" where that kept it without sections."""
    from opx.ingestion.parsing.code.source_code import readable_code

    document = material.document
    category = Category(document.category, document.tier, document.trust, "permanent")
    with material.open() as stream:
        head = stream.read(HEAD_BYTES)
        try:
            return readable_code(text_lines(Source(document.key.source, head, stream, category)), language)
        except UnparsableDocumentError:  # the object was replaced since it was read; its own event is on its way
            return ""


def _read(text: str, language: Language) -> CodeFile | None:
    from opx.graph.extraction.code_reading import read_code
    from opx.ingestion.parsing.code.outline import syntax_tree  # only here: tree-sitter is native code

    code = text.encode(errors="replace")
    tree = syntax_tree(code, language)
    return None if tree is None else read_code(tree.root_node, code, language.name)


def _statements(found: CodeFile, own: str, places: Places) -> Iterator[Statement]:
    from opx.graph.extraction.code_reading import Definition
    from opx.graph.extraction.code_resolving import Resolver

    resolver = Resolver(found)
    for one in dict.fromkeys(found.definitions):
        yield from _defined(one, own, places)
    owners = {one.name: one for one in found.definitions if one.kind == "class"}
    for name, base in resolver.bases():
        one = owners.get(name) or Definition("class", name)  # Rust's may be defined in another file
        yield from _edge(one, "extends", ("class", base), places.of_definition(one), 1.0)
    for call in resolver.calls():
        chunk_ids = places.of_use(call.caller, call.name)
        yield from _edge(call.caller, "calls", call.target, chunk_ids, call.confidence)


def _defined(one: Definition, own: str, places: Places) -> Iterator[Statement]:
    key = made(one.kind, one.value)
    if not key:
        return
    chunk_ids = places.of_definition(one)
    yield NodeStatement(key, one.kind, {"name": one.value}, chunk_ids, declared=True)
    outer = made("class", one.owner) if one.owner else own
    if outer and outer != key:
        yield EdgeStatement(outer, "contains", key, chunk_ids, rule=RULE)


def _edge(
    source: Definition, kind: str, target: tuple[str, str], chunk_ids: tuple[str, ...], sure: float
) -> Iterator[Statement]:
    """With the far end under the name that it has in the code."""
    start, end = made(source.kind, source.value), made(*target)
    if start and end and start != end:
        yield NodeStatement(end, target[0], {"name": target[1]}, chunk_ids)
        yield EdgeStatement(start, kind, end, chunk_ids, rule=RULE, confidence=sure)


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
