"""Extracts classes, functions, inheritance and calls from a source file, by its syntax tree."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from opx.domain.documents import DocumentChunk, Remark, RemarkKind
from opx.domain.graph import EdgeStatement, NodeStatement
from opx.domain.knowledge import Category
from opx.errors import UnparsableDocumentError
from opx.formats.source import HEAD_BYTES, Source, text_lines
from opx.graph.extraction.material import Findings, Material, Passages, Statement
from opx.graph.extraction.own_node import make_reference
from opx_code import code_nodes as nodes
from opx_code.languages import LANGUAGES, Language

if TYPE_CHECKING:
    from opx_code.code_reading import CallSite, CodeFile, Definition

RULE = "code"

_WORD = re.compile(r"[^\W\d]\w*")
_HEADING = re.compile(r"^#{1,6} .*", re.MULTILINE)

IN_FILE, BY_IMPORT, BY_VARIABLE, BY_SHAPE = 0.95, 0.8, 0.7, 0.6
"""Confidence in a call's target: defined in the same file, imported, called on a variable of that class (another function
may have a variable of the same name), or only of the shape of a class name."""

Target = tuple[str, str]
"""The target of a call: `class`, `method` or `function`, and its name."""

Found = tuple[Target, float] | None

_MAX_BASES = 20


def code_structure(material: Material, passages: Passages, findings: Findings) -> None:
    """file -contains-> class or function, class -contains-> method, class -extends-> class, and what methods and
    functions call. A file without sections (too large, minified, too deeply nested) states nothing here."""
    source = material.document.key.source
    language = LANGUAGES.get(PurePosixPath(source).suffix.lower())
    if language is None or not language.grammar or not material.own.startswith("file:"):
        return
    text = _text(material, language)
    found = _read(text, language) if text else None
    if found is None or not (found.definitions or found.bases):
        return
    findings.add(*_statements(found, material.own, SymbolPositions(passages())))
    if found.cut:
        text = f"{source}: it has more code than is read for the graph; the rest is found by search alone"
        findings.remarks.append(Remark(RemarkKind.LEFT_OUT_OF_GRAPH, text))


def _text(material: Material, language: Language) -> str:
    """The code as the parser read it, or "" for a file without sections."""
    from opx_code.outline import readable_code

    document = material.document
    category = Category(document.category, document.tier, document.trust, "permanent")
    with material.open() as stream:
        head = stream.read(HEAD_BYTES)
        try:
            return readable_code(text_lines(Source(document.key.source, head, stream, category)), language)
        except UnparsableDocumentError:  # the object was replaced since it was parsed; its own event will follow
            return ""


def _read(text: str, language: Language) -> CodeFile | None:
    from opx_code.code_reading import read_code
    from opx_code.outline import syntax_tree  # only here: tree-sitter is native code

    code = text.encode(errors="replace")
    tree = syntax_tree(code, language)
    return None if tree is None else read_code(tree.root_node, code, language.name)


def _statements(found: CodeFile, own: str, positions: SymbolPositions) -> Iterator[Statement]:
    from opx_code.code_reading import Definition

    resolver = Resolver(found)
    for one in dict.fromkeys(found.definitions):
        yield from _defined(one, own, positions)
    owners = {one.name: one for one in found.definitions if one.kind == "class"}
    for name, base in resolver.bases():
        one = owners.get(name) or Definition("class", name)  # a Rust class may be defined in another file
        yield from _edge(one, "extends", ("class", base), positions.of_definition(one), 1.0)
    for call in resolver.calls():
        chunk_ids = positions.of_use(call.caller, call.name)
        yield from _edge(call.caller, "calls", call.target, chunk_ids, call.confidence)


def _defined(one: Definition, own: str, positions: SymbolPositions) -> Iterator[Statement]:
    key = make_reference(one.kind, one.value)
    if not key:
        return
    chunk_ids = positions.of_definition(one)
    yield NodeStatement(key, one.kind, {"name": one.value}, chunk_ids, declared=True)
    outer = make_reference("class", one.owner) if one.owner else own
    if outer and outer != key:
        yield EdgeStatement(outer, "contains", key, chunk_ids, rule=RULE)


def _edge(
    source: Definition, kind: str, target: tuple[str, str], chunk_ids: tuple[str, ...], confidence: float
) -> Iterator[Statement]:
    """An edge, and its target as a node with the name that it has in the code."""
    start, end = make_reference(source.kind, source.value), make_reference(*target)
    if start and end and start != end:
        yield NodeStatement(end, target[0], {"name": target[1]}, chunk_ids)
        yield EdgeStatement(start, kind, end, chunk_ids, rule=RULE, confidence=confidence)


class SymbolPositions:
    """Finds the passages of symbols by the words of passages and headings: each class and function is a section under its
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
        """The passage where a definition begins; () if none contains its name."""
        name = _word(definition.name)
        headed = self._headed.get(name, set())
        owner = self._headed.get(_word(definition.owner), set())
        for found in (headed & owner, headed, self._words.get(name, set())):
            if found:
                return (self._ids[min(found)],)
        return ()

    def of_use(self, definition: Definition, name: str) -> tuple[str, ...]:
        """Passages of a definition that contain a name; its first passage if none does."""
        words = self._words.get(_word(name), set())
        caller = _word(definition.name)
        headed = self._headed.get(caller, set())
        owner = self._headed.get(_word(definition.owner), headed)
        for found in (words & headed & owner, words & headed, words & self._words.get(caller, set())):
            if found:
                return tuple(self._ids[at] for at in sorted(found)[:3])
        return self.of_definition(definition)


def _word(name: str) -> str:
    """The last word of a name such as `Get-Item` or `empty?`, which is searched in passages."""
    words = _WORD.findall(name)
    return words[-1] if words else ""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call with its resolved target, and the name that it uses."""

    caller: Definition
    target: Target
    name: str
    confidence: float


@dataclass(slots=True)
class Resolver:
    """Resolves base classes and calls of one file. Ambiguous ones are left out: no edge is better than a wrong one."""

    file: CodeFile
    _classes: set[str] = field(default_factory=set)
    _functions: set[str] = field(default_factory=set)
    _methods: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    _bases: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for one in self.file.definitions:
            if one.kind == "class":
                self._classes.add(one.name)
            elif one.kind == "method":
                self._methods[one.owner].add(one.name)
            else:
                self._functions.add(one.name)
        for name, base in self.file.bases:
            self._bases[name].append(base)

    def bases(self) -> Iterator[tuple[str, str]]:
        """Classes and their base classes, by the names of these in the file that defines them."""
        for name, base in dict.fromkeys(self.file.bases):
            imported = self.file.imports.get(base)
            known = imported.name if imported else base
            if known != name and known not in nodes.STANDARD_CLASSES and known not in ("object", "type"):
                yield name, known

    def calls(self) -> Iterator[Resolved]:
        """Resolved calls, each target once per caller."""
        seen: set[tuple[Definition, Target]] = set()
        for call in self.file.calls:
            found = self._target(call)
            if found and (call.caller, found[0]) not in seen and found[0] != (call.caller.kind, call.caller.value):
                seen.add((call.caller, found[0]))
                yield Resolved(call.caller, found[0], call.parts[-1], found[1])

    def _target(self, call: CallSite) -> Found:
        *path, name = call.parts
        if len(name) > nodes.MAX_NAME:
            return None
        if call.creates:
            return self._class(name, shaped=True)
        if not path:
            return self._bare(call.caller, name)
        if path == ["self"] or path[0] in nodes.SELF:
            return self._own(call.caller, path[1:], name)
        if path[0] in nodes.PARENT:
            return self._inherited(call.caller.owner, name) if len(path) == 1 else None
        return self._qualified(path, name)

    def _bare(self, caller: Definition, name: str) -> Found:
        """Resolves `name()`: a method of the same class where the language needs no `this`, a function, or a class."""
        method = self._method(caller.owner, name) if caller.owner and self.file.language not in _EXPLICIT else None
        if method:
            return method, IN_FILE
        if name in self._functions:
            return ("function", name), IN_FILE
        if name in self._classes:
            return ("class", name), IN_FILE
        imported = self.file.imports.get(name)
        if imported is None or imported.standard:
            return None
        kind = "class" if nodes.CLASS_SHAPED.match(imported.name) else "function"
        return (kind, imported.name), BY_IMPORT

    def _own(self, caller: Definition, path: list[str], name: str) -> Found:
        """Resolves `self.name()` or `self.field.name()`."""
        if path:
            return self._of_variable(path[0], name) if len(path) == 1 else None
        method = self._method(caller.owner, name)
        return (method, IN_FILE) if method else None

    def _inherited(self, owner: str, name: str) -> Found:
        for base in self._bases.get(owner, ()):
            if method := self._method(base, name):
                return method, IN_FILE
        return None

    def _method(self, owner: str, name: str) -> Target | None:
        """A method of the class, or of its base classes in the file."""
        waiting, seen = [owner], set[str]()
        while waiting and len(seen) < _MAX_BASES:
            current = waiting.pop(0)
            if current in seen:
                continue
            seen.add(current)
            if name in self._methods.get(current, ()):
                return "method", f"{current}.{name}"
            waiting.extend(self._bases.get(current, ()))
        return None

    def _qualified(self, path: list[str], name: str) -> Found:
        """Resolves `Class.name()`, `variable.name()` or `module.name()`."""
        first = path[-1]
        if first in self._classes:
            return self._method(first, name) or ("method", f"{first}.{name}"), IN_FILE
        variable = self._of_variable(path[0], name) if len(path) == 1 else None
        if variable:
            return variable
        imported = self.file.imports.get(path[0])
        if imported is not None and imported.standard:
            return None
        if nodes.CLASS_SHAPED.match(first) and (found := self._class(first, shaped=self._shows_classes)):
            return ("method", f"{found[0][1]}.{name}"), min(found[1], BY_IMPORT)
        if imported is None or not imported.module or name.lower() in nodes.COMMON_NAMES:
            return None
        is_class = self.file.language != "go" and nodes.CLASS_SHAPED.match(name)
        return ("class" if is_class else "function", name), BY_IMPORT

    def _of_variable(self, variable: str, name: str) -> Found:
        """A method of the declared class of a variable."""
        found = self._class(self.file.variables.get(variable.lstrip("$"), ""), shaped=self._shows_classes)
        if found is None:
            return None
        owner = found[0][1]
        return self._method(owner, name) or ("method", f"{owner}.{name}"), min(found[1], BY_VARIABLE)

    def _class(self, name: str, *, shaped: bool) -> Found:
        if name in self._classes:
            return ("class", name), IN_FILE
        imported = self.file.imports.get(name)
        if imported is not None:
            return None if imported.standard else (("class", imported.name), BY_IMPORT)
        if shaped and nodes.CLASS_SHAPED.match(name) and name not in nodes.STANDARD_CLASSES:
            return ("class", name), BY_SHAPE
        return None

    @property
    def _shows_classes(self) -> bool:
        """True for languages where classes of the same package need no import."""
        return self.file.language not in ("python", "javascript", "typescript", "tsx")


_EXPLICIT = frozenset(("python", "javascript", "typescript", "tsx", "go", "rust", "php", "bash", "powershell"))
"""Languages that call methods of the same class only by `self` or `this`."""
