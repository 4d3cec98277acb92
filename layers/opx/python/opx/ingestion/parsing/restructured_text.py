"""reStructuredText, by docutils: pages of its own and of Sphinx, as Markdown.

Of docutils only the parser and its transforms are used, none of which is under the GPL (its Emacs mode, which isn't in
the package, is). Loaded only where such a file is parsed.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import Any

from docutils import nodes
from docutils.core import publish_doctree

from opx.domain.remarks import Remark, RemarkKind
from opx.ingestion.parsing.decoding import cut_lines, not_blank, text_lines
from opx.ingestion.parsing.restructured_parsing import SphinxParser
from opx.ingestion.parsing.restructured_writing import markdown
from opx.ingestion.parsing.source import ParsedSource, Source

MAX_CHARACTERS = 512 * 1024
MAX_LINES = 20_000
MAX_MARKS = 5_000
"""Directives, targets, references and underlines: docutils compares each with others of its kind."""

MAX_PARAGRAPH = 32 * 1024
"""Characters between two blank lines: for each mark that isn't closed docutils reads on to the end of the paragraph."""

MAX_INDENT = 60
"""Columns, and marks of lists in a line: each level costs docutils a dozen frames of the stack."""

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


def parse_restructured_text(source: Source) -> ParsedSource:
    """The page as Markdown; title, author, version, date and more from its field list. Files aren't included.

    What docutils can't take within bounds is kept as plain text and remarked on.
    """
    name = source.name
    lines = not_blank(text_lines(source), name, "there is nothing but white space in it; upload it again")
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
        return None  # docutils fails so, and not with an error of its own, on what its authors didn't foresee


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
