"""Picks the parser of an object by its extension, or else by what its first bytes look like."""

from __future__ import annotations

import io
from pathlib import PurePosixPath
from typing import BinaryIO

from opx.domain.knowledge import Category
from opx.errors import UnparsableDocumentError
from opx.ingestion.parsing import sniffing
from opx.ingestion.parsing.source import HEAD_BYTES, ParsedSource, Parser, Source

_EXTENSIONS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "plain",
    ".text": "plain",
    ".log": "plain",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".json": "json",
}


def parse(stream: BinaryIO, *, name: str, category: Category) -> ParsedSource:
    """The text and metadata of an object, whose `name` gives its format (and is what errors call it).

    An extension that isn't known leaves the choice to the content; text of no known format is plain text. Markdown and
    plain text are read as `lines` is consumed and never held whole; HTML and JSON are. `stream` must stay open until
    then; the caller closes it and limits its size. Raises `UnparsableDocumentError`, now or while reading `lines`.
    """
    head = _read_head(stream)
    if not head:
        raise UnparsableDocumentError(f"{name}: the file is empty; upload it again")
    problem = sniffing.binary_problem(head)
    if problem:
        raise UnparsableDocumentError(f"{name}: {problem}; convert it to Markdown, plain text or HTML")
    extension = PurePosixPath(name).suffix.lower()
    kind = _EXTENSIONS.get(extension) or sniffing.text_format(head, category)
    return _parser(kind)(Source(name, head, stream, category))


def _read_head(stream: BinaryIO) -> bytes:
    head = io.BytesIO()
    while (missing := HEAD_BYTES - head.tell()) and (data := stream.read(missing)):
        head.write(data)
    return head.getvalue()


def _parser(kind: str) -> Parser:
    """Imported when first needed: Beautiful Soup and JSONPath take longer to load than most files to parse."""
    if kind == "html":
        from opx.ingestion.parsing.html import parse_html

        return parse_html
    if kind == "json":
        from opx.ingestion.parsing.json_mapping import parse_json

        return parse_json
    if kind == "markdown":
        from opx.ingestion.parsing.markdown import parse_markdown

        return parse_markdown
    from opx.ingestion.parsing.plain import parse_plain

    return parse_plain
