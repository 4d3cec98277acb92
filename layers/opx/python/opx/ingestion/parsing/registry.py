"""Picks the parser of an object by its extension, or else by what its first bytes look like."""

from __future__ import annotations

import importlib
import io
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from opx.domain.knowledge import Category
from opx.errors import UnparsableDocumentError
from opx.ingestion.parsing import config_text, sniffing
from opx.ingestion.parsing.code.languages import LANGUAGES
from opx.ingestion.parsing.source import HEAD_BYTES, ParsedSource, Parser, Source
from opx.ports.reading import ParsingTools


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is read: the module of this package and its function. `binary` ones need not be text."""

    module: str
    function: str
    binary: bool = False


_FORMATS = {
    "markdown": Format("markdown", "parse_markdown"),
    "plain": Format("plain", "parse_plain"),
    "html": Format("html", "parse_html"),
    "json": Format("json_mapping", "parse_json"),
    "pdf": Format("isolated", "parse_pdf", binary=True),
    "docx": Format("isolated", "parse_docx", binary=True),
    "pptx": Format("isolated", "parse_pptx", binary=True),
    "xlsx": Format("isolated", "parse_xlsx", binary=True),
    "email": Format("isolated", "parse_email", binary=True),
    "msg": Format("isolated", "parse_msg", binary=True),
    "image": Format("isolated", "parse_image", binary=True),
    "old_office": Format("isolated", "refuse_old_office", binary=True),
    "mailbox": Format("isolated", "refuse_mailbox", binary=True),
    "code": Format("code.source_code", "parse_code"),
    "csv": Format("csv_tables", "parse_csv"),
    "config": Format("config_text", "parse_config"),
    "yaml": Format("yaml_records", "parse_yaml"),
    "jsonl": Format("json_lines", "parse_json_lines"),
    "asciidoc": Format("asciidoc", "parse_asciidoc"),
    "rst": Format("restructured_text", "parse_restructured_text"),
}
EXTENSIONS = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "plain",
    ".text": "plain",
    ".log": "plain",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".json": "json",
    ".pdf": "pdf",
    ".docx": "docx",
    ".docm": "docx",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".eml": "email",
    ".msg": "msg",
    ".png": "image",
    ".jpg": "image",
    ".jpeg": "image",
    ".gif": "image",
    ".webp": "image",
    ".bmp": "image",
    ".tif": "image",
    ".tiff": "image",
    ".doc": "old_office",
    ".xls": "old_office",
    ".ppt": "old_office",
    ".mbox": "mailbox",
    ".csv": "csv",
    ".tsv": "csv",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".rst": "rst",
    ".rest": "rst",
    **dict.fromkeys(config_text.LANGUAGES, "config"),
    **dict.fromkeys(LANGUAGES, "code"),
}


def parse(
    stream: BinaryIO,
    *,
    name: str,
    category: Category,
    tools: ParsingTools = ParsingTools(),  # noqa: B008 (frozen)
) -> ParsedSource:
    """The text and metadata of an object, whose `name` gives its format (and is what errors call it).

    An extension that isn't known leaves the choice to the content; text of no known format is plain text. Markdown and
    plain text are read as `lines` is consumed and never held whole; HTML and JSON are. `stream` must stay open until
    then; the caller closes it and limits its size. Raises `UnparsableDocumentError`, now or while reading `lines`.
    """
    head = _read_head(stream)
    if not head:
        raise UnparsableDocumentError(f"{name}: the file is empty; upload it again")
    kind = EXTENSIONS.get(PurePosixPath(name).suffix.lower(), "") or sniffing.binary_format(head)
    if not (kind and _FORMATS[kind].binary):
        problem = sniffing.binary_problem(head)
        if problem:
            raise UnparsableDocumentError(f"{name}: {problem}; convert it to Markdown, plain text or HTML")
    return _parser(kind or sniffing.text_format(head, category))(Source(name, head, stream, category, tools))


def is_known(extension: str) -> bool:
    """Whether the extension (`.md`, in any case) tells a format that is read."""
    return extension.lower() in EXTENSIONS


def is_binary(extension: str) -> bool:
    """Whether files with this extension are no text."""
    return is_known(extension) and _FORMATS[EXTENSIONS[extension.lower()]].binary


def _read_head(stream: BinaryIO) -> bytes:
    head = io.BytesIO()
    while (missing := HEAD_BYTES - head.tell()) and (data := stream.read(missing)):
        head.write(data)
    return head.getvalue()


def _parser(kind: str) -> Parser:
    """Imported when first needed: most parsers' libraries take longer to load than most files to parse."""
    found = _FORMATS[kind]
    parser: Parser = getattr(importlib.import_module(f"opx.ingestion.parsing.{found.module}"), found.function)
    return parser
