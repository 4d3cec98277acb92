"""Compares segments in several processes, each with a system of its own on the same stores.

Comparing is computing for the most part, and Python computes in one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from opx.errors import StoreUnavailableError
from opx.runtime.children import Child, ChildLostError, OpenState
from opx_assurance.consistency.comparing import Comparison, StoreSegment
from opx_assurance.consistency.store_checks import CheckedDocuments

DOCUMENTS_A_SEGMENT = 2_500
"""Fewer are compared in less time than a process takes to start."""

SEGMENTS_A_PROCESS = 8
"""So many that all processes end at about the same time; each costs a folder a listing of its largest folders."""


class HasComparison(Protocol):
    """The capability of a system, as a child process opens it."""

    def comparison(self, *, thorough: bool) -> Comparison: ...


@dataclass(frozen=True, slots=True)
class CompareSegment:
    """Compares a segment in a child process."""

    segment: StoreSegment
    thorough: bool

    def __call__(self, opened: HasComparison) -> CheckedDocuments:
        found = CheckedDocuments()
        for checked in opened.comparison(thorough=self.thorough).compare(self.segment):
            found.add(checked)
        return found


def compared_in_processes(
    opened: OpenState[HasComparison], segments: Sequence[StoreSegment], *, processes: int, thorough: bool
) -> Iterator[tuple[StoreSegment, CheckedDocuments]]:
    """Each segment with its findings, in the order in which they are compared. Raises `StoreUnavailableError`, also if a
    process was ended."""
    idle: SimpleQueue[Child[HasComparison]] = SimpleQueue()

    def compared(segment: StoreSegment) -> tuple[StoreSegment, CheckedDocuments]:
        child = idle.get()
        try:
            return segment, child.call(CompareSegment(segment, thorough))
        except ChildLostError as exc:
            raise StoreUnavailableError(f"comparing the stores failed: {exc}; run it again") from exc
        finally:
            idle.put(child)

    with ThreadPoolExecutor(processes, "opx-reconcile") as threads, ExitStack() as children:  # the processes end first
        for _ in range(processes):
            child: Child[HasComparison] = Child(opened, "opx-reconcile")
            children.callback(child.end)
            idle.put(child)
        try:
            for call in as_completed([threads.submit(compared, segment) for segment in segments]):
                yield call.result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
