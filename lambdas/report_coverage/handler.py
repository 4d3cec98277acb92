"""Reports metrics of failed items, changes that are not ingested and overdue sources and, with `holdings` in the event, of
stored documents and gaps, and counts the use of each client on the last day."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from opx.connectors.repository import SourceSyncs
from opx.lifecycle.coverage import CoverageReport, UnknownFreshnessError
from opx.operations.system import System
from opx.records.daily import count_gaps
from opx.runtime.functions import function_settings, observed
from opx.runtime.metrics import Report
from opx.system import bootstrap

SECONDS_TO_SPARE = 180.0
"""For the page in hand, and for counting the questions of a day in the audit log."""


def start() -> System:
    """The system that the environment describes."""
    return bootstrap(function_settings())


def make_handler(start: Callable[[], System] = start) -> Callable[[Any, Any], dict[str, int]]:
    """The function's handler; `start` is called at the first event, once a cold start."""
    started = cache(start)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, int]:
        """The result is for people who call the function by hand.

        Raises `UnknownFreshnessError` after everything known is reported, so that the failure raises an alarm.
        """
        services = started()
        coverage = CoverageReport(
            knowledge=services.installation.knowledge,
            catalog=services.corpus.catalog,
            failures=services.corpus.failures,
            announcements=services.corpus.announcements,
            clock=services.clock,
            last_sync=SourceSyncs(services.connectors.sources),
        )
        found = coverage.freshness(report)
        if event.get("holdings"):
            found |= count_gaps(services.records, report)
        if event.get("holdings") or services.lifecycle.holdings.is_begun():
            seconds = context.get_remaining_time_in_millis() / 1000 - SECONDS_TO_SPARE
            found |= services.lifecycle.count_holdings(coverage, report, seconds=max(seconds, 1.0))
        if found["unknown"]:
            raise UnknownFreshnessError(f"the freshness of {found['unknown']} categories is unknown; see the log")
        return found

    return handler


handler = make_handler()
