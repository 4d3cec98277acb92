"""What a function does around the snapshot that it starts from (Lambda SnapStart)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Started(Protocol):
    """A system in the making; `opx.system.System` is one."""

    def load(self) -> None:
        """Read code and files. Must open nothing: copies of the snapshot would share it."""

    def open(self) -> None:
        """Make the clients, with credentials of their own."""


def around_snapshot(start: Callable[[], Started], *also: Callable[[], object]) -> bool:
    """Have a snapshot hold what is read, and each function restored from it open clients before its first event.

    `start` gives the function's one system, `also` reads more code. False where there are no snapshots: on a laptop, and
    in runtimes without the hooks. They are called by Lambda alone, and only if the function has SnapStart.
    """
    try:
        from snapshot_restore_py import register_after_restore, register_before_snapshot
    except ImportError:
        return False

    def read() -> None:
        start().load()
        for load in also:
            load()

    register_before_snapshot(read)
    register_after_restore(lambda: start().open())
    return True
