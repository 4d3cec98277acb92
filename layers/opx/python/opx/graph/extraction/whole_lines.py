"""Passages for rules that read lines: windows over long sections begin and end wherever their tokens are full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from opx.domain.documents import DocumentChunk


def whole_lines(passages: Iterable[DocumentChunk]) -> Iterator[DocumentChunk]:
    """The same passages in their order. A line that is in parts of two of them is whole in the first and left out of the
    second; one that is longer than that stays as it is."""
    before: DocumentChunk | None = None
    chunk: DocumentChunk | None = None
    for following in chain(passages, [None]):
        if chunk is not None:
            yield _whole(before, chunk, following)
        before, chunk = chunk, following


def _whole(before: DocumentChunk | None, chunk: DocumentChunk, following: DocumentChunk | None) -> DocumentChunk:
    begin = _end_of_torn(before, chunk) if before else 0
    rest = _rest_of_last(chunk, following) if following else ""
    return replace(chunk, content=chunk.content[begin:] + rest) if begin or rest else chunk


def _end_of_torn(before: DocumentChunk, chunk: DocumentChunk) -> int:
    """Where the line ends that begins in the passage before; 0 if there is none, or it has no end in this one."""
    at = chunk.start - before.start
    if not 0 < at <= len(before.content) or before.content[at - 1] == "\n" or "\n" not in before.content[:at]:
        return 0
    return chunk.content.find("\n") + 1


def _rest_of_last(chunk: DocumentChunk, following: DocumentChunk) -> str:
    """What of the last line is in the next passage alone; "" if it doesn't end there either."""
    at = chunk.start + len(chunk.content) - following.start
    if chunk.content.endswith("\n") or not 0 <= at <= len(following.content):
        return ""
    return following.content[at : following.content.find("\n", at) + 1]
