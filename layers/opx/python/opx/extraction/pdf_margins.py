"""Leaves out what is printed around the text of every page: headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from opx.extraction.pdf_rows import Row

_EDGE_ROWS = 3
_NEIGHBOURS = 2
"""Pages: headers of left and right pages differ."""
_SAME_PLACE = 3.0
_MARGIN = 0.16
_NUMBER = re.compile(
    r"[-–|\s]*(?:(?:page|seite|p\.|pg\.?)\s*)?(?:\d{1,5}|[ivxlc]{1,7})(?:\s*(?:of|von|/|\|)\s*\d{1,5})?[-–|\s]*\Z",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")


class Page(Protocol):
    """A page in a row of pages; `rows` may be set anew."""

    index: int
    height: float
    rows: list[Row]


P = TypeVar("P", bound=Page)


def without_margins(pages: Iterable[P]) -> Iterator[P]:
    """The same pages without rows near the upper or lower edge that are page numbers, or are at the same place on a
    page nearby. Holds a few pages at a time."""
    before: deque[tuple[list[Row], float]] = deque(maxlen=_NEIGHBOURS)
    waiting: deque[tuple[P, list[Row], float]] = deque()
    for page in pages:
        waiting.append((page, _edge_rows(page), page.height))
        if len(waiting) > _NEIGHBOURS:
            yield _cleaned(before, waiting)
    while waiting:
        yield _cleaned(before, waiting)


def _cleaned(before: deque[tuple[list[Row], float]], waiting: deque[tuple[P, list[Row], float]]) -> P:
    page, edge, height = waiting.popleft()
    near = [row for rows, _ in before for row in rows] + [row for _, rows, _ in waiting for row in rows]
    before.append((edge, height))
    outermost = (max(edge, key=lambda row: row.y1), min(edge, key=lambda row: row.y0)) if edge else ()
    dropped = [row for row in edge if _is_margin(row, page, near, numbered=any(row is other for other in outermost))]
    kept = [row for row in page.rows if not any(row is other for other in dropped)]
    page.rows = kept or [row for row in dropped if not _NUMBER.match(row.text)]  # not a page's only text
    return page


def _edge_rows(page: Page) -> list[Row]:
    by_height = sorted(page.rows, key=lambda row: -row.y1)
    outer = by_height[:_EDGE_ROWS] + by_height[_EDGE_ROWS:][-_EDGE_ROWS:]
    margin = page.height * _MARGIN
    near = [row for row in outer if row.y0 < margin or row.y1 > page.height - margin]
    outermost = [row for row in (outer[0], outer[-1]) if _NUMBER.match(row.text)] if outer else []
    return near + [row for row in outermost if row not in near]


def _is_margin(row: Row, page: Page, near: Sequence[Row], *, numbered: bool) -> bool:
    """Whether the row is a page's number, or the same on a page nearby; if `numbered`, numbers in it may differ."""
    text = row.text.strip()
    if _NUMBER.match(text) and (str(page.index + 1) in text or any(_same_place(row, other) for other in near)):
        return True
    pattern = _DIGITS.sub("0", text)
    for other in near:
        if not _same_place(row, other):
            continue
        if other.text.strip() == text:
            return True
        if numbered and _DIGITS.sub("0", other.text.strip()) == pattern and _is_small(row, page):
            return True
    return False


def _same_place(row: Row, other: Row) -> bool:
    return abs(row.y0 - other.y0) < _SAME_PLACE and abs(row.size - other.size) < 1


def _is_small(row: Row, page: Page) -> bool:
    """Not larger than the page's text: numbered titles at the same place stay."""
    sizes = sorted(each.size for each in page.rows)
    return row.size <= sizes[len(sizes) // 2] * 1.05
