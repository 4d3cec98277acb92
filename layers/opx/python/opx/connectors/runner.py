"""Runs in one process what schedules and functions do on AWS: pulls due sources, polls feeds, and drains the queue."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Protocol

from opx.connectors.states import due_at
from opx.domain.knowledge import readable_retention
from opx.errors import InvalidInputError, PluginError, SourceBusyError, StoreUnavailableError, UnwritableStoreError
from opx.ingestion.events import EventOutcome, Result

if TYPE_CHECKING:
    from opx.connectors.pulling import SourcePuller
    from opx.connectors.repository import SourceRepository
    from opx.domain.sources import PullReport, SourceDefinition
    from opx.ingestion.worker import QueueDrain
    from opx.ports import Clock

log = logging.getLogger(__name__)

SLICE_SECONDS = 30.0
"""Time slice of a source before others, and queued events, have their turn; it continues afterwards."""

IDLE_SECONDS = 2.0
BROKEN_SECONDS = 300.0
"""Pause before a source with an invalid definition is tried again, and before ingestion after a full disk."""

_INGESTION = ""
"""Stands for ingestion among the sources that are tried again later."""


class Feed(Protocol):
    """A feed of documents besides pulled sources, such as a stream."""

    def poll(self) -> Sequence[str]:
        """Ingests what has arrived, without waiting for more. Returns lines for the operator."""


@dataclass(eq=False)
class Runner:
    """Runs rounds: due sources, other feeds, then the queue. `emit` receives lines for the operator."""

    sources: SourceRepository
    puller: Callable[[], SourcePuller]
    drain: Callable[[], QueueDrain | None]
    _: KW_ONLY
    clock: Clock
    emit: Callable[[str], None]
    feeds: Sequence[Feed] = ()

    def __post_init__(self) -> None:
        self._later: dict[str, float] = {}

    def run(self, stopped: Callable[[float], bool]) -> None:
        """Runs rounds until `stopped(seconds)`, which waits so long, returns True."""
        while not stopped(0.0 if self.round() else IDLE_SECONDS):
            pass

    def round(self) -> bool:
        """Does the work that is due now. Returns True if more may be due at once."""
        more = False
        for definition in self.sources.all():
            more |= self._is_due(definition) and self._pull(definition)
        for feed in self.feeds:
            for line in feed.poll():
                self.emit(line)
                more = True
        return self._drained() or more

    def _is_due(self, definition: SourceDefinition) -> bool:
        now = self.clock()
        if self._later.get(definition.source_id, 0.0) > now:
            return False
        due = due_at(definition, self.sources.state(definition.source_id))
        return due is not None and due <= now

    def _pull(self, definition: SourceDefinition) -> bool:
        """Pulls for one time slice. Returns True if the pull is to continue."""
        until = self.clock() + SLICE_SECONDS
        try:
            report = self.puller().pull(definition.source_id, stop=lambda: self.clock() >= until)
        except SourceBusyError:
            self._later[definition.source_id] = until
            return False
        except (InvalidInputError, PluginError, StoreUnavailableError) as exc:
            self._later[definition.source_id] = self.clock() + BROKEN_SECONDS
            self.emit(f"source {definition.source_id}: {exc}")
            return False
        self.emit(pull_summary(report))
        return report.more

    def _drained(self) -> bool:
        drain = self.drain()
        if drain is None or self._later.get(_INGESTION, 0.0) > self.clock():
            return False
        worked = False
        try:
            for outcome in drain.run():
                worked = True
                if outcome.result is Result.FAILED:
                    self.emit(_failure(outcome))
        except UnwritableStoreError as exc:
            self._later[_INGESTION] = self.clock() + BROKEN_SECONDS
            self.emit(f"nothing is ingested: {exc}")
            return False
        return worked


def kept_out_text(count: int, policy: str) -> str:
    """`243 older than 2 years: kept out by retention`."""
    return f"{count:,} older than {readable_retention(policy)}: kept out by retention"


def pull_summary(report: PullReport) -> str:
    """A pull in one line."""
    parts = [f"{len(report.put):,} put", f"{report.unchanged:,} unchanged", f"{len(report.withdrawn):,} withdrawn"]
    if report.refused:
        parts.append(f"{report.refused:,} unreadable")
    state = "goes on" if report.more else "stopped" if report.error else "done"
    lines = [f"source {report.source_id}: {state}: {', '.join(parts)}"]
    if report.kept_out:
        listed = len(report.put) + report.unchanged + report.refused + report.kept_out
        lines.append(f"  {listed:,} listed, {kept_out_text(report.kept_out, report.kept_out_by)}")
    lines += [f"  {problem}" for problem in (report.error, report.flag) if problem]
    lines += [f"  {one.key}: {one.reason}" for one in report.refusals[:5]]
    return "\n".join(lines)


def _failure(outcome: EventOutcome) -> str:
    return f"failed: {outcome.reason or outcome.object_key}"
