"""Has the calendar follow the policies of today."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from opx.lifecycle.report import PruneRun
from opx.lifecycle.retention.due import RetentionState, batches

if TYPE_CHECKING:
    from opx.ingestion.corpus.calendar import Calendar
    from opx.ingestion.corpus.catalog import Catalog

_AT_ONCE = 500


class Redating:
    """Enters the versions of categories for other days whose retention became shorter, or was never noted. Those that are
    kept for longer by now are entered anew when their former day has come."""

    def __init__(
        self,
        catalog: Catalog,
        calendar: Calendar,
        state: RetentionState,
        unit_of_work: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._catalog = catalog
        self._calendar = calendar
        self._state = state
        self._unit_of_work = unit_of_work

    def run(self, run: PruneRun, since: str, is_over: Callable[[], bool]) -> str:
        """The first day to look at then. If the time `is_over`, the report is unfinished, and the next run goes on."""
        done = []
        for category, before in self._state.shortened().items():
            earliest = self._redated(category, before, run, is_over)
            if run.unfinished:
                break
            since = min(since, earliest or since)
            done.append(category)
        noted = done if run.unfinished else self._state.changed()
        if noted:
            with self._unit_of_work():
                self._state.note_cursor(since, run.started)
                for category in noted:
                    self._state.note_policy(category)
        return since

    def _redated(self, category: str, before: str, run: PruneRun, is_over: Callable[[], bool]) -> str:
        """The earliest day for which a version of the category is entered."""
        until, earliest = self._state.redated_until(category)
        documents = self._catalog.in_category(category, current_only=False, until=until)
        for batch in batches(documents, _AT_ONCE):
            with self._unit_of_work():
                days = [day for day in map(self._calendar.redate, batch) if day]
                earliest = min([*days, *([earliest] if earliest else [])], default="")
                self._state.note_redated(category, before, batch[-1].last_updated, earliest)
            if before:  # else there is nothing to compare with
                run.redated[category] += sum(1 for document in batch if not document.expires)
            if is_over():
                run.unfinished = True
                break
        return earliest
