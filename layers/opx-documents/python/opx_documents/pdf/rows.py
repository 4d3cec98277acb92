"""Builds rows of a PDF page from PDFium's characters: words, segments of words, and segments on one baseline."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pypdfium2 as pdfium
from pypdfium2 import raw

BULLET = re.compile(r"[•●▪■◦○‣⁃∙·\uf0b7\uf0a7\uf0d8–—]\s*(?=\S)|[•●▪■◦○‣\uf0b7\uf0a7\uf0d8–—-]$")
_MARK_OF_ITEM = re.compile(r"(?:\d{1,3}|[a-zA-Z])[.)]|\((?:\d{1,3}|[a-z])\)")

WIDE_GAP = 1.0
"""In font sizes: a gap this wide may part columns or cells; between words it is mostly a quarter to one half."""


_HYPHEN = "\x02"
"""PDFium's mark for a hyphen that ends a line; the next line follows at once."""
_RUN = re.compile(r"([^\s\x02]*)(?:[^\S\r\n]+|([\r\n\x02])|\Z)")
_NO_CHARACTERS = frozenset({0, *range(0xD800, 0xE000)})
_MONO = re.compile(r"mono|courier|consol|cmtt|menlo|typewriter|fixed|lettergothic", re.IGNORECASE)
_BOLD = re.compile(r"bold|black|heavy|cmbx|-bd|demi", re.IGNORECASE)
_FIXED_PITCH = 1
"""Bit of a font's flags (ISO 32000-1, table 123)."""
_NAME_BYTES = 128


@dataclass(slots=True)
class TextRow:
    """Segments on one baseline, from left to right. `level` is set for headings."""

    segments: list[Segment]
    level: int = 0
    text: str = field(init=False)
    size: float = field(init=False)
    y0: float = field(init=False)
    y1: float = field(init=False)

    def __post_init__(self) -> None:
        self.segments.sort(key=lambda segment: segment.x0)
        while len(self.segments) > 1 and _is_mark(self.segments[0].text):
            mark, text = self.segments[:2]
            joined = Segment([*mark.words, *text.words], text.size, text.mono, text.bold, text.hyphen)
            self.segments[:2] = [joined]
        self.text = " ".join([segment.text for segment in self.segments])
        self.size = max(self.segments, key=lambda segment: len(segment.text)).size
        self.y0 = min([segment.y0 for segment in self.segments])
        self.y1 = max([segment.y1 for segment in self.segments])

    @property
    def x0(self) -> float:
        return self.segments[0].x0

    @property
    def x1(self) -> float:
        return self.segments[-1].x1


def _is_mark(text: str) -> bool:
    """True if the text is only a list item's mark."""
    return bool(_MARK_OF_ITEM.fullmatch(text) or (len(text) == 1 and BULLET.match(text)))


def rows_of(segments: Iterator[Segment]) -> list[TextRow]:
    """Groups consecutive segments on one baseline into rows; a page drawn out of order is sorted."""
    groups = _grouped(segments, -1)
    if _out_of_order(groups):
        drawn = (segment for group in groups for segment in group)
        groups = _grouped(sorted(drawn, key=lambda found: (-(found.y0 + found.y1), found.x0)), 0)
    return [TextRow(group) for group in groups]


def _grouped(segments: Iterable[Segment], at: int) -> list[list[Segment]]:
    """Groups segments that are on one line with the first (0) or the last (-1) of the group."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and _same_line(groups[-1][at], segment):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _same_line(one: Segment, other: Segment) -> bool:
    if one.hyphen:
        return False
    low, high = max(one.y0, other.y0), min(one.y1, other.y1)
    return high - low > 0.5 * min(one.y1 - one.y0, other.y1 - other.y0)


def _out_of_order(groups: list[list[Segment]]) -> bool:
    """True if the page jumps up more often than a few columns, a header and a footer explain."""
    jumps = sum(after[0].y0 > before[0].y1 for before, after in pairwise(groups))
    return jumps > max(4, len(groups) // 10)


@dataclass(slots=True)
class Word:
    """Text and its box, in points from the page's lower left corner."""

    text: str
    x0: float
    x1: float
    y0: float
    y1: float


@dataclass(slots=True)
class Segment:
    """Adjacent words, and the box around them. `hyphen`: the last one continues on the next line."""

    words: list[Word]
    size: float
    mono: bool = False
    bold: bool = False
    hyphen: bool = False
    text: str = field(init=False)
    x0: float = field(init=False)
    x1: float = field(init=False)
    y0: float = field(init=False)
    y1: float = field(init=False)

    def __post_init__(self) -> None:
        self.text = " ".join([word.text for word in self.words])
        self.x0, self.x1 = self.words[0].x0, self.words[-1].x1
        self.y0 = min([word.y0 for word in self.words])
        self.y1 = max([word.y1 for word in self.words])


class PageText:
    """Queries PDFium for a page's characters as little as possible: all codes, and the boxes of the ends of words."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        self._page = page.get_textpage()
        self._handle = self._page.raw
        self._box = tuple(ctypes.c_double() for _ in range(4))
        self._name = ctypes.create_string_buffer(_NAME_BYTES)
        self._flags = ctypes.c_int()
        self._matrix = raw.FS_MATRIX()

    def close(self) -> None:
        self._page.close()

    def segments(self) -> Iterator[Segment]:
        """Segments in drawing order."""
        words: list[Word] = []
        first, size = 0, 1.0
        for run in _RUN.finditer(self._text()):
            start, text, ended = (
                run.start(),
                run[1],
                run[2],
            )  # `ended`: the line break or hyphen after it, None for neither
            if text:
                word = self._word(start, text)
                if words and not _next_to(words[-1], word, size):
                    yield self._segment(words, first, size)
                    words = []
                if not words:
                    first, size = start, self._size(start)
                words.append(word)
            if ended and words:
                yield self._segment(words, first, size, hyphen=ended == _HYPHEN)
                words = []
        if words:
            yield self._segment(words, first, size)

    def _text(self) -> str:
        """One character per character that PDFium counts. It can return them at once, but where some have no code or
        one beyond 16 bits, that string's length differs from the count."""
        count = raw.FPDFText_CountChars(self._page)
        buffer = (ctypes.c_ushort * (count + 1))()
        written = raw.FPDFText_GetText(self._page, 0, count, buffer) - 1
        text = bytes(buffer)[: 2 * written].decode("utf-16-le", "replace").replace("\ufffe", _HYPHEN)
        if len(text) == count == written:
            return text
        codes = [raw.FPDFText_GetUnicode(self._page, index) for index in range(count)]
        return "".join([chr(code) if code not in _NO_CHARACTERS else "\ufffd" for code in codes])

    def _word(self, start: int, text: str) -> Word:
        x0, x1, y0, y1 = self._place(start)
        if len(text) > 1:
            left, right, bottom, top = self._place(start + len(text) - 1)
            x0, x1, y0, y1 = min(x0, left), max(x1, right), min(y0, bottom), max(y1, top)
        return Word(text, x0, x1, y0, y1)

    def _place(self, index: int) -> tuple[float, float, float, float]:
        left, right, bottom, top = self._box
        raw.FPDFText_GetCharBox(self._handle, index, left, right, bottom, top)
        return left.value, right.value, bottom.value, top.value

    def _size(self, index: int) -> float:
        """Points; a font's own size is meaningless where the page scales it."""
        size = float(raw.FPDFText_GetFontSize(self._page, index))
        if raw.FPDFText_GetMatrix(self._page, index, self._matrix):
            size *= math.hypot(self._matrix.c, self._matrix.d)
        return max(1.0, size)

    def _segment(self, words: list[Word], first: int, size: float, *, hyphen: bool = False) -> Segment:
        raw.FPDFText_GetFontInfo(self._page, first, self._name, _NAME_BYTES, self._flags)
        name = self._name.value.decode("utf-8", "replace")
        mono = bool(self._flags.value & _FIXED_PITCH) or bool(_MONO.search(name))
        bold = bool(_BOLD.search(name)) or raw.FPDFText_GetFontWeight(self._page, first) >= 600
        return Segment(words, size, mono, bold, hyphen)


def _next_to(word: Word, after: Word, size: float) -> bool:
    gap = after.x0 - word.x1
    return -size * WIDE_GAP < gap < size * WIDE_GAP or after.x1 < word.x0 < after.x1 + size * WIDE_GAP  # or leftwards
