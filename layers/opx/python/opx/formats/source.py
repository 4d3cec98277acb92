"""Input and output of parsers, and decoding of text: charsets, line lengths, normalisation."""

from __future__ import annotations

import codecs
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from opx.domain.documents import Remark
from opx.domain.ids import normalise
from opx.domain.knowledge import Category
from opx.errors import UnparsableDocumentError
from opx.ports.models import ParsingTools

HEAD_BYTES = 8 * 1024
BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """An opened object. `head` holds its first 8 KiB, which are already consumed from `stream`.

    `tools` read pictures and scans.
    """

    name: str
    head: bytes
    stream: BinaryIO
    category: Category
    tools: ParsingTools = field(default_factory=ParsingTools)

    def blocks(self) -> Iterator[bytes]:
        """All bytes, from the beginning, in pieces of at most 64 KiB. Can be consumed once."""
        yield self.head
        while block := self.stream.read(BLOCK_BYTES):
            yield block


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """The title that the format declares, if any; metadata as found, unvalidated; and the text.

    `lines` is consumed once. It yields normalised Markdown in lines that end with `\
    ` (the last may not); a line of
    more than 64 Ki characters comes in several pieces. Joined they are the document's text. Errors beyond the first bytes
    appear only while reading: iterating raises `UnparsableDocumentError`, too. `remarks` about parts that were left out
    may also grow: they are complete once `lines` is exhausted. `format` is the
    name of the format.
    """

    title: str | None
    metadata: dict[str, Any]
    lines: Iterator[str]
    remarks: list[Remark] = field(default_factory=list)
    format: str = ""


Parser = Callable[[Source], ParsedSource]
"""Parses one format. Raises `UnparsableDocumentError` that names the file, the problem and the remedy."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files, by its extensions (`.md .markdown`). Functions are named as `package.module:function`, and are
    imported when a file is read.

    `parse` is a `Parser`. `reader` replaces it for binary files from strangers: the sandbox process calls it with
    the path of the file, a `ReadingJob` and an `Output`; `draw`, likewise, renders pages that have no text. `binary` files
    need not be text; `is_picture`: the document is one picture. `family` is that of `opx.domain.knowledge.FORMATS`.
    `structure` states what the graph has of such a file, as `opx.graph.extraction.material.Statement` does.
    """

    extensions: str
    parse: str = ""
    reader: str = ""
    draw: str = ""
    binary: bool = False
    is_picture: bool = False
    family: str = ""
    structure: str = ""


# -- decoding


MAX_PIECE = 64 * 1024
"""Characters of a line that are kept together."""

NOTHING = "there is nothing but white space in it; upload it again"
_CUT_WINDOW = 4096
_DECLARED_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w.:-]{1,40})""", re.IGNORECASE)
_ASCII = "<meta\\n+AGE-"
"""Unchanged in charsets that contain ASCII; but neither in UTF-7, nor in a codec of escapes."""
_LARGER_CHARSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
_MAX_MARKS = 256
"""Combining characters in a row. Text has up to 30 (the Stream-Safe Text Format of UAX 15); normalising takes time that
grows with the square of the run, so that a crafted file could keep a machine busy for hours."""


def text_lines(source: Source) -> Iterator[str]:
    """The object's text, normalised, in lines of at most 64 Ki characters; nothing else is changed.

    Raises `UnparsableDocumentError` for bytes that are neither UTF-8 nor UTF-16 with a byte order mark.
    """
    return cut_lines(_decoded(source), source.name)


def cut_lines(blocks: Iterable[str], name: str) -> Iterator[str]:
    """Cuts text in blocks of any size to normalised lines; longer ones are cut where normalising is not affected.

    Line ends must be `\\n` already, or within a block.
    """
    rest = ""
    for block in blocks:
        *lines, rest = (rest + block).split("\n")
        for line in lines:
            yield from (_normalised(piece, name) for piece in _pieces(line + "\n", name))
        *whole, rest = _pieces(rest, name)
        yield from (_normalised(piece, name) for piece in whole)
    if rest:
        yield _normalised(rest, name)


def read_text(source: Source) -> str:
    """The whole text, with `\\n` line ends, for formats that can't be read in parts. Raises like `text_lines`."""
    return "".join(_decoded(source))


def read_html_text(source: Source) -> str:
    """Like `read_text`, for HTML: bytes that are not UTF-8 are decoded in the charset that the page's <meta> declares.

    Valid UTF-8 is decoded as such, whatever the page declares: often that is the charset before it was saved anew.
    """
    charset = declared_charset(source.head)
    if not charset or _encoding(source.head)[1]:
        return read_text(source)
    data = b"".join(source.blocks())
    for name in ("utf-8", charset) if not charset.startswith("iso2022") else (charset, "utf-8"):
        try:
            text = data.decode(name)
        except UnicodeError:
            continue
        _refuse_binary(text, source.name, 1)
        return text.replace("\r\n", "\n").replace("\r", "\n")
    problem = f"neither valid UTF-8 nor {charset}, which its <meta> declares"
    raise UnparsableDocumentError(f"{source.name}: {problem}; save it as UTF-8")


def declared_charset(head: bytes, within: int = 1024) -> str:
    """Python's name of the charset that a page's <meta> declares; "" for none, and for an unknown one.

    It has to be in the page's first 1,024 bytes (HTML standard, "Specifying the document's character encoding"), in
    a superset of ASCII; some names stand for the larger charsets that browsers use (WHATWG's Encoding standard).
    """
    found = _DECLARED_CHARSET.search(head[:within])
    try:
        name = codecs.lookup(found[1].decode("ascii")).name if found else ""
        known = bool(name) and _ASCII.encode("ascii").decode(name) == _ASCII
    except (LookupError, UnicodeError):  # no codec, a codec that is not for text, or UTF-16, which can't be declared
        return ""
    return _LARGER_CHARSETS.get(name, name) if known else ""


def not_blank(lines: Iterable[str], name: str, problem: str) -> Iterator[str]:
    """Yields the same lines; raises `UnparsableDocumentError` at the end if there was nothing but white space."""
    blank = True
    for line in lines:
        blank = blank and not line.strip()
        yield line
    if blank:
        raise UnparsableDocumentError(f"{name}: {problem}")


def filled_lines(source: Source) -> Iterator[str]:
    """Like `text_lines`; raises `UnparsableDocumentError` at the end for a file of nothing but white space."""
    return not_blank(text_lines(source), source.name, NOTHING)


def read_up_to(lines: Iterable[str], most: int) -> tuple[list[str], int]:
    """Reads the first lines, up to the first that exceeds `most` characters in all; returns them and their characters."""
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size > most:
            break
    return held, size


def well_formed(text: str) -> str:
    """Text that every store accepts: NUL and halves of surrogate pairs, which escapes can smuggle in, become U+FFFD."""
    return text.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _decoded(source: Source) -> Iterator[str]:
    """Decodes text with `\
    ` line ends, without byte order mark."""
    encoding, mark = _encoding(source.head)
    decoder = codecs.getincrementaldecoder(encoding)()
    newlines = io.IncrementalNewlineDecoder(None, translate=True)
    offset, line = mark, 1
    for block in _then_empty(source.blocks(), mark):
        pending = len(decoder.getstate()[0])
        try:
            text = newlines.decode(decoder.decode(block, final=not block), final=not block)
        except UnicodeDecodeError as exc:
            raise _not_decodable(source.name, exc, offset - pending + exc.start, line) from exc
        _refuse_binary(text, source.name, line)
        offset += len(block)
        line += text.count("\n")
        yield text


def _refuse_binary(text: str, name: str, line: int) -> None:
    if "\0" in text:
        line += text.partition("\0")[0].count("\n")
        problem = f"NUL character in line {line}, so it is binary data, not text"
        raise UnparsableDocumentError(f"{name}: {problem}; convert it to Markdown, plain text or HTML")


def _not_decodable(name: str, exc: UnicodeDecodeError, offset: int, line: int) -> UnparsableDocumentError:
    line += normalise(exc.object[: exc.start].decode(exc.encoding, "replace")).count("\n")
    encoding = "UTF-8" if exc.encoding == "utf-8" else "UTF-16"
    remedy = "save it as UTF-8, or as UTF-16 with a byte order mark"
    return UnparsableDocumentError(f"{name}: not valid {encoding} at byte {offset} (line {line}); {remedy}")


def _then_empty(blocks: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """Yields the blocks without the first `skip` bytes, then an empty one, which ends the decoder's input."""
    first = next(blocks, b"")[skip:]
    if first:
        yield first
    yield from blocks
    yield b""


def _encoding(head: bytes) -> tuple[str, int]:
    """Python's name of the encoding and the length of the byte order mark."""
    if head.startswith(codecs.BOM_UTF8):
        return "utf-8", 3
    if head.startswith(codecs.BOM_UTF16_LE):
        return "utf-16-le", 2
    if head.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be", 2
    return "utf-8", 0


def _pieces(line: str, name: str) -> Iterator[str]:
    """Splits a line into pieces that can be normalised one by one; at least one, if it is empty."""
    while len(line) > MAX_PIECE:
        at = _safe_cut(line, name)
        yield line[:at]
        line = line[at:]
    yield line


def _safe_cut(line: str, name: str) -> int:
    """The last position up to the limit where the parts, normalised one by one, make up the normalised whole."""
    for at in range(MAX_PIECE, MAX_PIECE - _CUT_WINDOW, -1):
        if _starts_afresh(line[at]):
            return at
    raise UnparsableDocumentError(f"{name}: a line has thousands of characters that can't be separated; break it up")


def _starts_afresh(char: str) -> bool:
    """True if the character never composes with what is before it: neither a mark, nor a vowel or final of Hangul.

    The scripts of plane 1 below the symbols are excluded, as some of their letters compose; so are unassigned characters.
    """
    code = ord(char)
    if 0x1160 <= code < 0x1200 or 0x10000 <= code < 0x1F000:
        return False
    return unicodedata.category(char)[0] not in "MC"


def _normalised(piece: str, name: str) -> str:
    if piece.isascii():
        return piece
    for at in range(0, len(piece), _MAX_MARKS // 2):
        if unicodedata.combining(piece[at]) and _run_of_marks(piece, at) > _MAX_MARKS:
            raise UnparsableDocumentError(
                f"{name}: more than {_MAX_MARKS} combining characters in a row, so it is not text; remove them"
            )
    return normalise(piece)


def _run_of_marks(piece: str, at: int) -> int:
    start = end = at
    while start > 0 and unicodedata.combining(piece[start - 1]) and at - start <= _MAX_MARKS:
        start -= 1
    while end < len(piece) and unicodedata.combining(piece[end]) and end - at <= _MAX_MARKS:
        end += 1
    return end - start
