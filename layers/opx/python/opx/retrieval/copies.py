"""Hits that say the same: one of them is shown, the others are named with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from opx.domain.results import IndexedChunk
from opx.hygiene.near_duplicates import MAX_DISTANCE, Comparable

H = TypeVar("H")


def one_of_each(hits: Sequence[H], indexed: Callable[[H], IndexedChunk]) -> Iterator[tuple[H, H, list[H]]]:
    """For each group of hits that say the same, in the order of their first: that first one, the most trusted, of equally
    trusted ones the first, and the others than that. `indexed` is the chunk of a hit."""
    for group in groups_of_copies([indexed(hit) for hit in hits]):
        members = [hits[at] for at in group]
        chosen = max(members, key=lambda hit: indexed(hit).trust)
        yield members[0], chosen, [hit for hit in members if hit is not chosen]


def groups_of_copies(chunks: Sequence[IndexedChunk]) -> list[list[int]]:
    """Positions of chunks that say the same, group by group, in the order of each group's first.

    A chunk belongs to the first group whose first chunk it is a copy of. Chunks without a fingerprint (from before there
    were any) have only copies of the same document.
    """
    groups: list[list[int]] = []
    by_chunk: dict[str, int] = {}
    firsts: list[Comparable] = []
    marks: list[int | None] = []
    for position, indexed in enumerate(chunks):
        chunk = Comparable(indexed.chunk)
        mark = int(indexed.fingerprint, 16) if indexed.fingerprint else None
        at = by_chunk.get(indexed.chunk.chunk_id)
        if at is None and mark is not None:
            at = _copy_of(chunk, mark, marks, firsts)
        if at is None:
            at = len(groups)
            groups.append([])
            firsts.append(chunk)
            marks.append(mark)
        by_chunk.setdefault(indexed.chunk.chunk_id, at)
        groups[at].append(position)
    return groups


def _copy_of(chunk: Comparable, mark: int, marks: Sequence[int | None], firsts: Sequence[Comparable]) -> int | None:
    """The group that a chunk belongs to: only those whose fingerprint is close are compared."""
    for at, known in enumerate(marks):
        close = known is not None and (known ^ mark).bit_count() <= MAX_DISTANCE
        if close and chunk.is_copy_of(firsts[at]):
            return at
    return None
