"""Selects the parser of an object by its extension, or else by its first bytes."""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from opx import plugins
from opx.domain.knowledge import ALERT_RULES_CATEGORY, Category
from opx.errors import UnparsableDocumentError
from opx.formats.markup.plain import LANGUAGES as CONFIGURATION
from opx.formats.markup.plain import is_opening
from opx.formats.sandbox.child import function_of
from opx.formats.source import HEAD_BYTES, Format, ParsedSource, Parser, Source
from opx.ports.models import ParsingTools

_MAGIC = (
    (b"%PDF-", "a PDF"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old Office document or an Outlook message"),
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"\x1f\x8b\x08", "a gzip archive"),
    (b"BZh91AY&SY", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"\x28\xb5\x2f\xfd", "a Zstandard archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "a Linux program"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1", "a Parquet file"),
)
_BINARY_FORMATS = ((b"%PDF-", "pdf"), (b"\x89PNG\r\n\x1a\n", "image"), (b"\xff\xd8\xff", "image"), (b"GIF8", "image"))
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_CONTROLS = bytes(set(range(0x20)) - set(b"\t\n\r\f\x08\x1b")) + b"\x7f"
"""Control characters that text doesn't use; backspace and escape are left out, as logs colour and overstrike."""

_MAX_CONTROL_SHARE = 0.1
_HTML_START = re.compile(
    r"\s*+(?:<\?xml[^>]*>\s*)?(?>(?:<!--.*?-->\s*)*)<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_JSON_START = re.compile(r"\s*\{\s*[\"}]")


_BUILT_IN = {
    "markdown": Format(".md .markdown", "opx.formats.markup.plain:parse_markdown"),
    "plain": Format(".txt .text .log", "opx.formats.markup.plain:parse_plain"),
    "html": Format(".html .htm .xhtml", "opx.formats.sandbox.apart:parse_html"),
    "json": Format(".json", "opx.formats.data.json_mapping:parse_json"),
    "csv": Format(".csv .tsv", "opx.formats.data.csv_tables:parse_csv"),
    "yaml": Format(".yaml .yml", "opx.formats.data.yaml_records:parse_yaml"),
    "jsonl": Format(".jsonl .ndjson", "opx.formats.data.json_mapping:parse_json_lines"),
    "config": Format(" ".join(CONFIGURATION), "opx.formats.markup.plain:parse_config"),
}
_BUILT_IN_EXTENSIONS = {extension: kind for kind, form in _BUILT_IN.items() for extension in form.extensions.split()}


@cache
def _formats() -> Mapping[str, Format]:
    """All formats by name: those of plugins never replace built-in ones."""
    return {**plugins.load_all(plugins.FORMATS, Format), **_BUILT_IN}


@cache
def _extensions() -> Mapping[str, str]:
    """Name of the format of each extension. Of formats with the same extension, the first by name has it."""
    return {
        extension: kind
        for kind, form in (*sorted(_formats().items(), reverse=True), *_BUILT_IN.items())
        for extension in form.extensions.split()
    }


def _kind_of(extension: str) -> str:
    """Name of the format of an extension, "" for none."""
    return _BUILT_IN_EXTENSIONS.get(extension) or _extensions().get(extension, "")


def parse(
    stream: BinaryIO,
    *,
    name: str,
    category: Category,
    tools: ParsingTools = ParsingTools(),  # noqa: B008 (frozen)
) -> ParsedSource:
    """Parses the text and metadata of an object; `name` determines its format and appears in errors.

    For an unknown extension the content decides; text of no known format is plain text. Some formats are read as
    `lines` is consumed and never held whole. `stream` must stay open until then; the caller closes it and limits its
    size. Raises `UnparsableDocumentError`, now or while reading `lines`."""
    head = _read_head(stream)
    if not head:
        raise UnparsableDocumentError(f"{name}: the file is empty; upload it again")
    kind = _kind_of(PurePosixPath(name).suffix.lower()) or binary_format(head)
    if kind == "json" and category.path == ALERT_RULES_CATEGORY and not category.json_mapping:
        kind = "config"
    if not _is_binary(kind):
        problem = binary_problem(head)
        if problem:
            raise UnparsableDocumentError(
                f"{name}: {problem}; convert it to Markdown, PDF or another supported format (docs/sources.md)"
            )
    kind = kind or text_format(head, category)
    return replace(_parser(_formats()[kind])(Source(name, head, stream, category, tools)), format=kind)


def is_known(extension: str) -> bool:
    """True if the extension (`.md`, in any case) belongs to a supported format."""
    return bool(_kind_of(extension.lower()))


def family_of(name: str) -> str:
    """The family of `opx.domain.knowledge.FORMATS` that a file's extension belongs to; "" for none."""
    kind = _kind_of(PurePosixPath(name).suffix.lower())
    return _formats()[kind].family if kind else ""


def is_binary(extension: str) -> bool:
    """True if files with this extension are binary."""
    return _is_binary(_kind_of(extension.lower()))


def _is_binary(kind: str) -> bool:
    return bool(kind) and _formats()[kind].binary


def _read_head(stream: BinaryIO) -> bytes:
    head = io.BytesIO()
    while (missing := HEAD_BYTES - head.tell()) and (data := stream.read(missing)):
        head.write(data)
    return head.getvalue()


def structure_of(name: str) -> Any:
    """The rule by which the graph reads files of this name's format; None for most formats."""
    kind = _kind_of(PurePosixPath(name).suffix.lower())
    structure = _formats()[kind].structure if kind else ""
    return function_of(structure) if structure else None


def _parser(form: Format) -> Parser:
    """Imports the parser on first use: most parsers' libraries take longer to load than most files to parse."""
    if not form.reader:
        parser: Parser = function_of(form.parse)
        return parser
    from opx.formats.sandbox.parser import read_apart

    return lambda source: read_apart(source, form, parse)


def binary_problem(head: bytes) -> str:
    """The reason why the bytes are not text, or `""`."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return f"it looks like {kind}, not text"
    if head.startswith(_UTF32_MARKS):
        return "it is UTF-32 text, which is not read; save it as UTF-8"
    if head.startswith(_UTF16_MARKS):
        return ""
    if b"\0" in head:
        return f"it has a NUL byte at byte {head.index(0)}, so it is binary data, not text"
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > len(head) * _MAX_CONTROL_SHARE:
        return f"{controls} of its first {len(head)} bytes are control characters, so it is binary data, not text"
    return ""


def binary_format(head: bytes) -> str:
    """The supported binary format of a file with this beginning; "" for none."""
    kind = next((kind for magic, kind in _BINARY_FORMATS if head.startswith(magic)), "")
    return kind if kind in _formats() else ""


def text_format(head: bytes, category: Category) -> str:
    """`html`, `json` (only where the category maps it), `markdown` (by its front matter), or else `plain`."""
    utf16 = head.startswith(_UTF16_MARKS)
    text = head.decode("utf-16" if utf16 else "utf-8-sig", errors="replace")
    if _HTML_START.match(text):
        return "html"
    if category.json_mapping and _JSON_START.match(text):
        return "json"
    first, _, rest = text.replace("\r\n", "\n").partition("\n")
    return "markdown" if is_opening(first, rest.partition("\n")[0]) else "plain"
