"""Reports of long work on what is kept: runs of pruning, which are also kept as a record, exports and imports."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, field

from opx.domain.record import Draft, Record, derive
from opx.ports import Clock, Table

KEPT_DAYS = 400
_REPORTS = "prune-reports"
_Counts = dict[str, int]


class Excess(Record, frozen=True):
    """A category, "" for all of them, of which too much is due: how many versions of how many. `before` and `now` are its
    retention as the last run knew it and as it is, the same where that is not why."""

    category: Annotated[str, Meta(description="Empty for all of them together.")]
    due: int
    total: int
    before: str = field(default="", name="retentionBefore")
    now: str = field(default="", name="retention")
    share: float = 0.0

    def __post_init__(self) -> None:
        derive(self, share=round(self._share, 4))

    @property
    def _share(self) -> float:
        return self.due / max(self.total, 1)

    @property
    def reason(self) -> str:
        """`1,200 of 1,500 versions of operations/alerts (80 %): its retention was 6m and is 7d`."""
        of = self.category or "all categories"
        found = f"{self.due:,} of {self.total:,} versions of {of} ({self._share:.0%})"
        return f"{found}: its retention was {self.before} and is {self.now}" if self.before != self.now else found


class PruneReport(Record, frozen=True, kw_only=True):
    """Versions of documents that went (or would go, in a dry run) by category, with how many chunks they had; those that
    stayed, by why: a hold, a newer object that waits to be taken in, somebody at work on it, a pattern that worked since.

    `until` is the last day on which what was removed had expired. `stopped` is what kept all of it from going; `unfinished`
    if the time was up, so that the next run goes on. `redated` are versions whose category's retention has changed.
    """

    started: str
    finished: str = ""
    until: str
    dry_run: bool = False
    versions: int = 0
    chunks: int = 0
    removed: Annotated[_Counts, Meta(description="Versions of documents, by category.")] = field(default_factory=dict)
    kept: Annotated[_Counts, Meta(description="Versions that are due and had to stay, by why.")] = field(
        default_factory=dict
    )
    held: Annotated[_Counts, Meta(description="Versions that are due and stay, by hold.")] = field(default_factory=dict)
    redated: Annotated[_Counts, Meta(description="Versions that were entered for another day, by category.")] = field(
        default_factory=dict
    )
    stopped: Annotated[
        tuple[Excess, ...], Meta(description="Of what too much would have gone, so that nothing did.")
    ] = ()
    unfinished: bool = False
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        derive(
            self,
            versions=sum(self.removed.values()),
            removed=_counted(self.removed),
            kept=_counted(self.kept),
            held=_counted(self.held),
            redated=_counted(self.redated),
        )

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not (self.removed or self.redated or self.stopped or self.unfinished or self.notes)

    def lines(self) -> Iterator[str]:
        """For people."""
        verb = "would go" if self.dry_run else "removed"
        for category, count in self.removed.items():
            yield f"{verb}: {count:,} of {category}"
        for category, count in self.redated.items():
            yield f"entered for another day: {count:,} of {category}, whose retention has changed"
        for hold, count in self.held.items():
            yield f"kept by hold {hold}: {count:,}"
        for why, count in self.kept.items():
            yield f"kept, {why}: {count:,}"
        yield from (f"note: {note}" for note in self.notes)
        if self.unfinished:
            yield "the time was up: the next run goes on"
        if not (self.removed or self.stopped or self.held or self.kept or self.unfinished):
            yield f"nothing of before {self.until} is past its retention"

    def stop_message(self) -> str:
        """Why nothing went, and what to do."""
        found = "; ".join(excess.reason for excess in self.stopped)
        return (
            f"nothing was removed, as too much would go at once: {found}. If it is a mistake, mend `retention` in "
            "knowledge.yaml; if not, `opx prune --allow-share 1` removes it"
        )


def _counted(counts: Mapping[str, int]) -> _Counts:
    return {name: count for name, count in sorted(counts.items()) if count > 0}


@dataclass(slots=True)
class PruneRun:
    """A run of pruning while it goes on: the fields of its report, as far as they are known."""

    started: str
    until: str
    dry_run: bool = False
    removed: Counter[str] = dataclass_field(default_factory=Counter)
    chunks: int = 0
    kept: Counter[str] = dataclass_field(default_factory=Counter)
    held: Counter[str] = dataclass_field(default_factory=Counter)
    redated: Counter[str] = dataclass_field(default_factory=Counter)
    stopped: tuple[Excess, ...] = ()
    unfinished: bool = False
    notes: tuple[str, ...] = ()

    def report(self, finished: str) -> PruneReport:
        return PruneReport(finished=finished, **{one.name: getattr(self, one.name) for one in fields(self)})


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

    def last(self, count: int) -> tuple[PruneReport, ...]:
        """The newest first."""
        found = self._table.query(_REPORTS, reverse=True, limit=count)
        return tuple(PruneReport.from_json(item["report"]) for item in islice(found, count))


# -- archives


class ExportReport(Draft):
    """What is in an archive, whose own checksum is `sha256`. `notes` say what could not be kept."""

    path: str
    size: int = field(default=0, name="bytes")
    sha256: str = ""
    counts: dict[str, int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Fate(StrEnum):
    """What becomes of a document of an archive."""

    RESTORED = "restored"
    REPLACED = "newer than what is here"
    SAME = "same as what is here"
    KEPT = "older than what is here"


class ArchiveFacts(Record, frozen=True):
    """What an archive says of itself: when, by which version and in which kind of system it was made."""

    made: str
    version: str
    backend: str
    sha256: str


class ImportReport(Draft):
    """What was in the archive, what became of it, and what a person should know. `waiting` documents are left to
    functions; `failed` could not be taken in, and are among the failed items."""

    archive: ArchiveFacts
    contents: dict[str, int]
    notes: list[str]
    dry_run: bool = False
    documents: dict[Fate, int] = field(default_factory=Counter)
    rows: dict[str, int] = field(default_factory=Counter)
    files: int = 0
    failed: int = 0
    waiting: int = 0


# -- report


FORMAT = 1
FOLDER = "offboarding/"
"""In the corpus store, outside of every client's folder. Nothing there becomes knowledge."""


class StoreCounts(Record, frozen=True):
    """How much of a client a store had before its removal, and has after it."""

    before: int
    after: int
    removed: int = 0

    def __post_init__(self) -> None:
        derive(self, removed=self.before - self.after)


class CheckCounts(Record, frozen=True):
    """How much of a client was found by asking in another way, before its removal and after it."""

    before: int
    after: int


class RemovalReport(Record, frozen=True, kw_only=True):
    """`stores` counts by store, `checks` what was found of the client by asking in other ways; `left` is what is still
    there, of either. Times are ISO 8601. `notes` say what no count can show. `sha256` is over all the rest, as
    `content_hash` has it."""

    format: int = FORMAT
    client_id: str
    removal: str
    by: str
    backend: str
    started: str = field(name="startedAt")
    finished: str = field(name="finishedAt")
    scopes: int
    stores: dict[str, StoreCounts]
    checks: dict[str, CheckCounts]
    left: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sha256: str = ""

    def __post_init__(self) -> None:
        counts: dict[str, StoreCounts | CheckCounts] = {**self.stores, **self.checks}
        derive(self, left={name: count.after for name, count in counts.items() if count.after})
        derive(self, sha256=content_hash(self.to_json()))

    @property
    def object_key(self) -> str:
        return f"{FOLDER}{self.removal}/report.json"

    def lines(self) -> Iterator[str]:
        """The same for people."""
        yield f"client {self.client_id}: removed by {self.by or 'somebody'}, {self.started} to {self.finished}"
        width = max(map(len, (*self.stores, *self.checks)), default=0)
        for name, store in self.stores.items():
            yield f"  {name:<{width}}  {store.before:>9,} -> {store.after:,}"
        yield "asked in other ways"
        for name, check in self.checks.items():
            yield f"  {name:<{width}}  {check.before:>9,} -> {check.after:,}"
        for note in self.notes:
            yield f"note: {note}"


def content_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a report without its `sha256`, as JSON with sorted keys and no blanks."""
    data = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
