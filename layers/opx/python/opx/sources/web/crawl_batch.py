"""What a crawl found since it last gave something away."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opx.domain.sources import Page, Refused, SourceDocument

BATCH_VISITS = 20
BATCH_BYTES = 4 * 1024 * 1024
BATCH_SECONDS = 60.0
"""A site that wants a minute between two pages would else have a batch take longer than a function may run."""


@dataclass(slots=True)
class CrawlBatch:
    """`visits` counts addresses, with and without a document; `size` is that of the documents; it `began` with the first."""

    began: float

    documents: list[SourceDocument] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    visits: int = 0
    size: int = 0

    def full(self, now: float) -> bool:
        """Whether it should be given away, `now` being by the clock that `began` is by."""
        return self.visits >= BATCH_VISITS or self.size >= BATCH_BYTES or now - self.began >= BATCH_SECONDS

    def page(self, cursor: dict[str, Any], *, complete: bool = False) -> Page:
        return Page(
            documents=tuple(self.documents),
            unchanged=tuple(self.unchanged),
            withdrawn=tuple(self.withdrawn),
            refused=tuple(self.refused),
            cursor=cursor,
            complete=complete,
        )
