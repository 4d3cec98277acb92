"""A PDF's outline (its bookmarks), and the rows of the pages that are its headings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

import pypdfium2 as pdfium

from opx.extraction.markdown import heading, one_line
from opx.extraction.pdf_rows import Row

_MAX_ENTRIES = 20_000
_MAX_DEPTH = 6
_TOP_LEVEL = 2
"""Level one is the title's."""
_NUMBERING = re.compile(r"[\d.\s]*(?:[A-Z]\.)?\s*")
_NOT_LETTERS = re.compile(r"[\W_]+")


class Outline:
    """Headings by page."""

    def __init__(self, document: pdfium.PdfDocument) -> None:
        self._entries: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for count, entry in enumerate(document.get_toc(max_depth=_MAX_DEPTH)):
            if count >= _MAX_ENTRIES:
                break
            destination = entry.get_dest()
            page = destination.get_index() if destination else None
            title = one_line(entry.get_title())
            if page is not None and title:
                self._entries[page].append((entry.level + _TOP_LEVEL, title))

    def __bool__(self) -> bool:
        return bool(self._entries)

    def mark(self, page: int, rows: Sequence[Row]) -> list[str]:
        """Set the levels of the page's rows that are headings; what isn't among the rows is returned as headings."""
        missing = []
        at = 0
        for level, title in self._entries.get(page, []):
            found = next((index for index in range(at, len(rows)) if _is_heading(rows[index], title)), None)
            if found is None:
                missing.append(heading(level, title))
                continue
            rows[found].level = level
            at = found + 1
        return missing


def _is_heading(row: Row, title: str) -> bool:
    """Whether a row says what the entry does: numbering, spaces and punctuation aside; the title may go on below."""
    text, wanted = _letters(row.text), _letters(title)
    return bool(text) and (text == wanted or (len(text) > 12 and wanted.startswith(text)))


def _letters(text: str) -> str:
    return _NOT_LETTERS.sub("", _NUMBERING.sub("", text, count=1)).casefold()
