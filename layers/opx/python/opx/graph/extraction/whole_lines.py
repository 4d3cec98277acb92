"""Passages for rules that read lines: windows over long sections overlap, and begin and end where their tokens are full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from opx.domain.documents import DocumentChunk
from opx.domain.record import replace

MAX_LINE = 16_384
"""Characters of the longest line that is put together again."""


def whole_lines(passages: Iterable[DocumentChunk]) -> Iterator[DocumentChunk]:
    """The same passages in their order, each with the lines that begin in it and in none before. A line of over `MAX_LINE`
    characters stays in parts."""
    held: list[tuple[DocumentChunk, str]] = []
    end = -1
    for chunk in passages:
        known = end - chunk.start
        follows = 0 <= known <= len(chunk.content) and bool(held)
        fresh = chunk.content[known:] if follows else chunk.content
        end = chunk.start + len(chunk.content)
        if follows and (size := _open_line(held[0][1])):
            rest = fresh[: fresh.find("\n") + 1] or fresh
            if size + len(rest) <= MAX_LINE:
                held[0] = held[0][0], held[0][1] + rest
                fresh = fresh[len(rest) :]
                if not rest.endswith("\n"):
                    held.append((chunk, fresh))
                    continue
        yield from _read(held)
        held = [(chunk, fresh)]
    yield from _read(held)


def _open_line(text: str) -> int:
    """How many characters the last line has, if it isn't at its end."""
    return len(text) - text.rfind("\n") - 1


def _read(held: list[tuple[DocumentChunk, str]]) -> Iterator[DocumentChunk]:
    for chunk, text in held:
        yield chunk if text == chunk.content else replace(chunk, content=text)
