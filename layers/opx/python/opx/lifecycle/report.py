"""What a run of pruning did, for people and for the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from opx.lifecycle.guard import Excess
from opx.ports import Clock, Item, Table

KEPT_DAYS = 400
_REPORTS = "prune-reports"


@dataclass(slots=True)
class PruneReport:
    """Versions of documents that went (or would go, in a dry run) by category, with how many chunks they had; those that
    stayed, by why: a hold, a newer object that waits to be taken in, somebody at work on it, a pattern that worked since.

    `until` is the last day on which what was removed had expired. `stopped` is what kept all of it from going; `unfinished`
    if the time was up, so that the next run goes on. `redated` are versions whose category's retention has changed.
    """

    started: str
    until: str
    dry_run: bool = False
    removed: Counter[str] = field(default_factory=Counter)
    chunks: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    redated: Counter[str] = field(default_factory=Counter)
    stopped: tuple[Excess, ...] = ()
    unfinished: bool = False
    notes: list[str] = field(default_factory=list)
    finished: str = ""

    @property
    def versions(self) -> int:
        return sum(self.removed.values())

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (+self.removed or +self.redated or self.stopped or self.unfinished or self.notes)

    def to_json(self) -> dict[str, Any]:
        return {
            "started": self.started,
            "finished": self.finished,
            "dryRun": self.dry_run,
            "until": self.until,
            "versions": self.versions,
            "chunks": self.chunks,
            "removed": dict(sorted((+self.removed).items())),
            "kept": dict(sorted((+self.kept).items())),
            "held": dict(sorted(self.held.items())),
            "redated": dict(sorted((+self.redated).items())),
            "stopped": [excess.to_json() for excess in self.stopped],
            "unfinished": self.unfinished,
            "notes": list(self.notes),
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        verb = "would go" if self.dry_run else "removed"
        for category, count in sorted((+self.removed).items()):
            yield f"{verb}: {count:,} of {category}"
        for category, count in sorted((+self.redated).items()):
            yield f"entered for another day: {count:,} of {category}, whose retention has changed"
        for hold, count in sorted(self.held.items()):
            yield f"kept by hold {hold}: {count:,}"
        for why, count in sorted((+self.kept).items()):
            yield f"kept, {why}: {count:,}"
        yield from (f"note: {note}" for note in self.notes)
        if self.unfinished:
            yield "the time was up: the next run goes on"
        if not (+self.removed or self.stopped or self.held or +self.kept or self.unfinished):
            yield f"nothing of before {self.until} is past its retention"

    def stop_message(self) -> str:
        """Why nothing went, and what to do."""
        found = "; ".join(excess.reason for excess in self.stopped)
        return (
            f"nothing was removed, as too much would go at once: {found}. If it is a mistake, mend `retention` in "
            "knowledge.yaml; if not, `opx prune --allow-share 1` removes it"
        )


class PruneReports:
    """The reports of past runs that did something, kept for a year."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def keep(self, report: PruneReport) -> None:
        now = self._clock()
        entry = f"{report.started}#{now:.6f}"  # several may begin within one second
        expires = int(now) + KEPT_DAYS * 86400
        self._table.put({"subject": _REPORTS, "entry": entry, "report": report.to_json(), "expiresAt": expires})

    def last(self, count: int) -> list[Mapping[str, Any]]:
        """As JSON, the newest first."""
        found: Iterator[Item] = self._table.query(_REPORTS, reverse=True, limit=count)
        return [item["report"] for item in islice(found, count)]
