"""Selects the parser of an object by its extension, or else by its first bytes."""

from __future__ import annotations

import codecs
import importlib.util
import io
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePosixPath
from typing import BinaryIO

from opx.domain.knowledge import ALERT_RULES_CATEGORY, Category
from opx.errors import UnparsableDocumentError
from opx.formats.code.languages import LANGUAGES
from opx.formats.markup.plain import LANGUAGES as CONFIGURATION
from opx.formats.markup.plain import is_opening
from opx.formats.source import HEAD_BYTES, ParsedSource, Parser, Source
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

_FAMILIES = ("markup", "data", "code")
_MAX_CONTROL_SHARE = 0.1
_HTML_START = re.compile(
    r"\s*+(?:<\?xml[^>]*>\s*)?(?>(?:<!--.*?-->\s*)*)<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_JSON_START = re.compile(r"\s*\{\s*[\"}]")


@dataclass(frozen=True, slots=True)
class Format:
    """A format: the module of this package and its function that parse it, and its extensions. `binary` formats need
    not be text."""

    module: str
    function: str
    extensions: str
    binary: bool = False


_FORMATS = {
    "markdown": Format("markup.plain", "parse_markdown", ".md .markdown"),
    "plain": Format("markup.plain", "parse_plain", ".txt .text .log"),
    "html": Format("sandbox.apart", "parse_html", ".html .htm .xhtml"),
    "json": Format("data.json_mapping", "parse_json", ".json"),
    "pdf": Format("sandbox.parser", "parse_pdf", ".pdf", binary=True),
    "docx": Format("sandbox.parser", "parse_docx", ".docx .docm", binary=True),
    "pptx": Format("sandbox.parser", "parse_pptx", ".pptx .pptm", binary=True),
    "xlsx": Format("sandbox.parser", "parse_xlsx", ".xlsx .xlsm", binary=True),
    "email": Format("sandbox.parser", "parse_email", ".eml", binary=True),
    "msg": Format("sandbox.parser", "parse_msg", ".msg", binary=True),
    "image": Format("sandbox.parser", "parse_image", ".png .jpg .jpeg .gif .webp .bmp .tif .tiff", binary=True),
    "old_office": Format("sandbox.parser", "refuse_old_office", ".doc .xls .ppt", binary=True),
    "mailbox": Format("sandbox.parser", "refuse_mailbox", ".mbox", binary=True),
    "csv": Format("data.csv_tables", "parse_csv", ".csv .tsv"),
    "yaml": Format("data.yaml_records", "parse_yaml", ".yaml .yml"),
    "jsonl": Format("data.json_mapping", "parse_json_lines", ".jsonl .ndjson"),
    "asciidoc": Format("markup.asciidoc", "parse_asciidoc", ".adoc .asciidoc"),
    "rst": Format("markup.restructured_text", "parse_restructured_text", ".rst .rest"),
    "config": Format("markup.plain", "parse_config", " ".join(CONFIGURATION)),
    "code": Format("code.outline", "parse_code", " ".join(LANGUAGES)),
}
_FAMILY_OF = {"code": "code", "email": "mail", "msg": "mail", "mailbox": "mail"}
_EXTENSIONS = {extension: kind for kind, found in _FORMATS.items() for extension in found.extensions.split()}


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
    suffix = PurePosixPath(name).suffix.lower()
    own = None if suffix in _EXTENSIONS else _own_parser(suffix)
    kind = _EXTENSIONS.get(suffix, "") or ("" if own else binary_format(head))
    if kind == "json" and category.path == ALERT_RULES_CATEGORY and not category.json_mapping:
        kind = "config"
    if not _is_binary(kind):
        problem = binary_problem(head)
        if problem:
            raise UnparsableDocumentError(
                f"{name}: {problem}; convert it to Markdown, PDF or another supported format (docs/sources.md)"
            )
    kind = suffix.removeprefix(".") if own else kind or text_format(head, category)
    parser = own or _parser(kind)
    return replace(parser(Source(name, head, stream, category, tools)), format=kind)


def is_known(extension: str) -> bool:
    """True if the extension (`.md`, in any case) belongs to a supported format."""
    return extension.lower() in _EXTENSIONS or _own_parser(extension.lower()) is not None


def family_of(name: str) -> str:
    """The family of `opx.domain.knowledge.FORMATS` that a file's extension belongs to; "" for none."""
    return _FAMILY_OF.get(_EXTENSIONS.get(PurePosixPath(name).suffix.lower(), ""), "")


def is_binary(extension: str) -> bool:
    """True if files with this extension are binary."""
    return _is_binary(_EXTENSIONS.get(extension.lower(), ""))


def _is_binary(kind: str) -> bool:
    return kind in _FORMATS and _FORMATS[kind].binary


def _read_head(stream: BinaryIO) -> bytes:
    head = io.BytesIO()
    while (missing := HEAD_BYTES - head.tell()) and (data := stream.read(missing)):
        head.write(data)
    return head.getvalue()


def _parser(kind: str) -> Parser:
    """Imports the parser on first use: most parsers' libraries take longer to load than most files to parse."""
    found = _FORMATS[kind]
    parser: Parser = getattr(importlib.import_module(f"opx.formats.{found.module}"), found.function)
    return parser


@lru_cache(maxsize=256)
def _own_parser(extension: str) -> Parser | None:
    """The parser of a text format whose module has the name of its extension: `parse` of `markup/org.py` parses `.org`."""
    name = extension.removeprefix(".")
    if not name.isidentifier() or name.startswith("_"):
        return None
    modules = (f"opx.formats.{family}.{name}" for family in _FAMILIES)
    found = (
        getattr(importlib.import_module(module), "parse", None)
        for module in modules
        if importlib.util.find_spec(module)
    )
    return next(filter(None, found), None)


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
    return next((kind for magic, kind in _BINARY_FORMATS if head.startswith(magic)), "")


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
