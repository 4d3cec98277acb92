"""Prunes, and calibrates if due, once a day where one process does the work of schedules and functions on AWS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from opx.domain.times import iso_time
from opx.errors import OpxError
from opx.lifecycle.retention.due import RetentionState
from opx.lifecycle.retention.pruning import KnowledgePruningService
from opx.ports import Clock

if TYPE_CHECKING:
    from opx.retrieval.calibration.calibrating import Calibrator

SLICE_SECONDS = 30.0
"""How long a run takes at most before what waits has its turn; the next round goes on."""

_DAY_SECONDS = 86400


class DailyPruning:
    """A `Feed` that brings nothing: it removes what its retention is over for, a day after it last did."""

    def __init__(
        self,
        pruning: Callable[[], KnowledgePruningService],
        state: Callable[[], RetentionState],
        clock: Clock,
    ) -> None:
        self._pruning = pruning
        self._state = state
        self._clock = clock
        self._next = 0.0
        self._unfinished = False

    def poll(self) -> Sequence[str]:
        """Prune if it is time; lines for people about it."""
        now = self._clock()
        if not self._unfinished and (now < self._next or not self._is_due(now)):
            return ()
        self._next = now + _DAY_SECONDS
        try:
            report = self._pruning().run(seconds=SLICE_SECONDS)
        except OpxError as exc:
            return (f"pruning: {exc}",)
        self._unfinished = report.unfinished
        if report.stopped:
            return (f"pruning: {report.stop_message()}",)
        return () if report.is_idle else tuple(f"pruning: {line}" for line in report.lines())

    def _is_due(self, now: float) -> bool:
        """Whether nobody did it within the last day: another process may, too."""
        noted, ran = self._state().cursor()
        return not noted or not iso_time(now - _DAY_SECONDS) < ran <= iso_time(now)


class DailyCalibration:
    """A `Feed` that brings nothing: it calibrates the models of confidence when that is due."""

    def __init__(self, calibrator: Callable[[], Calibrator], clock: Clock) -> None:
        self._calibrator = calibrator
        self._clock = clock
        self._next = 0.0

    def poll(self) -> Sequence[str]:
        """Calibrate if it is time; lines for people about it."""
        now = self._clock()
        if now < self._next:
            return ()
        self._next = now + _DAY_SECONDS
        from opx.retrieval.calibration.calibrating import attempt_if_due

        line = attempt_if_due(self._calibrator)
        return (line,) if line else ()
