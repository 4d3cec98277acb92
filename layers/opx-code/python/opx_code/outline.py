"""Converts source code to Markdown by its syntax tree: classes and functions as sections, other code as blocks before
them."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePosixPath

from tree_sitter import Language as Grammar
from tree_sitter import Node, Parser, Tree

from opx.domain.documents import Remark, RemarkKind
from opx.formats.source import ParsedSource, Source, cut_lines, filled_lines, read_up_to
from opx.formats.writing import fenced, heading, plain_text
from opx_code.languages import LANGUAGES, Language

MAX_STEPS = 100_000
"""Progress callbacks of the parser, one per hundred steps: some ten seconds. Code needs four per kilobyte, and gets 32."""

MAX_CHILDREN = 50_000
_MAX_DEPTH = 20
_BLOCK = 64 * 1024
_ATTRIBUTES = ("attribute_item", "inner_attribute_item")
_FUNCTION_VALUES = ("arrow_function", "function_expression", "generator_function", "function")
_VARIABLES = ("lexical_declaration", "variable_declaration", "public_field_definition", "field_definition")
_PUNCTUATION = b" \t\r\n{}();:,"

_ANNOTATIONS = ("annotation", "marker_annotation", "attribute_list", "attribute_item", "decorator", "attribute")
_BODIES = (
    "class_body",
    "function_body",
    "enum_class_body",
    "enum_body",
    "block",
    "declaration_list",
    "field_declaration_list",
    "enumerator_list",
    "script_block",
    "body_statement",
)
_PYTHON_START = re.compile(r"(?:async )?def ")
_RECEIVER = re.compile(r"\((?:self|cls)(?:, |(?=\)))")

_BEGIN = re.compile(r"[ \t]*(?:/\*+!?|//[/!]?|#+!?|--+|<#|\*(?!/)(?!\*)) ?")
_END = re.compile(r"[ \t]*(?:\*+/|#>)[ \t]*\Z")
_QUOTES = re.compile(r"[A-Za-z]{0,2}(\"\"\"|'''|\"|')")


def outline(text: str, language: Language) -> Iterable[str] | None:
    """Yields Markdown blocks with all words of the code; None if parsing takes too long."""
    code = text.encode()
    tree = syntax_tree(code, language)
    if tree is None:
        return None
    return _Writer(code, language).members(tree.root_node, 2)


def syntax_tree(code: bytes, language: Language) -> Tree | None:
    """Parses code to its syntax tree; None if that takes too long, or if the tree is too broad."""
    steps = 0
    allowed = min(MAX_STEPS, 1_000 + len(code) // 32)

    def stop(_offset: int, _error: bool) -> bool:
        nonlocal steps
        steps += 1
        return steps > allowed

    module = importlib.import_module(language.grammar)
    parser = Parser(Grammar(getattr(module, language.function)()))
    try:
        tree = parser.parse(lambda at, _point: code[at : at + _BLOCK], progress_callback=stop)
    except ValueError:  # stopped
        return None
    return tree if tree.root_node.child_count <= MAX_CHILDREN else None


@dataclass(slots=True)
class _Definition:
    """A class or function: `node` itself, `outer` with decorators, `start` with attributes, and the comments above."""

    node: Node
    outer: Node
    start: int
    comments: list[Node]


@dataclass(slots=True)
class _Found:
    """Contents of a file or class: definitions, and the byte ranges between them."""

    definitions: list[_Definition] = field(default_factory=list)
    loose: list[tuple[int, int]] = field(default_factory=list)
    above: list[Node] = field(default_factory=list)
    last: Node | None = None
    after_definition: bool = False

    def add_loose(self, node: Node) -> None:
        self.flush()
        self._extend(node)
        self.last = node

    def add_comment(self, node: Node) -> None:
        """Holds a comment until the code that it describes follows; a comment at the end of a code line belongs to that
        line."""
        if (
            not self.above
            and self.last
            and self.last.end_point[1] > 0
            and node.start_point[0] == self.last.end_point[0]
        ):
            self._extend(node)
        else:
            if self.above and node.start_point[0] > self.above[-1].end_point[0] + 1:
                self.flush()
            self.above.append(node)
        self.last = node

    def add_definition(self, node: Node, outer: Node) -> None:
        if self.above and outer.start_point[0] > self.above[-1].end_point[0] + 1:
            self.flush()
        attributes = [one for one in self.above if one.type in _ATTRIBUTES]
        comments = [one for one in self.above if one.type not in _ATTRIBUTES]
        start = attributes[0].start_byte if attributes else outer.start_byte
        self.definitions.append(_Definition(node, outer, start, comments))
        self.above, self.last, self.after_definition = [], outer, True

    def flush(self) -> None:
        """Adds pending comments, which describe no definition, as loose code."""
        for node in self.above:
            self._extend(node)
        self.above = []

    def _extend(self, node: Node) -> None:
        if self.loose and not self.after_definition:
            self.loose[-1] = (self.loose[-1][0], node.end_byte)
        else:
            self.loose.append((node.start_byte, node.end_byte))
        self.after_definition = False


@dataclass(frozen=True, slots=True)
class _Writer:
    code: bytes
    language: Language

    def members(self, parent: Node, level: int, head: tuple[int, int] | None = None) -> Iterator[str]:
        """Yields loose code first (after `head`, the class's own), so that it isn't read as a part of the last function."""
        found = _Found()
        documented = self._docstring(parent)
        for node in self._flattened(parent, _MAX_DEPTH):
            if node in (documented, *_braces(parent)):
                continue
            definition = self._definition(node) if level < _MAX_DEPTH else None
            if definition is not None:
                found.add_definition(definition, node)
            elif "comment" in node.type or node.type in _ATTRIBUTES:
                found.add_comment(node)
            else:
                found.add_loose(node)
        found.flush()
        if documented is not None:
            yield self._documentation(docstring_text(self._text(documented)))
        spans = [span for span in found.loose if self.code[slice(*span)].strip(_PUNCTUATION)]
        loose = "\n\n".join(self._dedented(*span).strip("\n") for span in spans)
        if head is not None:
            loose = f"{self._dedented(*head).rstrip()}\n{textwrap.indent(loose, '    ')}"
        yield from self._fenced(loose)
        for one in found.definitions:
            yield from self._section(one, level)

    def _flattened(self, parent: Node, depth: int) -> Iterator[Node]:
        for node in parent.children:
            seen_through = node.type in self.language.transparent or node.type == "ERROR"
            if seen_through and depth and node.child_count:
                yield from self._flattened(node, depth - 1)
            else:
                yield node

    def _definition(self, node: Node) -> Node | None:
        for _ in range(4):
            if node.type in self.language.containers and body_of(node) is not None:
                return node
            if node.type in self.language.leaves or _holds_function(node):
                return node if _has_text(node) else None
            if node.type not in self.language.wrappers or not node.named_child_count:
                return None
            node = next((child for child in node.named_children if self._known(child)), node.named_children[-1])
        return None

    def _known(self, node: Node) -> bool:
        known = self.language.containers | self.language.leaves | self.language.wrappers
        return node.type in known or _holds_function(node)

    def _section(self, one: _Definition, level: int) -> Iterator[str]:
        name = signature(one.node, self.code, self.language.name)
        yield heading(level, name)
        yield self._documentation(comment_text([self._text(comment) for comment in one.comments]))
        body = body_of(one.node)
        if one.node.type in self.language.containers and body is not None:
            head = (one.start, body.start_byte)
            is_named = self.code[slice(*head)].strip(_PUNCTUATION) == name.encode()
            yield from self.members(body, level + 1, None if is_named else head)
            return
        documented = self._docstring(body) if body is not None else None
        if documented is None:
            yield from self._fenced(self._dedented(one.start, one.outer.end_byte))
            return
        yield self._documentation(docstring_text(self._text(documented)))
        before, after = self._whole_lines(one.start, documented.start_byte), documented.end_byte
        rest = self.code[after : one.outer.end_byte].decode(errors="replace")
        yield from self._fenced(textwrap.dedent(before.rstrip() + "\n" + rest.lstrip("\n")))

    def _docstring(self, body: Node) -> Node | None:
        """Python's docstring: the first statement, if it is a string."""
        if self.language.name != "python":
            return None
        first = next((child for child in body.named_children if child.type != "comment"), None)
        alone = first if first is None or first.named_child_count != 1 else first.named_children[0]
        return first if "string" in (first and first.type, alone and alone.type) else None

    def _documentation(self, text: str) -> str:
        return f"{plain_text(text)}\n\n" if text.strip() else ""

    def _fenced(self, code: str) -> Iterator[str]:
        return fenced(code.splitlines(keepends=True), self.language.name)

    def _dedented(self, start: int, end: int) -> str:
        return textwrap.dedent(self._whole_lines(start, end))

    def _whole_lines(self, start: int, end: int) -> str:
        """Decodes the lines of a byte range, with the indentation of the first line."""
        line = self.code.rfind(b"\n", 0, start) + 1
        if not self.code[line:start].strip():
            start = line
        return self.code[start:end].decode(errors="replace")

    def _text(self, node: Node) -> str:
        return self.code[node.start_byte : node.end_byte].decode(errors="replace")


def _braces(body: Node) -> list[Node]:
    """Braces around a class's members, which aren't shown."""
    return [node for node in (body.children[0], body.children[-1]) if node.type in ("{", "}")] if body.children else []


def _has_text(node: Node) -> bool:
    """True unless the node only mentions a type, such as `struct stat` in a declaration."""
    return "_specifier" not in node.type or body_of(node) is not None


def _holds_function(node: Node) -> bool:
    """True for `const f = () => {…}`, and such a property of a class."""
    return node.type in _VARIABLES and any(value.type in _FUNCTION_VALUES for value in _values(node))


def body_of(node: Node) -> Node | None:
    """The node between the braces; None if there is none. PowerShell's classes have no such node, only braces."""
    if node.type == "class_statement":
        return node
    for part in (node, *_values(node)):
        body = part.child_by_field_name("body")
        if body is None:
            body = next((child for child in part.named_children if child.type in _BODIES), None)
        if body is not None:
            return body
    return None


def signature(node: Node, code: bytes, language: str) -> str:
    """A declaration in one line, without annotations: `class UserService(Base)`, `login(user: str) -> Session`."""
    body = body_of(node)
    end = body.start_byte if body is not None and body != node else node.end_byte
    parts: list[bytes] = []
    at = node.start_byte
    for left_out in _annotations(node):
        if left_out.start_byte >= end:
            break
        parts.append(code[at : left_out.start_byte])
        at = left_out.end_byte
    parts.append(code[at:end])
    text = b" ".join(parts).strip().decode(errors="replace")
    if end == node.end_byte:
        text = text.partition("\n")[0]
    text = " ".join(text.split()).rstrip("{:=; ").removesuffix("=>").rstrip()
    if language == "python":
        text = _RECEIVER.sub("(", _PYTHON_START.sub("", text), count=1)
    return text.replace('"', "") if language == "hcl" else text


def _annotations(node: Node) -> list[Node]:
    """Annotations and comments in source order; they may stand among the modifiers."""
    children = [*node.children]
    for child in node.children:
        if child.type == "modifiers":
            children.extend(child.children)
    left_out = (child for child in children if child.type in _ANNOTATIONS or "comment" in child.type)
    return sorted(left_out, key=lambda child: child.start_byte)


def _values(node: Node) -> list[Node]:
    """The function that a variable is initialised with."""
    declared = next((child for child in node.named_children if child.type == "variable_declarator"), node)
    value = declared.child_by_field_name("value")
    return [value] if value is not None else []


def comment_text(comments: list[str]) -> str:
    """Joins consecutive comments' lines, without comment marks."""
    lines = [_stripped(line) for comment in comments for line in comment.rstrip("\n").split("\n")]
    return inspect.cleandoc("\n".join(lines))


def docstring_text(literal: str) -> str:
    """The content of a string literal, without its indentation."""
    opening = _QUOTES.match(literal)
    if not opening:
        return literal
    return inspect.cleandoc(literal[opening.end() :].removesuffix(opening[1]))


def _stripped(line: str) -> str:
    return _BEGIN.sub("", _END.sub("", line), count=1) if _BEGIN.match(line) else _END.sub("", line)


# -- parsing of a file


MAX_CHARACTERS = 512 * 1024
"""Nearly all larger files are generated; a syntax tree takes up to 200 times the size of a hostile one."""

_MAX_LINE = 400
"""Characters per line, on average, above which code counts as generated or minified."""

_MAX_OPENINGS = 2_000
_OPENINGS = {"bash": "<<", "rust": 'r#"'}
"""Openings of a here-document or raw string: the grammars search the whole rest of the file for the end of each, within
one step that can't be stopped."""


def parse_code(source: Source) -> ParsedSource:
    """Converts the file to Markdown, with its path as title. A file without a grammar, too large or minified has no
    sections."""
    language = LANGUAGES.get(PurePosixPath(source.name).suffix.lower()) or Language("")
    lines = filled_lines(source)
    remarks: list[Remark] = []
    blocks = chain([heading(1, source.name)], _blocks(lines, language, source.name, remarks))
    return ParsedSource(source.name, {}, cut_lines(blocks, source.name), remarks)


def _blocks(lines: Iterator[str], language: Language, name: str, remarks: list[Remark]) -> Iterator[str]:
    if not language.grammar:
        yield from fenced(lines, language.name)
        return
    held, size = read_up_to(lines, MAX_CHARACTERS)
    problem = _problem(held, size, language)
    found: Iterable[str] | None = None
    if not problem:
        found = outline("".join(held), language)
    if found is None:
        text = f"{name}: {problem or 'its syntax is too tangled'}, so it is kept without sections for its functions"
        remarks.append(Remark(RemarkKind.IRREGULAR, text))
        found = fenced(chain(held, lines), language.name)
    yield from found


def readable_code(lines: Iterable[str], language: Language) -> str:
    """Returns the text of a file that parses into sections for its functions; "" for any other."""
    held, size = read_up_to(lines, MAX_CHARACTERS)
    return "" if _problem(held, size, language) else "".join(held)


def _problem(lines: list[str], size: int, language: Language) -> str:
    opening = _OPENINGS.get(language.name)
    if opening and sum(line.count(opening) for line in lines) > _MAX_OPENINGS:
        return f"it has more than {_MAX_OPENINGS:,} of {opening}"
    if size > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS // 1024} KiB of code"
    return "its lines are as long as a program's output" if size > _MAX_LINE * (len(lines) + 4) else ""
