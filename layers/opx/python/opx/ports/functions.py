"""The functions of a deployed system, where work may be handed over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from opx.ports.queues import Queue
from opx.ports.sources import SourceSchedules, StreamSubscriptions


class Functions(Protocol):
    """Queues of functions, and what has sources and streams read. Each is None where this process does that itself.

    `pulls`, `checkpoints` and `rebuilds` ask for pulls of sources, for checkpoints, and for the next slice of a new index;
    `learning_failed` keeps events that can't be learned from. `source_schedules` has registered sources pulled at their
    times, `stream_subscriptions` has streams read.
    """

    @property
    def pulls(self) -> Queue | None: ...

    @property
    def checkpoints(self) -> Queue | None: ...

    @property
    def learning_failed(self) -> Queue | None: ...

    @property
    def rebuilds(self) -> Queue | None: ...

    @property
    def source_schedules(self) -> SourceSchedules | None: ...

    @property
    def stream_subscriptions(self) -> StreamSubscriptions | None: ...


@dataclass
class ThisProcess:
    """`Functions` where this process does everything, but for what is given."""

    pulls: Queue | None = None
    checkpoints: Queue | None = None
    learning_failed: Queue | None = None
    rebuilds: Queue | None = None
    source_schedules: SourceSchedules | None = None
    stream_subscriptions: StreamSubscriptions | None = None
