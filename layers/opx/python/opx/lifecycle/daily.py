"""Prunes once a day where one process does what schedules and functions do on AWS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from opx.domain.times import iso_time
from opx.errors import OpxError
from opx.tables import LIFECYCLE

if TYPE_CHECKING:
    from opx.system import System

SLICE_SECONDS = 30.0
"""How long a run takes at most before what waits has its turn; the next round goes on."""

_DAY_SECONDS = 86400


class DailyPruning:
    """A `Feed` that brings nothing: it removes what its retention is over for, a day after it last did."""

    def __init__(self, services: System) -> None:
        self._services = services
        self._next = 0.0
        self._unfinished = False

    def poll(self) -> Sequence[str]:
        """Prune if it is time; lines for people about it."""
        now = self._services.clock()
        if not self._unfinished and (now < self._next or not self._is_due(now)):
            return ()
        self._next = now + _DAY_SECONDS
        try:
            report = self._services.lifecycle.pruning().run(seconds=SLICE_SECONDS)
        except OpxError as exc:
            return (f"pruning: {exc}",)
        self._unfinished = report.unfinished
        if report.stopped:
            return (f"pruning: {report.stop_message()}",)
        return () if report.is_idle else tuple(f"pruning: {line}" for line in report.lines())

    def _is_due(self, now: float) -> bool:
        """Whether nobody did it within the last day: another process may, too."""
        from opx.lifecycle.retention import RetentionState

        noted, ran = RetentionState(
            self._services.tables.table(LIFECYCLE), self._services.installation.knowledge
        ).cursor()
        return not noted or not iso_time(now - _DAY_SECONDS) < ran <= iso_time(now)
