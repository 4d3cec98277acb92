"""Ports of message queues, of exclusive access to them, and of queues that Lambda functions work on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from opx.ports.sources import SourceSchedules, StreamSubscriptions

KEPT_DAYS = 14
"""Days for which a queue of SQS keeps a message, the longest that it can: then it deletes the message, without a dead letter
or a metric. They count from the first sending, also of a message that became a dead letter meanwhile."""


class Message(Struct, frozen=True):
    """A received message. `receives` counts deliveries, this one included."""

    body: str
    receipt: str
    receives: int


class Queue(Protocol):
    """Messages delivered at least once, in no particular order, hidden while they are processed."""

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        """Add a message of 1 to 262,144 bytes; delivered after `delay_seconds` (0-900). Raises `InvalidInputError`."""

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        """Up to `limit` (1-10) visible messages, hidden from others for `hide_seconds`. Empty if there is none now."""

    def done(self, receipt: str) -> None:
        """Remove a received message. Doing so twice does nothing."""

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        """Make a received message visible again after a delay. A message that is gone is ignored."""

    def waiting(self) -> int:
        """Approximate number of messages, hidden and delayed ones included."""


class WorkQueue(Protocol):
    """The ingestion queue, with the locks that keep its workers apart.

    `in_process`: this process works on the queue itself, one process at a time by file locks, which are released when
    their process ends. Otherwise functions do, many at a time, by leases. `next_number` numbers the events that this
    process sends itself; None where the bucket sends them.
    """

    in_process: bool

    @property
    def next_number(self) -> Callable[[], int] | None: ...

    @property
    def queue(self) -> Queue: ...

    def exclusive(self, waits: Callable[[], None] | None = None) -> AbstractContextManager[Any]:
        """Lock for ingesting documents exclusively; does nothing where several workers do, by leases. `waits` is called
        again and again while another process has it."""

    def exclusive_pull(self, source_id: str) -> AbstractContextManager[Any]:
        """Lock for pulling a source. Raises `SourceBusyError` if another one of this machine does."""

    def exclusive_reindex(self) -> AbstractContextManager[Any]:
        """Lock for building an index. Raises `ReindexBusyError` if another one of this machine does."""

    def exclusive_bulk(self, job_id: str) -> AbstractContextManager[Any]:
        """Lock for running a bulk job. Raises `BulkBusyError` that names the job if another process of this machine does."""

    def discard(self, unwanted: Callable[[str], bool], *, dry: bool = False) -> int | None:
        """Remove waiting messages with unwanted bodies, or with `dry` count them; None where messages can't be
        inspected."""


# -- functions


class Functions(Protocol):
    """Queues of functions, schedules of sources and subscriptions to streams. Each is None where this process does that
    work.

    `pulls`, `checkpoints` and `rebuilds` request pulls of sources, checkpoints, and the next slice of a reindex job;
    `learning_failed` keeps events that can't be learned from. `source_schedules` pulls registered sources at their times,
    `stream_subscriptions` reads streams.
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


class ThisProcess(Struct):
    """`Functions` where this process does all work, except for the given queues."""

    pulls: Queue | None = None
    checkpoints: Queue | None = None
    learning_failed: Queue | None = None
    rebuilds: Queue | None = None
    source_schedules: SourceSchedules | None = None
    stream_subscriptions: StreamSubscriptions | None = None
