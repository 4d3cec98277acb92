"""Prunes expired versions day by day along the calendar, without reading the whole catalog.

A guard stops a run that would remove much more than usual: a policy shortened by mistake, a clock that is years ahead. The
section `retention` of knowledge.yaml sets its limits: `retention: {max_share: 0.2, at_least: 20}`.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opx.domain.ids import batched, day_number, day_text, iso_time
from opx.domain.record import replace
from opx.errors import InvalidInputError, OpxError, PruneStoppedError, distribution_of
from opx.lifecycle.report import Excess, PruneReport, PruneReports, PruneRun
from opx.lifecycle.retention.due import (
    AT_ONCE,
    FIRST_DAYS,
    GRACE_DAYS,
    OVERLAP_DAYS,
    DueVerdict,
    DueVersion,
    DueVersions,
    RetentionState,
)
from opx.ports import Clock
from opx.runtime.knowledge_file import read_section
from opx.runtime.metrics import Metric, Report, unreported

if TYPE_CHECKING:
    from opx.ingestion.corpus.calendar import Calendar, CalendarEntry
    from opx.ingestion.corpus.catalog import Catalog
    from opx.lifecycle.retention.due import PatternKeeper, Redating
    from opx.lifecycle.retention.holds import Holds
    from opx.lifecycle.retention.removal import Removal
    from opx.retrieval.calibration.calibrating import Calibrator


log = logging.getLogger(__name__)


# -- feeds of a single-process installation


SLICE_SECONDS = 30.0
"""Limit of one run, so that other work gets its turn; the next round continues."""


@dataclass(eq=False)
class DailyPruning:
    """A `Feed` without documents: prunes once a day."""

    pruning: Callable[[], KnowledgePruningService]
    state: Callable[[], RetentionState]
    clock: Clock
    _next: float = field(init=False, default=0.0)
    _unfinished: bool = field(init=False, default=False)

    def poll(self) -> Sequence[str]:
        """Prune if it is due; returns lines for the operator."""
        now = self.clock()
        if not self._unfinished and (now < self._next or not self._is_due(now)):
            return ()
        self._next = now + _DAY_SECONDS
        try:
            report = self.pruning().run(seconds=SLICE_SECONDS)
        except OpxError as exc:
            return (f"pruning: {exc}",)
        self._unfinished = report.unfinished
        if report.stopped:
            return (f"pruning: {report.stop_message()}",)
        return () if report.is_idle else tuple(f"pruning: {line}" for line in report.lines())

    def _is_due(self, now: float) -> bool:
        """True if no process pruned within the last day."""
        day, ran = self.state().cursor()
        return not day or not iso_time(now - _DAY_SECONDS) < ran <= iso_time(now)


class DailyCalibration:
    """A `Feed` without documents: fits the confidence models when that is due."""

    def __init__(self, calibrator: Callable[[], Calibrator], clock: Clock) -> None:
        self._calibrator = calibrator
        self._clock = clock
        self._next = 0.0

    def poll(self) -> Sequence[str]:
        """Calibrate if it is due; returns lines for the operator."""
        now = self._clock()
        if now < self._next:
            return ()
        self._next = now + _DAY_SECONDS
        from opx.retrieval.calibration.calibrating import attempt_if_due

        line = attempt_if_due(self._calibrator)
        return (line,) if line else ()


# -- pruning


WORKED_AGAIN = "a pattern that has just worked again"
_NO_FILES = "files of versions that were never finished stay: removing them takes `pip install {}`"
_REMOVED_FILES = "{:,} files of versions that were never finished are removed"
_KEPT_FILES = "{:,} files of versions that were never finished stay, as a legal hold may cover them"
_DAY_SECONDS = 86400


@dataclass(eq=False, kw_only=True)
class KnowledgePruningService:
    """Removes due versions. It may be interrupted at any moment and run again, and concurrent runs are safe."""

    catalog: Catalog
    calendar: Calendar
    state: RetentionState
    holds: Holds
    removal: Removal
    rules: GuardRules
    reports: PruneReports
    clock: Clock
    due: Callable[..., DueVersions]
    exclusive: Callable[[], AbstractContextManager[Any]]
    redating: Redating
    patterns: PatternKeeper
    purge: Callable[[], object] = lambda: None
    leftovers: Callable[[Callable[[], bool]], tuple[int, int]] | None = None
    report: Report = unreported
    timer: Callable[[], float] = time.monotonic

    def prune_old_knowledge(self) -> int:
        """Remove expired versions, and return their number.

        Raises `PruneStoppedError` if too much would be removed at once, and `StoreUnavailableError`: then call it again.
        """
        report = self.run()
        if report.stopped:
            raise PruneStoppedError(report.stop_message())
        return report.versions

    def run(
        self, *, dry_run: bool = False, allow_share: float | None = None, seconds: float | None = None
    ) -> PruneReport:
        """Like `prune_old_knowledge`, but returns a report of removed and kept versions, also for a stopped run.

        A `dry_run` writes nothing. `allow_share` (up to 1) overrides the share of a category that knowledge.yaml allows to
        be removed at once. After `seconds` the run ends, and the next one continues.
        """
        if allow_share is not None and not (isinstance(allow_share, int | float) and 0 < allow_share <= 1):
            raise InvalidInputError(
                f"allow_share {allow_share!r} must be a number above 0 and at most 1, for everything"
            )
        rules = self.rules if allow_share is None else replace(self.rules, max_share=allow_share)
        now = self.clock()
        until = day_text(int(now // _DAY_SECONDS) - GRACE_DAYS)
        run = PruneRun(iso_time(now), until, dry_run=dry_run)
        ends = None if seconds is None else self.timer() + seconds
        self._run(run, rules, ends)
        report = run.report(finished=iso_time(self.clock()))
        if not dry_run:
            self._publish(report)
        return report

    def _run(self, run: PruneRun, rules: GuardRules, ends: float | None) -> None:
        cursor = self._since(run)
        guard = Guard(rules, self._count)
        due = Forecast(self.state, self.patterns).of(self._due_now(run), cursor, guard, run)
        run.stopped = tuple(guard.excess(due, self.state.before_and_now()))
        if run.stopped or run.dry_run:
            return
        since = self.redating.run(run, cursor, lambda: self._is_over(ends))
        if not run.unfinished:
            self._remove(run, since, ends)
            run.notes += tuple(self._remove_leftovers(ends))
        self.purge()

    def _remove_leftovers(self, ends: float | None) -> Iterator[str]:
        """Removes files of versions that were never finished; yields notes."""
        if self.leftovers is None:
            yield _NO_FILES.format(distribution_of("part", "assurance"))
            return
        removed, kept = self.leftovers(lambda: self._is_over(ends))
        if removed:
            yield _REMOVED_FILES.format(removed)
        if kept:
            yield _KEPT_FILES.format(kept)

    def _publish(self, report: PruneReport) -> None:
        if report.stopped:
            log.error("%s", report.stop_message())
        elif not report.is_idle:
            log.info("pruned %d versions up to %s", report.versions, report.until)
        self.report(Metric.VERSIONS_PRUNED, float(report.versions))
        self.report(Metric.PRUNE_STOPPED, float(bool(report.stopped)))
        if not report.is_idle:
            self.reports.keep(report)

    def _since(self, run: PruneRun) -> str:
        """The first day to prune."""
        day, ran = self.state.cursor()
        if ran > run.started:
            run.notes += (f"the clock is behind: the last run was at {ran}, and now it is {run.started}",)
        last = min(day or run.until, run.until)
        back = FIRST_DAYS if run.dry_run and not day else OVERLAP_DAYS
        return day_text((day_number(last) or 0) - back)

    def _due_now(self, run: PruneRun) -> DueVersions:
        return self.due(until=run.until, holds=self.holds.in_force())

    def _count(self, category: str, enough: int) -> int:
        versions = self.catalog.in_category(category, current_only=False)
        return sum(1 for _ in zip(range(enough), versions, strict=False))

    # -- removal

    def _remove(self, run: PruneRun, since: str, ends: float | None) -> None:
        left = ""
        for day, entries in self._due_now(run).entries(since):
            for batch in batched(entries, AT_ONCE):
                with self.exclusive():
                    kept = self._prune_batch(batch, run)
                left = left or (day if kept else "")
                if self._is_over(ends):
                    run.unfinished = True
                    self.state.write_cursor(left or day, run.started)
                    return
        self.state.write_cursor(min(left or run.until, run.until), run.started)

    def _prune_batch(self, batch: list[CalendarEntry], run: PruneRun) -> int:
        """Act on the verdicts of a batch; returns how many entries a later run must read again."""
        due = self._due_now(run)  # with the present holds
        verdicts: dict[DueVerdict, list[DueVersion]] = {verdict: [] for verdict in DueVerdict}
        for found in self.patterns.judged(due, batch):
            verdicts[found.verdict].append(found)
        for found in verdicts[DueVerdict.LATER]:
            self._correct_entry(found)
        for found in verdicts[DueVerdict.HELD]:
            if found.hold:
                run.held[found.hold.id] += 1
            if found.leaving and found.document:
                self.catalog.keep_version(found.document)
        self.removal.drop(found.entry for found in verdicts[DueVerdict.GONE])
        going = [found for found in verdicts[DueVerdict.DUE] if self.patterns.forget_unless_used(found)]
        staying = len(verdicts[DueVerdict.DUE]) - len(going)
        run.kept[WORKED_AGAIN] += staying
        return self.removal.remove(going, run) + staying + len(verdicts[DueVerdict.HELD])

    def _correct_entry(self, found: DueVersion) -> None:
        """Move the calendar entry of a version to its present expiry."""
        assert found.document is not None
        later = self.patterns.day_of(replace(found, verdict=DueVerdict.DUE), found.entry.at) or found.used_until
        if later:
            self.calendar.postpone(found.entry, later)
        elif self.calendar.day_of(found.document) != found.entry.at:
            self.calendar.redate(found.document)
            self.calendar.drop(found.entry)

    def _is_over(self, ends: float | None) -> bool:
        return ends is not None and self.timer() >= ends


# -- forecast


class Forecast:
    """Counts due versions: by the calendar alone where that is no more than usual, else by judging each version."""

    def __init__(self, state: RetentionState, patterns: PatternKeeper) -> None:
        self._state = state
        self._patterns = patterns

    def of(self, due: DueVersions, since: str, guard: Guard, run: PruneRun) -> Mapping[str, int]:
        """Number of due versions per category. A dry run judges each, and counts it in its report."""
        shortened = self._state.shortened()
        if run.dry_run:
            run.removed = self._judged(due, since, None, shortened, run)
            return run.removed
        counts = Counter(
            entry.category
            for _, entries in due.entries(since)
            for entry in entries
            if entry.category not in shortened and not due.hold_on(entry)
        )
        judged = {path for path, count in counts.items() if guard.is_suspicious(path, count)} | shortened.keys()
        if not judged:
            return counts
        exact = self._judged(due, since, judged, shortened, run)
        return Counter({path: count for path, count in counts.items() if path not in judged}) + exact

    def _judged(
        self, due: DueVersions, since: str, only: set[str] | None, shortened: Mapping[str, str], run: PruneRun
    ) -> Counter[str]:
        """Exact counts from the versions; in categories whose retention became shorter, from their last updates."""
        counts: Counter[str] = Counter()
        for _, entries in due.entries(since):
            for batch in batched((one for one in entries if only is None or one.category in only), AT_ONCE):
                for found in self._patterns.judged(due, batch):
                    if found.verdict is DueVerdict.HELD and found.hold and run.dry_run:
                        run.held[found.hold.id] += 1
                    document = found.document
                    by_policy = document is not None and document.category in shortened and not document.expires
                    counts[found.entry.category] += found.verdict is DueVerdict.DUE and not by_policy
        for category in shortened:
            counts[category] += sum(1 for _ in due.by_policy(category))
        return +counts


# -- guard

MAX_SHARE, AT_LEAST = 0.2, 20


@dataclass(frozen=True, slots=True)
class GuardRules:
    """A run stops if more than `max_share` of a category or of all versions would be removed, and at least `at_least`."""

    max_share: float = MAX_SHARE
    at_least: int = AT_LEAST


class Guard:
    """Compares the number of due versions with all. `count` returns the number of versions of a category, up to the given
    limit."""

    def __init__(self, rules: GuardRules, count: Callable[[str, int], int]) -> None:
        self._rules = rules
        self._count = count

    def is_suspicious(self, category: str, due: int) -> bool:
        """True if more of a category is due than may be removed at once. Counts only as many versions as decide that."""
        if due < self._rules.at_least:
            return False
        enough = self._enough(due)
        return self._count(category, enough) < enough

    def excess(self, due: Mapping[str, int], categories: Mapping[str, tuple[str, str]]) -> list[Excess]:
        """Excessive removals, by category and then as a whole. `categories` are all categories with their retention before
        and now."""
        found = []
        for category, count in sorted(due.items()):
            if self.is_suspicious(category, count):
                total = self._count(category, self._enough(count))
                found.append(Excess(category, count, max(total, count), *categories.get(category, ("", ""))))
        everything = sum(due.values())
        if everything >= self._rules.at_least:
            enough, total = self._enough(everything), 0
            for category in categories:
                total += self._count(category, enough - total)
                if total >= enough:
                    return found
            found.append(Excess("", everything, max(total, everything)))
        return found

    def _enough(self, due: int) -> int:
        """Smallest total of which `due` versions are within the allowed share."""
        share = self._rules.max_share
        return math.ceil(due / share - 1e-9) if share else 2**31


def read_guard_rules(path: Path | None = None) -> GuardRules:
    """Reads the section of knowledge.yaml. Raises `KnowledgeConfigError` for a share outside of 0 to 1, or a number
    below 0."""
    section = read_section("retention", path)
    if section is None:
        return GuardRules()
    fields = section.fields(optional=("max_share", "at_least"))
    share = fields["max_share"].number() if "max_share" in fields else MAX_SHARE
    at_least = fields["at_least"].number() if "at_least" in fields else AT_LEAST
    if not 0 < share <= 1:
        raise fields["max_share"].error(f"max_share {share:g} must be above 0 and at most 1, such as 0.2 for a fifth")
    if at_least < 0 or at_least != int(at_least):
        raise fields["at_least"].error(f"at_least {at_least:g} must be a whole number, 0 or more")
    return GuardRules(share, int(at_least))
