"""The text of a PDF page as segments with their places, in the order in which the page draws them."""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pypdfium2 as pdfium
from pypdfium2 import raw

WIDE_GAP = 1.0
"""Times the font's size: a gap this wide may part columns or cells; between words it mostly has a quarter to one half."""


_HYPHEN = 0x02
"""PDFium's mark for a hyphen that ends a line; the next line follows at once."""
_ENDS = frozenset({0x0A, 0x0D})
_SPACES = frozenset({0x20, 0xA0, 0x09, 0x3000, 0x2002, 0x2003, 0x2009})
_MONO = re.compile(r"mono|courier|consol|cmtt|menlo|typewriter|fixed|lettergothic", re.IGNORECASE)
_BOLD = re.compile(r"bold|black|heavy|cmbx|-bd|demi", re.IGNORECASE)
_FIXED_PITCH = 1
"""Bit of a font's flags (ISO 32000-1, table 123)."""
_NAME_BYTES = 128


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
    """Words next to each other. `hyphen`: the last one goes on in the next line."""

    words: list[Word]
    size: float
    mono: bool = False
    bold: bool = False
    hyphen: bool = False

    @property
    def text(self) -> str:
        return " ".join(word.text for word in self.words)

    @property
    def x0(self) -> float:
        return self.words[0].x0

    @property
    def x1(self) -> float:
        return self.words[-1].x1

    @property
    def y0(self) -> float:
        return min(word.y0 for word in self.words)

    @property
    def y1(self) -> float:
        return max(word.y1 for word in self.words)


class PageText:
    """Asks PDFium for what is needed of a page's characters: all codes, and the places of the ends of words."""

    def __init__(self, page: pdfium.PdfPage) -> None:
        self._page = page.get_textpage()
        self._box = tuple(ctypes.c_double() for _ in range(4))
        self._name = ctypes.create_string_buffer(_NAME_BYTES)
        self._flags = ctypes.c_int()
        self._matrix = raw.FS_MATRIX()

    def close(self) -> None:
        self._page.close()

    def segments(self) -> Iterator[Segment]:
        """In the order of drawing."""
        words: list[Word] = []
        first = 0
        for start, codes, ended in self._runs():
            if codes:
                word = self._word(start, codes)
                if words and not _next_to(words[-1], word, self._size(start)):
                    yield self._segment(words, first)
                    words = []
                if not words:
                    first = start
                words.append(word)
            if ended and words:
                yield self._segment(words, first, hyphen=ended == _HYPHEN)
                words = []
        if words:
            yield self._segment(words, first)

    def _runs(self) -> Iterator[tuple[int, list[int], int]]:
        """Each word's first index and codes, and what ends its line after it (0 for nothing)."""
        count = raw.FPDFText_CountChars(self._page)
        start = 0
        codes: list[int] = []
        for index in range(count):
            code = raw.FPDFText_GetUnicode(self._page, index)
            if code in _ENDS or code in _SPACES or code == _HYPHEN:
                if codes or code in _ENDS:
                    yield start, codes, code if code not in _SPACES else 0
                codes = []
                continue
            if not codes:
                start = index
            codes.append(code)
        if codes:
            yield start, codes, 0

    def _word(self, start: int, codes: list[int]) -> Word:
        x0, x1, y0, y1 = self._place(start)
        for index in {start + len(codes) // 2, start + len(codes) - 1}:
            left, right, bottom, top = self._place(index)
            x0, x1, y0, y1 = min(x0, left), max(x1, right), min(y0, bottom), max(y1, top)
        text = "".join(map(chr, (code for code in codes if code)))
        if any(0xD800 <= code < 0xE000 for code in codes):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return Word(text, x0, x1, y0, y1)

    def _place(self, index: int) -> tuple[float, float, float, float]:
        left, right, bottom, top = self._box
        raw.FPDFText_GetCharBox(self._page, index, left, right, bottom, top)
        return left.value, right.value, bottom.value, top.value

    def _size(self, index: int) -> float:
        """Points; a font's own size says nothing where the page scales it."""
        size = float(raw.FPDFText_GetFontSize(self._page, index))
        if raw.FPDFText_GetMatrix(self._page, index, self._matrix):
            size *= math.hypot(self._matrix.c, self._matrix.d)
        return max(1.0, size)

    def _segment(self, words: list[Word], first: int, *, hyphen: bool = False) -> Segment:
        raw.FPDFText_GetFontInfo(self._page, first, self._name, _NAME_BYTES, self._flags)
        name = self._name.value.decode("utf-8", "replace")
        mono = bool(self._flags.value & _FIXED_PITCH) or bool(_MONO.search(name))
        bold = bool(_BOLD.search(name)) or raw.FPDFText_GetFontWeight(self._page, first) >= 600
        return Segment(words, self._size(first), mono, bold, hyphen)


def _next_to(word: Word, after: Word, size: float) -> bool:
    gap = after.x0 - word.x1
    return -size * WIDE_GAP < gap < size * WIDE_GAP or after.x1 < word.x0 < after.x1 + size * WIDE_GAP  # or leftwards
