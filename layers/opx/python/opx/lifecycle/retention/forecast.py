"""How much a run would remove, before it removes anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from opx.lifecycle.report import PruneRun
from opx.lifecycle.retention.due import DueVersions, RetentionState, Verdict, batches
from opx.lifecycle.retention.guard import Guard

if TYPE_CHECKING:
    from opx.lifecycle.retention.patterns import PatternKeeper


class Forecast:
    """Counts what is due: by the calendar alone where that is no more than usual, else by looking at each version."""

    def __init__(self, state: RetentionState, patterns: PatternKeeper) -> None:
        self._state = state
        self._patterns = patterns

    def of(self, due: DueVersions, since: str, guard: Guard, run: PruneRun) -> Mapping[str, int]:
        """How many versions of each category are due. A dry run looks at each, and has it in its report."""
        shortened = self._state.shortened()
        if run.dry_run:
            run.removed = self._looked_at(due, since, None, shortened, run)
            return run.removed
        counts = Counter(
            entry.category
            for _, entries in due.entries(since)
            for entry in entries
            if entry.category not in shortened and not due.hold_on(entry)
        )
        looked_at = {path for path, count in counts.items() if guard.is_suspicious(path, count)} | shortened.keys()
        if not looked_at:
            return counts
        exact = self._looked_at(due, since, looked_at, shortened, run)
        return Counter({path: count for path, count in counts.items() if path not in looked_at}) + exact

    def _looked_at(
        self, due: DueVersions, since: str, only: set[str] | None, shortened: Mapping[str, str], run: PruneRun
    ) -> Counter[str]:
        """By the versions themselves; of categories whose retention became shorter, by their last updates."""
        counts: Counter[str] = Counter()
        for _, entries in due.entries(since):
            for batch in batches(entry for entry in entries if only is None or entry.category in only):
                for found in self._patterns.judged(due, batch):
                    if found.verdict is Verdict.HELD and found.hold and run.dry_run:
                        run.held[found.hold.id] += 1
                    document = found.document
                    by_policy = document is not None and document.category in shortened and not document.expires
                    counts[found.entry.category] += found.verdict is Verdict.DUE and not by_policy
        for category in shortened:
            counts[category] += sum(1 for _ in due.by_policy(category))
        return +counts
