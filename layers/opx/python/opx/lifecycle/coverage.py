"""Reports the size of the knowledge base and the freshness of its categories as gauge metrics."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from opx.domain.ids import iso_time
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Scope
from opx.errors import OpxError, StoreUnavailableError
from opx.ingestion.corpus.announcements import Announcements
from opx.ingestion.corpus.catalog import Catalog
from opx.ingestion.corpus.failures import FailureLog
from opx.lifecycle.holdings import Holdings
from opx.ports import Clock
from opx.runtime.metrics import Metric, Report

log = logging.getLogger(__name__)


# -- freshness


GRACE = timedelta(hours=2)
"""Time allowed after a scheduled pull for it to start, finish and pass the pipeline."""

MISSED_TIMES = 1
"""Scheduled pulls that may pass without a new document: the source may have had nothing new."""


class UnknownFreshnessError(OpxError):
    """The freshness of at least one category is unknown; all others are reported."""


class LastSync(Protocol):
    """Looks up the time of a category's last synchronisation with its source."""

    def __call__(self, category: str) -> datetime | None:
        """The end of the last complete pull, whether it brought anything or not; None if none is known."""


def unrecorded(category: str) -> datetime | None:  # noqa: ARG001 - a `LastSync`
    """A `LastSync` for installations that don't record pulls: freshness then follows from the documents' dates."""
    return None


def moment(text: str) -> datetime:
    """Parses a time of the catalog: ISO 8601, in UTC if it names no offset."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def overdue(schedule: str, last: datetime, now: datetime, *, missed: int = 0) -> timedelta:
    """Delay, beyond the grace, of the sync that was due after `last`; zero if none is due.

    `schedule` is a five-field cron expression in UTC. `missed` scheduled times after `last` don't count.
    """
    if last >= now:
        return timedelta()
    from cronsim import CronSim

    times = CronSim(schedule, last.astimezone(UTC))
    due = next(times)
    for _ in range(missed):
        due = next(times)
    return max(timedelta(), now - due - GRACE)


# -- coverage


MOST_ANNOUNCED = 100_000
"""Changes that are counted: every hour, in some seconds."""


@dataclass(eq=False, kw_only=True)
class CoverageReport:
    """Reports on the categories of `knowledge`. Raises `StoreUnavailableError`.

    Holdings, which change slowly and are costly to count, are separate from freshness, which needs a prompt alarm: a metric
    is paid for by the hours in which it is reported.
    """

    knowledge: KnowledgeModel
    catalog: Catalog
    failures: FailureLog
    announcements: Announcements
    clock: Clock
    last_sync: LastSync = unrecorded

    def holdings(self, found: Holdings, report: Report) -> dict[str, int]:
        """Report documents and chunks of every category, of an empty one too, and return the totals."""
        totals = {"documents": 0, "chunks": 0}
        for category in self.knowledge.categories.values():
            documents, chunks = found.categories[category.path]
            labels = {"tier": category.tier.value, "category": category.path}
            report(Metric.DOCUMENTS, float(documents), **labels)
            report(Metric.CHUNKS, float(chunks), **labels)
            totals = {"documents": totals["documents"] + documents, "chunks": totals["chunks"] + chunks}
        return totals

    def freshness(self, report: Report) -> dict[str, int]:
        """Report the numbers of failed items and of changes that are not ingested, and age and delay of each pulled
        category; return how many are overdue.

        Categories of unknown freshness are logged and counted as `unknown`; the others are still reported. Reads
        each pulled category up to its newest document of global scope, mostly one page, and the list of failed
        items.
        """
        failed = sum(1 for _ in self.failures.items())
        report(Metric.FAILED_ITEMS, float(failed))
        waiting = self._backlog(report)
        pulled = [
            (category.path, category.schedule) for category in self.knowledge.categories.values() if category.schedule
        ]
        late = [self._known_delay(path, schedule, report) for path, schedule in pulled]
        return {
            "failed": failed,
            "waiting": waiting,
            "overdue": sum(1 for delay in late if delay),
            "unknown": late.count(None),
        }

    def _backlog(self, report: Report) -> int:
        """Report number and age of the announced changes that are not ingested."""
        found = self.announcements.backlog(MOST_ANNOUNCED)
        age = self.clock() - moment(found.oldest).timestamp() if found.oldest else 0.0
        report(Metric.NOT_INGESTED, float(found.changes))
        report(Metric.OLDEST_ANNOUNCEMENT, max(0.0, age))
        return found.changes

    def _known_delay(self, category: str, schedule: str, report: Report) -> timedelta | None:
        try:
            return self._delay(category, schedule, report)
        except (StoreUnavailableError, ValueError, OverflowError):  # the last two come from malformed times
            log.exception("freshness of %s is unknown", category)
            return None

    def _delay(self, category: str, schedule: str, report: Report) -> timedelta:
        """Delay of a category. One that never had a document is not overdue and has no age."""
        now = datetime.fromtimestamp(self.clock(), UTC)
        synced = self.last_sync(category)
        last = synced or self._newest(category, now)
        if last is None:
            return timedelta()
        late = overdue(schedule, last, now, missed=0 if synced else MISSED_TIMES)
        report(Metric.SOURCE_AGE, max(0.0, (now - last).total_seconds()), category=category)
        report(Metric.SYNC_OVERDUE, late.total_seconds(), category=category)
        if late:
            log.warning("%s is overdue by %s; it was last updated at %s", category, late, last.isoformat())
        return late

    def _newest(self, category: str, now: datetime) -> datetime | None:
        """Update time of the newest document of global scope that is not in the future. Documents state that time
        themselves, and a future one would hide a dead source until then; clients' documents don't come from the source."""
        documents = self.catalog.in_category(category, until=iso_time(now.timestamp()))
        newest = next((document for document in documents if document.key.scope == Scope()), None)
        return moment(newest.last_updated) if newest else None
