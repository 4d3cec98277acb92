"""What the knowledge base holds and how fresh it is, as metrics that say how things are at the moment."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from opx.domain.ids import iso_time
from opx.domain.knowledge import KnowledgeModel
from opx.domain.scopes import Scope
from opx.errors import OpxError, StoreUnavailableError
from opx.ports import Clock
from opx.runtime.metrics import Metric, Report

if TYPE_CHECKING:
    from opx.ingestion.corpus.catalog import Catalog
    from opx.ingestion.corpus.failures import FailureLog


# -- freshness


GRACE = timedelta(hours=2)
"""After a scheduled time, for the pull to start, to finish, and to get through the pipeline."""

MISSED_TIMES = 1
"""Scheduled times that may pass without a new document: a source may have had nothing new."""


class UnknownFreshnessError(OpxError):
    """Of at least one category it can't be told whether it is overdue; all others are reported."""


class LastSync(Protocol):
    """When a category was last synchronised with its source."""

    def __call__(self, category: str) -> datetime | None:
        """The end of the last complete pull, whether it brought anything or not; None if none is known."""


def unrecorded(category: str) -> datetime | None:  # noqa: ARG001 - a `LastSync`
    """A `LastSync` for where nobody notes pulls: documents have to tell."""
    return None


def moment(text: str) -> datetime:
    """A point in time of the catalog, which are ISO 8601 in UTC."""
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def overdue(schedule: str, last: datetime, now: datetime, *, missed: int = 0) -> timedelta:
    """How long ago, beyond the grace, the next sync after `last` should have happened; zero if it isn't due.

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


log = logging.getLogger(__name__)


class CoverageReport:
    """Reports on the categories of `knowledge`, from the catalog. Raises `StoreUnavailableError`.

    What changes slowly and has to be counted is apart from what somebody should soon be told: a metric is paid for by
    the hours in which it is reported.
    """

    def __init__(
        self,
        *,
        knowledge: KnowledgeModel,
        catalog: Catalog,
        failures: FailureLog,
        clock: Clock,
        last_sync: LastSync = unrecorded,
    ) -> None:
        self._categories = list(knowledge.categories.values())
        self._catalog = catalog
        self._failures = failures
        self._clock = clock
        self._last_sync = last_sync

    def holdings(self, report: Report) -> dict[str, int]:
        """Report documents and chunks of every category, of an empty one too, and return the totals.

        Reads all items of the catalog, page by page.
        """
        totals = {"documents": 0, "chunks": 0}
        for category in self._categories:
            documents = chunks = 0
            for document in self._catalog.in_category(category.path):
                documents += 1
                chunks += document.chunk_count
            labels = {"tier": category.tier.value, "category": category.path}
            report(Metric.DOCUMENTS, float(documents), **labels)
            report(Metric.CHUNKS, float(chunks), **labels)
            totals = {"documents": totals["documents"] + documents, "chunks": totals["chunks"] + chunks}
        return totals

    def freshness(self, report: Report) -> dict[str, int]:
        """Report what failed, and age and delay of each category that is pulled; return how many are overdue.

        Categories of which that can't be told are logged and counted as `unknown`: they keep no other from its report.
        Reads each such category up to its newest document of global scope, mostly one page, and the list of failed
        items.
        """
        failed = sum(1 for _ in self._failures.items())
        report(Metric.FAILED_ITEMS, float(failed))
        pulled = [(category.path, category.schedule) for category in self._categories if category.schedule]
        late = [self._known_delay(path, schedule, report) for path, schedule in pulled]
        return {"failed": failed, "overdue": sum(1 for delay in late if delay), "unknown": late.count(None)}

    def _known_delay(self, category: str, schedule: str, report: Report) -> timedelta | None:
        try:
            return self._delay(category, schedule, report)
        except (StoreUnavailableError, ValueError, OverflowError):  # the last two are of times that are none
            log.exception("can't tell how fresh %s is", category)
            return None

    def _delay(self, category: str, schedule: str, report: Report) -> timedelta:
        """By how much a category is overdue. One that was never filled is not, and has no age."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        synced = self._last_sync(category)
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
        """When the newest document was updated, of those that can tell: a document says itself when that was, so that
        a time to come would hide a dead source for as long, and what clients own doesn't come from the source."""
        documents = self._catalog.in_category(category, until=iso_time(now.timestamp()))
        newest = next((document for document in documents if document.key.scope == Scope()), None)
        return moment(newest.last_updated) if newest else None
