"""A document's text to chunks: split at headings, small neighbours joined, long sections in overlapping windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from opx.domain.documents import ChunkMetadata, DocumentChunk
from opx.domain.ids import chunk_id, normalise
from opx.domain.titles import repeats
from opx.errors import InvalidInputError
from opx.formats.markdown_lines import Line, scan
from opx.ingestion.windows import MIN_FRESH, split_section

DEFAULT_TOKENS = 500
DEFAULT_OVERLAP = 50
SMALL_SECTION = 64
"""Sections below this many tokens say too little alone: they join a neighbour under the same heading."""
MAX_HEADING = 200
"""Characters kept of a heading in a section's path: every chunk below it repeats the path."""


class Piece(msgspec.Struct, frozen=True):
    """A chunk before it has an id. `section` is its path of headings; `whole` if it is one or more whole sections."""

    text: str
    start: int
    tokens: int
    section: tuple[str, ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class ChunkOwner:
    """The facts of a document that each of its chunks carries."""

    document_id: str
    title: str
    category: str
    tags: tuple[str, ...] = ()


def chunk_document(
    pieces: Iterable[str], owner: ChunkOwner, *, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[DocumentChunk]:
    """The chunks of a normalised text that comes in pieces (lines, very long ones cut), lazily and in bounded memory.

    See `chunk_lines`.
    """
    return chunk_lines(scan(pieces), owner, tokens=tokens, overlap=overlap)


def chunk_lines(
    lines: Iterable[Line], owner: ChunkOwner, *, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP
) -> Iterator[DocumentChunk]:
    """The chunks of classified lines.

    Every character is in at least one chunk, except white space that would be a chunk of its own; no chunk is over
    `tokens` tokens; the same text gives the same chunks everywhere. Raises `InvalidInputError` unless
    0 <= overlap < tokens and 8 <= tokens.
    """
    if tokens < MIN_FRESH:
        raise InvalidInputError(f"a window must have at least {MIN_FRESH} tokens, not {tokens}")
    if not 0 <= overlap < tokens:
        raise InvalidInputError(f"overlap must be at least 0 and below the window, not {overlap} of {tokens}")
    split = _split(lines, owner.title, tokens, overlap)
    joined = (piece for piece in _join_small(split, tokens) if piece.text.strip())
    metadata = ChunkMetadata(owner.title, owner.category, owner.tags)
    for index, piece in enumerate(joined):
        yield DocumentChunk(
            chunk_id=chunk_id(owner.document_id, index, piece.text),
            document_id=owner.document_id,
            chunk_index=index,
            content=piece.text,
            token_count=piece.tokens,
            section=piece.section,
            start=piece.start,
            end=piece.start + len(piece.text),
            metadata=metadata,
        )


def _split(lines: Iterable[Line], title: str, tokens: int, overlap: int) -> Iterator[Piece]:
    """Windows of each section, under the section's path of headings."""
    path: list[tuple[int, str]] = []
    source = _Sections(lines)
    while (first := source.peek()) is not None:
        if first.level:
            path = [entry for entry in path if entry[0] < first.level] + [(first.level, first.heading)]
        section = _names(path, title)
        for window in split_section(source.section(), tokens, overlap):
            yield Piece(window.text, window.start, window.tokens, section, window.whole)


def _names(path: list[tuple[int, str]], title: str) -> tuple[str, ...]:
    """Headings without empty ones, and without a first one that only repeats the title."""
    names = [normalise(name[:MAX_HEADING]) for _, name in path if name]
    if names and repeats(names[0], title):
        names = names[1:]
    return tuple(names)


class _Sections:
    """Lines, handed out a section at a time; a section begins at a heading."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = iter(lines)
        self._next = next(self._lines, None)

    def peek(self) -> Line | None:
        return self._next

    def section(self) -> Iterator[Line]:
        first = True
        while self._next is not None and (first or not self._next.level):
            line, self._next = self._next, next(self._lines, None)
            first = False
            yield line


def _join_small(pieces: Iterable[Piece], limit: int) -> Iterator[Piece]:
    held: Piece | None = None
    for piece in pieces:
        joined = _joined(held, piece, limit) if held is not None else None
        if joined is not None:
            held = joined
            continue
        if held is not None:
            yield held
        held = piece
    if held is not None:
        yield held


def _joined(first: Piece, second: Piece, limit: int) -> Piece | None:
    """Both as one if they are whole, one is small, they are near in the outline, and together they fit."""
    if not (first.whole and second.whole) or first.tokens + second.tokens > limit:
        return None
    if min(first.tokens, second.tokens) >= SMALL_SECTION:
        return None
    section = _common_section(first.section, second.section)
    if section is None:
        return None
    return Piece(first.text + second.text, first.start, first.tokens + second.tokens, section, whole=True)


def _common_section(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path of two neighbours joined: the child's for parent and child, "A / B" for siblings; else None."""
    if second[: len(first)] == first:
        return second
    if len(first) == len(second) and first[:-1] == second[:-1]:
        return (*first[:-1], f"{first[-1]} / {second[-1]}")
    return None
