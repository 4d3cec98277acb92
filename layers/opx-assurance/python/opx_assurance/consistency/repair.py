"""Rebuilds what can be rebuilt from whatever is left of the stores, and lists what is lost for good.

First the files: damaged databases are read row by row, damaged indexes moved aside. Then the catalog: keys whose item is
lost get it from their versions. Then a thorough reconciliation ingests every document again that differs. Nothing is
removed: after a loss, what seems to be too much in one store may be all that is left. It may be interrupted at any time
and run again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import field

from opx.domain.record import Draft, Record
from opx.ingestion.corpus.version import renew
from opx.ports import Tables
from opx.ports.files import Loss, MendedFiles, StoreFiles
from opx.ports.tables import (
    ANNOUNCEMENTS,
    CALENDAR,
    DELIVERIES,
    DOCUMENTS,
    EMBEDDINGS,
    ENTRIES,
    FAILURES,
    GRAPH,
    IDEMPOTENCY,
    KEYS,
    WEB_CACHE,
)
from opx_assurance.consistency.catalog_rows import restore_heads
from opx_assurance.consistency.differences import REMOVALS, Problem, ReconcileReport, StoreDifference
from opx_assurance.consistency.reconcile import Reconciler
from opx_assurance.consistency.store_checks import CONTENT

_DERIVED = (KEYS, ENTRIES, FAILURES, EMBEDDINGS, GRAPH, CALENDAR, ANNOUNCEMENTS, IDEMPOTENCY, DELIVERIES, WEB_CACHE)
DERIVED = (*(spec.name for spec in _DERIVED), "queue_messages")
"""Tables whose rows are made again, recur, or are caches: lost ones are no loss."""

SURPLUS = tuple(problem for problem in REMOVALS if problem is not Problem.OBJECT_MISSING)
"""Kinds of items that belong to nothing in the catalog: after a loss, they may be all that is left."""

_HISTORY = "the documents are entered again as they are now; their earlier versions and times are lost"


class DamagedFile(Record, frozen=True):
    """A damaged file of the home folder, and its damage."""

    file: str
    problem: str


class RepairReport(Draft):
    """Outcome of a repair. `damaged` files were moved to `folder` of the home folder; `rows` are those read from damaged
    databases by table, `heads` the keys that were entered again, `lost` what is lost for good. `repaired` are numbers of
    mended differences by kind, `changed` the objects among them that were not as they had been ingested, `left` the
    differences that remain, and `surplus` items that only `opx reconcile --repair` removes. `waiting` documents are left to
    functions.
    """

    dry_run: bool = False
    damaged: list[DamagedFile] = field(default_factory=list)
    folder: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    heads: int = 0
    repaired: dict[Problem, int] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    left: list[StoreDifference] = field(default_factory=list)
    surplus: int = 0
    failed: int = 0
    waiting: int = 0
    lost: list[str] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """True if nothing is lost or left."""
        return not (self.left or self.failed or self.lost or (self.dry_run and self.damaged))


@dataclass(eq=False)
class StoreRepair:
    """Repairs the stores of an installation. `reconciler` makes one for each comparison, after the files were mended."""

    files: StoreFiles | None
    tables: Tables
    reconciler: Callable[[], Reconciler]
    progress: Callable[[str, int], None]

    def run(self, *, dry_run: bool = False) -> RepairReport:
        """Repair everything; with `dry_run` only list what would be. Raises `StoreUnavailableError`: then run it again."""
        report = RepairReport(dry_run=dry_run)
        if self.files:
            report.damaged = [DamagedFile(one.file, one.problem) for one in self.files.damaged()]
        if dry_run:
            self._describe(self.reconciler().run(), report)
            return report
        if self.files:
            self._mend(self.files, report)
        found = self.reconciler().run(repair=True, remove=False)
        report.waiting = found.waiting
        report.changed = [
            one.object_key for one in found.differences if one.problem is Problem.CHANGED and one.text.endswith(CONTENT)
        ]
        self.progress("comparing again", 0)
        self._describe(found if found.waiting else self.reconciler().run(), report)
        left = {one.problem for one in report.left}
        report.repaired = {
            problem: count for problem, count in found.counts.items() if problem not in (*SURPLUS, *left)
        }
        return report

    def _mend(self, files: StoreFiles, report: RepairReport) -> None:
        mended = files.mend(lambda step: self.progress(step, 0))
        report.folder, report.rows = mended.folder, mended.rows
        report.lost = [_described(loss) for loss in mended.lost if loss.table not in DERIVED]
        if mended.lost:
            self._rebuild_derived(mended, report)

    def _rebuild_derived(self, mended: MendedFiles, report: RepairReport) -> None:
        """Gives keys their items, and has the graph made again if it lost rows."""
        lost = {loss.table for loss in mended.lost}
        if KEYS.name in lost or "" in lost:
            report.heads = restore_heads(self.tables)
        if GRAPH.name in lost:
            renew(self.tables.table(GRAPH))

    @staticmethod
    def _describe(found: ReconcileReport, report: RepairReport) -> None:
        report.failed = found.failed
        report.surplus = sum(found.counts.get(problem, 0) for problem in SURPLUS)
        report.left = [one for one in found.differences if one.problem not in SURPLUS]


def _described(loss: Loss) -> str:
    return (
        f"{loss.text}: {_HISTORY}" if loss.table in ("", DOCUMENTS.name) and "questions" not in loss.text else loss.text
    )
