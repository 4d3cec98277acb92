"""When the sources of a category were last pulled to their end."""

from __future__ import annotations

from datetime import datetime

from opx.sources.repository import SourceRepository


class SourceSyncs:
    """A `LastSync`: the category is as fresh as the source of it that was pulled longest ago."""

    def __init__(self, sources: SourceRepository) -> None:
        self._sources = sources

    def __call__(self, category: str) -> datetime | None:
        scheduled = [s for s in self._sources.all() if s.category == category and s.enabled and s.schedule]
        ends = [self._sources.state(source.source_id).last_success for source in scheduled]
        known = [datetime.fromisoformat(end) for end in ends if end]
        return min(known, default=None)
