"""Child processes of this program that work on calls, one at a time each, and end with it, however it ends."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, Generic, TypeVar

S = TypeVar("S")
R = TypeVar("R")

OpenState = Callable[[], AbstractContextManager[S]]
"""Opens what the calls of a child work with. It can be pickled."""


class ChildLostError(Exception):
    """A child process ended before its call did."""


class Child(Generic[S]):
    """A process that opens its own state, and performs calls with it. Calls and results can be pickled. It ends at the end of
    its call when its parent is gone."""

    def __init__(self, opened: OpenState[S], name: str) -> None:
        spawn = multiprocessing.get_context("spawn")  # a fork would have the parent's locks without its threads
        self._connection, other = spawn.Pipe()
        self._process: SpawnProcess = spawn.Process(target=_work, args=(other, opened), name=name, daemon=True)
        self._process.start()
        other.close()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def call(self, work: Callable[[S], R]) -> R:
        """The result of `work` in the child, or its error. Raises `ChildLostError`."""
        try:
            self._connection.send(work)
            is_error, found = self._connection.recv()
        except (EOFError, OSError) as exc:
            raise ChildLostError(f"a process ended with code {self._process.exitcode}") from exc
        if is_error:
            raise found
        result: R = found
        return result

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self._connection.close()


def _work(connection: Connection, opened: OpenState[Any]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent ends this one
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), opened() as state:
        while True:
            work = connection.recv()
            try:
                answer = False, work(state)
            except Exception as exc:  # noqa: BLE001 - raised in the parent
                answer = True, exc
            connection.send(answer)
