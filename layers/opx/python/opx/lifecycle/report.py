"""Reports of pruning and offboarding; stores those of pruning."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from dataclasses import field as dataclass_field
from itertools import islice
from typing import Annotated, Any

from msgspec import field

from opx.domain.record import Record, about, derive
from opx.ports import Clock, ObjectStore, Table

KEPT_DAYS = 400
_REPORTS = "prune-reports"
_Counts = dict[str, int]


class Excess(Record, frozen=True):
    """A category, "" for all of them, of which too many versions are due: `due` of `total`. `before` and `now` are its
    retention in the last run and today, equal if the retention is not the reason."""

    category: Annotated[str, about("Empty for all of them together.")]
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
    """Versions removed (or to be removed, in a dry run) by category, with their number of chunks; versions kept, by
    reason: a hold, a newer object that waits to be ingested, a lease of another worker, a pattern that worked since.

    `until` is the last expiry day covered. `stopped` is the excess because of which nothing was removed; `unfinished` if
    the time was up, so that the next run continues. `redated` are versions whose category's retention has changed.
    """

    started: str
    finished: str = ""
    until: str
    dry_run: bool = False
    versions: int = 0
    chunks: int = 0
    removed: Annotated[_Counts, about("Removed versions, by category.")] = field(default_factory=dict)
    kept: Annotated[_Counts, about("Versions that are due and were kept, by reason.")] = field(default_factory=dict)
    held: Annotated[_Counts, about("Versions that are due and kept by a legal hold, by hold.")] = field(
        default_factory=dict
    )
    redated: Annotated[_Counts, about("Versions whose expiry was recomputed, by category.")] = field(
        default_factory=dict
    )
    stopped: Annotated[
        tuple[Excess, ...], about("Categories with too many due versions, so that nothing was removed.")
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
        """True if there was nothing to do."""
        return not (self.removed or self.redated or self.stopped or self.unfinished or self.notes)

    def lines(self) -> Iterator[str]:
        """The report as text lines."""
        verb = "would be removed" if self.dry_run else "removed"
        for category, count in self.removed.items():
            yield f"{verb}: {count:,} of {category}"
        for category, count in self.redated.items():
            yield f"expiry recomputed: {count:,} of {category}, whose retention has changed"
        for hold, count in self.held.items():
            yield f"kept by hold {hold}: {count:,}"
        for reason, count in self.kept.items():
            yield f"kept, {reason}: {count:,}"
        yield from (f"note: {note}" for note in self.notes)
        if self.unfinished:
            yield "the time was up: the next run continues"
        if not (self.removed or self.stopped or self.held or self.kept or self.unfinished):
            yield f"nothing expired before {self.until}"

    def stop_message(self) -> str:
        """The reason why nothing was removed, with the remedy."""
        found = "; ".join(excess.reason for excess in self.stopped)
        return (
            f"nothing was removed, as too much would be removed at once: {found}. If that is a mistake, correct "
            "`retention` in knowledge.yaml; if not, `opx prune --allow-share 1` removes it"
        )


def _counted(counts: Mapping[str, int]) -> _Counts:
    return {name: count for name, count in sorted(counts.items()) if count > 0}


@dataclass(slots=True)
class PruneRun:
    """Mutable state of a pruning run: the fields of its report so far."""

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
    """Stores the reports of pruning runs that did something, for `KEPT_DAYS`."""

    def __init__(self, table: Table, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    def keep(self, report: PruneReport) -> None:
        now = self._clock()
        entry = f"{report.started}#{now:.6f}"  # several may begin within one second
        expires = int(now) + KEPT_DAYS * 86400
        self._table.put({"subject": _REPORTS, "entry": entry, "report": report.to_json(), "expiresAt": expires})

    def last(self, count: int) -> tuple[PruneReport, ...]:
        """The latest reports, newest first."""
        found = self._table.query(_REPORTS, reverse=True, limit=count)
        return tuple(PruneReport.from_json(item["report"]) for item in islice(found, count))


# -- offboarding


FORMAT = 1
FOLDER = "offboarding/"
"""Folder of the reports in the corpus store, outside of every client's folder. Nothing there is ingested."""


class StoreCounts(Record, frozen=True):
    """Number of a client's items in one store before and after its removal."""

    before: int
    after: int
    removed: int = 0

    def __post_init__(self) -> None:
        derive(self, removed=self.before - self.after)


class CheckCounts(Record, frozen=True):
    """Number of a client's items that an independent query finds before and after its removal."""

    before: int
    after: int


class RemovalReport(Record, frozen=True, kw_only=True):
    """Proof of a client's removal: `stores` has counts by store, `checks` counts by independent queries; `left` is what
    remains of either. Times are ISO 8601. `notes` state what no count can show. `sha256` is the `content_hash` of the
    rest."""

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
        return report_key(self.removal)

    def lines(self) -> Iterator[str]:
        """The report as text lines."""
        yield f"client {self.client_id}: removed by {self.by or 'an unnamed operator'}, {self.started} to {self.finished}"
        width = max(map(len, (*self.stores, *self.checks)), default=0)
        for name, store in self.stores.items():
            yield f"  {name:<{width}}  {store.before:>9,} -> {store.after:,}"
        yield "cross-checks"
        for name, check in self.checks.items():
            yield f"  {name:<{width}}  {check.before:>9,} -> {check.after:,}"
        for note in self.notes:
            yield f"note: {note}"


def report_key(removal: str) -> str:
    """Object key of the report of a removal."""
    return f"{FOLDER}{removal}/report.json"


def read_report(store: ObjectStore, removal: str) -> RemovalReport:
    """The stored report of a removal. Raises `ObjectNotFoundError`."""
    with store.open(report_key(removal)) as stream:
        return RemovalReport.from_json(json.load(stream))


def content_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a report without its `sha256`, as JSON with sorted keys and no blanks."""
    data = {name: value for name, value in content.items() if name != "sha256"}
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
