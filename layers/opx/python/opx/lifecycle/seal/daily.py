"""Seals once a day within the background loop of a single-process installation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from opx.domain.ids import iso_time
from opx.errors import OpxError, SealNotFoundError
from opx.ports import Clock

if TYPE_CHECKING:
    from opx.lifecycle.seal.sealing import Sealing

_DAY_SECONDS = 86_400


class DailySeal:
    """A `Feed` without documents: seals what is stored once a day."""

    def __init__(self, sealing: Callable[[], Sealing], clock: Clock) -> None:
        self._sealing = sealing
        self._clock = clock
        self._next = 0.0

    def poll(self) -> tuple[str, ...]:
        """Seals if it is due; returns lines for the operator."""
        now = self._clock()
        if now < self._next:
            return ()
        self._next = (now // _DAY_SECONDS + 1) * _DAY_SECONDS
        try:
            return tuple(self._sealed(self._sealing(), iso_time(now)[:10]))
        except OpxError as exc:
            return (f"seal: {exc}",)

    @staticmethod
    def _sealed(sealing: Sealing, day: str) -> Iterator[str]:
        """Seals, unless it was done today, or something was altered that no ingestion explains: that must be looked at
        first, as a new seal would hide it."""
        try:
            if sealing.last().at[:10] == day:
                return
            altered = sealing.compare().unexplained
        except SealNotFoundError:
            altered = []
        if altered:
            yield (
                f"seal: {len(altered):,} items were altered and not ingested since, such as {altered[0].name}: `opx seal "
                "--verify` lists them, and `opx seal` accepts them"
            )
            return
        sealed = sealing.seal()
        yield f"sealed: root {sealed.root}" + ("" if sealed.signature else ", not signed")
