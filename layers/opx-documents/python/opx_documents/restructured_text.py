"""Converts reStructuredText (standalone pages and Sphinx) to Markdown by docutils.

Only docutils' parser and transforms are used, none of which is under the GPL (its Emacs mode, which isn't in the
package, is). Imported only where such a file is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, count
from textwrap import indent
from typing import Any, ClassVar

from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, Parser, roles, states
from docutils.utils import unescape

from opx.domain.documents import Remark, RemarkKind
from opx.formats.source import ParsedSource, Source, cut_lines, filled_lines
from opx.formats.writing import cell, fenced, heading, plain_text, table_head, table_row

MAX_CHARACTERS = 512 * 1024
MAX_LINES = 20_000
MAX_MARKS = 5_000
"""Directives, targets, references and underlines: docutils compares each with others of its kind."""

MAX_PARAGRAPH = 32 * 1024
"""Characters between two blank lines: for each unclosed mark docutils reads on to the end of the paragraph."""

MAX_INDENT = 60
"""Columns, and list marks in a line: each level costs docutils a dozen stack frames."""

_NESTED = re.compile(rf"[ \t]{{{MAX_INDENT * 4},}}|(?:[-*+•|>:.][ \t]+|\S\.[ \t]+){{{MAX_INDENT // 2},}}")
_MARKS = re.compile(r"^[ \t]*(?:\.\.[ \t]|__[ \t]|[=~^\"'`#*+.:_-]{2,}[ \t]*$)|_(?!\w)", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_SETTINGS = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "report_level": 5,
    "halt_level": 5,
    "warning_stream": False,
    "syntax_highlight": "none",
    "smart_quotes": False,
    "doctitle_xform": True,
    "docinfo_xform": True,
    "line_length_limit": 10_000,
    "pep_references": False,
    "rfc_references": False,
}

_DROPPED = (
    nodes.docinfo,
    nodes.target,
    nodes.substitution_definition,
    nodes.meta,
    nodes.decoration,
    nodes.pending,
    nodes.colspec,
    nodes.raw,
    nodes.title,
    nodes.subtitle,
)
_LANGUAGE = re.compile(r"[\w+#.-]{1,40}\Z")
_MAX_SPAN = 200


def parse_restructured_text(source: Source) -> ParsedSource:
    """Converts the page to Markdown; title, author, version, date and more come from its field list. Files aren't included.

    A page that docutils can't parse within the limits is kept as plain text and remarked on.
    """
    name = source.name
    lines = filled_lines(source)
    held: list[str] = []
    size = paragraph = marks = 0
    problem = ""
    for line in lines:
        held.append(line)
        size += len(line)
        paragraph = paragraph + len(line) if line.strip() else 0
        marks += len(_MARKS.findall(line))
        problem = _problem(line, size, paragraph) or _too_many(len(held), marks)
        if problem:
            break
    document = None if problem else _document("".join(held))
    if document is None:
        text = f"{name}: {problem or 'it is nested too deeply'}, so it is kept as plain text"
        return ParsedSource(None, {}, chain(held, lines), [Remark(RemarkKind.IRREGULAR, text)])
    remarks: list[Remark] = []
    text = markdown(document, name, remarks)
    if not text.strip():
        return ParsedSource(
            None, {}, iter(held), [Remark(RemarkKind.IRREGULAR, f"{name}: no text, but marks; kept as is")]
        )
    return ParsedSource(document.get("title") or None, _metadata(document), cut_lines([text], name), remarks)


def _problem(line: str, size: int, paragraph: int) -> str:
    if size > MAX_CHARACTERS:
        return f"it has more than {MAX_CHARACTERS // 1024} KiB"
    if paragraph > MAX_PARAGRAPH:
        return f"a paragraph has more than {MAX_PARAGRAPH // 1024} KiB"
    return "it is nested too deeply" if _NESTED.match(line) else ""


def _too_many(lines: int, marks: int) -> str:
    if marks > MAX_MARKS:
        return f"it has more than {MAX_MARKS:,} directives, references and underlines"
    return f"it has more than {MAX_LINES:,} lines" if lines > MAX_LINES else ""


def _document(text: str) -> nodes.document | None:
    try:
        return publish_doctree(text, parser=SphinxParser(), settings_overrides=_SETTINGS)
    except (RecursionError, AssertionError, IndexError, AttributeError, ValueError, TypeError, KeyError, OverflowError):
        return None  # docutils raises this, and not an error of its own, for cases that its authors didn't foresee


def _metadata(document: nodes.document) -> dict[str, Any]:
    found: dict[str, Any] = {}
    authors: list[str] = []
    info = next(iter(document.findall(nodes.docinfo)), None)
    for node in info.children if info is not None else []:
        text = node.astext()
        if isinstance(node, nodes.author):
            authors.append(text)
        elif isinstance(node, nodes.authors):
            authors.extend(child.astext() for child in node.children)
        elif isinstance(node, nodes.version | nodes.revision):
            found.setdefault("version", text)
        elif isinstance(node, nodes.date) and _DATE.match(text):
            found["last_updated"] = text
    if authors:
        found["author"] = ", ".join(authors)[:500]
    for meta in document.findall(nodes.meta):
        if meta.get("name") in ("description", "keywords"):
            found["tags" if meta["name"] == "keywords" else "description"] = str(meta.get("content", ""))
    return found


def markdown(document: nodes.document, name: str, remarks: list[Remark]) -> str:
    """Converts the text under the title. Unresolved includes are added to `remarks`."""
    writer = _Writer(name, remarks)
    title = document.get("title")
    subtitle = next((node.astext() for node in document.children if isinstance(node, nodes.subtitle)), "")
    return heading(1, title or "") + (f"{subtitle}\n\n" if subtitle else "") + writer.blocks(document.children, 2)


@dataclass(frozen=True, slots=True)
class _Writer:
    name: str
    remarks: list[Remark]

    def blocks(self, children: Iterable[nodes.Node], level: int) -> str:
        return "".join(self.block(node, level) for node in children)

    def block(self, node: nodes.Node, level: int) -> str:
        """Converts one block with the blank line below it; "" for invisible nodes."""
        if isinstance(node, nodes.comment):
            return self._comment(node)
        if isinstance(node, _DROPPED):
            return ""
        if isinstance(node, nodes.section):
            title = next((child for child in node.children if isinstance(child, nodes.title)), None)
            return heading(level, title.astext() if title is not None else "") + self.blocks(node.children, level + 1)
        for kinds, write in _WRITERS:
            if isinstance(node, kinds):
                return write(self, node, level)
        if isinstance(node, nodes.TextElement | nodes.Text):
            text = plain_text(_inline(node)).strip("\n")
            return f"{text}\n\n" if text.strip() else ""
        return self.blocks(node.children, level)

    def _comment(self, node: nodes.comment) -> str:
        if "opx-directive" in node.get("classes", ()):
            text = f"{self.name}: `{node.astext()[:200]}` is not followed"
            self.remarks.append(Remark(RemarkKind.UNREAD_PART, text))
        return ""

    def code(self, node: nodes.Element, _level: int) -> str:
        language = str(node.get("language", "")) or next((one for one in node.get("classes", ()) if one != "code"), "")
        lines = node.astext().splitlines(keepends=True)
        return "".join(fenced(lines, language if _LANGUAGE.match(language) else ""))

    def items(self, node: nodes.Element, level: int) -> str:
        first = int(node.get("start", 1))
        numbered = isinstance(node, nodes.enumerated_list)
        bullets = (f"{number}. " if numbered else "- " for number in count(first))
        shown = (self.blocks(item.children, level) for item in node.children)
        return "".join(map(_bulleted, bullets, shown)) + "\n"

    def definitions(self, node: nodes.Element, level: int) -> str:
        return "".join(self._definition(item, level) for item in node.children) + "\n"

    def _definition(self, item: nodes.Node, level: int) -> str:
        """A term or field in bold, and its definition."""
        first, *others = item.children or [nodes.Text("")]
        definition = self.blocks((one for one in others if not isinstance(one, nodes.classifier)), level).strip("\n")
        term = " ".join(_inline(first).split())
        return _bulleted("- ", f"**{term}**: {definition}" if definition else f"**{term}**")

    def admonition(self, node: nodes.Element, level: int) -> str:
        title = next((child.astext() for child in node.children if isinstance(child, nodes.title)), "")
        label = title or type(node).__name__.capitalize()
        return f"**{label}:** {self.blocks(node.children, level)}"

    def system_message(self, node: nodes.Element, _level: int) -> str:
        """The source of an error that docutils couldn't parse, unchanged."""
        literal = next((child for child in node.children if isinstance(child, nodes.literal_block)), None)
        return self.code(literal, 0) if literal is not None else ""

    def table(self, node: nodes.Element, level: int) -> str:
        title = next((child.astext() for child in node.children if isinstance(child, nodes.title)), "")
        rows = [self._cells(row, level) for row in node.findall(nodes.row)]
        head = next(iter(node.findall(nodes.thead)), None)
        width = max((len(row) for row in rows), default=0)
        if not width:
            return ""
        full = [row + [""] * (width - len(row)) for row in rows]
        header = full.pop(0) if head is not None and head.children else [""] * width
        return (f"**{title}**\n\n" if title else "") + table_head(header) + "".join(map(table_row, full)) + "\n"

    def _cells(self, row: nodes.Element, level: int) -> list[str]:
        cells: list[str] = []
        for entry in row.children:
            cells.append(cell(self.blocks(entry.children, level)))
            cells += [""] * min(int(entry.get("morecols", 0)), _MAX_SPAN)
        return cells

    def image(self, node: nodes.Element, _level: int) -> str:
        alt = " ".join(str(node.get("alt", "")).split())
        return f"{alt}\n\n" if alt else ""

    def lines(self, node: nodes.Element, _level: int) -> str:
        return plain_text("\n".join(_inline(line) for line in node.findall(nodes.line))) + "\n\n"

    def quote(self, node: nodes.Element, level: int) -> str:
        return "".join(f"> {line}\n" for line in self.blocks(node.children, level).strip("\n").split("\n")) + "\n"

    def rubric(self, node: nodes.Element, _level: int) -> str:
        return f"**{_inline(node)}**\n\n"

    def footnote(self, node: nodes.Element, level: int) -> str:
        label = next((child.astext() for child in node.children if isinstance(child, nodes.label)), "")
        others = [child for child in node.children if not isinstance(child, nodes.label)]
        return f"[{label}] {self.blocks(others, level)}"

    def topic(self, node: nodes.Element, level: int) -> str:
        title = next((child.astext() for child in node.children if isinstance(child, nodes.title)), "")
        return (f"**{title}**\n\n" if title else "") + self.blocks(node.children, level)


_WRITERS: tuple[tuple[type | tuple[type, ...], Callable[[_Writer, nodes.Element, int], str]], ...] = (
    ((nodes.literal_block, nodes.doctest_block, nodes.math_block), _Writer.code),
    ((nodes.bullet_list, nodes.enumerated_list), _Writer.items),
    ((nodes.definition_list, nodes.field_list, nodes.option_list), _Writer.definitions),
    (nodes.Admonition, _Writer.admonition),
    (nodes.system_message, _Writer.system_message),
    (nodes.table, _Writer.table),
    (nodes.image, _Writer.image),
    (nodes.line_block, _Writer.lines),
    (nodes.block_quote, _Writer.quote),
    (nodes.rubric, _Writer.rubric),
    ((nodes.footnote, nodes.citation), _Writer.footnote),
    ((nodes.topic, nodes.sidebar), _Writer.topic),
)


def _bulleted(bullet: str, text: str) -> str:
    shown = indent(text.strip("\n"), " " * len(bullet)).lstrip(" ")
    return f"{bullet}{shown}\n" if shown.strip() else ""


def _inline(node: nodes.Node) -> str:
    if isinstance(node, nodes.Text):
        return str(node.astext())
    if isinstance(node, nodes.image | nodes.system_message):
        return str(node.get("alt", ""))
    text = "".join(_inline(child) for child in node.children)
    if isinstance(node, nodes.literal) and text.strip():
        return f"`{text}`" if "`" not in text else f"`` {text} ``"
    if isinstance(node, nodes.strong) and text.strip():
        return f"**{text}**"
    if isinstance(node, nodes.reference):
        address = str(node.get("refuri", ""))
        return f"{text} ({address})" if address.startswith(("http://", "https://")) and address != text else text
    return text


# -- lenient parsing


_CODE = ("code", "code-block", "sourcecode", "prompt", "parsed-literal", "ipython", "doctest", "testcode")
_DROPPED_DIRECTIVES = (
    "index",
    "highlight",
    "currentmodule",
    "default-domain",
    "role",
    "default-role",
    "tabularcolumns",
    "contents",
)
_NOT_THERE = ("include", "literalinclude", "raw", "date")
_VERSIONS = {
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_OWN = frozenset((*_CODE, *_DROPPED_DIRECTIVES, *_NOT_THERE, *_VERSIONS, "toctree", "class", "seealso"))
_DIRECTIVE = re.compile(r"\.\.[ ]+\S+?[ ]?::(?:[ ]+|$)")
_TARGETED = re.compile(r"(.+?)\s*<[^<>]*>\Z", re.DOTALL)
_NAME = "opx-directive"


class _AnyOption(dict[str, Any]):
    """Accepts options of any name."""

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, name: str) -> Any:
        return lambda value: value or ""


class _Any(Directive):  # type: ignore[misc]
    """Any directive: its arguments, its meaningful options, and its content."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar[Any] = _AnyOption()

    def run(self) -> list[nodes.Node]:
        if self.name in _DROPPED_DIRECTIVES:
            return []
        if self.name in _CODE:
            return self._code()
        if self.name in _NOT_THERE:
            return [nodes.comment("", f"{self.name} {' '.join(self.arguments)}".strip(), classes=[_NAME])]
        return [*self._named(), *self._nested()]

    def _code(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        language = " ".join(self.arguments) if self.name != "parsed-literal" else ""
        if not text:  # without a blank line before it, the code counts as an argument
            language, _, text = "\n".join(self.arguments).partition("\n")
        caption = self.options.get("caption")
        block = nodes.literal_block(text, text, language=language)
        return [nodes.paragraph("", str(caption)), block] if caption else [block]

    def _named(self) -> list[nodes.Node]:
        text = "\n".join(self.arguments)
        if self.name == "toctree":
            entries = [line.strip() for line in (*self.arguments, *self.content) if line.strip()]
            items = [nodes.list_item("", nodes.paragraph("", _titled(entry))) for entry in entries]
            return [nodes.bullet_list("", *items)] if items else []
        if self.name in _VERSIONS:
            version, _, text = text.partition(" ") if "\n" not in text else text.partition("\n")
            return [nodes.paragraph("", f"{_VERSIONS[self.name]} {version}{': ' if text else ''}{text.strip()}")]
        if self.name == "seealso":
            return [nodes.paragraph("", "", nodes.strong("", "See also:"), nodes.Text(f" {text}"))]
        names = [f"{self.name}::" if ":" not in self.name else f"{self.name.rpartition(':')[2]}::"]
        lines = [nodes.strong("", names[0])]
        if text:
            lines += [nodes.Text(" "), nodes.literal("", " ".join(text.split()))]
        options = ", ".join(
            f"{key}: {value}" for key, value in self.options.items() if isinstance(value, str) and value
        )
        if options:
            lines.append(nodes.Text(f" ({options})"))
        return [nodes.paragraph("", "", *lines)]

    def _nested(self) -> list[nodes.Node]:
        if self.name == "toctree":
            return []
        node = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, node)
        return list(node.children)


def _titled(text: str) -> str:
    match = _TARGETED.match(text)
    return match[1] if match else text


class _Lenient:
    """Mixin for the states of docutils' parser."""

    state_machine: Any
    nested_sm_cache: ClassVar[list[Any]] = []
    """Separate from docutils' own cache, whose machines have its own states."""

    def __init__(self, state_machine: Any, debug: bool = False) -> None:
        super().__init__(state_machine, debug)  # type: ignore[call-arg]
        self.nested_sm_kwargs = {"state_classes": STATES, "initial_state": "Body"}

    def run_directive(self, directive: Any, match: Any, type_name: str, option_presets: Any) -> Any:
        name = type_name.lower()
        chosen = _Any if name in _OWN else directive
        return super().run_directive(chosen, match, name, option_presets)  # type: ignore[misc]

    def unknown_directive(self, type_name: str) -> Any:
        match = _DIRECTIVE.match(self.state_machine.line)
        if not match:  # within a substitution
            return super().unknown_directive(type_name)  # type: ignore[misc]
        return super().run_directive(_Any, match, type_name.lower(), {})  # type: ignore[misc]


STATES = tuple(type(state.__name__, (_Lenient, state), {}) for state in states.state_classes)
"""docutils' own states, more lenient; docutils finds them by these names."""


def _inliner() -> states.Inliner:
    """Renders roles unknown to docutils as their text: `:ref:`title <target>`` as the title.

    Not a subclass: docutils looks for its patterns in the class of the object itself.
    """
    inliner = states.Inliner()
    known = inliner.interpreted

    def interpreted(rawsource: str, text: str, role: str, lineno: int) -> Any:
        if role.lower() in _KNOWN_ROLES:
            return known(rawsource, text, role, lineno)
        shown = _titled(unescape(text, True).lstrip("~!"))
        plain = role.rpartition(":")[2] in _PLAIN_ROLES
        return [nodes.Text(shown) if plain else nodes.literal("", shown)], []

    inliner.interpreted = interpreted
    return inliner


_PLAIN_ROLES = ("ref", "doc", "term", "abbr", "guilabel", "numref", "any", "menuselection")
_KNOWN_ROLES = frozenset(
    ("", "emphasis", "strong", "literal", "math", "sub", "subscript", "sup", "superscript", "code")
)


class SphinxParser(Parser):  # type: ignore[misc]
    """Parses one document."""

    def __init__(self) -> None:
        super().__init__(inliner=_inliner())
        self.state_classes = STATES

    def parse(self, inputstring: str, document: nodes.document) -> None:
        roles._roles.pop("", None)  # left behind if another document failed
        super().parse(inputstring, document)
