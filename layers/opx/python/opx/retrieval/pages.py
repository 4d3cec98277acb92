"""Documents as searches found them, the best first, each with its hits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from opx.retrieval.hybrid import FusedHit, FusedHits

JUDGED = 20
"""Documents that are judged one by one; those behind them keep their order."""

PASSAGES = 4
"""Hits of a document that its evidence is taken from, however many the caller wants to see."""


@dataclass(frozen=True, slots=True)
class Page:
    """A document with its hits, the best first. `level` is the mean of the levels of its best hit in the search for the
    whole question (`whole`) and in the one without the question's values (`focused`); where one search was done, both are
    the same."""

    document_id: str
    hits: tuple[FusedHit, ...]
    level: float
    whole: float
    focused: float

    @property
    def best(self) -> FusedHit:
        return self.hits[0]

    @property
    def evidence(self) -> Sequence[FusedHit]:
        """The hits that the document is judged by."""
        return self.hits[:PASSAGES]


def pages_of(whole: FusedHits, focused: FusedHits) -> list[Page]:
    """The documents of both searches, by level; equal ones by id. Of a chunk that both found, the ranks of `focused` are
    kept."""
    in_whole, in_focused = _levels(whole), _levels(focused)
    hits: dict[str, dict[str, tuple[float, FusedHit]]] = {}
    for found in (whole,) if whole is focused else (whole, focused):
        for hit, level in zip(found.hits, found.levels, strict=True):
            of_page = hits.setdefault(hit.indexed.chunk.document_id, {})
            known = of_page.get(hit.indexed.entry_id)
            of_page[hit.indexed.entry_id] = (max(level, known[0] if known else 0.0), hit)
    pages = [_page(name, list(found.values()), in_whole, in_focused) for name, found in hits.items()]
    return sorted(pages, key=lambda page: (-page.level, page.document_id))


def _page(
    name: str, hits: list[tuple[float, FusedHit]], in_whole: dict[str, float], in_focused: dict[str, float]
) -> Page:
    ordered = tuple(hit for _, hit in sorted(hits, key=lambda one: -one[0]))
    whole, focused = in_whole.get(name, 0.0), in_focused.get(name, 0.0)
    return Page(name, ordered, (whole + focused) / 2, whole, focused)


def _levels(found: FusedHits) -> dict[str, float]:
    levels: dict[str, float] = {}
    for hit, level in zip(found.hits, found.levels, strict=True):
        name = hit.indexed.chunk.document_id
        levels[name] = max(level, levels.get(name, 0.0))
    return levels
