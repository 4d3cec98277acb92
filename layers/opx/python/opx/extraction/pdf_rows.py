"""Rows of a PDF page: what stands on one base line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from opx.extraction.pdf_words import Segment

BULLET = re.compile(r"[•●▪■◦○‣⁃∙·\uf0b7\uf0a7\uf0d8–—]\s*(?=\S)|[•●▪■◦○‣\uf0b7\uf0a7\uf0d8–—-]$")
_MARK_OF_ITEM = re.compile(r"(?:\d{1,3}|[a-zA-Z])[.)]|\((?:\d{1,3}|[a-z])\)")


@dataclass(slots=True)
class Row:
    """Segments on one base line, from left to right. `level` is set for headings."""

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
    """Whether the text only marks an item of a list."""
    return bool(_MARK_OF_ITEM.fullmatch(text) or (len(text) == 1 and BULLET.match(text)))


def rows_of(segments: Iterator[Segment]) -> list[Row]:
    """Segments that follow each other on one base line become a row; a page drawn out of order is put in order."""
    groups: list[list[Segment]] = []
    for segment in segments:
        if groups and _same_line(groups[-1][-1], segment):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    if _out_of_order(groups):
        groups = _by_place([segment for group in groups for segment in group])
    return [Row(group) for group in groups]


def _same_line(one: Segment, other: Segment) -> bool:
    if one.hyphen:
        return False
    low, high = max(one.y0, other.y0), min(one.y1, other.y1)
    return high - low > 0.5 * min(one.y1 - one.y0, other.y1 - other.y0)


def _out_of_order(groups: list[list[Segment]]) -> bool:
    """Whether the page jumps up more often than a few columns, a header and a footer explain."""
    jumps = sum(after[0].y0 > before[0].y1 for before, after in pairwise(groups))
    return jumps > max(4, len(groups) // 10)


def _by_place(segments: list[Segment]) -> list[list[Segment]]:
    groups: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda found: (-(found.y0 + found.y1), found.x0)):
        if groups and _same_line(groups[-1][0], segment):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups
