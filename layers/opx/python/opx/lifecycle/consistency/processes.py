"""Compares segments in several processes, each with a system of its own on the same stores.

Comparing is computing for the most part, and Python computes in one thread at a time.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Protocol

from opx.errors import StoreUnavailableError
from opx.lifecycle.consistency.comparing import Comparison, Segment
from opx.lifecycle.consistency.store_checks import CheckedDocuments
from opx.settings import Settings

DOCUMENTS_A_SEGMENT = 2_500
"""Fewer are compared in less time than a process takes to start."""

SEGMENTS_A_PROCESS = 8
"""So many that all processes end at about the same time; each costs a folder a listing of its largest folders."""


class _Comparing(Protocol):
    def comparison(self, *, thorough: bool) -> Comparison: ...


class _System(Protocol):
    @property
    def lifecycle(self) -> _Comparing: ...


StartSystem = Callable[[Settings], _System]
"""Opens a system by its settings. It can be pickled."""


def compared_in_processes(
    start: StartSystem, settings: Settings, segments: Sequence[Segment], *, processes: int, thorough: bool
) -> Iterator[CheckedDocuments]:
    """Findings of each segment, in the order in which they are compared. Raises `StoreUnavailableError`, also if a process
    was ended."""
    spawn = multiprocessing.get_context("spawn")  # a forked process would share connections and locks
    opened = partial(_open, start, settings, thorough=thorough)
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=opened) as pool:
        calls = [pool.submit(_checked, segment) for segment in segments]
        try:
            yield from (call.result() for call in as_completed(calls))
        except BrokenProcessPool as exc:
            raise StoreUnavailableError("a process that compared the stores was ended: run it again") from exc
        finally:
            pool.shutdown(cancel_futures=True)


# -- in such a process

_here: list[Comparison] = []


def _open(start: StartSystem, settings: Settings, *, thorough: bool) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends its processes
    _here.append(start(settings).lifecycle.comparison(thorough=thorough))


def _checked(segment: Segment) -> CheckedDocuments:
    found = CheckedDocuments()
    for checked in _here[0].compare(segment):
        found.add(checked)
    return found
